"""Reading of problem files, from the disk and from stores."""

from __future__ import annotations

import json
import os
from pathlib import Path

from supac.codec import differences, to_spec
from supac.problem import Observations
from supac.problem.composite import parts_of
from supac.problem_file.build import build
from supac.problem_file.data import data_files, read_observations
from supac.problem_file.errors import (
    FileError,
    ProblemFileError,
    Source,
    parse,
    read_text,
)
from supac.problem_file.place import without_place
from supac.problem_file.problem import ProblemFile, checksum, named_files
from supac.problem_file.schema import check
from supac.problem_file.simulator import Simulator
from supac.record.checksums import changed_files
from supac.record.record import Record
from supac.record.simulator_versions import made_by_others, versions_of, versions_with

_REFUSED = {
    "data": "the data have changed",
    "loss": "the file of the loss has changed",
    "fixed": "fixed or tied parameters or constraints have changed",
}
_WARNED = {
    "known": "the {kind} of known runs has changed since {store} was begun",
}
_NO_PROBLEMS = {
    ".fmu": "a problem file names the model: `supac init --fmu {name}` writes one",
    ".xml": "a model is no problem: of PEtab, give the .yaml file that names it",
    ".sbml": "a model is no problem: of PEtab, give the .yaml file that names it",
    ".tsv": "a table is no problem: of PEtab, give the .yaml file that names it",
    ".csv": "a table is no problem: `supac init` writes a problem file to name it in",
    ".tpl": "a template is no problem: of PEST, give the .pst file that names it",
    ".ins": "instructions are no problem: of PEST, give the .pst file that names them",
}
"""Advice for files that belong to a problem, by their suffixes."""


def read_problem(path: str | os.PathLike[str]) -> ProblemFile:
    """Read and check a problem file; raise ProblemFileError with all its errors."""
    place = Path(path).absolute()
    return make_problem(_text_of(place), place)


def make_problem(text: str, path: Path) -> ProblemFile:
    """Build the problem of a text; its paths are relative to the folder of `path`."""
    source = Source(text, path)
    check(source)
    return build(source)


def is_problem_file(path: Path) -> bool:
    """Return True for the name of a problem file, or of a file that is a whole problem itself."""
    return path.suffix == ".toml" or Simulator.of_file(path) is not None


def _text_of(path: Path) -> str:
    """Read the text of a problem file; of another tool's problem, the one that it amounts to."""
    kind = Simulator.of_file(path)
    if kind is not None:
        return kind.problem_text(path)
    words = _NO_PROBLEMS.get(path.suffix.lower())
    if words is not None and path.is_file():
        raise ProblemFileError(path, [FileError(words.format(name=path.name))])
    return read_text(path, "`supac init` writes one to begin with")


def store_of(path: Path) -> Path:
    """Return the store of a problem file; any other path is a store itself."""
    if not is_problem_file(path):
        return path
    source = Source(_text_of(path.absolute()), path)
    run = source.document.get("run")
    name = run.get("store") if isinstance(run, dict) else None
    return source.file(name if isinstance(name, str) else f"{path.stem}.supac")


def source_of(run: Record) -> tuple[str, str, dict[str, str]]:
    """Return the problem file of a store: name, text, and checksums of the files it names.

    All are empty if the store was made without a problem file.
    """
    try:
        path, text, files = _remembered(run)
    except ValueError:
        return "", "", {}
    return path.name, text, files


def title_of(run: Record) -> str:
    """Return the title in the problem file of a store; "" if it was made without one."""
    try:
        path, text, _ = _remembered(run)
        return str(parse(text, path).get("title", path.stem))
    except ValueError:
        return ""


def observations_of(run: Record) -> Observations | None:
    """Read the data that a store's runs were compared with, without running the user's code.

    None if there are no data, or if they are missing or have changed.
    """
    try:
        path, text, files = _remembered(run)
        for folder in (run.file.absolute().parent, path.parent):
            source = Source(text, folder / path.name)
            data = data_files(source)
            there = bool(data) and all(each.is_file() for each in data)
            if there and checksum(data) == files.get("data"):
                return read_observations(source)
    except (KeyError, TypeError, ValueError, OSError):
        return None
    return None


def problem_of(run: Record, *, as_begun: bool = False) -> ProblemFile:
    """Read the problem file that a store was made from: beside the store, or where it was.

    It must say the same, but for its title and comments, so that a store from elsewhere cannot run
    code of its own; `as_begun` trusts the text in the store.
    """
    path, text, _ = _remembered(run)
    places = [run.file.absolute().parent / path.name, path]
    there = [each for each in places if each.is_file()]
    same = [each for each in there if _says(each, text)]
    if same:
        return read_problem(same[0])
    if as_begun:  # paths in it are relative to its old folder, if that still exists
        return make_problem(text, path if path.parent.is_dir() else places[0])
    if not there:
        raise ValueError(
            f"{path} is missing: put it back, or name a problem file in place of {run.path}, or "
            "trust the text in the store, with --as-begun"
        )
    raise ValueError(
        f"{there[0]} has changed since the last run of {run.path}{_changes(there[0], text)}. To go "
        f"by its present text, give this command {there[0].name} in place of {run.path}; to go by "
        "the text in the store, add --as-begun"
    )


def _says(path: Path, text: str) -> bool:
    """Return True if a file can be read and says the same as this text, but for its title."""
    try:
        now = _text_of(path)
        return now == text or _meaning(now, path) == _meaning(text, path)
    except ProblemFileError:
        return False


def _meaning(text: str, path: Path) -> str:
    """Return all settings of a problem file that may change a run, in their order, as one text.

    Where runs are made changes none of them.
    """
    settings = {name: each for name, each in parse(text, path).items() if name != "title"}
    return json.dumps(without_place(settings), default=str)


def _changes(path: Path, text: str) -> str:
    """Name the tables of a problem file that differ from a text: " ([run], [data])"."""
    try:
        now, then = (without_place(parse(each, path)) for each in (_text_of(path), text))
    except ProblemFileError:
        return ""
    tables = [f"[{name}]" for name in {**then, **now} if now.get(name) != then.get(name)]
    return f" ({', '.join(tables)})" if tables else ""


def _remembered(run: Record) -> tuple[Path, str, dict[str, str]]:
    """Return the problem file's path and text, and the checksums of the files it names."""
    try:
        known = json.loads(run.description)
        return Path(known["problem_file"]), str(known["text"]), dict(known["files"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{run.path} was not made by `supac run`, so its simulator is not known: continue from "
            "the script that made it, or name a problem file"
        ) from error


def _on_the_simulator(ready: ProblemFile, run: Record) -> list[str]:
    """Warn if runs of a store were made by another version of the simulator than the present."""
    ids = [each.id for each in run.light_runs if each.task == 0 and not each.source]
    others = len(made_by_others(ready.simulators, ids))
    if not others:
        return []
    store = run.file
    return [
        f"the simulator has changed since {others} of the {len(ids)} runs in {store.name} were "
        "made: `supac report` says which runs are whose. For runs of one version only, begin anew: "
        f"supac run {ready.path.name} --store {store.stem}-2{store.suffix}"
    ]


def certified_by_others(run: Record) -> int:
    """Count runs of a store's certificate that another simulator made than the present one.

    0 where the problem file or its simulator is not found.
    """
    try:
        path, text, _ = _remembered(run)
        places = [run.file.absolute().parent / path.name, path]
        found = [named_files(Source(text, place)) for place in places if place.is_file()]
    except (ValueError, OSError):
        return 0
    now = [files for files in found if "simulator" in files]
    if not now or run.ending is None:
        return 0
    batches = [each for each in run.ending.validation if each.posterior == run.ending.posterior]
    made = [each.id for each in run.light_runs if each.task == 0]
    versions = versions_with(versions_of(run.description), now[0], made)
    return len(made_by_others(versions, [i for batch in batches for i in batch.ids]))


def check_compatible(ready: ProblemFile, run: Record) -> list[str]:
    """Raise ValueError if prior, loss or data differ from the store's; return other warnings.

    A store made without a problem file has no checksums: only prior and loss are compared.
    """
    loss = parts_of(ready.risk).loss
    for name, value in (("prior", ready.parameters), ("loss", loss)):
        if differences(to_spec(getattr(run.settings, name)), to_spec(value)):
            table = "[parameters] or [posterior]" if name == "prior" else "[loss]"
            raise ValueError(
                f"{ready.path.name} is not the problem of {run.file.name}: {table} gives another "
                f"{name} than the one its posterior was learnt with"
            )
    name, _, then = source_of(run)
    if not name:
        return []
    changed = changed_files(then, ready.files)
    for purpose, message in _REFUSED.items():
        if purpose in changed:
            again = f", and known = {json.dumps(run.file.name)} to use its runs"
            raise ValueError(
                f"{message} since {run.file.name} was begun: restore them, or begin anew with "
                f"another store{again if purpose != 'fixed' else ''}"
            )
    told = [words for purpose, words in _WARNED.items() if purpose in changed]
    known = ready.options.get("known")
    kind = "table" if known is None or known.origin is None else "store"
    warnings = [words.format(store=run.file.name, kind=kind) for words in told]
    warnings += _on_the_simulator(ready.continuing(run), run)
    beside = run.file.absolute().parent / ready.path.name
    if beside.is_file() and not _says(beside, ready.text):
        source = "the text in the store" if beside == ready.path else ready.path
        warnings.append(f"{beside} has another text: {source} is used")
    return warnings
