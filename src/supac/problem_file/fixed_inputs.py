"""Inputs of the simulator that are not sought, and whether known runs were made with the same."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from supac.problem import Parameters
from supac.problem_file.errors import Key, Source, in_toml, spelled
from supac.record.record import Record


@dataclass(frozen=True)
class FixedInput:
    """A fixed value, a formula or a setting, and where it stands in the file."""

    key: Key
    value: float | str
    unit: str = ""

    @property
    def meaning(self) -> float | str:
        """Value, or the formula without its blanks and superfluous brackets."""
        if not isinstance(self.value, str):
            return float(self.value)
        if self.key[0] != "parameters":
            return self.value
        try:
            return ast.unparse(ast.parse(self.value.strip(), mode="eval"))
        except (SyntaxError, ValueError, RecursionError):
            return self.value


Setup = Mapping[str, FixedInput]
"""Fixed inputs of one experiment by name."""


def fixed_inputs(source: Source, tables: Mapping[Key, dict[str, Any]]) -> dict[str, Setup]:
    """Return the fixed inputs of each experiment; "" is one without a name.

    `tables` are those of the data by their keys.
    """
    common: dict[str, FixedInput] = {}
    for name, entry in source.table("parameters").items():
        plain = entry if isinstance(entry, dict) else {"value": entry}
        given = plain.get("value", plain.get("formula"))
        if given is not None:
            common[name] = FixedInput(("parameters", name), given, plain.get("unit", ""))
    found: dict[str, Setup] = {}
    for key, table in tables.items():
        settings = {
            name: FixedInput((*key, "settings", name), value)
            for name, value in table.get("settings", {}).items()
        }
        name = "" if len(key) == 1 else table.get("name", source.file(table["file"]).stem)
        found[name] = {**common, **settings}
    return found or {"": common}


def check_same_setup(
    ours: Mapping[str, Setup], theirs: Mapping[str, Setup], name: str, *, one_run: bool
) -> None:
    """Raise ValueError if experiments that both have differ in a fixed input.

    Experiments are paired as `KnownRuns.for_data` does; `name` is that of the known runs.
    """
    for experiment, then, now in _pairs(ours, theirs, one_run=one_run):
        for each in {**then, **now}:
            before, here = then.get(each), now.get(each)
            if before is None or here is None or before.meaning != here.meaning:
                keys = [given.key[0] for given in (before, here) if given is not None]
                of = f" of {experiment}" if experiment and "data" in keys else ""
                raise ValueError(_words(name, each + of, before, here))
            if before.unit and here.unit and before.unit != here.unit:
                raise ValueError(_other_unit(name, each, before.unit, here.unit))


def _pairs(
    ours: Mapping[str, Setup], theirs: Mapping[str, Setup], *, one_run: bool
) -> Iterator[tuple[str, Setup, Setup]]:
    """Yield experiments that both have: name, their inputs, our inputs."""
    unnamed = "" in ours or "" in theirs
    alone = len(theirs) == 1 and unnamed and (one_run or len(ours) == 1)
    for name, now in ours.items():
        then = next(iter(theirs.values())) if alone else theirs.get(name)
        if then is not None:
            yield name, then, now


def _words(name: str, what: str, before: FixedInput | None, here: FixedInput | None) -> str:
    def told(given: FixedInput | None) -> str:
        return "not given" if given is None else in_toml(given.value)

    given = here or before
    assert given is not None
    restore = f"restore {in_toml(before.value)}" if before is not None else "remove it"
    return (
        f"{spelled(given.key)} is {told(here)}, but the runs of {name} were made where {what} was "
        f"{told(before)}, so their outputs are of another set-up: {restore}, or leave out known"
    )


def _other_unit(name: str, what: str, before: str, here: str) -> str:
    return (
        f"{what} is in {here}, but the runs of {name} were made where it was in {before}, and "
        "nothing is converted: correct one of the units, or leave out known"
    )


def check_units(ours: Parameters, record: Record, name: str) -> None:
    """Raise ValueError for a parameter whose unit differs, where both have one."""
    if record.parameters is None:
        return
    before = dict(zip(record.parameters.names, record.parameters.units, strict=True))
    for each, unit in zip(ours.names, ours.units, strict=True):
        if unit and before.get(each) and before[each] != unit:
            raise ValueError(_other_unit(name, each, before[each], unit))


def source_of_record(record: Record) -> Source | None:
    """Return the problem file that a store was made from; None if it was made without one."""
    try:
        told = json.loads(record.description)
        return Source(str(told["text"]), record.file)
    except (ValueError, KeyError, TypeError):
        return None
