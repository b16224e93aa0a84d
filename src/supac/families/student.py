"""Student-t distributions with fixed degrees of freedom."""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, gammaln

from supac.arrays import FloatArray, covariance_matrix, positive, vector
from supac.codec import register
from supac.families.divergence import Density, Divergence, Seed, gaussian_cross_entropy
from supac.families.family import Distribution, ParametricFamily
from supac.families.gaussian import Gaussian


@register(arguments=("dim", "freedom"))
class StudentT(ParametricFamily):
    """Multivariate Student-t: a Gaussian's location and scale, with `freedom` degrees of freedom.

    θ is that of the Gaussian with the same location μ and scale Σ, whose T and g are meant below.
    With q = (x − μ)ᵀΣ⁻¹(x − μ) and u = (ν + dim)/(ν + q), which is 1 for a Gaussian, the score is
    u·(T(x) − T(μ)) − (∇g(θ) − T(μ)).
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
        """Whether the scale is positive definite."""
        return self.base.contains(theta)

    def aim(self, theta: FloatArray, target: FloatArray) -> FloatArray:
        """Straight there, as for a Gaussian."""
        return target

    def _location(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(μ, C) with Σ⁻¹ = CCᵀ."""
        member = self.base.standard(theta)
        if member is None:
            raise ValueError(f"theta = {theta} is outside the domain of {self}")
        return member

    def _square(self, theta: FloatArray, x: FloatArray) -> FloatArray:
        """q: (n,)."""
        mean, root = self._location(theta)
        z = (x - mean) @ root
        return np.asarray(np.einsum("ij,ij->i", z, z))

    def _log_normaliser(self, theta: FloatArray) -> float:
        _, root = self._location(theta)
        half, top = 0.5 * self.freedom, 0.5 * (self.freedom + self.dim)
        volume = 0.5 * self.dim * np.log(self.freedom * np.pi) - np.log(np.diag(root)).sum()
        return float(volume + gammaln(half) - gammaln(top))

    def log_prob(self, theta: FloatArray, x: FloatArray) -> FloatArray:
        tail = np.log1p(self._square(theta, x) / self.freedom)
        return -self._log_normaliser(theta) - 0.5 * (self.freedom + self.dim) * tail

    def score(self, theta: FloatArray, x: FloatArray) -> FloatArray:
        at_mean = self.base.statistics(self._location(theta)[0][None])
        u = (self.freedom + self.dim) / (self.freedom + self._square(theta, x))
        spread = self.base.mean_statistics(theta) - at_mean
        return np.asarray(u[:, None] * (self.base.statistics(x) - at_mean) - spread)

    def sample(self, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        mean = self._location(theta)[0]
        x = self.base.sample(theta, n, rng)
        stretch = np.sqrt(self.freedom / rng.chisquare(self.freedom, n))
        return mean + stretch[:, None] * (x - mean)

    def moments(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean, scale = self.base.moments(theta)
        return mean, scale * (self.freedom / (self.freedom - 2.0))

    def divergence(
        self, theta: FloatArray, prior: Density, seed: Seed = 0, count: int | None = None
    ) -> Divergence:
        """Exact for a Gaussian prior."""
        if not (isinstance(prior, Distribution) and prior.family.is_gaussian):
            return super().divergence(theta, prior, seed, count)
        half, top = 0.5 * self.freedom, 0.5 * (self.freedom + self.dim)
        entropy = self._log_normaliser(theta) + top * float(digamma(top) - digamma(half))
        cross = gaussian_cross_entropy(*self.moments(theta), prior.mean, prior.covariance)
        return Divergence(cross - entropy)


def student_t(location: FloatArray, scale: FloatArray, freedom: float) -> Distribution:
    """The Student-t with this location (dim,), scale matrix (dim, dim) and degrees of freedom."""
    mean = vector(location, "location")
    family = StudentT(len(mean), freedom)
    matrix = covariance_matrix(scale, "scale", len(mean))
    return Distribution(family, family.base.from_moments(mean, matrix))
