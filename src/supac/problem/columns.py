"""Scales, offsets and noise levels of observed columns, as parameters that need no run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from supac.arrays import FloatArray, IntArray, frozen
from supac.codec import register
from supac.problem.correlated import CorrelatedErrors, Discrepancy, Spread
from supac.problem.data import Observations
from supac.problem.likelihood import UNBOUNDED
from supac.problem.losses import SquareLoss, as_residual_loss, reason_of_no_ceiling
from supac.problem.observation import loss_of_outputs

_DEPENDENT = (
    "with errors that depend on each other, n measurements are not n independent data, and their "
    "likelihood has no largest value; a certificate needs a loss that has one, such as Welsch(), "
    "and blocks of data that are independent of each other"
)


@register
@dataclass(frozen=True, eq=False)
class ObservedCells:
    """Scales, offsets and noise levels of outputs, among the last `count` parameters.

    Each is the place of a parameter among these, −1 for none: (outputs,).
    """

    count: int
    scales: IntArray
    offsets: IntArray
    levels: IntArray

    def __post_init__(self) -> None:
        for name in ("scales", "offsets", "levels"):
            object.__setattr__(self, name, np.array(getattr(self, name), dtype=np.intp))

    def at(self, places: IntArray) -> ObservedCells:
        """Return those of some outputs."""
        return ObservedCells(
            self.count, self.scales[places], self.offsets[places], self.levels[places]
        )

    def scale(self, x: FloatArray) -> FloatArray:
        """Return the scales at points (n, dim) in the user's units: (n, outputs)."""
        return _with(x[:, -self.count :], 1.0)[:, self.scales]

    def level(self, x: FloatArray) -> FloatArray:
        """Return the noise levels at points (n, dim), 1 for none: (n, outputs)."""
        return _with(x[:, -self.count :], 1.0)[:, self.levels]

    def outputs(self, simulated: FloatArray, x: FloatArray) -> FloatArray:
        """Return scale · simulated + offset of outputs at points (n, dim): (n, outputs)."""
        offset = _with(x[:, -self.count :], 0.0)[:, self.offsets]
        return np.asarray(self.scale(x) * simulated + offset)


@register
class Likelihood(SquareLoss, kind="likelihood"):
    """Half the mean of the squared residuals, and the mean logarithm of noise that is a parameter.

    Up to a constant, minus the mean log-likelihood of normal measurements.
    """

    unbounded = UNBOUNDED

    def of_mean_square(self, mean_square: FloatArray) -> FloatArray:
        """(n,) → (n,)."""
        return 0.5 * mean_square

    def slopes(self, residuals: FloatArray) -> FloatArray:
        """Compute the derivative in each residual: (n, m) → (n, m)."""
        return residuals / residuals.shape[1]


@register(later=("errors", "kept"))
@dataclass(frozen=True, eq=False)
class ColumnLoss:
    """A loss of the residuals of scale · simulated + offset, some of the noise σ.

    It takes residuals of what was simulated, r = (s − y)/noise, and the observation parameters z,
    by the place of a measurement's own, −1 for none: scale a, offset b and noise level σ, where
    `noise` is 1. Then the residual is (a·s + b − y)/(noise·σ), or log(a·s/y)/(noise·σ) for
    logarithms.
    """

    loss: Callable[[FloatArray], Any]
    scales: IntArray
    """Of each cell of the data, as are all that follow: (rows · columns,)."""
    offsets: IntArray
    levels: IntArray
    values: FloatArray
    """y, NaN for missing measurements."""
    noise: FloatArray
    logarithmic: bool = False
    errors: CorrelatedErrors | None = None
    """Errors that are correlated in time, for a likelihood; by default they are independent."""
    kept: FloatArray | None = None
    """1 for measurements that count, 0 for those that are taken for exact; None if all count."""

    def __post_init__(self) -> None:
        if self.errors is not None and not self.is_likelihood:
            raise ValueError(f"errors need a likelihood as loss, not {self.loss!r}")
        for name in ("scales", "offsets", "levels"):
            object.__setattr__(self, name, np.array(getattr(self, name), dtype=np.intp))
        for name in ("values", "noise"):
            given = np.array(getattr(self, name), dtype=np.float64)
            object.__setattr__(self, name, frozen(given))

    @property
    def discrepancy(self) -> Discrepancy | None:
        """The discrepancy of the model, if the errors are one."""
        return self.errors if isinstance(self.errors, Discrepancy) else None

    @property
    def is_likelihood(self) -> bool:
        """True for a likelihood."""
        return isinstance(self.loss, Likelihood)

    def for_data(self, data: Observations) -> ColumnLoss:
        """Return the loss of other measurements of the same cells."""
        return replace(self, values=data.values, noise=data.noise)

    def cells(self, count: int) -> ObservedCells:
        """Return the places of the observation parameters, of which there are `count`."""
        return ObservedCells(count, self.scales, self.offsets, self.levels)

    @cached_property
    def measured(self) -> ColumnLoss:
        """Return the loss of the measured cells alone."""
        seen = np.isfinite(self.values)
        names = ("scales", "offsets", "levels", "values", "noise")
        some: dict[str, Any] = {name: getattr(self, name)[seen] for name in names}
        errors = None if self.errors is None else self.errors.at(seen)
        return replace(self, **some, errors=errors)

    @cached_property
    def places(self) -> dict[str, IntArray]:
        """Places of all parameters of each cell, by their role."""
        own = {"scales": self.scales, "offsets": self.offsets, "levels": self.levels}
        return own if self.errors is None else own | self.errors.places

    @cached_property
    def series(self) -> list[IntArray]:
        """Cells that share their series and all parameters, in the order of time if they have."""
        errors, one = self.errors, np.zeros(len(self.values), dtype=np.intp)
        columns = np.column_stack([one if errors is None else errors.series, *self.places.values()])
        keys, place = np.unique(columns, axis=0, return_inverse=True)
        parts = [np.flatnonzero(place.ravel() == i) for i in range(len(keys))]
        return parts if errors is None else [errors.in_time(cells) for cells in parts]

    @cached_property
    def is_reducible(self) -> bool:
        """True for a likelihood of measured cells whose parameters are the same in a series."""
        if self.kept is not None or not self.is_likelihood or self.errors is None:
            return self.is_likelihood and self.kept is None
        errors = self.errors
        several = len({int(errors.series[cells[0]]) for cells in self.series}) < len(self.series)
        return not several and all(errors.is_reducible(cells) for cells in self.series)

    def __repr__(self) -> str:
        return f"{self.loss!r} of columns with scales, offsets or noise levels"

    @property
    def unbounded(self) -> str:
        """Return why there is no certificate, if the loss can have no ceiling."""
        return reason_of_no_ceiling(self.loss) if self.errors is None else _DEPENDENT

    def residuals(self, simulated: FloatArray, z: FloatArray) -> FloatArray:
        """Return residuals of the observed values from those of the simulated ones: (n, m)."""
        own, every = self.measured, _with(z, 1.0)
        scale, level = every[:, own.scales], every[:, own.levels]
        if self.logarithmic:
            return np.asarray((simulated + np.log(scale) / own.noise) / level)
        offset = _with(z, 0.0)[:, own.offsets]
        shift = ((scale - 1.0) * own.values + offset) / own.noise
        return np.asarray((scale * simulated + shift) / level)

    def __call__(self, simulated: FloatArray, z: FloatArray) -> FloatArray:
        """(n, m) and (n, parameters) → (n,)."""
        with np.errstate(all="ignore"):
            residuals, errors = self._counted(self.residuals(simulated, z)), self.measured.errors
            if errors is not None:
                return errors.value(residuals, self._spread(z), z) + self._log_noise(z)
            risk = np.asarray(self.loss(residuals))
            return risk + self._log_noise(z) if self.is_likelihood else risk

    def _counted(self, of_each: FloatArray) -> FloatArray:
        """Return numbers of the measurements, (n, m), 0 for those that do not count."""
        return of_each if self.kept is None else of_each * self.kept

    def _spread(self, z: FloatArray) -> Spread:
        """Return the standard error of each measurement."""
        own = self.measured
        return Spread(own.noise, _with(z, 1.0)[:, own.levels])

    def _log_noise(self, z: FloatArray) -> FloatArray:
        levels = np.log(_with(z, 1.0)[:, self.measured.levels])
        return np.asarray(self._counted(levels).mean(axis=1))

    def each(self, simulated: FloatArray, z: FloatArray) -> FloatArray | None:
        """Compute the loss of each datum, of which the loss is the mean: (n, m)."""
        loss = as_residual_loss(self.loss)
        return None if loss is None else loss.each(self.residuals(simulated, z))

    def slopes(self, simulated: FloatArray, z: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """Compute the derivatives in residuals of what was simulated, and in z."""
        loss = as_residual_loss(self.loss)
        if loss is None:
            return None
        residuals = self._counted(self.residuals(simulated, z))
        own, every = self.measured, _with(z, 1.0)
        scale, level = every[:, own.scales], every[:, own.levels]
        further = None
        if own.errors is not None:
            further = own.errors.slopes(residuals, self._spread(z), z)
        slopes = loss.slopes(residuals) if further is None else further.by_residual
        if slopes is None:
            return None
        by_value = slopes / level  # of the residual, in units of the known noise
        by_level = -slopes * residuals / level
        if self.is_likelihood:
            by_level = by_level + self._counted(1.0 / level) / residuals.shape[1]
        if further is not None:
            by_level = by_level + further.by_level
        if self.logarithmic:
            by_simulated, by_scale = by_value, by_value / own.noise / scale
        else:
            by_simulated = by_value * scale
            by_scale = by_value * (simulated + own.values / own.noise)
        by_z = np.zeros(z.shape) if further is None else further.by_z.copy()
        parts = ((own.scales, by_scale), (own.offsets, by_value / own.noise))
        for places, by_own in (*parts, (own.levels, by_level)):
            by_z += by_own @ (places[:, None] == np.arange(z.shape[1]))
        return by_simulated, by_z

    def table(self, data: Observations, outputs: FloatArray) -> tuple[Observations, FloatArray]:
        """Return data and outputs (n, cells + parameters) as observed, for figures.

        Noise that is a parameter is the median of the outputs.
        """
        simulated, z = outputs[:, : len(data.values)], outputs[:, len(data.values) :]
        usual = _with(np.median(z, axis=0)[None], 1.0)[0, self.levels]
        levels = _with(z, 1.0)[:, self.measured.levels]
        residuals = self.residuals(data.residuals(simulated), z) * levels
        return replace(data, noise=data.noise * usual), data.outputs(residuals)


def as_column_loss(loss: object) -> ColumnLoss | None:
    """Return the loss that knows scales, offsets and noise levels of columns; None if none does."""
    own = loss_of_outputs(loss)
    return own if isinstance(own, ColumnLoss) else None


def _with(z: FloatArray, last: float) -> FloatArray:
    """Return z with one more column, which place −1 is."""
    return np.concatenate([z, np.full((len(z), 1), last)], axis=1)
