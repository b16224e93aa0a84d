"""Experiments under different conditions: one run of the simulator for each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from supac.arrays import FloatArray, IntArray
from supac.jacobian import split_answer
from supac.posterior.outputs import Outputs
from supac.problem import Observations
from supac.problem_file.data import data_tables, experiment_names
from supac.problem_file.early_end import EarlyEnd
from supac.problem_file.errors import Source, in_toml, without_quotes
from supac.problem_file.inputs import Inputs
from supac.problem_file.simulator import Simulate, Simulator
from supac.simulators.jacobian_error import JacobianError, is_wrong


@dataclass(frozen=True, eq=False)
class Experiments:
    """The simulator under all settings, its outputs in the order of the data."""

    conditions: tuple[Simulate, ...]
    """The simulator under each setting."""
    places: tuple[IntArray, ...]
    """Indices of each condition's outputs among all outputs."""
    observations: Observations

    @property
    def vectorized(self) -> bool:
        """True if the simulator takes many points at once."""
        return self.conditions[0].vectorized

    @property
    def returns_jacobian(self) -> bool:
        """True if the simulator is known to return pairs of outputs and Jacobian."""
        return self.conditions[0].returns_jacobian

    def refuses(self, x: FloatArray) -> str:
        """Return why a point (dim,) is not simulated; "" if it is.

        A constraint on a setting may hold in one experiment and not in another.
        """
        return next(filter(None, (each.refuses(x) for each in self.conditions)), "")

    def check(self, x: FloatArray) -> str:
        """Return what one of the simulators finds wrong with itself at a point (dim,); else ""."""
        return next(filter(None, (each.check(x) for each in self.conditions)), "")

    def set_up(self) -> None:
        """Set up the simulator."""
        for each in self.conditions:
            each.set_up()

    def __call__(self, x: FloatArray) -> Any:
        """Return the outputs, NaN in columns that an experiment does not have."""
        outputs = np.full((*x.shape[:-1], len(self.observations.values)), np.nan)
        jacobians = []
        for simulate, place in zip(self.conditions, self.places, strict=True):
            answer, jacobian = split_answer(simulate(x), many=np.ndim(x) > 1)
            outputs[..., place] = answer
            jacobians.append(jacobian)
        found = self.sought(jacobians, x)
        return outputs if found is None else (outputs, found)

    def slopes(self, x: FloatArray) -> Any:
        """Return the Jacobian at x in the free parameters, where the functions return it."""
        return self.sought([each.slopes(x) for each in self.conditions], x)

    def sought(self, jacobians: Sequence[Any], x: FloatArray) -> Any:
        """Join the Jacobians of all conditions; None if one is missing, an error if one is wrong.

        Those of many points are a list.
        """
        wrong = next((each for each in jacobians if is_wrong(each)), None)
        if wrong is not None or any(each is None for each in jacobians):
            return wrong
        if np.ndim(x) > 1:
            every = zip(*jacobians, x, strict=True)
            return [self.sought(each, point) for *each, point in every]
        joined = np.full((len(self.observations.values), len(x)), np.nan)
        for part, place in zip(jacobians, self.places, strict=True):
            if np.shape(part) != (len(place), len(x)):
                return JacobianError(
                    "the Jacobian of an experiment must have one row an output and one column a "
                    f"parameter, shape ({len(place)}, {len(x)}), and was {np.shape(part)}"
                )
            joined[place] = part
        return joined


@dataclass(frozen=True, eq=False)
class Slopes:
    """The Jacobian of a simulator under all settings, computed apart from the outputs."""

    simulate: Simulate | Experiments
    """With functions that return Jacobians in the place of outputs."""

    def __call__(self, x: FloatArray) -> Any:
        """Return the Jacobian at x (dim,) in the free parameters, or those of many points."""
        return self.simulate.slopes(x)


def make_simulate(
    source: Source, simulator: Simulator, inputs: Inputs, data: Observations | None
) -> Simulate | Experiments:
    """Return the simulator of all experiments; those with the same settings share a run."""
    return _of_experiments(source, partial(_made, source, simulator), inputs, data)


def make_slopes(
    source: Source, simulator: Simulator, inputs: Inputs, data: Observations | None
) -> Slopes | None:
    """Return what computes Jacobians apart from the outputs; None if nothing does."""
    if not simulator.has_jacobian_apart:
        return None
    make = partial(_made, source, simulator, slopes=True)
    return Slopes(_of_experiments(source, make, inputs, data))


def _of_experiments(
    source: Source,
    make: Callable[[Inputs, Observations | None], Simulate],
    inputs: Inputs,
    data: Observations | None,
) -> Simulate | Experiments:
    groups = {} if data is None else _groups(source, inputs)
    if data is None or len(groups) < 2:
        settings = next(iter(groups.values()), ({}, []))[0]
        every = inputs.with_settings(settings)
        return make(every, data)
    names = np.array(data.experiments)
    conditions, places = [], []
    for settings, mine in groups.values():
        rows = np.flatnonzero(np.isin(names, mine))
        part = data.of_rows(rows)
        columns = np.array([data.columns.index(name) for name in part.columns])
        conditions.append(make(inputs.with_settings(settings), part))
        places.append((columns[:, None] * data.rows + rows).ravel())
    return Experiments(tuple(conditions), tuple(places), data)


def make_scenario(
    source: Source, simulator: Simulator, inputs: Inputs, outputs: Outputs
) -> Simulate:
    """Return the simulator under the settings of a scenario, with these outputs."""
    return _made(source, simulator, inputs, outputs.observations())


def _made(
    source: Source,
    simulator: Simulator,
    inputs: Inputs,
    data: Observations | None,
    *,
    slopes: bool = False,
) -> Simulate:
    """Return the simulator of these inputs, or that of its Jacobian."""
    inputs = inputs.without(simulator.not_taken(source, inputs))
    end = None if data is None else EarlyEnd.of(source)
    make = simulator.make_jacobian if slopes else simulator.make
    made = replace(make(source, inputs, data), inputs=inputs, early_end=end)
    if made.vectorized and any(isinstance(each, str) for each in inputs.fixed.values()):
        raise source.fail(("simulator", "vectorized"), "goes without texts in settings")
    return made


def _groups(
    source: Source, inputs: Inputs
) -> dict[tuple[Any, ...], tuple[dict[str, float | str], list[str]]]:
    """Return the different settings, and the names of the experiments under each."""
    groups: dict[tuple[Any, ...], tuple[dict[str, float | str], list[str]]] = {}
    names, tables = experiment_names(source), data_tables(source)
    every = set().union(*(table.get("settings", {}) for table in tables.values()))
    for key, table in tables.items():
        for setting in table.get("settings", {}):
            if setting in {*inputs.free, *inputs.fields, *inputs.tied}:
                words = "has a formula" if setting in inputs.tied else "is calibrated"
                raise source.fail((*key, "settings", setting), f"{words} in [parameters]")
    for name, (key, table) in zip(names, tables.items(), strict=True):
        given = table.get("settings", {})
        missing = sorted(every - set(given) - set(inputs.fixed))
        if missing:
            verb = "is" if len(missing) == 1 else "are"
            words = f"{', '.join(missing)} {verb} missing, which another table [[data]] has"
            source.add((*key, "settings"), words)
        plain = {n: v if isinstance(v, str) else float(v) for n, v in given.items()}
        at = tuple(sorted(plain.items()))
        groups.setdefault(at, (plain, []))[1].append(name)
    _check_kinds(source)
    source.raise_any()
    return groups


def _check_kinds(source: Source) -> None:
    """Add an error for each setting that is a text in one table and a number in another."""
    tables = data_tables(source)
    numbers = {
        name
        for table in tables.values()
        for name, value in table.get("settings", {}).items()
        if not isinstance(value, str)
    }
    for key, table in tables.items():
        for name, value in table.get("settings", {}).items():
            if isinstance(value, str) and name in numbers:
                words = f"is the text {in_toml(value)}, but a number in another table [[data]]"
                source.add((*key, "settings", name), f"{words}{without_quotes(value)}")
