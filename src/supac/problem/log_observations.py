"""Positive measurements of several columns, compared by their logarithms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supac.arrays import FloatArray
from supac.codec import register
from supac.problem.composite import Observations

SMALL = 1e-8
"""Outputs far below it count as zero."""
_ROWS = 8


class DrawnObservations(Observations):
    """Measurements of unknown noise, to be drawn beside simulations."""

    noise_known = False


@register
@dataclass(frozen=True, eq=False)
class LogObservations:
    """Logarithms of the measurements, row after row, NaN where nothing was measured.

    A simulation returns as many outputs in the same order. Residuals are softly capped.
    """

    columns: tuple[str, ...]
    log_observed: FloatArray
    """(rows · columns,)."""
    times: FloatArray
    """(rows,)."""
    units: tuple[str, ...]
    time_label: str = "day"

    def __post_init__(self) -> None:
        for name in ("columns", "units"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name in ("log_observed", "times"):
            object.__setattr__(self, name, np.array(getattr(self, name), dtype=np.float64))

    def __repr__(self) -> str:
        return f"LogObservations({self.measured} numbers)"

    @property
    def measured(self) -> int:
        """Number of measurements."""
        return int(np.isfinite(self.log_observed).sum())

    def series(self, residuals: FloatArray) -> list[FloatArray]:
        """Divide residuals (measured,) into those of each column, row after row."""
        places = np.full(self.log_observed.size, np.nan)
        places[np.isfinite(self.log_observed)] = residuals
        every = places.reshape(-1, len(self.columns)).T
        return [column[np.isfinite(column)] for column in every]

    @property
    def blocks_of_measured(self) -> FloatArray:
        """Rows of the measurements: those of one row are not independent: (measured,)."""
        rows = np.arange(self.log_observed.size) // len(self.columns)
        return rows[np.isfinite(self.log_observed)].astype(np.float64)

    def residuals(self, outputs: FloatArray) -> FloatArray:
        """Compute softly capped log-residuals of the observations; NaN for a failed run."""
        seen = np.flatnonzero(~np.isnan(self.log_observed))
        found = np.empty((len(outputs), len(seen)))
        # Few rows at a time stay in the processor's cache.
        for first in range(0, len(outputs), _ROWS):
            rows = slice(first, first + _ROWS)
            failed = ~np.isfinite(outputs[rows]).all(axis=1)
            predicted = np.log(np.maximum(outputs[rows].take(seen, axis=1), 0.0) + SMALL)
            residual = predicted - self.log_observed[seen]
            found[rows] = np.sign(residual) * soft_cap(residual)
            found[rows][failed] = np.nan
        return found

    def table(self, outputs: FloatArray | None) -> tuple[Observations, FloatArray | None]:
        """Return the measurements column after column, without noise, and so the outputs."""
        width = len(self.columns)
        observed = np.exp(self.log_observed.reshape(-1, width).T.ravel()) - SMALL
        seen = DrawnObservations(
            self.columns,
            observed,
            np.full(len(observed), np.nan),
            times=self.times,
            units=self.units,
            time_label=self.time_label,
        )
        if outputs is None:
            return seen, None
        rows = outputs.reshape(len(outputs), -1, width)
        return seen, rows.transpose(0, 2, 1).reshape(len(outputs), -1)


def soft_cap(residual: FloatArray, cap: float = 3.0, elbow: float = 2.0) -> FloatArray:
    """Compute a smooth function that is |residual| for small and `cap` for large residuals."""
    scale = (1.0 + np.exp(-elbow * cap)) / elbow
    # Twice as fast as logaddexp; elbow * cap cannot overflow.
    rise = np.log1p(np.exp(elbow * cap)) - np.log1p(np.exp(elbow * (cap - np.abs(residual))))
    return scale * rise
