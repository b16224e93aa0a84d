"""Comparison of simulators: that of known runs and that of a problem file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from supac.exchange.known import KnownRuns
from supac.problem_file.errors import Source, in_toml
from supac.problem_file.fixed_inputs import source_of_record
from supac.problem_file.simulator import Simulator

_INDIFFERENT = ("arguments", "vectorized", "inputs", "scratch", "keep", "reset", "output")
"""Keys of [simulator] that say how a run is made, not what comes of it."""
_DECISIVE = ("builtin", "variant", "values", "start", "time_unit", "key", "input_file", "digester")
"""Keys that are settings of the model."""


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

    ValueError if that is a setting on which outputs depend, as on a fixed value. Names of files
    count without their folders; `name` is that of the known runs.
    """
    now, then = _simulator_keys(ours), _simulator_keys(theirs)
    one_kind = Simulator.kind_in(now) == Simulator.kind_in(then)
    found = []
    for key in {**now, **then}:
        before, here = then.get(key), now.get(key)
        if key in _INDIFFERENT or _plain(before) == _plain(here):
            continue
        told = [_key_in_words(each) for each in (here, before)]
        words = (
            f"simulator.{key} is {told[0]}, but was {told[1]} where the runs of {name} were made"
        )
        if key in _DECISIVE and one_kind:
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


def _plain(value: Any) -> Any:
    """Return a value without what does not matter: folders of files, and whether it is a list."""
    if isinstance(value, str):
        return value.replace("\\", "/").rpartition("/")[2]
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        every = [_plain(each) for each in value]
        return every[0] if len(every) == 1 else every or None
    return value


def _key_in_words(value: Any) -> str:
    """Return a value as TOML writes it."""
    return "not given" if value is None or value == () else in_toml(value)
