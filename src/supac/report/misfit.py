"""Misfit of a column of the data: beside its noise, and beside its spread."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from supac.arrays import FloatArray, IntArray

_SURE = 2.0  # standard deviations by which a course is smoother than scatter
_PAIRS = 3  # neighbours within experiments from which on those of different ones are left out


@dataclass(frozen=True)
class Misfit:
    """Residuals of fresh runs for one observed column, in units of the noise."""

    column: str
    measured: int
    """Number of measurements."""
    typical: float
    """Median over runs of the root mean square residual: near 1 is a good fit."""
    mean: float
    """Median over runs of the mean residual: far from 0 is a bias."""
    far: int
    """Number of measurements whose median residual exceeds 3."""
    of_spread: float = math.nan
    """Root mean square residual over the standard deviation of the measurements; NaN if they show
    no course beyond their scatter: that of a perfect model is then near 1, too."""
    fitted: bool = False
    """True if the noise depends on parameters: misfits are then near 1 whatever the fit is."""


def misfit_of(
    column: str,
    residuals: FloatArray,
    values: FloatArray,
    noise: FloatArray,
    cells: Sequence[tuple[str, str, float]],
    *,
    fitted: bool,
) -> Misfit:
    """Summarise residuals (runs, measured) in units of the noise of these measured values.

    `cells` are the experiment, the column and the time of each of them.
    """
    off = math.sqrt(float(np.median(np.mean((residuals * noise) ** 2, axis=1))))
    return Misfit(
        column,
        residuals.shape[1],
        math.sqrt(float(np.median(np.mean(residuals**2, axis=1)))),
        float(np.median(residuals.mean(axis=1))),
        int((np.abs(np.median(residuals, axis=0)) > 3.0).sum()),
        of_spread=off / float(values.std()) if has_course(values, cells) else math.nan,
        fitted=fitted,
    )


def has_course(values: FloatArray, cells: Sequence[tuple[str, str, float]]) -> bool:
    """Return True if neighbouring values differ by less than others, as independent ones do not.

    The mean squared difference of neighbours over twice the variance, von Neumann's ratio, is 1 for
    independent values, and near 0 for a smooth course, or for different means of replicates.
    Neighbours are of one experiment, in the order of time, unless there are too few of them.
    """
    if len(values) < 2 or not np.ptp(values) > 0.0:
        return False
    experiments = [experiment for experiment, _, _ in cells]
    first = {name: i for i, name in reversed(list(enumerate(experiments)))}
    place = np.array([first[name] for name in experiments])
    order: IntArray = np.lexsort((np.array([time for _, _, time in cells]), place))
    steps, within = np.diff(values[order]), np.diff(place[order]) == 0
    steps = steps[within] if within.sum() >= _PAIRS else steps
    pairs = len(steps)
    ratio = float(np.mean(steps**2)) / (2.0 * float(values.var(ddof=1)))
    return ratio < 1.0 - _SURE * math.sqrt((pairs - 1) / (pairs * (pairs + 2)))
