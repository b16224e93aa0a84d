"""Residuals in the order of time: whether neighbours are more alike than independent noise is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from supac.arrays import FloatArray
from supac.problem import Observations

_FAR = 4.5  # medians of their size, 3 standard deviations, beyond which residuals are cut
_FEWEST = 8  # pairs of neighbours from which on a correlation is judged
DOUBTED = 2.5
"""Standard errors above which neighbours are alike."""


@dataclass(frozen=True)
class Autocorrelation:
    """Correlation of residuals with their successors in time, pooled over series of the data.

    Each series is a column of an experiment. Means are not subtracted: a bias makes residuals
    alike, too.
    """

    correlation: float
    z: float
    """Correlation in units of its standard error under independent normal noise."""
    pairs: int
    series: tuple[tuple[str, float], ...]
    """Name and z of each series with enough pairs, the most alike first."""

    @property
    def doubted(self) -> bool:
        """True if independent noise is hardly that much alike."""
        return self.z > DOUBTED


class Series(NamedTuple):
    """Residuals of a column of an experiment, in the order of time, with their times."""

    name: str
    residuals: FloatArray
    times: FloatArray


def residual_series(seen: Observations, simulated: FloatArray) -> list[Series]:
    """Return the residuals of each series: measured − mean of the runs.

    `simulated` are outputs (n, cells). Residuals are in units of the noise, where it is known.
    """
    seen_values = seen.values
    with np.errstate(invalid="ignore", divide="ignore"):
        if seen.logarithmic:
            off = np.log(seen_values) - np.log(simulated).mean(axis=0)
        else:
            off = seen_values - simulated.mean(axis=0)
        off = off / seen.noise
    times = np.arange(float(seen.rows)) if seen.times is None else seen.times
    found = []
    for experiment, column, rows in seen.parts:
        ordered = rows[np.argsort(times[rows], kind="stable")]
        own = off[column * seen.rows + ordered]
        known = np.isfinite(own)
        name = f"{seen.columns[column]} of {experiment}" if experiment else seen.columns[column]
        found.append(Series(name, own[known], times[ordered][known]))
    return found


def autocorrelation(series: Sequence[Series]) -> Autocorrelation | None:
    """Compute the correlation of neighbours; None if there are too few of them."""
    total = variance = 0.0
    pairs, told = 0, []
    for name, residuals, _ in series:
        n = len(residuals)
        size = float(np.median(np.abs(residuals))) or float(np.abs(residuals).max()) if n > 1 else 0
        if not size > 0.0:
            continue
        own = np.clip(residuals / size, -_FAR, _FAR)
        mine = n * float(own[1:] @ own[:-1]) / float(own @ own)
        # The variance of Σ r_t r_t+1 / Σ r_t² for independent normal r is (n − 1)/(n (n + 2)).
        spread = n * (n - 1) / (n + 2)
        total, variance, pairs = total + mine, variance + spread, pairs + n - 1
        if n > _FEWEST:
            told.append((name, mine / math.sqrt(spread)))
    if pairs < _FEWEST:
        return None
    told.sort(key=lambda each: -each[1])
    return Autocorrelation(total / pairs, total / math.sqrt(variance), pairs, tuple(told))
