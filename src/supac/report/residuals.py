"""Residuals in the order of time: whether they are like independent noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from supac.arrays import FloatArray, IntArray
from supac.problem import Observations
from supac.problem.order import lag_one
from supac.report.scores import COVERAGE, sides

DOUBTED = 2.5
"""Standard errors above which neighbours are alike."""
_BY_CHANCE = 0.01  # chance of as long a stretch outside of the bands, above which it is no news


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
    sides: IntArray
    """−1 below the band of 90 %, 1 above, 0 inside or where the noise is not known."""


@dataclass(frozen=True)
class Stretch:
    """Measurements one after the other that all lie on one side of their bands of 90 %."""

    name: str
    length: int
    first: float
    """Time of the first of them."""
    last: float
    chance: float
    """Bound on the chance of so long a stretch in all the data under independent noise."""

    @property
    def by_chance(self) -> bool:
        """True if independent noise makes so long a stretch often enough."""
        return self.chance >= _BY_CHANCE


def longest_stretch(series: Sequence[Series]) -> Stretch | None:
    """Return the longest stretch outside of the bands; None if no measurement is outside."""
    count, best = sum(len(each.sides) for each in series), None
    for name, _, times, beyond in series:
        ends = [*(np.flatnonzero(np.diff(beyond)) + 1).tolist(), len(beyond)]
        for begin, end in zip([0, *ends[:-1]], ends, strict=True):
            longer = best is None or end - begin > best.length
            if end > begin and beyond[begin] and longer:
                # By each side's tail, from any of the measurements on.
                chance = 2.0 * count * (0.5 * (1.0 - COVERAGE)) ** (end - begin)
                told = float(times[begin]), float(times[end - 1])
                best = Stretch(name, end - begin, *told, min(chance, 1.0))
    return best


def residual_series(seen: Observations, simulated: FloatArray) -> list[Series]:
    """Return the residuals of each series: measured − mean of the runs.

    `simulated` are outputs (n, cells). Residuals are in units of the noise, where it is known.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        made, measured = simulated, seen.values
        if seen.logarithmic:
            made, measured = np.log(made), np.log(measured)
        off = (measured - made.mean(axis=0)) / seen.noise
        beyond = sides(made, measured, seen.noise)
    times = np.arange(float(seen.rows)) if seen.times is None else seen.times
    found = []
    for experiment, column, rows in seen.parts:
        ordered = rows[np.argsort(times[rows], kind="stable")]
        places = column * seen.rows + ordered
        own, known = off[places], np.isfinite(off[places])
        name = f"{seen.columns[column]} of {experiment}" if experiment else seen.columns[column]
        found.append(Series(name, own[known], times[ordered][known], beyond[places][known]))
    return found


def autocorrelation(series: Sequence[Series]) -> Autocorrelation | None:
    """Compute the correlation of neighbours; None if there are too few of them."""
    found = lag_one([each.residuals for each in series])
    if found is None:
        return None
    told = [(own.name, z) for own, z in zip(series, found.each, strict=True) if np.isfinite(z)]
    told.sort(key=lambda each: -each[1])
    return Autocorrelation(found.correlation, found.z, found.pairs, tuple(told))
