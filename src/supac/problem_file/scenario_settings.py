"""Settings of a scenario: values that its simulator is given in place of the problem's."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from supac.arrays import FloatArray
from supac.problem_file.data import data_tables
from supac.problem_file.errors import Key, Source, suggestion, without_quotes
from supac.problem_file.inputs import Inputs
from supac.problem_file.simulator import Simulator


def check_settings(source: Source, simulator: Simulator, inputs: Inputs) -> None:
    """Add an error for each setting of a scenario that is not known, missing or of a wrong kind.

    Settings are other values of fixed parameters, of settings of experiments, and of what the
    simulator may be given beside them.
    """
    given, of_data = source.table("settings"), _of_data(source, simulator)
    known = _known(source, simulator, inputs)
    every = [*known, *simulator.settable(source, inputs)]
    for name, value in given.items():
        trouble = _trouble(name, every, simulator, inputs)
        if not trouble and isinstance(value, str) and name in known and name not in _texts(source):
            trouble = f"must be a number, as in the problem{without_quotes(value)}"
        if trouble:
            source.add(("settings", name), trouble)
    missing = sorted(of_data - set(given) - set(inputs.fixed))
    if missing:
        place: Key = ("settings",) if given else ()
        words = f"[settings] needs {', '.join(missing)}, which each [[data]] of the problem has"
        source.add(place, words)


def with_settings(
    source: Source, simulator: Simulator, inputs: Inputs, times: FloatArray | None
) -> Inputs:
    """Return the inputs of the problem with the checked settings of a scenario, and its times."""
    given, known = source.table("settings"), _known(source, simulator, inputs)
    plain = {n: v if isinstance(v, str) else float(v) for n, v in given.items() if n in known}
    own: dict[str, Any] = {name: value for name, value in given.items() if name not in known}
    further = simulator.settable(source, inputs)
    if "times" in source.table("outputs") and "times" in further and "times" not in known:
        own["times"] = times
    made = inputs.with_settings(plain)
    return simulator.with_settable(made, own) if own else made


def _known(source: Source, simulator: Simulator, inputs: Inputs) -> list[str]:
    """Return the fixed parameters, and further settings of the data."""
    return [*inputs.fixed, *sorted(_of_data(source, simulator) - set(inputs.fixed))]


def _texts(source: Source) -> set[str]:
    """Return the settings of the data that are texts."""
    tables = [each.get("settings", {}) for each in data_tables(source).values()]
    return {name for each in tables for name, value in each.items() if isinstance(value, str)}


def _of_data(source: Source, simulator: Simulator) -> set[str]:
    """Return the names that `settings` in [data] give the simulator."""
    keys = {each.name for each in fields(simulator)}  # type: ignore[arg-type]
    tables = data_tables(source).values()
    return {name for each in tables for name in each.get("settings", {}) if name not in keys}


def _trouble(name: str, known: list[str], simulator: Simulator, inputs: Inputs) -> str:
    """Return what is wrong with the name of a setting; "" if nothing is."""
    if name in inputs.tied:
        return "has a formula in [parameters]"
    if name in {*inputs.free, *inputs.fields}:
        return "is calibrated: the posterior has it"
    if name in {each.name for each in fields(simulator)}:  # type: ignore[arg-type]
        return "belongs in [simulator]"
    if name == "times" and name not in inputs.fixed:
        return "belongs in [outputs]"
    if name in known:
        return ""
    others = [each for each in dict.fromkeys(known) if each != "times"]
    there = f"can be set: {', '.join(others)}" if others else "nothing can be set"
    words = f"is no setting; {there}{suggestion(name, others)}"
    return f"{words}{'' if words.endswith('?') else '.'} For {name}, {simulator.how_to_set(name)}"
