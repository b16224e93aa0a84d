"""Units in which emulators see the parameters, and the principal components of a prior."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from supac.arrays import BoolArray, FloatArray, frozen
from supac.families import Distribution
from supac.problem.observation import observation_count
from supac.surrogate.estimator import MANY_PARAMETERS, Context

_FEW = 10  # parameters, up to which each is emulated by itself, however they correlate
_CONCENTRATED = 1.0 / 3.0  # effective number of components of a field, over its parameters
_MOST_OF_IT = 0.95  # share of the variance that leading components hold


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
    def of(cls, current: Distribution, context: Context) -> Units:
        """Return the units at `current`."""
        prior = context.prior or current
        covariance = prior.family.moments(prior.theta)[1]
        coupled, observed = current.family.coupled, observation_count(context.loss)
        if observed:
            return cls._apart(current, covariance, coupled, len(covariance) - observed)
        return cls._within(current.mean, covariance, coupled)

    @classmethod
    def _apart(
        cls, current: Distribution, covariance: FloatArray, coupled: BoolArray, first: int
    ) -> Units:
        """Return units of which the `first` depend on as many parameters alone."""
        own = cls._within(current.mean[:first], covariance[:first, :first], coupled[:first, :first])
        root = np.linalg.cholesky(covariance)
        scale = np.linalg.solve(root, np.eye(len(root))).T
        scale[:first, :first] = own.scale
        return cls(current.mean, scale, own.spectrum)

    @classmethod
    def _within(cls, centre: FloatArray, covariance: FloatArray, coupled: BoolArray) -> Units:
        found = principal_components(covariance, coupled)
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


def principal_components(
    covariance: FloatArray, coupled: BoolArray
) -> tuple[FloatArray, FloatArray] | None:
    """Return variances (dim,) and directions (dim, dim) of the components of a correlation.

    Return None where parameters are emulated one by one: they do not correlate, or there are at
    most ten, or too many components count, (Σv)²/Σv² for variances v, or the family leaves out some
    covariances. More than 40 parameters that correlate always have components, because their metric
    is diagonal.
    """
    deviation = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(deviation, deviation)
    if not np.any(np.tril(correlation, -1)):
        return None
    found = _components(correlation.tobytes(), len(correlation))
    if len(correlation) > MANY_PARAMETERS:
        return found
    values, off_diagonal = found[0], ~np.eye(len(correlation), dtype=bool)
    effective = values.sum() ** 2 / (values**2).sum()
    field = len(values) > _FEW and effective < _CONCENTRATED * len(values)
    return found if field and coupled[off_diagonal].all() else None


def leading(spectrum: FloatArray) -> int:
    """Return the number of components that hold 95 % of the variance."""
    share = np.cumsum(spectrum) / spectrum.sum()
    return int((share < _MOST_OF_IT).sum()) + 1


@lru_cache(maxsize=2)
def _components(correlation: bytes, dim: int) -> tuple[FloatArray, FloatArray]:
    """Compute variances and principal components, the largest first; a prior stays as it is."""
    values, vectors = np.linalg.eigh(np.frombuffer(correlation).reshape(dim, dim))
    return frozen(np.maximum(values[::-1], 1e-12 * values[-1])), frozen(vectors[:, ::-1])
