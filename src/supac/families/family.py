"""Base classes of parametric and exponential families; their members, divergence and whitening."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from supac.arrays import BoolArray, FloatArray, frozen, vector, whole
from supac.codec import TooLargeError, register

if TYPE_CHECKING:
    from supac.families.gaussian import Gaussian, NormalWhitening
    from supac.families.mixture import Mixture

MOST_DIM = 2_000
"""Largest number of coordinates of a family: some of its matrices take 8·dim² bytes."""
_DAMPING = 0.3  # relative to the diagonal of the information
_RIDGE = 1e-12  # likewise: it may be singular, and scores linearly dependent

Seed = int | Sequence[int]


def check_dim(dim: Any, name: str = "dim") -> int:
    """Return a number of coordinates; TooLargeError if it is more than `MOST_DIM`."""
    if whole(dim, name, least=1) > MOST_DIM:
        raise TooLargeError(f"{name} = {dim}, but a family has at most {MOST_DIM:,} coordinates")
    return int(dim)


class Density(Protocol):
    """Any distribution with a log-density, such as `Distribution`."""

    def log_prob(self, x: FloatArray) -> FloatArray:
        """Compute the log-density: (n, dim) → (n,)."""


@dataclass(frozen=True)
class Divergence:
    """KL(π, prior), exact or estimated from draws."""

    value: float
    error: float = 0.0
    """Standard error; 0 if the value is exact."""
    spread: float = 0.0
    """Range of the averaged values; 0 if the value is exact, infinite if they are unbounded."""
    draws: int = 0

    def upper(self, delta: float) -> float:
        """Compute an upper limit that KL exceeds with probability at most delta (Hoeffding)."""
        if self.spread == 0.0:
            return self.value
        return self.value + self.spread * float(np.sqrt(-np.log(delta) / (2.0 * self.draws)))


class ParametricFamily(ABC):
    """Distributions π_θ on R^dim, θ a flat vector of `size` entries, with a score ∂_θ log π_θ(x).

    Subclasses define `log_prob`, `score` and `sample`. The other methods default to estimates from
    draws with a fixed seed, which are smooth in θ; override those with a closed form. Constructor
    arguments other than dim and size are passed as `identity`, which is compared by ==.
    """

    is_gaussian = False
    """True if every member is a Gaussian."""

    def __init__(self, dim: int, size: int, *identity: Hashable):
        self.dim = check_dim(dim)
        self.size = size
        self._identity = (type(self), dim, size, *identity)

    @property
    def exponential(self) -> Family | None:
        """Return it, if it is an exponential family."""
        return None

    @property
    def gaussian(self) -> Gaussian | None:
        """Return it, if it is that of Gaussians with a free mean and covariance."""
        return None

    @property
    def mixture(self) -> Mixture | None:
        """Return it, if it is one of mixtures."""
        return None

    @property
    def factors(self) -> Sequence[ParametricFamily]:
        """Independent parts, in the order of their coordinates."""
        return (self,)

    @cached_property
    def coupled(self) -> BoolArray:
        """Pairs of coordinates that may correlate: (dim, dim)."""
        return np.ones((self.dim, self.dim), dtype=bool)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ParametricFamily) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.dim})"

    @abstractmethod
    def log_prob(self, theta: FloatArray, x: FloatArray) -> FloatArray:
        """Compute log π_θ(x): (n, dim) → (n,)."""

    @abstractmethod
    def score(self, theta: FloatArray, x: FloatArray) -> FloatArray:
        """Compute ∂_θ log π_θ(x): (n, dim) → (n, size)."""

    @abstractmethod
    def sample(self, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw n independent points from π_θ: (n, dim)."""

    def contains(self, theta: FloatArray) -> bool:
        """Return True if θ is in the parameter space Θ."""
        return bool(np.isfinite(theta).all())

    def aim(self, theta: FloatArray, target: FloatArray) -> FloatArray:
        """Return a damped replacement of `target`, the end of a natural-gradient step from θ.

        Directions in θ with little Fisher information have unbounded natural gradients: the step is
        shortened in them.
        """
        scale, relative = _scaled(self.information(theta))
        step = np.linalg.solve(
            relative + _DAMPING * np.eye(self.size), relative @ (scale * (target - theta))
        )
        return np.asarray(theta + step / scale)

    def draws(self, theta: FloatArray, seed: Seed = 0, count: int | None = None) -> FloatArray:
        """Draw from π_θ with a fixed seed, by default enough to estimate `size` coefficients."""
        n = 2_000 + 20 * self.size if count is None else count
        return self.sample(theta, n, np.random.default_rng(seed))

    def moments(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute mean (dim,) and covariance (dim, dim) of π_θ."""
        x = self.draws(theta)
        return x.mean(axis=0), np.atleast_2d(np.cov(x.T))

    def mean_point(self, theta: FloatArray) -> FloatArray:
        """Compute the mean of π_θ (dim,); override it where that is faster than `moments`."""
        return self.moments(theta)[0]

    def divergence(
        self, theta: FloatArray, prior: Density, seed: Seed = 0, count: int | None = None
    ) -> Divergence:
        """Compute KL(π_θ, prior): exact given `entropy` and a Gaussian prior, else from draws."""
        known = as_distribution(prior)
        if known is not None and known.family.is_gaussian:
            entropy = self.entropy(theta)
            if entropy is not None:
                moments = self.moments(theta)
                cross = gaussian_cross_entropy(*moments, known.mean, known.covariance)
                return Divergence(cross - entropy)
        x = self.draws(theta, seed, count)
        ratio = self.log_prob(theta, x) - prior.log_prob(x)
        return estimate_divergence(ratio, self.score(theta, x))

    def entropy(self, theta: FloatArray) -> float | None:
        """Compute −π_θ[log π_θ]; None if there is no closed form."""
        return None

    def kl(self, theta: FloatArray, other: FloatArray) -> float:
        """Estimate KL(π_θ, π_other), plus two standard errors for safety; +inf outside Θ."""
        if not (self.contains(theta) and self.contains(other)):
            return float("inf")
        found = self.divergence(theta, Distribution(self, other))
        return max(found.value + 2.0 * found.error, 0.0)

    def marginal(self, theta: FloatArray, i: int) -> tuple[FloatArray, list[Any]]:
        """Return coordinate i as a mixture of `scipy.stats` distributions: weights, components."""
        if not self.is_gaussian:
            raise TypeError(f"{self} has no closed-form marginals: use draws, rvs(n)")
        from scipy import stats  # noqa: PLC0415 - slow to import

        mean, covariance = self.moments(theta)
        return np.ones(1), [stats.norm(mean[i], np.sqrt(covariance[i, i]))]

    def information(self, theta: FloatArray) -> FloatArray:
        """Compute the Fisher information, the covariance of the score under π_θ: (size, size)."""
        score = self.score(theta, self.draws(theta))
        return np.asarray(score.T @ score / len(score))

    def whiten(self, theta: FloatArray) -> Whitening:
        """Return coordinates in which π_θ is standard."""
        return ScoreWhitening(partial(self.score, theta), self.information(theta))

    def mean_gradient(
        self, theta: FloatArray, slope: FloatArray, hessian: FloatArray
    ) -> FloatArray | None:
        """Compute ∂_θ π_θ[f] from E[∇f] (dim,) and E[∇²f] (dim, dim); None if they do not say."""
        return None

    def natural(self, theta: FloatArray, gradient: FloatArray) -> FloatArray:
        """Compute I(θ)⁻¹ gradient: of ∂_θ π_θ[f], the η of the projection of f on the score."""
        scale, relative = _scaled(self.information(theta))
        root = np.linalg.cholesky(relative + _RIDGE * np.eye(self.size))
        return np.asarray(cho_solve((root, True), gradient / scale)) / scale


class Family(ParametricFamily):
    """Exponential family, dπ_θ(x) = exp(θ·T(x) − g(θ) + h(x)) dx."""

    def __init__(self, dim: int, size: int, *identity: Hashable):
        super().__init__(dim, size, *identity)
        self.chart_size = size

    @property
    def exponential(self) -> Family:
        return self

    @cached_property
    def coupled(self) -> BoolArray:
        return np.eye(self.dim, dtype=bool)

    # Primitives.

    @abstractmethod
    def statistics(self, x: FloatArray) -> FloatArray:
        """Compute T(x): (n, dim) → (n, size)."""

    @abstractmethod
    def log_base(self, x: FloatArray) -> FloatArray:
        """Compute h(x): (n, dim) → (n,)."""

    @abstractmethod
    def log_partition(self, theta: FloatArray) -> float:
        """Compute g(θ), +inf outside Θ."""

    @abstractmethod
    def mean_statistics(self, theta: FloatArray) -> FloatArray:
        """Compute ∇g(θ) = π_θ[T]."""

    @abstractmethod
    def from_mean_statistics(self, mean: FloatArray) -> FloatArray:
        """Solve ∇g(θ) = mean for θ; ValueError if no member has these mean statistics."""

    @abstractmethod
    def fisher(self, theta: FloatArray) -> FloatArray:
        """Compute ∇²g(θ), the covariance of T under π_θ: (size, size)."""

    @abstractmethod
    def moments(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute mean (dim,) and covariance (dim, dim) of π_θ."""

    @abstractmethod
    def from_moments(self, mean: FloatArray, covariance: FloatArray) -> FloatArray:
        """Return the θ with this mean and, as far as the family allows, this covariance."""

    # The formula is the same in every family, but each computes it (and `log_prob`) in the way that
    # is accurate: the canonical form loses digits if the mean is many standard deviations from 0.

    @abstractmethod
    def kl(self, theta: FloatArray, other: FloatArray) -> float:
        """Compute KL(π_θ, π_other) = g(other) − g(θ) − (other − θ)·∇g(θ); +inf outside Θ."""

    # Coordinates for plain gradient descent: φ ↦ θ(φ), by default θ itself.

    def coordinates(self, theta: FloatArray) -> FloatArray:
        """Compute the coordinates φ of π_θ, (chart_size,), for gradient descent."""
        return theta

    def from_coordinates(self, phi: FloatArray) -> FloatArray:
        """Compute θ(φ)."""
        return phi

    def pull_back(self, phi: FloatArray, gradient: FloatArray) -> FloatArray:
        """Compute (∂θ/∂φ)ᵀ gradient, the gradient in φ from that in θ."""
        return gradient

    # Derived from the primitives.

    def score(self, theta: FloatArray, x: FloatArray) -> FloatArray:
        """Compute T(x) − ∇g(θ)."""
        return self.statistics(x) - self.mean_statistics(theta)

    def information(self, theta: FloatArray) -> FloatArray:
        """Return ∇²g(θ)."""
        return self.fisher(theta)

    def contains(self, theta: FloatArray) -> bool:
        """Return True if θ is in the parameter space Θ."""
        return bool(np.isfinite(theta).all() and np.isfinite(self.log_partition(theta)))

    def aim(self, theta: FloatArray, target: FloatArray) -> FloatArray:
        """Return the target: in an exponential family the step needs no damping."""
        return target

    def log_ratio(self, theta: FloatArray, other: FloatArray, x: FloatArray) -> FloatArray:
        """Compute log dπ_θ/dπ_other at x: (n, dim) → (n,)."""
        return self.log_prob(theta, x) - self.log_prob(other, x)

    def divergence(
        self, theta: FloatArray, prior: Density, seed: Seed = 0, count: int | None = None
    ) -> Divergence:
        """Compute KL(π_θ, prior), exactly if the prior is a member of the family."""
        known = as_distribution(prior)
        if known is not None and known.family == self:
            return Divergence(self.kl(theta, known.theta))
        return super().divergence(theta, prior, seed, count)


@register
@dataclass(frozen=True, eq=False)
class Distribution:
    """Member of a family: the pair (family, θ)."""

    family: ParametricFamily
    theta: FloatArray

    def __post_init__(self) -> None:
        theta = vector(self.theta, "theta", self.family.size)
        if not self.family.contains(theta):
            raise ValueError(f"theta = {theta} is outside the domain of {self.family}")
        object.__setattr__(self, "theta", frozen(theta + 0.0))  # −0 has other bytes than 0

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
        """Return the number of coordinates of a point."""
        return self.family.dim

    @property
    def mean(self) -> FloatArray:
        """Return the mean (dim,)."""
        return self.family.mean_point(self.theta)

    @property
    def covariance(self) -> FloatArray:
        """Return the covariance (dim, dim)."""
        return self.family.moments(self.theta)[1]

    @property
    def exponential(self) -> Family:
        """Return the family; TypeError if it is not an exponential family."""
        if self.family.exponential is None:
            raise TypeError(f"{self.family} is not an exponential family, which is needed here")
        return self.family.exponential

    @cached_property
    def mean_statistics(self) -> FloatArray:
        """Return π[T] = ∇g(θ), for an exponential family: (size,)."""
        return frozen(self.exponential.mean_statistics(self.theta))

    def sample(self, n: int, rng: np.random.Generator | int) -> FloatArray:
        """Draw n independent points, with a generator or a seed: (n, dim)."""
        return self.family.sample(self.theta, n, np.random.default_rng(rng))

    def log_prob(self, x: FloatArray) -> FloatArray:
        """Compute the log-density at each row of x: (n, dim) → (n,)."""
        if x.ndim != 2 or x.shape[1] != self.dim:
            raise ValueError(f"x must hold one point a row, (n, {self.dim}), not {x.shape}")
        return self.family.log_prob(self.theta, x)

    def kl(self, other: Distribution) -> float:
        """Compute KL(self, other) to a member of the same family."""
        if self.family != other.family:
            raise ValueError(
                f"KL is between members of one family, not {self} and {other}; "
                "divergence(other) takes any two"
            )
        return self.family.kl(self.theta, other.theta)

    def divergence(self, prior: Density, seed: Seed = 0, count: int | None = None) -> Divergence:
        """Compute KL(self, prior) to any prior.

        Without a closed form it is estimated from `count` draws of a generator with `seed`.
        """
        return self.family.divergence(self.theta, prior, seed, count)

    def whiten(self) -> Whitening:
        """Return coordinates in which this member is standard."""
        return self._whitening

    @cached_property
    def _whitening(self) -> Whitening:
        return self.family.whiten(self.theta)

    def at(self, theta: FloatArray) -> Distribution:
        """Return the member of the same family at another θ."""
        return Distribution(self.family, theta)


def as_distribution(density: object) -> Distribution | None:
    """Return a density that is a member of a family; None for any other."""
    return density if isinstance(density, Distribution) else None


class Whitening(ABC):
    """Coordinates in which one member of a family is standard."""

    @property
    def normal(self) -> NormalWhitening | None:
        """These coordinates, if the member is a Gaussian: then they are normal."""
        return None

    @abstractmethod
    def points(self, x: FloatArray) -> FloatArray:
        """Map points to coordinates with a meaningful Euclidean distance: (n, dim) → (n, p).

        Mahalanobis distance for a Gaussian, else the distance between whitened scores.
        """

    @abstractmethod
    def features(self, x: FloatArray) -> FloatArray:
        """Compute the score, orthonormalised under the member: (n, dim) → (n, size)."""

    @abstractmethod
    def coefficients(self, beta: FloatArray) -> FloatArray:
        """Return the η with η·score(x) = beta·features(x)."""


def _scaled(information: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the roots s of the diagonal, 1 in place of 0, and information_ij / (s_i s_j)."""
    power = np.diag(information)
    scale = np.sqrt(np.where(power > 0.0, power, 1.0))
    return scale, information / np.outer(scale, scale)


class ScoreWhitening(Whitening):
    """Whitening by the Cholesky factor of the information.

    With I(θ) = CCᵀ, both features and points are C⁻¹∂_θ log π_θ(x).
    """

    def __init__(self, score: Callable[[FloatArray], FloatArray], information: FloatArray):
        self._score = score
        self._scale, relative = _scaled(information)
        self._root = np.linalg.cholesky(relative + _RIDGE * np.eye(len(relative)))

    def points(self, x: FloatArray) -> FloatArray:
        """Return the features."""
        return self.features(x)

    def features(self, x: FloatArray) -> FloatArray:
        """Compute C⁻¹∂_θ log π_θ(x)."""
        score = self._score(x) / self._scale
        return np.asarray(solve_triangular(self._root, score.T, lower=True).T)

    def coefficients(self, beta: FloatArray) -> FloatArray:
        """Compute C⁻ᵀ beta."""
        return np.asarray(solve_triangular(self._root, beta, lower=True, trans="T")) / self._scale


def estimate_divergence(ratio: FloatArray, score: FloatArray) -> Divergence:
    """Estimate KL(π, prior) from log π − log prior (n,) and the score of π (n, size) at draws of π.

    The scores have mean zero and serve as control variates: the estimate is the intercept of a
    regression of the ratio on them.
    """
    if not np.isfinite(ratio).all():
        return Divergence(float("inf"), float("inf"), float("inf"), len(ratio))
    n = len(ratio)
    scale = np.sqrt((score**2).mean(axis=0))
    design = np.hstack([np.ones((n, 1)), score / np.where(scale > 0.0, scale, 1.0)])
    gram = design.T @ design / n
    root = np.linalg.cholesky(gram + _RIDGE * np.eye(len(gram)))
    beta = cho_solve((root, True), design.T @ ratio / n)
    rest = ratio - design @ beta
    error = float(np.sqrt(rest @ rest / max(n - len(gram), 1) / n))
    return Divergence(float(beta[0]), error, float("inf"), n)


def gaussian_cross_entropy(
    mean: FloatArray, covariance: FloatArray, centre: FloatArray, spread: FloatArray
) -> float:
    """Compute −π[log N(centre, spread)] for any π with this mean and covariance."""
    root = np.linalg.cholesky(spread)
    z = np.linalg.solve(root, mean - centre)
    ratio = np.linalg.solve(root, np.linalg.cholesky(covariance))
    log_volume = float(np.log(np.diag(root)).sum()) + 0.5 * len(mean) * float(np.log(2.0 * np.pi))
    return 0.5 * float(z @ z + (ratio**2).sum()) + log_volume
