"""A PEtab problem as a simulator: parameters → simulated measurements, through libRoadRunner."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from supac.arrays import FloatArray

STEADY = 1e6
"""The time that stands for infinity, and before which a steady state is reached."""
_TOLERANCES = {"relative_tolerance": 1e-7, "absolute_tolerance": 1e-9, "maximum_num_steps": 20_000}
_SMALLEST = 1e-30  # of what a logarithm is taken of


@dataclass(frozen=True)
class Series:
    """Measurements of one observable with the same replacements, in one experiment."""

    symbols: list[str]
    formula: Callable[..., Any]
    replacements: dict[str, str]
    """Values or names for the placeholders of the formula."""
    instants: Any
    """Where in the times of the experiment."""
    rows: Any
    """Where in the table of measurements."""


@dataclass(frozen=True)
class Experiment:
    """A condition, after a steady state under another one where there is one, and its times."""

    before: str
    condition: str
    times: list[float]
    symbols: list[str]
    """What is read from the simulation."""
    series: list[Series]


class PEtabModel:
    """The model of a PEtab file, version 1, its measurements and their noise."""

    def __init__(self, path: Path):
        # Of the peers' environment.
        libsbml, petab, roadrunner = map(import_module, ("libsbml", "petab.v1", "roadrunner"))
        logging.getLogger("petab").setLevel(logging.ERROR)
        roadrunner.Logger.setLevel(roadrunner.Logger.LOG_FATAL)
        self.problem = problem = petab.Problem.from_yaml(str(path))
        self.runner = roadrunner.RoadRunner(libsbml.writeSBMLToString(problem.sbml_document))
        for name, value in _TOLERANCES.items():
            self.runner.getIntegrator().setValue(name, value)
        model = problem.sbml_model
        self.is_amount = {
            each.getId(): each.getHasOnlySubstanceUnits() for each in model.getListOfSpecies()
        }
        self.assigned = {
            rule.getVariable() for rule in model.getListOfRules() if rule.isAssignment()
        }
        self.names = set(self.runner.keys())
        self.nominal = problem.parameter_df["nominalValue"].astype(float).to_dict()
        self.conditions = {
            name: {
                key: value
                for key, value in row.items()
                if key != "conditionName" and not _is_missing(value)
            }
            for name, row in problem.condition_df.iterrows()
        }
        self.table = problem.measurement_df.reset_index(drop=True)
        self.experiments = self._experiments()

    def _experiments(self) -> list[Experiment]:
        key = "preequilibrationConditionId"
        before = self.table[key].fillna("") if key in self.table else [""] * len(self.table)
        groups: dict[tuple[str, str], list[int]] = {}
        for row, names in enumerate(zip(before, self.table.simulationConditionId, strict=True)):
            groups.setdefault(names, []).append(row)
        return [self._experiment(*names, rows) for names, rows in groups.items()]

    def _experiment(self, before: str, condition: str, rows: list[int]) -> Experiment:
        measured = np.minimum(self.table.time.to_numpy(dtype=float)[rows], STEADY)
        times = np.unique(np.append(measured, 0.0))
        if len(times) == 1:
            times = np.array([0.0, 1e-3])
        groups: dict[tuple[str, str], list[int]] = {}
        for row in rows:
            given = self.table.iloc[row].get("observableParameters")
            text = "" if _is_missing(given) else str(given)
            groups.setdefault((self.table.observableId[row], text), []).append(row)
        series, symbols = [], set()
        for (observable, text), chosen in groups.items():
            names, formula = self._formula(observable, "observableFormula")
            values = enumerate(filter(None, text.split(";")), start=1)
            replacements = {f"observableParameter{i}_{observable}": v for i, v in values}
            at = self.table.time.to_numpy(dtype=float)[chosen]
            instants = np.searchsorted(times, np.minimum(at, STEADY))
            series.append(Series(names, formula, replacements, instants, np.array(chosen)))
            symbols |= {name for name in names if name in self.names | self.assigned}
        return Experiment(before, condition, times.tolist(), sorted(symbols), series)

    def _formula(self, observable: str, column: str) -> tuple[list[str], Callable[..., Any]]:
        parse = import_module("petab.v1.math").sympify_petab
        expression = parse(self.problem.observable_df.loc[observable, column])
        symbols = sorted(expression.free_symbols, key=str)
        formula = import_module("sympy").lambdify(symbols, expression, "numpy")
        return [str(each) for each in symbols], formula

    def simulate(self, values: Mapping[str, float]) -> FloatArray:
        """Simulate all measurements; RuntimeError if the integrator fails."""
        out = np.empty(len(self.table))
        with silence():
            for experiment in self.experiments:
                self._simulate(experiment, values, out)
        return out

    def _simulate(
        self, experiment: Experiment, values: Mapping[str, float], out: FloatArray
    ) -> None:
        condition = self._condition(experiment.condition, values)
        first = self._condition(experiment.before, values) if experiment.before else condition
        known = {name: value for name, value in values.items() if name in self.names} | first
        self.runner.resetToOrigin()
        self._assign(known, initially=True)
        # Initial values that follow from parameters are computed anew.
        self.runner.reset()
        self._assign({k: v for k, v in known.items() if k not in self.is_amount}, initially=True)
        if experiment.before:
            self.runner.simulate(0.0, STEADY, 2)
            self._assign(condition, initially=False)
        selections = ["time", *map(self._selection, experiment.symbols)]
        found = np.array(self.runner.simulate(times=experiment.times, selections=selections))
        simulated = dict(zip(experiment.symbols, found[:, 1:].T, strict=True))
        for series in experiment.series:
            arguments = []
            for symbol in series.symbols:
                name = series.replacements.get(symbol, symbol)
                if name in simulated:
                    arguments.append(simulated[name][series.instants])
                elif name == "time":
                    arguments.append(found[series.instants, 0])
                else:
                    arguments.append(_number(name, condition, values))
            out[series.rows] = series.formula(*arguments)

    def _condition(self, name: str, values: Mapping[str, float]) -> dict[str, float]:
        return {key: _number(value, values) for key, value in self.conditions[name].items()}

    def _assign(self, values: Mapping[str, float], *, initially: bool) -> None:
        for name, value in values.items():
            if name in self.assigned or not np.isfinite(value):
                continue
            if name in self.is_amount:
                selection = self._selection(name)
                self.runner.setValue(f"init({selection})" if initially else selection, value)
            elif name in self.names:
                self.runner.setValue(name, value)

    def _selection(self, name: str) -> str:
        return name if self.is_amount.get(name, True) else f"[{name}]"

    def noise(self, simulated: FloatArray) -> tuple[FloatArray, set[str]]:
        """Compute noise levels at the nominal parameters, and name the parameters behind them."""
        levels, used = np.empty(len(self.table)), set()
        for row, each in self.table.iterrows():
            names, formula = self._formula(each.observableId, "noiseFormula")
            given = each.get("noiseParameters")
            text = "" if _is_missing(given) else str(given)
            values = enumerate(filter(None, text.split(";")), start=1)
            replacements = {f"noiseParameter{i}_{each.observableId}": v for i, v in values}
            arguments = []
            for symbol in names:
                name = replacements.get(symbol, symbol)
                used.add(name)
                here = {each.observableId: float(simulated[row])}
                arguments.append(_number(name, here, self.nominal))
            levels[row] = formula(*arguments)
        return levels, used

    def transformed(self, values: FloatArray) -> FloatArray:
        """Return values on the scales on which they are compared: logarithms where it is said."""
        table = self.problem.observable_df
        if "observableTransformation" not in table:
            return values
        kinds = np.array([table.observableTransformation[o] for o in self.table.observableId])
        positive = np.maximum(values, _SMALLEST)
        logarithms = np.where(kinds == "log10", np.log10(positive), np.log(positive))
        return np.where(np.isin(kinds, ("log", "log10")), logarithms, values)


@contextmanager
def silence() -> Iterator[None]:
    """Discard what the integrator, which is no Python, prints about each failure."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    kept = {stream: os.dup(stream) for stream in (1, 2)}
    try:
        for stream in kept:
            os.dup2(nowhere, stream)
        yield
    finally:
        for stream, copy in kept.items():
            os.dup2(copy, stream)
            os.close(copy)
        os.close(nowhere)


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and np.isnan(value))


def _number(value: Any, *known: Mapping[str, float]) -> float:
    """Return a number, or the value of a name in the first mapping that has it."""
    for values in known:
        if value in values:
            return float(values[value])
    return float(value)
