"""Measured values of simulated outputs, and their noise, where rows have formulas of their own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supac.arrays import BoolArray, FloatArray
from supac.codec import register
from supac.problem.combined import CombinedMeasurements
from supac.problem.likelihood import Measurements


@register
@dataclass(frozen=True, eq=False)
class MeasuredOutputs:
    """Measured values that follow from simulated outputs (n, m) at points x (n, dim).

    Points are in the user's units; the last of their parameters are those of observables and noise.
    """

    data: Measurements | CombinedMeasurements

    @classmethod
    def of(cls, data: object) -> MeasuredOutputs | None:
        """Return those of data in rows; None for other data."""
        return cls(data) if isinstance(data, Measurements | CombinedMeasurements) else None

    @property
    def rows(self) -> Measurements:
        """The measurements that values and noise levels belong to."""
        return self.data if isinstance(self.data, Measurements) else self.data.measurements

    @property
    def names(self) -> tuple[str, ...]:
        """Name of each measured value, such as `A@0.5`: (rows,)."""
        return tuple(self.rows.output_names[: self.rows.measured])

    @property
    def cells(self) -> list[tuple[str, float | None]]:
        """Series and time of each measured value, or its name and None without times: (rows,)."""
        rows = self.rows
        if rows.labels is not None:
            return [(name, None) for name in self.names]
        places = zip(rows.series.tolist(), rows.times.tolist(), strict=True)
        return [(rows.names[series], time) for series, time in places]

    @property
    def simulated(self) -> int:
        """Number of outputs that a run returns."""
        return len(self.data.output_names)

    @property
    def logarithmic(self) -> BoolArray:
        """True for values that are compared by their logarithm: (rows,)."""
        return self.rows.log_scale > 0.0

    @property
    def laplace(self) -> BoolArray:
        """True for values with Laplace noise: (rows,)."""
        return self.rows.laplace

    def standard_errors(self, simulated: FloatArray, x: FloatArray) -> FloatArray:
        """Return the standard deviation of the noise, also of Laplace noise: (n, rows)."""
        return self.deviations(simulated, x) * np.where(self.laplace, np.sqrt(2.0), 1.0)

    def place(self, name: str, time: float | None, experiment: str = "") -> int | None:
        """Return the first value of a name or of a series at a time; None if there is none."""
        if time is None and not experiment and name in self.names:
            return self.names.index(name)
        series = f"{name} ({experiment})" if experiment else name
        found = [i for i, (own, _) in enumerate(self.cells) if own == series]
        if time is None:
            return found[0] if len(found) == 1 else None
        near = [i for i in found if np.isclose(self.rows.times[i], time, rtol=1e-9, atol=1e-12)]
        return near[0] if near and self.rows.labels is None else None

    def outputs(self, simulated: FloatArray, x: FloatArray) -> FloatArray:
        """Return the measured values, without noise: (n, rows)."""
        return self._values_and_levels(simulated, x)[:, : self.rows.measured]

    def deviations(self, simulated: FloatArray, x: FloatArray) -> FloatArray:
        """Return the noise of the values, or of their natural logarithms: (n, rows).

        That is the scale of Laplace noise, and the standard deviation of normal noise.
        """
        rows = self.rows
        levels = self._values_and_levels(simulated, x)[:, rows.measured :]
        levels = np.hstack([levels, np.ones((len(levels), 1))])[:, rows.levels]  # −1 is known noise
        noise = np.where(rows.levels < 0, rows.noise, levels)
        return np.asarray(noise / np.where(self.logarithmic, rows.log_scale, 1.0))

    def errors(self, errors: FloatArray, x: FloatArray) -> FloatArray:
        """Return the deviations of the values whose simulated outputs have these: (n, rows)."""
        if isinstance(self.data, Measurements):
            return errors[:, : self.rows.measured]
        return self.data.spread(errors, self._own(x))[:, : self.rows.measured]

    def _values_and_levels(self, simulated: FloatArray, x: FloatArray) -> FloatArray:
        if isinstance(self.data, Measurements):
            return simulated
        return self.data.combine(simulated, self._own(x))

    def _own(self, x: FloatArray) -> FloatArray:
        assert isinstance(self.data, CombinedMeasurements)
        return x[:, x.shape[1] - self.data.observation :]
