"""Multivariate Student-t distributions with fixed degrees of freedom."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import digamma, gammaln

from supac.arrays import FloatArray, covariance_matrix, positive, vector
from supac.codec import register
from supac.families.family import Distribution, ParametricFamily
from supac.families.gaussian import Gaussian


@register(arguments=("dim", "freedom"))
class StudentT(ParametricFamily):
    """Multivariate Student-t with ν = `freedom` degrees of freedom, location μ and scale Σ.

    θ, T and g are those of the Gaussian N(μ, Σ). With q = (x − μ)ᵀΣ⁻¹(x − μ) and
    u = (ν + dim)/(ν + q), the score is u·(T(x) − T(μ)) − (∇g(θ) − T(μ)).
    """

    def __init__(self, dim: int, freedom: float):
        self.base, self.freedom = Gaussian(dim), positive(freedom, "freedom")
        if not self.freedom > 2.0:
            raise ValueError(
                f"freedom must be more than 2, not {freedom!r}: with less there is no covariance, "
                "and KL to a Gaussian prior is infinite"
            )
        super().__init__(dim, self.base.size, self.freedom)

    def __repr__(self) -> str:
        return f"StudentT({self.dim}, {self.freedom:g})"

    def contains(self, theta: FloatArray) -> bool:
        """Return True if the scale is positive definite."""
        return self.base.contains(theta)

    def aim(self, theta: FloatArray, target: FloatArray) -> FloatArray:
        """Return the target, as for a Gaussian."""
        return target

    def _square(self, theta: FloatArray, x: FloatArray) -> FloatArray:
        """Compute q: (n,)."""
        z = self.base.whiten(theta).points(x)
        return np.asarray(np.einsum("ij,ij->i", z, z))

    def _log_normaliser(self, theta: FloatArray) -> float:
        _, root = self.base._standard(theta)
        half, top = 0.5 * self.freedom, 0.5 * (self.freedom + self.dim)
        volume = 0.5 * self.dim * np.log(self.freedom * np.pi) - np.log(np.diag(root)).sum()
        return float(volume + gammaln(half) - gammaln(top))

    def log_prob(self, theta: FloatArray, x: FloatArray) -> FloatArray:
        tail = np.log1p(self._square(theta, x) / self.freedom)
        return -self._log_normaliser(theta) - 0.5 * (self.freedom + self.dim) * tail

    def score(self, theta: FloatArray, x: FloatArray) -> FloatArray:
        at_mean = self.base.statistics(self.base._standard(theta)[0][None])
        u = (self.freedom + self.dim) / (self.freedom + self._square(theta, x))
        spread = self.base.mean_statistics(theta) - at_mean
        return np.asarray(u[:, None] * (self.base.statistics(x) - at_mean) - spread)

    def sample(self, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        mean, _ = self.base._standard(theta)
        x = self.base.sample(theta, n, rng)
        stretch = np.sqrt(self.freedom / rng.chisquare(self.freedom, n))
        return mean + stretch[:, None] * (x - mean)

    def moments(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean, scale = self.base.moments(theta)
        return mean, scale * (self.freedom / (self.freedom - 2.0))

    def marginal(self, theta: FloatArray, i: int) -> tuple[FloatArray, list[Any]]:
        from scipy import stats  # noqa: PLC0415 - slow to import

        location, scale = self.base.moments(theta)
        return np.ones(1), [stats.t(self.freedom, location[i], np.sqrt(scale[i, i]))]

    def entropy(self, theta: FloatArray) -> float:
        half, top = 0.5 * self.freedom, 0.5 * (self.freedom + self.dim)
        return self._log_normaliser(theta) + top * float(digamma(top) - digamma(half))


def student_t(location: FloatArray, scale: FloatArray, freedom: float) -> Distribution:
    """Return the Student-t with location (dim,), scale matrix (dim, dim) and degrees of freedom."""
    mean = vector(location, "location")
    family = StudentT(len(mean), freedom)
    matrix = covariance_matrix(scale, "scale", len(mean))
    return Distribution(family, family.base.from_moments(mean, matrix))
