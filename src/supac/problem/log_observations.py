"""Positive measurements of several columns, compared by their logarithms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supac.arrays import FloatArray
from supac.codec import register
from supac.problem.data import Observations

SMALL = 1e-8
"""Outputs far below it count as zero."""
_ROWS = 16


class DrawnObservations(Observations):
    """Measurements of unknown noise, to be drawn beside simulations."""

    noise_known = False


@register(later=("noise",))
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
    noise: tuple[float, ...] | None = None
    """Relative standard error of each column, by which misfits are told; no loss depends on it."""

    def __post_init__(self) -> None:
        for name in ("columns", "units"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.noise is not None:
            noise = tuple(float(each) for each in self.noise)
            if len(noise) != len(self.columns) or not all(0.0 < each < np.inf for each in noise):
                raise ValueError(
                    f"noise must be a positive number for each of {', '.join(self.columns)}, not "
                    f"{self.noise!r}"
                )
            object.__setattr__(self, "noise", noise)
        for name in ("log_observed", "times"):
            object.__setattr__(self, name, np.array(getattr(self, name), dtype=np.float64))

    def __repr__(self) -> str:
        return f"LogObservations({self.measured} numbers)"

    @property
    def measured(self) -> int:
        """Number of measurements."""
        return int(np.isfinite(self.log_observed).sum())

    @property
    def noise_known(self) -> bool:
        """True if misfits can be told in units of the noise."""
        return self.noise is not None

    def noises(self, count: float) -> FloatArray:
        """Return the residuals of data that are all so many noises off: (measured,)."""
        assert self.noise is not None
        every = np.tile(self.noise, len(self.times))[np.isfinite(self.log_observed)]
        return soft_cap(count * every)

    def in_units(self, count: float) -> dict[str, float]:
        """Convert a number of noises to the relative error of each column that was measured."""
        assert self.noise is not None
        seen = np.isfinite(self.log_observed).reshape(-1, len(self.columns))
        return {
            f"{name} (relative)": float(np.expm1(count * noise))
            for i, (name, noise) in enumerate(zip(self.columns, self.noise, strict=True))
            if seen[:, i].any()
        }

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
        found, observed = np.empty((len(outputs), len(seen))), self.log_observed[seen]
        # Few rows at a time stay in the processor's cache.
        for first in range(0, len(outputs), _ROWS):
            rows = slice(first, first + _ROWS)
            failed = ~np.isfinite(outputs[rows]).all(axis=1)
            residual = np.maximum(outputs[rows].take(seen, axis=1), 0.0)
            np.log(np.add(residual, SMALL, out=residual), out=residual)
            residual -= observed
            np.copysign(soft_cap(residual), residual, out=found[rows])
            found[rows][failed] = np.nan
        return found

    def table(self, outputs: FloatArray | None) -> tuple[Observations, FloatArray | None]:
        """Return the measurements column after column, and so the outputs.

        Where the noise is known, what is not positive becomes tiny: it has no logarithm.
        """
        width, least = len(self.columns), SMALL if self.noise_known else -np.inf
        observed = np.exp(self.log_observed.reshape(-1, width).T.ravel()) - SMALL
        unknown = np.full(width, np.nan)
        seen = (Observations if self.noise_known else DrawnObservations)(
            self.columns,
            np.maximum(observed, least),
            np.repeat(unknown if self.noise is None else self.noise, len(self.times)),
            logarithmic=self.noise_known,
            times=self.times,
            units=self.units,
            time_label=self.time_label,
        )
        if outputs is None:
            return seen, None
        rows = np.maximum(outputs, least).reshape(len(outputs), -1, width)
        return seen, rows.transpose(0, 2, 1).reshape(len(outputs), -1)


def soft_cap(residual: FloatArray, cap: float = 3.0, elbow: float = 2.0) -> FloatArray:
    """Compute a smooth function that is |residual| for small and `cap` for large residuals."""
    scale = (1.0 + np.exp(-elbow * cap)) / elbow
    # Twice as fast as logaddexp; elbow * cap cannot overflow.
    rise = np.abs(residual)
    np.exp(np.multiply(np.subtract(cap, rise, out=rise), elbow, out=rise), out=rise)
    np.subtract(np.log1p(np.exp(elbow * cap)), np.log1p(rise, out=rise), out=rise)
    return np.multiply(rise, scale, out=rise)
