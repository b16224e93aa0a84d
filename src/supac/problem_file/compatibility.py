"""Check that a problem file and a store describe the same problem."""

from __future__ import annotations

from supac.codec import to_spec
from supac.problem.composite import Composite
from supac.problem_file.problem import ProblemFile
from supac.problem_file.reader import files_of, says
from supac.record.record import Record

_REFUSED = {"data": "the data have changed", "loss": "the file of the loss has changed"}
_WARNED = {
    "simulator": "the simulator has changed since {store} was begun: its runs are those of the old "
    "one",
    "known": "the table of known runs has changed since {store} was begun",
}


def check_compatible(ready: ProblemFile, run: Record) -> list[str]:
    """Raise ValueError if prior, loss or data differ from the store's; return other warnings.

    A store made without a problem file has no checksums: only prior and loss are compared.
    """
    loss = ready.risk.loss if isinstance(ready.risk, Composite) else None
    for name, value in (("prior", ready.parameters), ("loss", loss)):
        setting = run.settings.get(name)  # a value, or only its name
        known = {"other": setting} if isinstance(setting, str) else to_spec(setting)
        if to_spec(value) != known:
            table = "[parameters] or [posterior]" if name == "prior" else "[loss]"
            raise ValueError(
                f"{ready.path.name} is not the problem of {run.file.name}: {table} gives another "
                f"{name} than the one its posterior was learnt with"
            )
    try:
        then, now = files_of(run), ready.files
    except ValueError:
        return []
    for purpose, message in _REFUSED.items():
        if then.get(purpose) != now.get(purpose):
            raise ValueError(
                f"{message} since {run.file.name} was begun: restore them, or begin anew with "
                "another store"
            )
    changed = [purpose for purpose in _WARNED if then.get(purpose) != now.get(purpose)]
    warnings = [_WARNED[purpose].format(store=run.file.name) for purpose in changed]
    beside = run.file.absolute().parent / ready.path.name
    if beside.is_file() and not says(beside, ready.text):
        source = "the text in the store" if beside == ready.path else ready.path
        warnings.append(f"{beside} has another text: {source} is used")
    return warnings
