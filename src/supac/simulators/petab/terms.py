"""Terms that formulas of observables and noise need of a simulation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from supac.simulators.petab.formulas import Formula, Split, split
from supac.simulators.petab.layout import Layout, Series
from supac.simulators.petab.model import FloatArray

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
        self.names = tuple(names)
        self._index: dict[tuple[int, Any, float], int] = {}
        self._products: dict[Product, int] = {(): 0}
        self.parts: list[tuple[int, int, float, int]] = []
        """Place, term, factor and product."""
        known: dict[Any, Split] = {}
        for each in layout.series:
            expression = each.expression
            if expression not in known:
                known[expression] = split(expression, self.names)
            self._add(each, known[expression])
        self.parts.sort()
        self.series = self._series()

    @property
    def powers(self) -> FloatArray:
        """Exponents of the observation parameters in each product: (products, parameters)."""
        powers = np.zeros((len(self._products), len(self.names)))
        for product, i in self._products.items():
            for name, power in product:
                powers[i, self.names.index(name)] = power
        return powers

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
                self.parts.append((place, term, float(factor), product))

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
