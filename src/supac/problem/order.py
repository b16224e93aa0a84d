"""Correlation of neighbours in series: whether residuals are alike, as noise is not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from supac.arrays import FloatArray, IntArray

FAR = 4.5  # medians of their size, 3 standard deviations, beyond which residuals are cut
FEWEST = 8  # pairs of neighbours from which on a correlation is judged


@dataclass(frozen=True)
class LagOne:
    """Correlation of residuals with their successors, pooled over series.

    Means are not subtracted: a bias makes residuals alike, too.
    """

    correlation: float
    z: float
    """Correlation in units of its standard error under independent normal noise."""
    pairs: int
    each: tuple[float, ...]
    """z of each series; NaN of those with few pairs."""


def lag_one(series: Sequence[FloatArray]) -> LagOne | None:
    """Compute the correlation of neighbours; None if there are too few of them."""
    total = variance = 0.0
    pairs, told = 0, []
    for residuals in series:
        n, mine, spread = len(residuals), np.nan, np.nan
        size = float(np.median(np.abs(residuals))) or float(np.abs(residuals).max()) if n > 1 else 0
        if size > 0.0:
            own = np.clip(residuals / size, -FAR, FAR)
            mine = n * float(own[1:] @ own[:-1]) / float(own @ own)
            # Σ r_t r_t+1 / Σ r_t² has the variance (n − 1)/(n (n + 2)) for independent normal r.
            spread = n * (n - 1) / (n + 2)
            total, variance, pairs = total + mine, variance + spread, pairs + n - 1
        told.append(mine / math.sqrt(spread) if n > FEWEST and size > 0.0 else np.nan)
    if pairs < FEWEST:
        return None
    return LagOne(total / pairs, total / math.sqrt(variance), pairs, tuple(told))


@dataclass(frozen=True, eq=False)
class Course:
    """Series of the measurements: the columns of each experiment, in the order of time."""

    series: tuple[IntArray, ...]
    """Places of the measurements of each, among all of them."""
    measured: int

    def first(self, share: float) -> FloatArray:
        """Return 1 for the first share of each series, 0 for the rest: (measured,)."""
        kept = np.zeros(self.measured)
        for each in self.series:
            kept[each[: math.ceil(share * len(each))]] = 1.0
        return kept

    def likeness(self, residuals: FloatArray) -> float:
        """Return by how many standard errors neighbours among residuals (measured,) are alike.

        NaN if there are too few of them.
        """
        found = lag_one([residuals[each] for each in self.series])
        return np.nan if found is None else found.z
