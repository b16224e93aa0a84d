"""Bands of predicted outputs: of simulations, and of new measurements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

from supac.arrays import BoolArray, FloatArray
from supac.posterior.outputs import Outputs

if TYPE_CHECKING:
    from supac.posterior.discrepant import PredictedDiscrepancy

_HALVINGS = 60  # of an interval that holds a quantile


@dataclass(frozen=True, eq=False)
class PredictedBands:
    """Bands of all outputs; arrays are (m,)."""

    coverage: float
    """Share of the posterior's simulations, or of new measurements, that lie inside."""
    lower: FloatArray
    median: FloatArray
    upper: FloatArray
    """Quantiles of the simulated outputs."""
    measured_lower: FloatArray
    measured_upper: FloatArray
    """Quantiles of new measurements: outputs, with the discrepancy if there is one, plus their
    noise; NaN if not known."""
    corrected_lower: FloatArray
    corrected_median: FloatArray
    corrected_upper: FloatArray
    """Quantiles of simulated outputs plus the discrepancy of the model, without noise; NaN if none
    was calibrated."""

    @property
    def has_discrepancy(self) -> bool:
        """True if there are bands with the discrepancy of the model."""
        return bool(np.isfinite(self.corrected_lower).any())

    def __repr__(self) -> str:
        noisy = " and of measurements" if np.isfinite(self.measured_lower).any() else ""
        both = ", with the discrepancy" if self.has_discrepancy else ""
        of = f"{100.0 * self.coverage:g} % of simulations{both}{noisy}"
        return f"PredictedBands({of}, {len(self.median)} outputs)"


def bands_of(
    table: Outputs,
    outputs: FloatArray,
    x: FloatArray,
    coverage: float,
    noise: FloatArray | None = None,
    discrepancy: PredictedDiscrepancy | None = None,
) -> PredictedBands:
    """Compute the bands of outputs (n, m) at draws x that leave out as much below as above.

    `noise` (n, m) is that of measurements, by default what the table says.
    """
    if not 0.0 < coverage < 1.0:
        raise ValueError(f"coverage must be between 0 and 1, not {coverage!r}")
    ends = 0.5 * (1.0 - coverage), 0.5 * (1.0 + coverage)
    lower, median, upper = np.quantile(outputs, (ends[0], 0.5, ends[1]), axis=0)
    deviations = table.deviations(outputs, x) if noise is None else noise
    logs = table.logarithms
    with np.errstate(invalid="ignore", divide="ignore"):
        centres = np.where(logs, np.log(outputs), outputs)
    laplace = None if table.measured is None else table.measured.laplace
    corrected = [np.full(len(median), np.nan)] * 3
    if discrepancy is not None:
        centres, smooth = centres + discrepancy.mean, discrepancy.deviation
        corrected = [mixture_quantile(centres, smooth, each) for each in (ends[0], 0.5, ends[1])]
        deviations = np.hypot(deviations, smooth)
    measured = [mixture_quantile(centres, deviations, each, laplace) for each in ends]
    with np.errstate(over="ignore", invalid="ignore"):
        found = [np.where(logs, np.exp(each), each) for each in (*measured, *corrected)]
    return PredictedBands(coverage, lower, median, upper, *found)


def mixture_quantile(
    centres: FloatArray, deviations: FloatArray, level: float, laplace: BoolArray | None = None
) -> FloatArray:
    """Solve mean_i F((y − centre_i)/deviation_i) = level for y in each column: (n, m) → (m,).

    F is that of normal noise, or of Laplace noise where `laplace` (m,). By halving an interval that
    holds it; NaN in columns with an unknown centre or deviation.
    """
    known = np.isfinite(centres).all(axis=0) & np.isfinite(deviations).all(axis=0)
    found = np.full(centres.shape[1], np.nan)
    at, spread = centres[:, known], np.maximum(deviations[:, known], 1e-300)
    is_laplace = None if laplace is None or not laplace.any() else laplace[known]
    reach = 9.0 if is_laplace is None else 40.0
    low, high = (at - reach * spread).min(axis=0), (at + reach * spread).max(axis=0)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        away = (middle - at) / spread
        share = ndtr(away)
        if is_laplace is not None:
            tail = 0.5 * np.exp(-np.abs(away))
            share = np.where(is_laplace, np.where(away < 0.0, tail, 1.0 - tail), share)
        below = share.mean(axis=0) < level
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    found[known] = 0.5 * (low + high)
    return found
