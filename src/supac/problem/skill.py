"""Measures of fit that do not depend on the noise: Nash–Sutcliffe, Kling–Gupta, bias and others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supac.arrays import FloatArray

_ROUNDING = 1e-12  # share of the largest measurement below which their mean is 0


@dataclass(frozen=True, eq=False)
class Skill:
    """Agreement of simulations (n, m) with measurements (m,): (n,) each, NaN if not defined.

    Simulated values are s, measured ones y.
    """

    nse: FloatArray
    """Nash–Sutcliffe efficiency, 1 − Σ(s − y)²/Σ(y − ȳ)²: 1 for a perfect fit, and below 0 where
    the mean of the measurements would be a better model."""
    kge: FloatArray
    """Kling–Gupta efficiency, 1 − √((r − 1)² + (sd s/sd y − 1)² + (s̄/ȳ − 1)²): 1 is perfect."""
    r2: FloatArray
    """Squared correlation of simulated and measured values."""
    pbias: FloatArray
    """100·Σ(s − y)/Σy, in per cent: above 0 where too much is simulated."""
    rmse: FloatArray
    """Root mean square of s − y, in the unit of the column."""

    @classmethod
    def of(cls, simulated: FloatArray, measured: FloatArray) -> Skill:
        """Compare simulations, (n, m) or (m,), with measurements (m,), NaN where there are none."""
        y = np.asarray(measured, dtype=np.float64)
        s = np.atleast_2d(np.asarray(simulated, dtype=np.float64))
        if y.ndim != 1 or s.ndim != 2 or s.shape[1] != len(y):
            raise ValueError(
                f"simulated must be (n, {y.size}) as the measurements are, not of shape {s.shape}"
            )
        seen = np.isfinite(y)
        y, s = y[seen], s[:, seen]
        if not len(y):
            raise ValueError("measured must hold at least one number, but all are NaN")
        off, mean = s - y, float(y.mean())
        with np.errstate(all="ignore"):
            around, spread = y - mean, s - s.mean(axis=1, keepdims=True)
            total, own = float(around @ around), np.einsum("ij,ij->i", spread, spread)
            total = total if total > 0.0 else np.nan
            square = np.einsum("ij,ij->i", off, off)
            r = spread @ around / np.sqrt(np.where(own > 0.0, own, np.nan) * total)
            ratio = np.sqrt(own / total)
            kge = 1.0 - np.sqrt(
                (r - 1.0) ** 2 + (ratio - 1.0) ** 2 + (off.mean(axis=1) / mean) ** 2
            )
            bias = 100.0 * off.sum(axis=1) / (len(y) * mean)
        flat = abs(mean) <= _ROUNDING * float(np.abs(y).max())
        return cls(
            nse=1.0 - square / total,
            kge=np.full(len(s), np.nan) if flat else kge,
            r2=r**2,
            pbias=np.full(len(s), np.nan) if flat else bias,
            rmse=np.sqrt(square / len(y)),
        )
