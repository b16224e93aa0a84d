"""Univariate families: Beta, Gamma, Exponential, Pareto, Bernoulli, Poisson."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from typing import Any

import numpy as np
from scipy import special

from supac.arrays import FloatArray, positive
from supac.codec import register
from supac.families.family import Distribution, Family


class Univariate(Family):
    """Base of the univariate families: canonical formulas, T = x by default."""

    def __init__(self, size: int = 1, *identity: Hashable):
        super().__init__(1, size, *identity)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._identity[3:]))})"

    def statistics(self, x: FloatArray) -> FloatArray:
        return x

    def marginal(self, theta: FloatArray, i: int) -> tuple[FloatArray, list[Any]]:
        from scipy import stats  # noqa: PLC0415 - slow to import

        return np.ones(1), [self.in_scipy(stats, theta)]

    @abstractmethod
    def in_scipy(self, stats: Any, theta: FloatArray) -> Any:
        """Return π_θ as a frozen distribution of the module `scipy.stats`."""

    def log_prob(self, theta: FloatArray, x: FloatArray) -> FloatArray:
        """Compute θ·T(x) − g(θ) + h(x), −∞ outside the support."""
        base = self.log_base(x)
        with np.errstate(invalid="ignore", divide="ignore"):
            inside = self.statistics(x) @ theta - self.log_partition(theta) + base
        return np.where(np.isneginf(base), -np.inf, inside)

    def kl(self, theta: FloatArray, other: FloatArray) -> float:
        """Compute the Bregman divergence of g, rounded up."""
        if not (self.contains(theta) and self.contains(other)):
            return float("inf")
        here, there = self.log_partition(theta), self.log_partition(other)
        slope = float((other - theta) @ self.mean_statistics(theta))
        # Large terms cancel: rounding errors must not make a step look shorter than it is.
        rounding = np.finfo(float).eps * (abs(here) + abs(there) + abs(slope))
        return max(there - here - slope, 0.0) + float(rounding)

    def moments(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean (1,) and variance (1, 1)."""
        mean, variance = self.mean_and_variance(theta)
        return np.array([mean]), np.array([[variance]])

    def from_moments(self, mean: FloatArray, covariance: FloatArray) -> FloatArray:
        """Return the θ with this mean and, if the family has two parameters, this variance."""
        theta = self.from_mean_and_variance(float(mean[0]), float(covariance[0, 0]))
        if not self.contains(theta):
            raise ValueError(f"{self} has no member with mean {mean} and covariance {covariance}")
        return theta

    def mean_and_variance(self, theta: FloatArray) -> tuple[float, float]:
        """Compute mean and variance of π_θ, by default those of T."""
        return float(self.mean_statistics(theta)[0]), float(self.fisher(theta)[0, 0])

    def from_mean_and_variance(self, mean: float, variance: float) -> FloatArray:
        """Invert `mean_and_variance`; one-parameter families match the mean only."""
        return self.from_mean_statistics(np.array([mean]))


@register
class Beta(Univariate):
    """Beta(a, b) on (0, 1): θ = (a, b), T = (log x, log(1 − x))."""

    def __init__(self) -> None:
        super().__init__(2)

    def statistics(self, x: FloatArray) -> FloatArray:
        return np.hstack([np.log(x), np.log1p(-x)])

    def log_base(self, x: FloatArray) -> FloatArray:
        inside = (x[:, 0] > 0.0) & (x[:, 0] < 1.0)
        y = np.where(inside, x[:, 0], 0.5)
        return np.where(inside, -np.log(y) - np.log1p(-y), -np.inf)

    def log_partition(self, theta: FloatArray) -> float:
        return float(special.betaln(*theta)) if (theta > 0.0).all() else float("inf")

    def mean_statistics(self, theta: FloatArray) -> FloatArray:
        return special.digamma(theta) - special.digamma(theta.sum())

    def from_mean_statistics(self, mean: FloatArray) -> FloatArray:
        geometric = np.exp(mean)
        rest = 1.0 - geometric.sum()  # positive for all members, as log is concave
        if not rest > 0.0:
            raise ValueError(f"no Beta distribution has mean statistics {mean}")
        start = 0.5 + 0.5 * geometric / rest
        return newton_from_mean(self, mean, start)

    def fisher(self, theta: FloatArray) -> FloatArray:
        return np.diag(special.polygamma(1, theta)) - special.polygamma(1, theta.sum())

    def in_scipy(self, stats: Any, theta: FloatArray) -> Any:
        return stats.beta(theta[0], theta[1])

    def sample(self, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        draws = rng.beta(theta[0], theta[1], size=(n, 1))
        return np.clip(draws, np.finfo(float).tiny, 1.0 - np.finfo(float).epsneg)

    def mean_and_variance(self, theta: FloatArray) -> tuple[float, float]:
        total = float(theta.sum())
        mean = float(theta[0]) / total
        return mean, mean * (1.0 - mean) / (total + 1.0)

    def from_mean_and_variance(self, mean: float, variance: float) -> FloatArray:
        total = mean * (1.0 - mean) / variance - 1.0
        return total * np.array([mean, 1.0 - mean])


@register
class Gamma(Univariate):
    """Gamma(shape, rate) on (0, ∞): θ = (shape, −rate), T = (log x, x)."""

    def __init__(self) -> None:
        super().__init__(2)

    def statistics(self, x: FloatArray) -> FloatArray:
        return np.hstack([np.log(x), x])

    def log_base(self, x: FloatArray) -> FloatArray:
        inside = x[:, 0] > 0.0
        return np.where(inside, -np.log(np.where(inside, x[:, 0], 1.0)), -np.inf)

    def log_partition(self, theta: FloatArray) -> float:
        shape, rate = theta[0], -theta[1]
        if shape <= 0.0 or rate <= 0.0:
            return float("inf")
        return float(special.gammaln(shape) - shape * np.log(rate))

    def mean_statistics(self, theta: FloatArray) -> FloatArray:
        shape, rate = theta[0], -theta[1]
        return np.array([special.digamma(shape) - np.log(rate), shape / rate])

    def from_mean_statistics(self, mean: FloatArray) -> FloatArray:
        gap = np.log(mean[1]) - mean[0] if mean[1] > 0.0 else -1.0  # log E x − E log x > 0
        if not gap > 0.0:
            raise ValueError(f"no Gamma distribution has mean statistics {mean}")
        shape = 0.5 / gap
        return newton_from_mean(self, mean, np.array([shape, -shape / mean[1]]))

    def fisher(self, theta: FloatArray) -> FloatArray:
        shape, rate = theta[0], -theta[1]
        corner = 1.0 / rate
        return np.array([[special.polygamma(1, shape), corner], [corner, shape / rate**2]])

    def in_scipy(self, stats: Any, theta: FloatArray) -> Any:
        return stats.gamma(theta[0], scale=-1.0 / theta[1])

    def sample(self, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        draws = rng.gamma(theta[0], -1.0 / theta[1], size=(n, 1))
        return np.maximum(draws, np.finfo(float).tiny)

    def mean_and_variance(self, theta: FloatArray) -> tuple[float, float]:
        shape, rate = float(theta[0]), -float(theta[1])
        return shape / rate, shape / rate**2

    def from_mean_and_variance(self, mean: float, variance: float) -> FloatArray:
        return np.array([mean**2 / variance, -mean / variance])


class _ExponentialStatistic(Univariate):
    """Base of families whose statistic T ≥ 0 is exponentially distributed: θ = −rate."""

    def log_partition(self, theta: FloatArray) -> float:
        return float(-np.log(-theta[0])) if theta[0] < 0.0 else float("inf")

    def mean_statistics(self, theta: FloatArray) -> FloatArray:
        return -1.0 / theta

    def from_mean_statistics(self, mean: FloatArray) -> FloatArray:
        if not mean[0] > 0.0:
            raise ValueError(f"no {self} distribution has mean statistic {mean[0]}")
        return -1.0 / mean

    def fisher(self, theta: FloatArray) -> FloatArray:
        return np.array([[theta[0] ** -2]])


@register
class Exponential(_ExponentialStatistic):
    """Exponential(rate) on (0, ∞): θ = −rate, T = x."""

    def log_base(self, x: FloatArray) -> FloatArray:
        return np.where(x[:, 0] >= 0.0, 0.0, -np.inf)

    def in_scipy(self, stats: Any, theta: FloatArray) -> Any:
        return stats.expon(scale=-1.0 / theta[0])

    def sample(self, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        return rng.exponential(-1.0 / theta[0], size=(n, 1))

    def mean_and_variance(self, theta: FloatArray) -> tuple[float, float]:
        mean = -1.0 / float(theta[0])
        return mean, mean**2


@register(arguments=("minimum",))
class Pareto(_ExponentialStatistic):
    """Pareto(tail index) on (minimum, ∞), minimum given: θ = −index, T = log(x / minimum)."""

    def __init__(self, minimum: float) -> None:
        self.minimum = positive(minimum, "minimum")
        super().__init__(1, self.minimum)

    def statistics(self, x: FloatArray) -> FloatArray:
        return np.log(x / self.minimum)

    def log_base(self, x: FloatArray) -> FloatArray:
        inside = x[:, 0] >= self.minimum
        return np.where(inside, -np.log(np.where(inside, x[:, 0], 1.0)), -np.inf)

    def in_scipy(self, stats: Any, theta: FloatArray) -> Any:
        return stats.pareto(-theta[0], scale=self.minimum)

    def sample(self, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        return self.minimum * np.exp(rng.exponential(-1.0 / theta[0], size=(n, 1)))

    def mean_and_variance(self, theta: FloatArray) -> tuple[float, float]:
        """Compute both; infinite if the tail index is at most 1 (mean) or 2 (variance)."""
        index = -float(theta[0])
        mean = self.minimum * index / (index - 1.0) if index > 1.0 else float("inf")
        variance = mean**2 / (index * (index - 2.0)) if index > 2.0 else float("inf")
        return mean, variance

    def from_mean_and_variance(self, mean: float, variance: float) -> FloatArray:
        return np.array([-mean / (mean - self.minimum)])


@register
class Bernoulli(Univariate):
    """Bernoulli(p) on {0, 1}: θ = logit p, T = x."""

    def log_base(self, x: FloatArray) -> FloatArray:
        return np.where((x[:, 0] == 0.0) | (x[:, 0] == 1.0), 0.0, -np.inf)

    def log_partition(self, theta: FloatArray) -> float:
        # Outside these limits the variance underflows.
        return float(np.logaddexp(0.0, theta[0])) if abs(theta[0]) < 700.0 else float("inf")

    def mean_statistics(self, theta: FloatArray) -> FloatArray:
        return np.asarray(special.expit(theta))

    def from_mean_statistics(self, mean: FloatArray) -> FloatArray:
        if not 0.0 < mean[0] < 1.0:
            raise ValueError(f"no Bernoulli distribution with a density has mean {mean[0]}")
        return np.asarray(special.logit(mean))

    def fisher(self, theta: FloatArray) -> FloatArray:
        return np.array([[special.expit(theta[0]) * special.expit(-theta[0])]])

    def in_scipy(self, stats: Any, theta: FloatArray) -> Any:
        return stats.bernoulli(self.mean_statistics(theta)[0])

    def sample(self, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        return (rng.random((n, 1)) < special.expit(theta[0])).astype(np.float64)


@register
class Poisson(Univariate):
    """Poisson(rate) on {0, 1, …}: θ = log rate, T = x, h = −log x!."""

    def log_base(self, x: FloatArray) -> FloatArray:
        inside = (x[:, 0] >= 0.0) & (x[:, 0] == np.floor(x[:, 0]))
        return np.where(inside, -special.gammaln(np.where(inside, x[:, 0], 0.0) + 1.0), -np.inf)

    def log_partition(self, theta: FloatArray) -> float:
        # Outside these limits counts overflow integers, or the variance underflows.
        return float(np.exp(theta[0])) if -700.0 < theta[0] < 43.0 else float("inf")

    def mean_statistics(self, theta: FloatArray) -> FloatArray:
        return np.exp(theta)

    def from_mean_statistics(self, mean: FloatArray) -> FloatArray:
        if not mean[0] > 0.0:
            raise ValueError(f"no Poisson distribution has mean {mean[0]}")
        return np.log(mean)

    def fisher(self, theta: FloatArray) -> FloatArray:
        return np.exp(theta)[:, None]

    def in_scipy(self, stats: Any, theta: FloatArray) -> Any:
        return stats.poisson(np.exp(theta[0]))

    def sample(self, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        return rng.poisson(np.exp(theta[0]), size=(n, 1)).astype(np.float64)


def newton_from_mean(family: Family, mean: FloatArray, start: FloatArray) -> FloatArray:
    """Solve ∇g(θ) = mean by damped Newton, which minimises the convex g(θ) − θ·mean."""
    theta: FloatArray = start
    for _ in range(100 if np.isfinite(mean).all() else 0):
        residual = mean - family.mean_statistics(theta)
        step = np.linalg.solve(family.fisher(theta), residual)
        decrement = max(float(residual @ step), 0.0) ** 0.5
        if decrement < 1e-12:
            return theta
        step = step / (1.0 + decrement) if decrement > 0.25 else step
        while not family.contains(theta + step):
            step = 0.5 * step
        theta = theta + step
        if not np.isfinite(theta).all():
            break
        if decrement < 1e-7:  # quadratic convergence: this step was the last that matters
            return theta
    raise ValueError(f"no member of {family} has mean statistics {mean}")


def beta(a: float, b: float) -> Distribution:
    """Return the Beta(a, b) distribution on (0, 1)."""
    return Distribution(Beta(), np.array([positive(a, "a"), positive(b, "b")]))


def gamma(shape: float, rate: float) -> Distribution:
    """Return the Gamma distribution with mean shape / rate."""
    return Distribution(Gamma(), np.array([positive(shape, "shape"), -positive(rate, "rate")]))


def exponential(rate: float) -> Distribution:
    """Return the exponential distribution with mean 1 / rate."""
    return Distribution(Exponential(), np.array([-positive(rate, "rate")]))


def pareto(index: float, minimum: float) -> Distribution:
    """Return the Pareto distribution with this tail index above `minimum`."""
    return Distribution(Pareto(minimum), np.array([-positive(index, "index")]))


def bernoulli(p: float) -> Distribution:
    """Return the distribution on {0, 1} with mean p."""
    if not 0.0 < p < 1.0:
        raise ValueError(f"p must be between 0 and 1, both excluded, not {p!r}")
    return Distribution(Bernoulli(), np.array([special.logit(p)]))


def poisson(rate: float) -> Distribution:
    """Return the Poisson distribution with mean `rate`."""
    return Distribution(Poisson(), np.log([positive(rate, "rate")]))
