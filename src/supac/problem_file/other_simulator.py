"""Comparison of simulators: that of known runs and that of a problem file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from supac.exchange.known import KnownRuns
from supac.problem_file.errors import Key, Source, in_toml, spelled
from supac.problem_file.fixed_inputs import source_of_record
from supac.problem_file.simulator import Simulator

_INDIFFERENT = (
    *("arguments", "vectorized", "inputs", "scratch", "keep", "reset"),
    *("jacobian", "jacobian_cost"),
)
"""Keys of [simulator] that say how a run is made, not what comes of it."""
_DECISIVE = (
    *("builtin", "variant", "values", "start", "time_unit", "input_file", "digester"),
    *("config", "model", "output", "key"),
)
"""Keys that are settings of the model, or choose its answer."""
_FILES = ("command", "template", "copies", "fmu", "input_file", "digester", "pest", "petab")
"""Keys that name files."""


def check_simulator(source: Source, known: KnownRuns) -> None:
    """Raise ProblemFileError if known runs were made with other settings of the model."""
    before = None if known.origin is None else source_of_record(known.origin)
    if known.origin is None or before is None:
        return
    try:
        other_simulator(source, before, known.origin.file.name)
    except ValueError as error:
        raise source.fail(("run", "known"), str(error)) from error


def other_simulator(ours: Source, theirs: Source, name: str) -> list[str]:
    """Return in words what [simulator] says otherwise than where known runs were made.

    ValueError if that is a setting on which outputs depend, as on a fixed value. `name` is that of
    the known runs.
    """
    one_kind = Simulator.kind_in(ours.table("simulator")) == Simulator.kind_in(
        theirs.table("simulator")
    )
    now, then = (dict(_entries(_simulator_keys(each))) for each in (ours, theirs))
    found = []
    for path in {**now, **then}:
        before, here = _listed(then.get(path)), _listed(now.get(path))
        if path[0] in _INDIFFERENT or before == here:
            continue
        if path[0] in _FILES and _same_files(here, ours, before, theirs):
            continue
        told = [_in_words(each.get(path)) for each in (now, then)]
        words = (
            f"{spelled(('simulator', *path))} is {told[0]}, but was {told[1]} where the runs of "
            f"{name} were made"
        )
        if path[0] in _DECISIVE and one_kind:
            raise ValueError(
                f"{words}, so their outputs are of another set-up: restore it, or leave out known"
            )
        found.append(words)
    return found


def _simulator_keys(source: Source) -> dict[str, Any]:
    """Return the keys of [simulator] with their values, and those that have usual ones."""
    table = source.table("simulator")
    kind = Simulator.kinds.get(Simulator.kind_in(table))
    usual = (
        {}
        if kind is None or not is_dataclass(kind)
        else {each.name: each.default for each in fields(kind) if each.default is not MISSING}
    )
    return {**usual, **table}


def _entries(table: Mapping[str, Any], above: Key = ()) -> Iterator[tuple[Key, Any]]:
    """Yield the entries of a table, and of tables in it, with their keys."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _entries(value, (*above, name))
        else:
            yield (*above, name), value


def _listed(value: Any) -> list[Any]:
    """Return a value as a list: one text may stand for a list of it."""
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def _same_files(now: list[Any], ours: Source, then: list[Any], theirs: Source) -> bool:
    """Return True if names are of the same files, as far as that is known."""
    texts = all(isinstance(each, str) for each in (*now, *then))
    return (
        texts
        and len(now) == len(then)
        and all(_same_file(one, ours, other, theirs) for one, other in zip(now, then, strict=True))
    )


def _same_file(now: str, ours: Source, then: str, theirs: Source) -> bool:
    """Return True if both names are of one file.

    A name counts as it is read from the problem file, so that a study may be moved as a whole. Of a
    full name that leads nowhere any more, only the last part tells anything.
    """
    here, before = now.replace("\\", "/"), then.replace("\\", "/")
    if os.path.normpath(here) == os.path.normpath(before):
        return True
    place = theirs.file(before)
    if os.path.abspath(ours.file(here)) == os.path.abspath(place):
        return True
    moved = _is_full(before) and not place.exists()
    return moved and PurePosixPath(here).name == PurePosixPath(before).name


def _is_full(name: str) -> bool:
    """Return True for a path that does not begin at the problem file, of any system."""
    return name.startswith(("/", "~")) or PureWindowsPath(name).is_absolute()


def _in_words(value: Any) -> str:
    """Return a value as TOML writes it."""
    return "not given" if value is None or value == () else in_toml(value)
