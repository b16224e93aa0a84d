"""Which rows of a PEtab problem are simulated by which formulas."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from supac.simulators.petab.description import Description, Measurement, Observable
from supac.simulators.petab.formulas import Formula, FormulaError, Look, formula, substitute
from supac.simulators.petab.model import STEADY, FloatArray, IntArray, Symbols
from supac.simulators.petab.tables import PEtabError, Row, similar


@dataclass(frozen=True)
class Series:
    """Rows of one experiment whose values one formula gives."""

    experiment: int
    formula: Formula
    replaced: dict[str, Formula]
    """Formulas for the placeholders."""
    rows: IntArray
    """Indices of its outputs: (n,)."""
    times: FloatArray
    """Times of these, none of them infinite: (n,)."""

    @property
    def symbols(self) -> set[str]:
        """All symbols but the placeholders."""
        own = {name for name in self.formula.symbols if name not in self.replaced}
        return own.union(*(each.symbols for each in self.replaced.values()))

    @property
    def expression(self) -> Any:
        """The formula with its placeholders replaced, as an expression of SymPy."""
        inner = {name: each.expression for name, each in self.replaced.items()}
        return substitute(self.formula.expression, inner)

    def __call__(self, look: Look) -> Any:
        """Return the values, given those of the symbols at their times."""

        def inside(name: str) -> Any:
            return self.replaced[name](look) if name in self.replaced else look(name)

        return self.formula(inside)


class Layout:
    """Which rows are simulated by which formulas, and which noise levels are among the outputs."""

    def __init__(self, description: Description, symbols: Symbols):
        self.description, self.symbols = description, symbols
        self.parameters = {each.id: each for each in description.parameters}
        self._check_changes()
        self._formulas = {
            each.id: (self._parse(each, "observableFormula"), self._parse(each, "noiseFormula"))
            for each in description.observables.values()
        }
        self.noise = np.full(len(description.measurements), np.nan)
        self.levels = np.full(len(description.measurements), -1, dtype=np.intp)
        self.series = self._observed() + self._noisy()
        self._check_used()

    @property
    def size(self) -> int:
        """Number of outputs."""
        return len(self.levels) + int(self.levels.max(initial=-1)) + 1

    def _check_changes(self) -> None:
        """Check that conditions change the model, by values of the parameter table."""
        for each in self.description.changes:
            if each.target in self.parameters:
                row = self.parameters[each.target].row
                words = f"{each.target} is in {row.place()}, too: it can have one value only"
                raise PEtabError(f"{each.target_place}: {words}")
            if each.target not in self.symbols:
                hint = similar(each.target, self.symbols.names)
                raise PEtabError(f"{each.target_place}: {each.target} is not in the model{hint}")
            for name in self._formula(each.value, each.value_place).symbols:
                if name not in self.parameters:
                    hint = similar(name, self.parameters)
                    words = f"{name} is not in the parameter table{hint}"
                    raise PEtabError(f"{each.value_place}: {words}")

    def _check_used(self) -> None:
        """Check that every estimated parameter stands in the model, a condition or a formula."""
        used = self._changing.union(*(each.symbols for each in self.series))
        for each in self.description.parameters:
            if each.estimated and each.id not in used and each.id not in self.symbols:
                hint = similar(each.id, {*self.symbols.names} - {*self.parameters})
                words = f"{each.id} is neither in the model nor in a condition or formula{hint}"
                raise each.row.fail(words, "parameterId")

    def _formula(self, text: str, where: str) -> Formula:
        try:
            return formula(text)
        except FormulaError as error:
            raise PEtabError(f"{where}: {error}") from error

    def _parse(self, observable: Observable, column: str) -> Formula:
        """Return a formula of an observable, whose symbols are all known."""
        row, is_noise = observable.row, column == "noiseFormula"
        where = row.place(column)
        found = self._formula(observable.noise if is_noise else observable.formula, where)
        holes = observable.noise_placeholders if is_noise else observable.placeholders
        others = (*holes, *([observable.id] if is_noise else []))
        self._known(found, where, others)
        return found

    def _known(self, found: Formula, where: str, others: Sequence[str]) -> None:
        for name in found.symbols:
            if name not in (*others, "time", *self.parameters) and name not in self.symbols:
                every = [*self.parameters, *self.symbols.names, *others]
                raise PEtabError(
                    f"{where}: {name} is neither in the model nor in the parameter table"
                    f"{similar(name, every)}"
                )

    def _replaced(
        self, row: Row, column: str, holes: Sequence[str], given: Sequence[str]
    ) -> dict[str, Formula]:
        where = row.place(column)
        found = {hole: self._formula(word, where) for hole, word in zip(holes, given, strict=True)}
        for each in found.values():
            self._known(each, where, ())
        return found

    def _observed(self) -> list[Series]:
        """Return the series of the measured values."""
        groups: dict[tuple[int, str, tuple[str, ...]], list[int]] = {}
        for i, each in enumerate(self.description.measurements):
            groups.setdefault((each.experiment, each.observable, each.replaced), []).append(i)
        made = []
        for (experiment, name, given), rows in groups.items():
            first = self.description.measurements[rows[0]].row
            holes = self.description.observables[name].placeholders
            replaced = self._replaced(first, "observableParameters", holes, given)
            made.append(self._series(experiment, self._formulas[name][0], replaced, rows, rows))
        return made

    def _series(
        self, experiment: int, own: Formula, replaced: dict[str, Formula],
        measured: Sequence[int], outputs: Sequence[int],
    ) -> Series:  # fmt: skip
        times = np.array([self.description.measurements[i].time for i in measured])
        times = np.minimum(times, STEADY)
        return Series(experiment, own, replaced, np.array(outputs, dtype=np.intp), times)

    def _noisy(self) -> list[Series]:
        """Return the series of the noise levels that are not known; note those that are.

        Rows share a level if it depends on parameters alone.
        """
        shared: dict[str, int] = {}
        made: list[Series] = []
        for i, each in enumerate(self.description.measurements):
            observable = self.description.observables[each.observable]
            own = self._formulas[each.observable][1]
            replaced = self._replaced(
                each.row, "noiseParameters", observable.noise_placeholders, each.noise_replaced
            )
            if each.observable in own.symbols:  # the simulated value itself
                value = self._formulas[each.observable][0]
                holes = self._replaced(
                    each.row, "observableParameters", observable.placeholders, each.replaced
                )
                inner = {hole: found.expression for hole, found in holes.items()}
                replaced |= {each.observable: Formula.of(substitute(value.expression, inner))}
            series = self._series(
                each.experiment, own, replaced, [i], [len(self.levels) + len(made)]
            )
            if not any(self._varies(name) for name in series.symbols):
                self.noise[i] = self._known_noise(each, series)
                continue
            key = _with(observable.noise, observable.noise_placeholders, each.noise_replaced)
            alone = any(name in self.symbols or name == "time" for name in series.symbols)
            if not alone and key in shared:
                self.levels[i] = shared[key]
                continue
            self.levels[i] = shared.setdefault(key, len(made)) if not alone else len(made)
            made.append(series)
        return made

    def _varies(self, name: str) -> bool:
        """Return True unless a symbol is a parameter that is not estimated."""
        return name not in self.parameters or self.parameters[name].estimated

    def _known_noise(self, measurement: Measurement, series: Series) -> float:
        noise = float(series(lambda name: self.parameters[name].nominal))
        if not (noise > 0.0 and math.isfinite(noise)):
            row, column = measurement.row, "noiseParameters"
            if not measurement.noise_replaced:
                row = self.description.observables[measurement.observable].row
                column = "noiseFormula"
            raise row.fail(f"the noise is {noise:g}, but must be above 0", column)
        return noise

    @property
    def _changing(self) -> set[str]:
        """Parameters in the values that conditions give."""
        values = [each.value for each in self.description.changes]
        return {name for each in values for name in formula(each).symbols}

    @property
    def observation_parameters(self) -> tuple[str, ...]:
        """Estimated parameters that only formulas of observables and noise contain.

        The model need not be simulated again where only they differ.
        """
        changes = self._changing
        inside = {name for name in self.parameters if name in self.symbols.used}
        return tuple(
            each.id
            for each in self.description.parameters
            if each.estimated and each.id not in changes | inside
        )


def _with(text: str, holes: Sequence[str], given: Sequence[str]) -> str:
    """Return the text of a formula with its placeholders replaced."""
    for hole, word in zip(holes, given, strict=True):
        text = re.sub(rf"\b{re.escape(hole)}\b", f"({word})", text)
    return text
