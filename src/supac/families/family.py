"""Parametric families, exponential families among them, and their members."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from supac.arrays import BoolArray, FloatArray, frozen, vector, whole
from supac.codec import TooLargeError, register
from supac.families.divergence import Density, Divergence, Seed, estimate_divergence
from supac.families.whitening import ScoreWhitening, Whitening

MOST_DIM = 2_000
"""Coordinates of a family: some of its matrices take 8·dim² bytes."""
_DAMPING = 0.3  # of the information, relative to that of each entry of θ by itself


def check_dim(dim: Any, name: str = "dim") -> int:
    """Return a number of coordinates; TooLargeError if it is more than `MOST_DIM`."""
    if whole(dim, name, least=1) > MOST_DIM:
        raise TooLargeError(f"{name} = {dim}, but a family has at most {MOST_DIM:,} coordinates")
    return int(dim)


class ParametricFamily(ABC):
    """Distributions π_θ on R^dim, θ a flat vector of `size` entries, with a score ∂_θ log π_θ(x).

    Three methods make one: `log_prob`, `score` and `sample`. All else has a default from draws,
    the same ones at every θ, so that functions of θ are smooth; where there is a closed form,
    override it. Families with other arguments than dim and size name them in `identity`.
    """

    def __init__(self, dim: int, size: int, *identity: Hashable):
        self.dim = check_dim(dim)
        self.size = size
        self.is_gaussian = False
        """Whether every member is a Gaussian."""
        self._identity = (type(self), dim, size, *identity)

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
        """log π_θ(x): (n, dim) → (n,)."""

    @abstractmethod
    def score(self, theta: FloatArray, x: FloatArray) -> FloatArray:
        """∂_θ log π_θ(x): (n, dim) → (n, size)."""

    @abstractmethod
    def sample(self, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        """n independent draws of π_θ: (n, dim)."""

    def contains(self, theta: FloatArray) -> bool:
        """Whether θ is in Θ."""
        return bool(np.isfinite(theta).all())

    def aim(self, theta: FloatArray, target: FloatArray) -> FloatArray:
        """Where to go instead of straight from θ to `target`, a natural gradient step away.

        By default it is damped where θ hardly matters: entries that can stand in for each other
        have natural gradients without bounds.
        """
        information = self.information(theta)
        scale = np.sqrt(np.where(np.diag(information) > 0.0, np.diag(information), 1.0))
        relative = information / np.outer(scale, scale)
        step = np.linalg.solve(
            relative + _DAMPING * np.eye(self.size), relative @ (scale * (target - theta))
        )
        return np.asarray(theta + step / scale)

    def draws(self, theta: FloatArray, seed: Seed = 0, count: int | None = None) -> FloatArray:
        """Draws of π_θ, by default enough to learn `size` coefficients from.

        They are smooth in θ where `sample` is.
        """
        n = 2_000 + 20 * self.size if count is None else count
        return self.sample(theta, n, np.random.default_rng(seed))

    def moments(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean (dim,) and covariance (dim, dim) of π_θ."""
        x = self.draws(theta)
        return x.mean(axis=0), np.atleast_2d(np.cov(x.T))

    def divergence(
        self, theta: FloatArray, prior: Density, seed: Seed = 0, count: int | None = None
    ) -> Divergence:
        """KL(π_θ, prior), by default from draws."""
        x = self.draws(theta, seed, count)
        ratio = self.log_prob(theta, x) - prior.log_prob(x)
        return estimate_divergence(ratio, self.score(theta, x))

    def kl(self, theta: FloatArray, other: FloatArray) -> float:
        """KL(π_θ, π_other), where it is estimated at most so with some certainty; +inf outside Θ.

        Steps are limited by it: two standard errors more keep them on the safe side.
        """
        if not (self.contains(theta) and self.contains(other)):
            return float("inf")
        found = self.divergence(theta, Distribution(self, other))
        return max(found.value + 2.0 * found.error, 0.0)

    def information(self, theta: FloatArray) -> FloatArray:
        """I(θ), the covariance of the score under π_θ: (size, size)."""
        score = self.score(theta, self.draws(theta))
        return np.asarray(score.T @ score / len(score))

    def whiten(self, theta: FloatArray) -> Whitening:
        """Coordinates in which π_θ is standard."""
        return ScoreWhitening(partial(self.score, theta), self.information(theta))


class Family(ParametricFamily):
    """An exponential family, dπ_θ(x) = exp(θ·T(x) − g(θ) + h(x)) dx."""

    def __init__(self, dim: int, size: int, *identity: Hashable):
        super().__init__(dim, size, *identity)
        self.chart_size = size

    @cached_property
    def coupled(self) -> BoolArray:
        return np.eye(self.dim, dtype=bool)

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
    def moments(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean (dim,) and covariance (dim, dim) of π_θ."""

    @abstractmethod
    def from_moments(self, mean: FloatArray, covariance: FloatArray) -> FloatArray:
        """The θ with this mean and as much of this covariance as the family is free to match."""

    # The same laws in every family, `log_prob` as well, but each is free to compute them where it
    # is accurate: the canonical formulas lose digits when a member's mean is many standard
    # deviations from 0.

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

    def score(self, theta: FloatArray, x: FloatArray) -> FloatArray:
        """T(x) − ∇g(θ)."""
        return self.statistics(x) - self.mean_statistics(theta)

    def information(self, theta: FloatArray) -> FloatArray:
        """Exact: ∇²g(θ)."""
        return self.fisher(theta)

    def contains(self, theta: FloatArray) -> bool:
        """Whether θ is in Θ."""
        return bool(np.isfinite(theta).all() and np.isfinite(self.log_partition(theta)))

    def aim(self, theta: FloatArray, target: FloatArray) -> FloatArray:
        """Straight there: on an exponential family the step is exact."""
        return target

    def log_ratio(self, theta: FloatArray, other: FloatArray, x: FloatArray) -> FloatArray:
        """log dπ_θ/dπ_other at x: (n, dim) → (n,)."""
        return self.log_prob(theta, x) - self.log_prob(other, x)

    def divergence(
        self, theta: FloatArray, prior: Density, seed: Seed = 0, count: int | None = None
    ) -> Divergence:
        """Exact where the prior is a member."""
        if isinstance(prior, Distribution) and prior.family == self:
            return Divergence(self.kl(theta, prior.theta))
        return super().divergence(theta, prior, seed, count)


@register
@dataclass(frozen=True, eq=False)
class Distribution:
    """A member of a family: the pair (family, θ)."""

    family: ParametricFamily
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
    def exponential(self) -> Family:
        """The family, where it is an exponential one; TypeError elsewhere."""
        if not isinstance(self.family, Family):
            raise TypeError(f"{self.family} is not an exponential family, which is needed here")
        return self.family

    @property
    def mean_statistics(self) -> FloatArray:
        """π[T] = ∇g(θ) in an exponential family: (size,)."""
        return self.exponential.mean_statistics(self.theta)

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

    def divergence(self, prior: Density, seed: Seed = 0, count: int | None = None) -> Divergence:
        """KL(self, prior) to any prior, and how well it is known.

        Where there is no closed form it is estimated from `count` draws of a generator with `seed`.
        """
        return self.family.divergence(self.theta, prior, seed, count)

    def whiten(self) -> Whitening:
        """Coordinates in which this member is standard."""
        return self._whitening

    @cached_property
    def _whitening(self) -> Whitening:
        return self.family.whiten(self.theta)

    def at(self, theta: FloatArray) -> Distribution:
        """The member of the same family at another θ."""
        return Distribution(self.family, theta)
