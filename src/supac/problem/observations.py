"""Measurements, and the residuals of simulated outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from supac.arrays import BoolArray, FloatArray, frozen
from supac.codec import register


class Data(Protocol):
    """Measurements that simulated outputs are compared with."""

    def residuals(self, outputs: FloatArray) -> FloatArray:
        """Compute the arguments of the loss: (n, m) → (n, k)."""


@register
@dataclass(frozen=True, eq=False)
class Observations:
    """Measured columns, one after the other; NaN for missing measurements.

    A simulation returns as many outputs in the same order; its residuals are the differences from
    the measurements, divided by the noise.
    """

    columns: tuple[str, ...]
    values: FloatArray
    """(rows · columns,)."""
    noise: FloatArray
    """(rows · columns,); one number stands for as many equal ones."""
    logarithmic: bool = False
    times: FloatArray | None = None
    """(rows,)."""

    def __post_init__(self) -> None:
        given: Any = self.columns
        names = (given,) if isinstance(given, str) else tuple(given)
        values = np.array(self.values, dtype=np.float64)
        if values.ndim != 1 or not names or len(values) % len(names) or not values.size:
            raise ValueError(
                "values must be one vector, as many numbers for each column, column after column, "
                f"not an array of shape {values.shape} for {', '.join(names)}"
            )
        noise = np.array(self.noise, dtype=np.float64)
        noise = np.full(len(values), noise) if noise.ndim == 0 else noise
        if noise.shape != values.shape or not (noise[np.isfinite(values)] > 0.0).all():
            raise ValueError("noise must be a positive number, or one for each of the values")
        times = None if self.times is None else np.array(self.times, dtype=np.float64)
        if times is not None and times.shape != (len(values) // len(names),):
            raise ValueError(f"times must hold one number a row, not shape {times.shape}")
        made = {"columns": names, "values": frozen(values), "noise": frozen(noise)}
        for name, value in {**made, "times": None if times is None else frozen(times)}.items():
            object.__setattr__(self, name, value)

    @property
    def rows(self) -> int:
        """Number of rows of the table."""
        return len(self.values) // len(self.columns)

    @property
    def needed(self) -> BoolArray:
        """True for outputs that have a measurement: (rows · columns,)."""
        return np.isfinite(self.values)

    @property
    def measured(self) -> int:
        """Number of measurements."""
        return int(self.needed.sum())

    def flat(self, outputs: Any) -> FloatArray:
        """Convert {column: values}, (rows, columns) or a vector to a vector."""
        if isinstance(outputs, Mapping):
            missing = [name for name in self.columns if name not in outputs]
            if missing:
                raise ValueError(
                    f"the simulator returned {', '.join(map(str, outputs)) or 'nothing'}, but not "
                    f"{', '.join(missing)}, which the data have"
                )
            parts = [np.atleast_1d(np.asarray(outputs[name], float)) for name in self.columns]
            for name, part in zip(self.columns, parts, strict=True):
                if part.shape != (self.rows,):
                    raise ValueError(
                        f"the simulator returned {part.size} numbers for {name}, but the data have "
                        f"{self.rows} rows"
                    )
            return np.concatenate(parts)
        values = np.asarray(outputs, dtype=np.float64)
        if values.ndim == 2 and values.shape == (self.rows, len(self.columns)):
            values = values.T.ravel()
        if values.shape != self.values.shape:
            raise ValueError(self._unfit(values))
        return values

    def _unfit(self, outputs: FloatArray) -> str:
        return (
            f"the simulator returned {_shape(outputs)}, but the data are {self.rows} rows of "
            f"{', '.join(self.columns)}: return {len(self.values)} numbers, column after column"
        )

    def residuals(self, outputs: FloatArray) -> FloatArray:
        """Compute residuals: (…, rows · columns) → (…, measured)."""
        if outputs.shape[-1:] != self.values.shape:
            raise ValueError(self._unfit(outputs))
        seen = self.needed
        simulated, observed = outputs[..., seen], self.values[seen]
        if not self.logarithmic:
            return (simulated - observed) / self.noise[seen]
        if (simulated <= 0.0).any():
            raise ValueError('compare = "log" needs positive outputs, but some are not')
        return np.log(simulated / observed) / self.noise[seen]

    def outputs(self, residuals: FloatArray) -> FloatArray:
        """Compute outputs from residuals; NaN for missing measurements."""
        seen = self.needed
        simulated = np.full((*residuals.shape[:-1], len(self.values)), np.nan)
        shift = self.noise[seen] * residuals
        measured = self.values[seen]
        simulated[..., seen] = measured * np.exp(shift) if self.logarithmic else measured + shift
        return simulated


def _shape(values: FloatArray) -> str:
    if values.ndim == 0:
        return "one number"
    return f"{len(values)} numbers" if values.ndim == 1 else f"an array of shape {values.shape}"
