"""Whether a problem file and a store still belong together."""

from __future__ import annotations

from typing import Any

from supac.codec import to_spec
from supac.problem.composite import Composite
from supac.problem_file.problem import ProblemFile
from supac.problem_file.reader import files_of, says
from supac.record.record import Record

_REFUSED = {"data": "the data have changed", "loss": "the file of the loss has changed"}
_TOLD = {
    "simulator": "the simulator has changed since {store} was begun: its runs are those of the old "
    "one",
    "known": "the table of known runs has changed since {store} was begun",
}


def check_belongs(ready: ProblemFile, run: Record) -> list[str]:
    """Refuse another prior, loss or data than those of the store's runs; what else should be known.

    A store that no problem file began has no checksums of files: its prior and loss are compared.
    """
    loss = ready.risk.loss if isinstance(ready.risk, Composite) else None
    for name, value in (("prior", ready.parameters), ("loss", loss)):
        if not _is(run.settings.get(name), value):
            what = "[parameters] or [posterior]" if name == "prior" else "[loss]"
            raise ValueError(
                f"{ready.path.name} is not the problem of {run.file.name}: {what} gives another "
                f"{name} than the one that its posterior was learnt with"
            )
    try:
        then, now = files_of(run), ready.files
    except ValueError:
        return []
    for purpose, words in _REFUSED.items():
        if then.get(purpose) != now.get(purpose):
            raise ValueError(
                f"{words} since {run.file.name} was begun: give back what there was, or begin anew "
                "with another store"
            )
    changed = [purpose for purpose in _TOLD if then.get(purpose) != now.get(purpose)]
    told = [_TOLD[purpose].format(store=run.file.name) for purpose in changed]
    beside = run.file.absolute().parent / ready.path.name
    if beside.is_file() and not says(beside, ready.text):
        source = "the text in the store" if beside == ready.path else ready.path
        told.append(f"{beside} says something else: this goes by {source}")
    return told


def _is(setting: Any, value: Any) -> bool:
    """Whether a setting that was read from a store is this value, or its name."""
    spec = to_spec(value)
    known = {"other": setting} if isinstance(setting, str) else to_spec(setting)
    return bool(spec == known)
