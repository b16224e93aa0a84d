"""Measurements in rows, with noise that may be simulated as well, and their likelihood."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from supac.arrays import BoolArray, FloatArray, IntArray, frozen
from supac.codec import register
from supac.problem.data import Observations, told_apart
from supac.problem.losses import ResidualLoss, SquareLoss

_FLOOR = 1e-12  # a simulated value below this share of the measured one has its logarithm
_TAIL = 10.0  # residual, in units of the noise, above which the likelihood has a long tail
UNBOUNDED = (
    "a likelihood has no largest value; a certificate needs a loss that has one, such as Welsch()"
)
_IN_WORDS = "minus the mean log-likelihood of a measurement"
_HALF_LOG_2PI = 0.5 * float(np.log(2.0 * np.pi))


@register(later=("labels",))
@dataclass(frozen=True, eq=False)
class Measurements:
    """Measurements in rows: each of some series, at some time, on its own scale.

    A simulation returns the rows' values, followed by the noise levels that are not known, which
    may depend on parameters: (rows + levels,). All noise is in the scale of its row.
    """

    names: tuple[str, ...]
    """Names of the series."""
    series: IntArray
    """Index of each row's series: (rows,)."""
    times: FloatArray
    """(rows,); infinite for steady states."""
    values: FloatArray
    """(rows,)."""
    noise: FloatArray
    """Known noise levels, NaN for simulated ones: (rows,)."""
    levels: IntArray
    """Index of the simulated noise level, −1 for rows of known noise: (rows,)."""
    log_scale: FloatArray
    """c of rows compared as c·log(value); 0 for rows compared as they are: (rows,)."""
    laplace: BoolArray
    """True for rows with Laplace noise, False for normal noise: (rows,)."""
    labels: tuple[str, ...] | None = None
    """Names of rows without times, whose `times` only count them; None for rows with times."""

    def __post_init__(self) -> None:
        for name in ("series", "levels"):
            object.__setattr__(self, name, np.array(getattr(self, name), dtype=np.intp))
        object.__setattr__(self, "laplace", np.array(self.laplace, dtype=bool))
        for name in ("times", "values", "noise", "log_scale"):
            given = np.array(getattr(self, name), dtype=np.float64)
            object.__setattr__(self, name, frozen(given))
        object.__setattr__(self, "names", tuple(self.names))
        if self.labels is not None:
            object.__setattr__(self, "labels", tuple(self.labels))

    def __repr__(self) -> str:
        return f"Measurements({self.measured} of {', '.join(self.names)})"

    @property
    def measured(self) -> int:
        """Number of measurements."""
        return len(self.values)

    @property
    def simulated_levels(self) -> int:
        """Number of noise levels that are simulated."""
        return int(self.levels.max(initial=-1)) + 1

    @property
    def output_names(self) -> list[str]:
        """Name of each output of a simulation: its row's, such as `A@0.5`, or its noise level's."""
        rows = zip(self.series.tolist(), self.times.tolist(), strict=True)
        names = self.labels or [f"{self.names[series]}@{time:.12g}" for series, time in rows]
        levels = [f"noise level {i + 1}" for i in range(self.simulated_levels)]
        return told_apart([*names, *levels])

    @cached_property
    def _in_scale(self) -> FloatArray:
        return self.scaled(self.values)

    def scaled(self, values: FloatArray) -> FloatArray:
        """Return values of the rows in their scales: (…, rows) → (…, rows)."""
        logarithmic = self.log_scale > 0.0
        with np.errstate(invalid="ignore"):
            positive = np.maximum(values, np.where(logarithmic, _FLOOR * self.values, -np.inf))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(logarithmic, self.log_scale * np.log(positive), values)

    def residuals(self, outputs: FloatArray) -> FloatArray:
        """Compute what the loss takes: (n, rows + levels) → (n, rows + levels).

        Differences from the measurements, divided by known noise; and logarithms of noise levels.
        """
        wanted = self.measured + self.simulated_levels
        if outputs.shape[-1] != wanted:
            raise ValueError(f"the simulator returned {outputs.shape[-1]} numbers, not {wanted}")
        differences = self.scaled(outputs[..., : self.measured]) - self._in_scale
        differences = differences / np.where(self.levels < 0, self.noise, 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            if not self._noisy:
                return np.sign(differences) * with_long_tail(np.log(np.abs(differences)))
            levels = np.log(outputs[..., self.measured :])
        return np.concatenate([differences, levels], axis=-1)

    def slopes(self, outputs: FloatArray) -> FloatArray:
        """Compute the derivative of each residual in its output: (n, rows + levels)."""
        values = outputs[:, : self.measured]
        logarithmic, known = self.log_scale > 0.0, np.where(self.levels < 0, self.noise, 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = np.where(values > _FLOOR * self.values, self.log_scale / values, 0.0)
            rise = np.where(logarithmic, relative, 1.0) / known
            if self._noisy:
                return np.concatenate([rise, 1.0 / outputs[:, self.measured :]], axis=1)
            size = np.abs(self.scaled(values) - self._in_scale) / known
            slower = _TAIL**2 / (size * with_long_tail(np.log(size)))
        return np.asarray(rise * np.where(size > _TAIL, slower, 1.0))

    def tangents(self, outputs: FloatArray, changes: FloatArray) -> FloatArray:
        """Compute how residuals change with the outputs (m,): (n, m) → (n, m)."""
        return np.asarray(changes * self.slopes(outputs[None]))

    @property
    def _noisy(self) -> bool:
        """Return False if the loss is that of squares."""
        return bool(self.simulated_levels or self.laplace.any())

    @property
    def loss(self) -> ResidualLoss:
        """Minus the mean log-likelihood of a measurement, as a loss of the residuals."""
        known = np.log(np.where(self.levels < 0, self.noise, 1.0))
        ends = np.where(self.laplace, np.log(2.0), _HALF_LOG_2PI)
        factor = np.where(self.log_scale > 0.0, self.log_scale, 1.0)
        size = np.where(self.log_scale > 0.0, self.values, 1.0)
        constant = float(np.mean(known + ends + np.log(size / factor)))
        if not self._noisy:
            return NormalLikelihood(constant)
        return NoisyLikelihood(constant, tuple(self.levels.tolist()), tuple(self.laplace.tolist()))

    def table(self, outputs: FloatArray | None) -> tuple[Observations, FloatArray | None]:
        """Return the measurements as columns, a row for each time or label, and so the outputs.

        Simulated noise is the median of the outputs, and 1 without any. What was measured on a
        logarithmic scale has the noise of its unit.
        """
        noise = np.where(self.levels < 0, self.noise, 1.0)
        if outputs is not None and self.simulated_levels:
            usual = np.median(outputs[:, self.measured :], axis=0)
            noise = np.where(self.levels < 0, noise, usual[self.levels])
        linear = self.log_scale == 0.0
        noise = np.where(linear, noise, noise * self.values / np.where(linear, 1.0, self.log_scale))
        places, times = self._places()
        shape = len(self.names) * len(times)
        values, levels = np.full(shape, np.nan), np.ones(shape)
        values[places], levels[places] = self.values, noise
        finite = times[np.isfinite(times)]
        shown = np.where(np.isfinite(times), times, 1.1 * finite.max(initial=1.0))
        clock = None if self.labels else shown
        seen = Observations(self.names, values, levels, times=clock)
        if outputs is None:
            return seen, None
        drawn = np.full((len(outputs), shape), np.nan)
        drawn[:, places] = outputs[:, : self.measured]
        return seen, drawn

    def _places(self) -> tuple[IntArray, FloatArray]:
        """Return the place of each row in such a table, and the times of its rows.

        Measurements of one series that were repeated at a time have rows of their own.
        """
        count: dict[tuple[int, float], int] = {}
        repeats = []
        for key in zip(self.series.tolist(), self.times.tolist(), strict=True):
            repeats.append(count.get(key, 0))
            count[key] = repeats[-1] + 1
        keys = list(zip(self.times.tolist(), repeats, strict=True))
        rows = {key: row for row, key in enumerate(sorted(set(keys)))}
        place = np.array([rows[key] for key in keys], dtype=np.intp)
        return self.series * len(rows) + place, np.array([time for time, _ in rows])


@register
@dataclass(frozen=True)
class NormalLikelihood(SquareLoss):
    """Minus the mean log-likelihood of normal measurements of known noise: ½ mean r² + constant."""

    unbounded = UNBOUNDED
    in_words = _IN_WORDS
    constant: float

    def of_mean_square(self, mean_square: FloatArray) -> FloatArray:
        """(n,) → (n,)."""
        return 0.5 * mean_square + self.constant

    def slopes(self, residuals: FloatArray) -> FloatArray:
        """Compute the derivative in each residual: (n, m) → (n, m)."""
        return residuals / residuals.shape[1]


@register
@dataclass(frozen=True)
class NoisyLikelihood(ResidualLoss):
    """Minus the mean log-likelihood of measurements, some of them of simulated noise.

    Of a row with difference r and noise level s it is ½(r/s)² + log s, or |r|/s + log s for Laplace
    noise; and a constant.
    """

    unbounded = UNBOUNDED
    in_words = f"{_IN_WORDS}, with noise that depends on parameters"
    constant: float
    levels: tuple[int, ...]
    """Index of each row's noise level, −1 where the difference is in units of the noise."""
    laplace: tuple[bool, ...]

    def __repr__(self) -> str:
        count = len(set(self.levels) - {-1})
        return f"NoisyLikelihood({len(self.levels)} measurements, {count} simulated noise levels)"

    @cached_property
    def _arrays(self) -> tuple[IntArray, BoolArray]:
        return np.array(self.levels, dtype=np.intp), np.array(self.laplace)

    def _log_ratio(self, residuals: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log(|r|/s) and log s of each row, both (n, rows)."""
        levels, _ = self._arrays
        rows = len(levels)
        # Level −1 is the last column: noise of 1.
        logs = np.concatenate([residuals[:, rows:], np.zeros((len(residuals), 1))], axis=1)
        log_noise = logs[:, levels]
        with np.errstate(divide="ignore"):
            return np.log(np.abs(residuals[:, :rows])) - log_noise, log_noise

    def __call__(self, residuals: FloatArray) -> FloatArray:
        """(n, rows + levels) → (n,)."""
        log_ratio, log_noise = self._log_ratio(residuals)
        ratio = with_long_tail(log_ratio)
        misfit = np.where(self._arrays[1], ratio, 0.5 * ratio**2)
        return np.asarray((misfit + log_noise).mean(axis=1) + self.constant)

    def slopes(self, residuals: FloatArray) -> FloatArray:
        """Compute the derivative in each residual: (n, rows + levels) → (n, rows + levels)."""
        levels, laplace = self._arrays
        rows = len(levels)
        log_ratio, _ = self._log_ratio(residuals)
        # Of the misfit in log(r/s): r² or r up to the limit c, then c² or c²/ratio.
        rise = np.exp(2.0 * np.minimum(log_ratio, np.log(_TAIL)))
        ratio = with_long_tail(log_ratio)
        rise = np.where(laplace, rise / np.maximum(ratio, 1e-300), rise)
        differences = residuals[:, :rows]
        in_rows = rise / np.where(differences == 0.0, np.inf, differences)
        in_levels = [(1.0 - rise[:, levels == k]).sum(axis=1) for k in range(max(levels) + 1)]
        return np.asarray(np.column_stack([in_rows, *in_levels]) / rows)


def with_long_tail(log_ratio: FloatArray) -> FloatArray:
    """Return the ratio r up to a limit c, and c·√(1 + 2·log(r/c)) above it.

    So half its square grows like a logarithm, smoothly. A fit that is off by so many times the
    noise is as impossible as one that is off by more; but only from numbers of a bearable size can
    be learnt where fits are better.
    """
    excess = np.maximum(log_ratio - np.log(_TAIL), 0.0)
    return np.exp(np.minimum(log_ratio, np.log(_TAIL))) * np.sqrt(1.0 + 2.0 * excess)
