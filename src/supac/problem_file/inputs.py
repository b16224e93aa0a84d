"""Inputs of the simulator: parameters that are sought, fixed ones, and those tied to others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from supac.arrays import FloatArray
from supac.problem import Parameters
from supac.problem_file.data import data_tables
from supac.problem_file.errors import Key, Source, in_toml, suggestion
from supac.problem_file.formula import Formula, FormulaError

_STEP = 1e-6  # relative change of a parameter behind a difference of formulas


@dataclass(frozen=True)
class Inputs:
    """Values of the simulator by name: free, fixed, or given by a formula of others."""

    names: tuple[str, ...]
    """Names of all values, in the order of the file; a field has one for each point."""
    free: tuple[str, ...]
    """Names of those that are sought: the columns of a point."""
    fixed: Mapping[str, float | str] = field(default_factory=dict)
    tied: Mapping[str, Formula] = field(default_factory=dict)
    """Each after those that it depends on."""
    constraints: Mapping[str, Formula] = field(default_factory=dict)
    """Conditions on all of them: a point at which one does not hold is not simulated."""
    units: tuple[str, ...] = ()
    """Unit of each name, "" if none was given."""
    fields: Mapping[str, list[Any]] = field(default_factory=dict)
    """Names of the points of each field, in its shape: nested lists."""
    keywords: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of a Python function, in which a scenario differs from the problem."""

    def gather(self, values: Iterable[Any]) -> dict[str, Any]:
        """Return the values of all names as arguments: of a field, an array of its shape."""
        single = dict(zip(self.names, values, strict=True))
        found = {}
        for name, nested in self.fields.items():
            points = np.array(nested)
            numbers = [single.pop(each) for each in points.ravel().tolist()]
            found[name] = np.array(numbers).reshape(points.shape)
        return single | found

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names of the arguments that `gather` returns."""
        return tuple(self.gather(self.names))

    @property
    def in_formulas(self) -> set[str]:
        """Names in formulas and constraints, which the simulator itself need not take."""
        formulas = [*self.tied.values(), *self.constraints.values()]
        return {name for each in formulas for name in each.names}

    def without(self, names: Collection[str]) -> Inputs:
        """Return the inputs of a simulator that is not given some of the names."""
        kept = [i for i, name in enumerate(self.names) if name not in names]
        return replace(
            self,
            names=tuple(self.names[i] for i in kept),
            units=tuple(self.units[i] for i in kept),
        )

    def refuses(self, x: FloatArray) -> str:
        """Return the first constraint that does not hold at a point (dim,); "" if all do."""
        if not self.constraints:
            return ""
        values = self._by_name(x)
        broken = (f for f in self.constraints.values() if not f(values))
        return next((f"{each.text} does not hold" for each in broken), "")

    def complete(self, x: FloatArray) -> Any:
        """Return the values of all names: (dim,) → (all,), (n, dim) → (n, all)."""
        if self.names == self.free:
            return x
        values = self._by_name(x)
        for name, formula in self.tied.items():
            if not np.isfinite(values[name]).all():
                raise ValueError(f"{name} = {formula.text} is {values[name]}")
        columns = [values[name] for name in self.names]
        if any(isinstance(each, str) for each in columns):
            return columns  # of one point: an array has no texts
        return np.stack([np.broadcast_to(each, x.shape[:-1]) for each in columns], axis=-1)

    def slopes_of(self, name: str, x: FloatArray) -> FloatArray:
        """Compute the derivatives of a tied value in the free parameters at x (free,): (free,)."""
        step = np.diag(np.where(x == 0.0, _STEP, _STEP * np.abs(x)))
        above, below = (np.asarray(self._by_name(x + s)[name], float) for s in (step, -step))
        return np.asarray(np.broadcast_to((above - below) / (2.0 * np.diag(step)), x.shape))

    def _by_name(self, x: FloatArray) -> dict[str, Any]:
        values: dict[str, Any] = dict(zip(self.free, np.moveaxis(x, -1, 0), strict=True))
        values |= self.fixed
        for name, formula in self.tied.items():
            values[name] = formula(values)
        return values

    def with_settings(self, settings: Mapping[str, float | str]) -> Inputs:
        """Return the inputs of one experiment, with further values or others for fixed ones."""
        new = tuple(name for name in settings if name not in self.names)
        return replace(
            self,
            names=self.names + new,
            fixed={**self.fixed, **settings},
            units=self.units + ("",) * len(new),
        )


def read_inputs(
    source: Source, parameters: Parameters, observation: tuple[str, ...] = ()
) -> Inputs:
    """Return the inputs of the checked tables [parameters] and [constraints].

    Formulas may have the settings of experiments, whose values `with_settings` adds. The
    `observation` parameters, the last ones, enter after the simulator, which is not given them.
    """
    every, free = source.table("parameters"), parameters.names
    free = free[: len(free) - len(observation)]
    table = {name: entry for name, entry in every.items() if name not in observation}
    fields = {name: each.names(name) for name, each in parameters.fields.items()}
    fixed, formulas, units = {}, {}, {}
    for name, entry in table.items():
        plain = entry if isinstance(entry, dict) else {}
        for each in fields[name].ravel().tolist() if name in fields else [name]:
            units[each] = plain.get("unit", "")
        given = plain.get("value", plain.get("formula")) if plain else entry
        if isinstance(given, str):
            key = ("parameters", name, *(("formula",) if plain else ()))
            formulas[name] = _formula(source, key, given, table, observation)
        elif given is not None:
            fixed[name] = float(given)
    rules = {
        name: _formula(source, ("constraints", name), text, table, observation, compares=True)
        for name, text in source.table("constraints").items()
    }
    source.raise_any()
    tied = _in_order(source, formulas, {*free, *fixed, *_settings(source)})
    constraints = {n: f for n, f in rules.items() if f is not None}
    nested = {name: points.tolist() for name, points in fields.items()}
    return Inputs(tuple(units), free, fixed, tied, constraints, tuple(units.values()), nested)


def _formula(
    source: Source,
    key: Key,
    text: str,
    table: Mapping[str, Any],
    observation: tuple[str, ...],
    *,
    compares: bool = False,
) -> Formula | None:
    """Return a formula of parameters of the table; add an error if it is none."""
    try:
        formula = Formula(text)
    except FormulaError as error:
        source.add(key, str(error))
        return None
    for name in sorted(each for each in formula.names if _is_field(table.get(each))):
        source.add(key, f"{name} is a field: formulas are of single parameters")
    for name in sorted(formula.names & set(observation)):
        source.add(key, f"{name} is a scale, offset or noise level in [data], which no formula has")
    settings = _settings(source)
    for name in sorted(formula.names & set(settings) - set(table)):
        if isinstance(settings[name], str):
            words = f"{name} is the text {in_toml(settings[name])} in settings of [data]"
            source.add(key, f"{words}: formulas are of numbers")
    for name in sorted(formula.names - {*table, *observation, *settings}):
        every = {**table, **settings}
        hint = suggestion(name, every) or f"; they are {', '.join(every)}"
        source.add(key, f"{name} is no parameter{' or setting' if settings else ''}{hint}")
    if formula.compares != compares:
        wrong = "is a comparison: write it in [constraints]"
        source.add(key, "must be a comparison such as k1 < k2" if compares else wrong)
    return formula


def _settings(source: Source) -> dict[str, Any]:
    """Return the settings of all experiments by name, a text where one of them is a text."""
    tables = [table.get("settings", {}) for table in data_tables(source).values()]
    given = [each for table in tables for each in table.items()]
    return dict(sorted(given, key=lambda each: isinstance(each[1], str)))


def _is_field(entry: Any) -> bool:
    return isinstance(entry, dict) and "field" in entry


def _in_order(
    source: Source, formulas: Mapping[str, Formula | None], known: set[str]
) -> dict[str, Formula]:
    """Return the formulas, each after those that it depends on; an error if there is a circle."""
    left = {name: formula for name, formula in formulas.items() if formula is not None}
    ordered: dict[str, Formula] = {}
    while left:
        ready = [name for name in left if left[name].names <= {*known, *ordered}]
        if not ready:
            words = f"depends on itself by way of {', '.join(left)}"
            raise source.fail(("parameters", next(iter(left))), words)
        ordered |= {name: left.pop(name) for name in ready}
    return ordered
