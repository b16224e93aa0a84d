"""Inputs of emulators: units and scales of the parameters, principal components of a prior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np

from supac.arrays import BoolArray, FloatArray, frozen
from supac.emulator.tuning import DEFAULT, UnitsTuning
from supac.families import Distribution
from supac.problem.observation import observation_count
from supac.problem.scales import UserScales
from supac.surrogate.estimator import Context
from supac.surrogate.regime import Regime


@dataclass(frozen=True, eq=False)
class Units:
    """Express points as u = (x − centre) @ scale, in prior standard deviations from the mean.

    The parameters of a field, and many parameters that correlate, are expressed by the principal
    components of their prior.
    """

    centre: FloatArray
    scale: FloatArray
    spectrum: FloatArray | None = None
    """Prior variances of the principal components, the largest first; None if u are not these."""

    @classmethod
    def of(
        cls, current: Distribution, context: Context, tuning: UnitsTuning = DEFAULT.units
    ) -> Units:
        """Return the units at `current`."""
        prior = context.prior or current
        covariance = prior.family.moments(prior.theta)[1]
        coupled, observed = current.family.coupled, observation_count(context.loss)
        if observed:
            return cls._apart(current, covariance, coupled, len(covariance) - observed, tuning)
        return cls._within(current.mean, covariance, coupled, tuning)

    @classmethod
    def _apart(
        cls,
        current: Distribution,
        covariance: FloatArray,
        coupled: BoolArray,
        first: int,
        tuning: UnitsTuning,
    ) -> Units:
        """Return units of which the `first` depend on as many parameters alone."""
        rows = slice(first)
        among = covariance[rows, rows], coupled[rows, rows]
        own = cls._within(current.mean[rows], *among, tuning)
        root = np.linalg.cholesky(covariance)
        scale = np.linalg.solve(root, np.eye(len(root))).T
        scale[:first, :first] = own.scale
        return cls(current.mean, scale, own.spectrum)

    @classmethod
    def _within(
        cls, centre: FloatArray, covariance: FloatArray, coupled: BoolArray, tuning: UnitsTuning
    ) -> Units:
        found = principal_components(covariance, coupled, tuning)
        if found is not None:
            values, vectors = found
            deviation = np.sqrt(np.diag(covariance))
            return cls(centre, vectors / deviation[:, None] / np.sqrt(values), values)
        root = np.linalg.cholesky(covariance)
        return cls(centre, np.asarray(np.linalg.solve(root, np.eye(len(root)))).T)

    def __call__(self, x: FloatArray) -> FloatArray:
        """Convert points: (n, dim) → (n, dim)."""
        return (x - self.centre) @ self.scale

    @cached_property
    def _diagonal(self) -> FloatArray | None:
        """Return the diagonal of a scale that is diagonal."""
        diagonal = np.diag(self.scale)
        return diagonal if np.count_nonzero(self.scale) == np.count_nonzero(diagonal) else None

    def forward(self, steps: FloatArray, first: int) -> FloatArray:
        """Convert differences of points to those of the `first` units: (n, dim) → (n, first)."""
        if self._diagonal is not None:
            return steps[:, :first] * self._diagonal[:first]
        return steps @ self.scale[:, :first]

    def back(self, gradients: FloatArray) -> FloatArray:
        """Convert gradients in the first units to those in points: (n, first) → (n, dim)."""
        n, first = gradients.shape
        if self._diagonal is None:
            return gradients @ self.scale[:, :first].T
        found = np.zeros((n, len(self.centre)))
        found[:, :first] = gradients * self._diagonal[:first]
        return found


@dataclass(frozen=True, eq=False)
class Inputs:
    """Express points in units, some parameters on the user's scale instead of the latent one.

    The distance from the centre is taken on these scales.
    """

    units: Units
    candidates: UserScales | None = None
    """Scales that parameters may be on; None if there are none."""
    on_scale: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    """True for the candidates that are used: (k,)."""

    @classmethod
    def of_last_fit(cls, current: Distribution, context: Context, tuning: UnitsTuning) -> Inputs:
        """Return the inputs of the last fit, latent if there is none, around `current`.

        Fields, and many parameters, stay as they are; so do those that the simulator does not take.
        """
        units = Units.of(current, context, tuning)
        scales, simulated = context.user_scales, current.dim - observation_count(context.loss)
        latent = units.spectrum is not None or Regime.of(current.dim).is_many
        if scales is None or latent or not tuning.user_scale:
            return cls(units)
        rows = scales.places < simulated
        if not rows.any():
            return cls(units)
        prior = context.prior or current
        last = None if context.memory is None else context.memory.on_scale
        scales = scales.only(rows).standardised(*prior.family.moments(prior.theta))
        if last is None or len(last) != len(scales.places):
            last = np.zeros(len(scales.places), dtype=bool)
        return cls(units, scales, last)

    def chosen(
        self,
        evidence: Callable[[FloatArray], Callable[[FloatArray], float]],
        x: FloatArray,
        y: FloatArray,
        tuning: UnitsTuning = DEFAULT.units,
    ) -> Inputs:
        """Return the inputs with which numbers y (n, k) at x (n, dim) are likeliest.

        All parameters are on one kind of scale, but for those of which the other kind is clearly
        likelier. `evidence` returns minus the log-evidence at inputs, of which the latest runs are
        enough.
        """
        if self.candidates is None:
            return self
        x, y = x[-tuning.runs :], y[-tuning.runs :]

        def misfit(on_scale: BoolArray) -> float:
            return evidence(replace(self, on_scale=on_scale)(x))(y)

        count = len(self.candidates.places)
        both = [(misfit(each), each) for each in (np.ones(count, bool), np.zeros(count, bool))]
        least, best = min(both, key=lambda each: each[0])
        for i in range(count if count > 1 else 0):
            other = best ^ (np.arange(count) == i)
            found = misfit(other)
            if found < least - tuning.clearly * y.size:
                least, best = found, other
        return replace(self, on_scale=best)

    @property
    def remembered_choice(self) -> BoolArray | None:
        """Return which candidates were chosen; None if there are none."""
        return None if self.candidates is None else self.on_scale

    @cached_property
    def scales(self) -> UserScales | None:
        """Return the scales that parameters are on."""
        if self.candidates is None or not self.on_scale.any():
            return None
        return self.candidates.only(self.on_scale)

    @cached_property
    def _centre(self) -> FloatArray:
        assert self.scales is not None
        return self.scales.see(self.units.centre[None])[0]

    def __call__(self, x: FloatArray) -> FloatArray:
        """Convert points: (n, dim) → (n, dim)."""
        if self.scales is None:
            return self.units(x)
        return (self.scales.see(x) - self._centre) @ self.units.scale

    def slope(self, x: FloatArray) -> FloatArray | None:
        """Compute the slope of each scale at points x, (n, dim); None if all are latent."""
        return None if self.scales is None else self.scales.slope(x)

    def back(self, x: FloatArray, gradients: FloatArray) -> FloatArray:
        """Convert gradients in the first inputs at x to those in x: (n, first) → (n, dim)."""
        found, slope = self.units.back(gradients), self.slope(x)
        return found if slope is None else found * slope


def principal_components(
    covariance: FloatArray, coupled: BoolArray, tuning: UnitsTuning = DEFAULT.units
) -> tuple[FloatArray, FloatArray] | None:
    """Return variances (dim,) and directions (dim, dim) of the components of a correlation.

    Return None where parameters are emulated one by one: they do not correlate, or are few. Many
    parameters that correlate always have components, because their metric is diagonal.
    """
    deviation = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(deviation, deviation)
    if not np.any(np.tril(correlation, -1)):
        return None
    found = _components(correlation.tobytes(), len(correlation))
    field = _is_field(found[0], coupled, tuning)
    return None if Regime.of(len(correlation), field=field) is Regime.FEW else found


def _is_field(values: FloatArray, coupled: BoolArray, tuning: UnitsTuning) -> bool:
    """Return True if few components of a prior count, (Σv)²/Σv² for their variances v.

    The family must know all covariances, and there must be too many parameters to emulate each.
    """
    effective, dim = values.sum() ** 2 / (values**2).sum(), len(values)
    concentrated = dim > tuning.one_by_one and effective < tuning.concentrated * dim
    return bool(concentrated and coupled[~np.eye(dim, dtype=bool)].all())


def leading(spectrum: FloatArray, tuning: UnitsTuning = DEFAULT.units) -> int:
    """Return the number of components that hold most of the variance."""
    share = np.cumsum(spectrum) / spectrum.sum()
    return int((share < tuning.most_of_it).sum()) + 1


@lru_cache(maxsize=2)
def _components(correlation: bytes, dim: int) -> tuple[FloatArray, FloatArray]:
    """Compute variances and principal components, the largest first; a prior stays as it is."""
    values, vectors = np.linalg.eigh(np.frombuffer(correlation).reshape(dim, dim))
    return frozen(np.maximum(values[::-1], 1e-12 * values[-1])), frozen(vectors[:, ::-1])
