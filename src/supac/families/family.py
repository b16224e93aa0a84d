"""Exponential families, dπ_θ(x) = exp(θ·T(x) − g(θ) + h(x)) dx, and their members."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from supac.arrays import BoolArray, FloatArray, frozen, vector


class Whitening(ABC):
    """Coordinates in which one member of a family is standard."""

    @abstractmethod
    def points(self, x: FloatArray) -> FloatArray:
        """(n, dim) → (n, p): Euclidean distance there is the member's own distance between points.

        Mahalanobis' for a Gaussian; elsewhere the distance between whitened statistics.
        """

    @abstractmethod
    def features(self, x: FloatArray) -> FloatArray:
        """(n, dim) → (n, size): the statistics, centred and orthonormal under the member."""

    @abstractmethod
    def coefficients(self, beta: FloatArray) -> FloatArray:
        """The η with η·T(x) = beta·features(x) + constant."""


class NormalWhitening(Whitening):
    """Coordinates z = Cᵀ(x − μ) in which a Gaussian is N(0, I)."""

    def __init__(self, mean: FloatArray, root: FloatArray):
        self._mean, self._root = mean, root

    @property
    def mean(self) -> FloatArray:
        """μ: (dim,)."""
        return self._mean

    @property
    def covariance(self) -> FloatArray:
        """C⁻ᵀC⁻¹: (dim, dim)."""
        return np.asarray(cho_solve((self._root, True), np.eye(len(self._root))))

    @abstractmethod
    def features_of_points(self, z: FloatArray) -> FloatArray:
        """The features as functions of z, the same for every member: (n, dim) → (n, size)."""

    @abstractmethod
    def _quadratic_moments(self, hessian: FloatArray) -> FloatArray:
        """E[f · feature] for the features of second degree, given E[∇²f] in z."""

    def points(self, x: FloatArray) -> FloatArray:
        """z = Cᵀ(x − μ)."""
        return (x - self._mean) @ self._root

    def spread(self, z: FloatArray) -> FloatArray:
        """x = μ + C⁻ᵀz, the inverse of `points`: (n, dim) → (n, dim)."""
        return self._mean + np.asarray(solve_triangular(self._root, z.T, lower=True, trans="T").T)

    def features(self, x: FloatArray) -> FloatArray:
        """The statistics, centred and orthonormal."""
        return self.features_of_points(self.points(x))

    def projection(self, gradient: FloatArray, hessian: FloatArray) -> FloatArray:
        """E[f · features], from E[∇f] and E[∇²f] in x by the identities of Bonnet and Price."""
        slope = solve_triangular(self._root, gradient, lower=True)
        half = solve_triangular(self._root, hessian, lower=True)
        curvature = solve_triangular(self._root, half.T, lower=True)
        return np.concatenate([slope, self._quadratic_moments(np.asarray(curvature))])


class Family(ABC):
    """An exponential family on R^dim whose parameter θ is a flat vector of `size` entries."""

    def __init__(self, dim: int, size: int, *identity: Hashable):
        self.dim = dim
        self.size = size
        self.chart_size = size
        self.coupled: BoolArray = np.eye(dim, dtype=bool)
        """Which pairs of coordinates may correlate: (dim, dim)."""
        self._identity = (type(self), *identity)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Family) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    # The primitives.

    @abstractmethod
    def statistics(self, x: FloatArray) -> FloatArray:
        """T(x): (n, dim) → (n, size)."""

    @abstractmethod
    def log_base(self, x: FloatArray) -> FloatArray:
        """h(x): (n, dim) → (n,)."""

    @abstractmethod
    def log_partition(self, theta: FloatArray) -> float:
        """g(θ), +inf outside Θ."""

    @abstractmethod
    def mean_statistics(self, theta: FloatArray) -> FloatArray:
        """∇g(θ) = π_θ[T]."""

    @abstractmethod
    def from_mean_statistics(self, mean: FloatArray) -> FloatArray:
        """The θ with ∇g(θ) = mean; ValueError where no member has these mean statistics."""

    @abstractmethod
    def fisher(self, theta: FloatArray) -> FloatArray:
        """∇²g(θ), the covariance of T under π_θ: (size, size)."""

    @abstractmethod
    def sample(self, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        """n independent draws of π_θ: (n, dim)."""

    @abstractmethod
    def whiten(self, theta: FloatArray) -> Whitening:
        """Coordinates in which π_θ is standard."""

    @abstractmethod
    def moments(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean (dim,) and covariance (dim, dim) of π_θ."""

    @abstractmethod
    def from_moments(self, mean: FloatArray, covariance: FloatArray) -> FloatArray:
        """The θ with this mean and as much of this covariance as the family is free to match."""

    # The same laws in every family, but each is free to compute them where it is accurate:
    # the canonical formulas lose digits when a member's mean is many standard deviations from 0.

    @abstractmethod
    def log_prob(self, theta: FloatArray, x: FloatArray) -> FloatArray:
        """θ·T(x) − g(θ) + h(x): (n, dim) → (n,)."""

    @abstractmethod
    def kl(self, theta: FloatArray, other: FloatArray) -> float:
        """KL(π_θ, π_other) = g(other) − g(θ) − (other − θ)·∇g(θ); +inf outside Θ."""

    # A chart for plain gradient descent: φ ↦ θ(φ).

    @abstractmethod
    def coordinates(self, theta: FloatArray) -> FloatArray:
        """Coordinates φ of π_θ, (chart_size,), in which gradient descent is run."""

    @abstractmethod
    def from_coordinates(self, phi: FloatArray) -> FloatArray:
        """θ(φ)."""

    @abstractmethod
    def pull_back(self, phi: FloatArray, gradient: FloatArray) -> FloatArray:
        """(∂θ/∂φ)ᵀ gradient: a gradient in θ as one in φ."""

    # Written once on top.

    def contains(self, theta: FloatArray) -> bool:
        """Whether θ is in Θ."""
        return bool(np.isfinite(theta).all() and np.isfinite(self.log_partition(theta)))

    def log_ratio(self, theta: FloatArray, other: FloatArray, x: FloatArray) -> FloatArray:
        """log dπ_θ/dπ_other at x: (n, dim) → (n,)."""
        return self.log_prob(theta, x) - self.log_prob(other, x)


@dataclass(frozen=True, eq=False)
class Distribution:
    """A member of a family: the pair (family, θ)."""

    family: Family
    theta: FloatArray

    def __post_init__(self) -> None:
        theta = vector(self.theta, "theta", self.family.size)
        if not self.family.contains(theta):
            raise ValueError(f"theta = {theta} is outside the domain of {self.family}")
        object.__setattr__(self, "theta", frozen(theta + 0.0))  # no −0, which has other bytes

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Distribution)
            and self.family == other.family
            and np.array_equal(self.theta, other.theta)
        )

    def __hash__(self) -> int:
        return hash((self.family, self.theta.tobytes()))

    @property
    def dim(self) -> int:
        """Number of coordinates of a point."""
        return self.family.dim

    @property
    def mean(self) -> FloatArray:
        """(dim,)."""
        return self.family.moments(self.theta)[0]

    @property
    def covariance(self) -> FloatArray:
        """(dim, dim)."""
        return self.family.moments(self.theta)[1]

    @property
    def mean_statistics(self) -> FloatArray:
        """π[T] = ∇g(θ): (size,)."""
        return self.family.mean_statistics(self.theta)

    def sample(self, n: int, rng: np.random.Generator | int) -> FloatArray:
        """n independent draws, by a generator or from a seed: (n, dim)."""
        return self.family.sample(self.theta, n, np.random.default_rng(rng))

    def log_prob(self, x: FloatArray) -> FloatArray:
        """Log-density at each row of x: (n, dim) → (n,)."""
        if x.ndim != 2 or x.shape[1] != self.dim:
            raise ValueError(f"x must hold one point a row, (n, {self.dim}), not {x.shape}")
        return self.family.log_prob(self.theta, x)

    def kl(self, other: Distribution) -> float:
        """KL(self, other), both of one family."""
        if self.family != other.family:
            raise ValueError(f"KL is between members of one family, not {self} and {other}")
        return self.family.kl(self.theta, other.theta)

    def whiten(self) -> Whitening:
        """Coordinates in which this member is standard."""
        return self.family.whiten(self.theta)

    def at(self, theta: FloatArray) -> Distribution:
        """The member of the same family at another θ."""
        return Distribution(self.family, theta)


class FisherWhitening(Whitening):
    """Whitening by the Cholesky factor of the Fisher information, for families of few statistics.

    With I(θ) = CCᵀ the features are C⁻¹(T(x) − ∇g(θ)), and they are the points as well.
    """

    def __init__(self, family: Family, theta: FloatArray):
        self._family = family
        self._mean = family.mean_statistics(theta)
        self._root = np.linalg.cholesky(family.fisher(theta))

    def points(self, x: FloatArray) -> FloatArray:
        """The features themselves."""
        return self.features(x)

    def features(self, x: FloatArray) -> FloatArray:
        """C⁻¹(T(x) − ∇g(θ))."""
        centred = self._family.statistics(x) - self._mean
        return np.asarray(solve_triangular(self._root, centred.T, lower=True).T)

    def coefficients(self, beta: FloatArray) -> FloatArray:
        """C⁻ᵀ beta."""
        return np.asarray(solve_triangular(self._root, beta, lower=True, trans="T"))
