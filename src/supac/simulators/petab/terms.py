"""What formulas of observables and noise need of a simulation, besides observation parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from supac.problem.combined import CombinedMeasurements
from supac.problem.likelihood import Measurements
from supac.simulators.petab.formulas import Formula, Split, split
from supac.simulators.petab.layout import Layout, Series
from supac.simulators.petab.model import FloatArray

_FLOOR = 1e-12  # least term in a logarithm, as a share of the smallest measurement

Product = tuple[tuple[str, float], ...]
"""Powers of observation parameters."""


def observation_parameters(layout: Layout) -> tuple[str, ...]:
    """Return the parameters that no simulation needs, and that formulas contain as powers.

    Parameters that are in a formula in another way are simulated like the others.
    """
    own = set(layout.observation_parameters)
    expressions = {each.expression for each in layout.series}
    while odd := {name for each in expressions for name in split(each, own).odd}:
        own -= odd
    return tuple(name for name in layout.observation_parameters if name in own)


class Terms:
    """Terms that the values and noise levels of a layout are combined from, each simulated once."""

    def __init__(self, layout: Layout, names: Sequence[str]):
        self._names = tuple(names)
        self._index: dict[tuple[int, Any, float], int] = {}
        self._products: dict[Product, int] = {(): 0}
        self._parts: list[tuple[int, int, float, int]] = []
        """Place, term, factor and product."""
        known: dict[Any, Split] = {}
        for each in layout.series:
            expression = each.expression
            if expression not in known:
                known[expression] = split(expression, self._names)
            self._add(each, known[expression])
        self._parts.sort()
        self.series = self._series()

    @property
    def size(self) -> int:
        """Number of terms."""
        return len(self._index)

    def _add(self, series: Series, found: Split) -> None:
        """Add the parts of the values or levels of a series."""
        for powers, multiplied in found.parts.items():
            factor, other = multiplied.as_coeff_Mul()
            product = self._products.setdefault(powers, len(self._products))
            for place, time in zip(series.rows.tolist(), series.times.tolist(), strict=True):
                key, term = (series.experiment, other, time), -1
                if other != 1:
                    term = self._index.setdefault(key, len(self._index))
                self._parts.append((place, term, float(factor), product))

    def _series(self) -> list[Series]:
        """Return the terms of one expression in one experiment as series."""
        groups: dict[tuple[int, Any], list[tuple[int, float]]] = {}
        for (experiment, expression, time), term in self._index.items():
            groups.setdefault((experiment, expression), []).append((term, time))
        made = []
        for (experiment, expression), found in groups.items():
            rows, times = np.array([i for i, _ in found]), np.array([t for _, t in found])
            made.append(Series(experiment, Formula.of(expression), {}, rows, times))
        return made

    def combined(self, measurements: Measurements) -> CombinedMeasurements:
        """Return measurements that are combined from the terms."""
        places, terms, factors, products = map(np.array, zip(*self._parts, strict=True))
        powers = np.zeros((len(self._products), len(self._names)))
        for product, i in self._products.items():
            for name, power in product:
                powers[i, self._names.index(name)] = power
        return CombinedMeasurements(
            measurements, places, terms, factors, products, powers, self._floors(measurements)
        )

    def _floors(self, measurements: Measurements) -> FloatArray:
        """Return least values of terms whose logarithm is emulated, 0 for others.

        These are factors of noise levels and of values that are compared as logarithms.
        """
        count = measurements.measured
        log_scale = measurements.log_scale > 0.0
        places = [place for place, *_ in self._parts]
        alone = np.bincount(places) == 1
        logarithmic = np.ones(self.size, dtype=bool)
        for place, term, _, _ in self._parts:
            if term >= 0 and not (alone[place] and (place >= count or log_scale[place])):
                logarithmic[term] = False
        smallest = np.abs(measurements.values)
        least = float(smallest[smallest > 0.0].min(initial=1.0))
        return np.where(logarithmic, _FLOOR * least, 0.0)
