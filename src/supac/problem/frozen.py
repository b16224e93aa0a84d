"""Distributions of all parameters or of one, in the user's units, with SciPy's interface."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from scipy import stats

from supac.arrays import FloatArray
from supac.families import Distribution
from supac.problem.marginals import Marginal, Normal
from supac.problem.moments import moments
from supac.problem.problem import Parameters, joined, names_of

_HALVINGS = 200  # at most, of the interval around a quantile of a mixture

Law = Any
"""A univariate frozen distribution of `scipy.stats`."""
RandomState = np.random.Generator | int | None
"""A generator, a seed, or None for a random seed, as in SciPy."""


class Frozen:
    """Distribution in the user's units, with the methods of SciPy's frozen distributions.

    With `parameters`, `distribution` is that of the latent u, and the density in the user's units
    is p(x) = p(u) / |det dx/du| at u = u(x). Without them, x = u.
    """

    def __init__(self, distribution: Distribution, parameters: Parameters | None = None):
        if parameters is not None and len(parameters) != distribution.dim:
            raise ValueError(
                f"the distribution needs {distribution.dim} parameters, not {parameters!r}"
            )
        self.distribution, self.parameters = distribution, parameters
        self.names = names_of(parameters, distribution.dim)
        self.dim = distribution.dim

    def __repr__(self) -> str:
        return f"Frozen({joined(self.names)})"

    def rvs(self, size: int | tuple[int, ...] = 1, random_state: RandomState = None) -> FloatArray:
        """Draw independent points: (*size, dim), or (dim,) for size 1, as in SciPy."""
        shape = (size,) if isinstance(size, int | np.integer) else tuple(size)
        rng = np.random.default_rng(random_state)
        draws = self.distribution.sample(int(np.prod(shape)), rng)
        if self.parameters is not None:
            draws = self.parameters.from_latent(draws)
        return draws[0] if shape == (1,) else draws.reshape(*shape, self.dim)

    def logpdf(self, x: Any) -> FloatArray:
        """Compute the log-density, −inf on and outside the bounds: (…, dim) → (…).

        For discrete families it is the log-probability.
        """
        points = np.asarray(x, dtype=np.float64)
        if points.shape[-1:] != (self.dim,):
            raise ValueError(f"x must hold one point a row, (…, {self.dim}), not {points.shape}")
        flat = points.reshape(-1, self.dim)
        return self._logpdf(flat).reshape(points.shape[:-1])[()]

    def _logpdf(self, x: FloatArray) -> FloatArray:
        if self.parameters is None:
            return self.distribution.log_prob(x)
        columns = zip(self.parameters.transforms.values(), x.T, strict=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            u = np.column_stack([marginal.to_latent(column) for marginal, column in columns])
        inside = np.asarray(np.isfinite(u).all(axis=1))
        u = np.where(inside[:, None], u, 0.0)
        density = self.distribution.log_prob(u) - self.parameters.log_jacobian(u)
        outside = np.where(np.isnan(x).any(axis=1), np.nan, -np.inf)
        return np.where(inside, density, outside)

    def pdf(self, x: Any) -> FloatArray:
        """Compute the density: (…, dim) → (…)."""
        return np.exp(self.logpdf(x))

    @cached_property
    def _moments(self) -> tuple[FloatArray, FloatArray]:
        if self.parameters is None:
            return self.distribution.family.moments(self.distribution.theta)
        return moments(self.distribution, self.parameters)

    def mean(self) -> FloatArray:
        """Return the mean (dim,)."""
        return self._moments[0].copy()

    def cov(self) -> FloatArray:
        """Return the covariance (dim, dim)."""
        return self._moments[1].copy()

    def var(self) -> FloatArray:
        """Return the variances (dim,)."""
        return np.diag(self._moments[1]).copy()

    def std(self) -> FloatArray:
        """Return the standard deviations (dim,)."""
        return np.sqrt(self.var())

    def marginal(self, parameter: str | int | np.integer[Any]) -> Any:
        """Return the distribution of one parameter, by name or index, with cdf, ppf, interval etc.

        Without `Parameters` it is a distribution of `scipy.stats`, if there is one.
        """
        i = self._index(parameter)
        shares, laws = self.distribution.family.marginal(self.distribution.theta, i)
        if self.parameters is None and len(laws) == 1:
            return laws[0]
        marginals = {} if self.parameters is None else self.parameters.transforms
        transform = marginals.get(self.names[i], Normal(0.0, 1.0))  # the identity
        mean, covariance = self._moments
        return FrozenMarginal(shares, laws, transform, float(mean[i]), float(covariance[i, i]))

    def _index(self, parameter: str | int | np.integer[Any]) -> int:
        if isinstance(parameter, str) and parameter in self.names:
            return self.names.index(parameter)
        number = isinstance(parameter, int | np.integer) and not isinstance(parameter, bool)
        if number and -self.dim <= int(parameter) < self.dim:
            return int(parameter) % self.dim
        raise ValueError(
            f"parameter must be one of {joined(self.names)}, or its number, not {parameter!r}"
        )


class FrozenMarginal:
    """Distribution of x = x(u), increasing, for a mixture distribution of u; methods as in SciPy.

    cdf(x) = Σ_k w_k F_k(u(x)), and pdf(x) = Σ_k w_k f_k(u(x)) / x'(u).
    """

    def __init__(
        self,
        shares: FloatArray,
        laws: Sequence[Law],
        transform: Marginal,
        mean: float,
        variance: float,
    ):
        if any(isinstance(law.dist, stats.rv_discrete) for law in laws):
            raise TypeError("discrete distributions have no quantiles here: use draws, rvs(n)")
        self._shares, self._laws, self._transform = shares, list(laws), transform
        self._mean, self._variance = mean, variance

    def support(self) -> tuple[float, float]:
        """Return the ends of the support."""
        return float(self.ppf(0.0)), float(self.ppf(1.0))

    def _latent(self, x: Any) -> tuple[FloatArray, FloatArray]:
        """Return x as an array, and u(x), −inf and +inf below and above the bounds."""
        points = np.asarray(x, dtype=np.float64)
        lower, upper = self._transform.bounds
        with np.errstate(invalid="ignore", divide="ignore"):
            u = np.asarray(self._transform.to_latent(points))
        u = np.where(points <= lower, -np.inf, np.where(points >= upper, np.inf, u))
        return points, u

    def _mixed(self, function: str, u: FloatArray) -> FloatArray:
        values = [getattr(law, function)(u) for law in self._laws]
        return np.tensordot(self._shares, np.stack(values), axes=1)

    def pdf(self, x: Any) -> FloatArray:
        """Compute the density in the user's unit, 0 on and outside the bounds."""
        return np.exp(self.logpdf(x))

    def logpdf(self, x: Any) -> FloatArray:
        """Compute the log-density in the user's unit, −inf on and outside the bounds."""
        points, u = self._latent(x)
        inside = np.isfinite(u)
        safe = np.where(inside, u, 0.0)
        parts = np.stack([law.logpdf(safe) for law in self._laws])
        shares = np.log(self._shares).reshape(-1, *(1,) * safe.ndim)
        density = np.logaddexp.reduce(parts + shares, axis=0) - self._transform.log_slope(safe)
        return np.where(inside, density, np.where(np.isnan(points), np.nan, -np.inf))[()]

    def cdf(self, x: Any) -> FloatArray:
        """Compute P(X ≤ x)."""
        return self._mixed("cdf", self._latent(x)[1])[()]

    def sf(self, x: Any) -> FloatArray:
        """Compute P(X > x), accurately for small values."""
        return self._mixed("sf", self._latent(x)[1])[()]

    def ppf(self, q: Any) -> FloatArray:
        """Compute the quantile x with P(X ≤ x) = q."""
        return self._quantile(q, "ppf", "cdf")

    def isf(self, q: Any) -> FloatArray:
        """Compute the upper quantile x with P(X > x) = q."""
        return self._quantile(q, "isf", "sf")

    def _quantile(self, q: Any, inverse: str, function: str) -> FloatArray:
        share = np.asarray(q, dtype=np.float64)
        share = np.where((share >= 0.0) & (share <= 1.0), share, np.nan)
        ends = np.stack([getattr(law, inverse)(share) for law in self._laws])
        low, high = ends.min(axis=0), ends.max(axis=0)
        rising = 1.0 if function == "cdf" else -1.0
        # The quantile of a mixture lies between the smallest and the largest of the components',
        # which are all infinite if one is.
        for _ in range(_HALVINGS if len(ends) > 1 else 0):
            middle = np.where(low == high, low, 0.5 * low + 0.5 * high)
            if ((middle <= low) | (middle >= high) | np.isnan(middle)).all():
                break
            above = rising * (self._mixed(function, middle) - share) >= 0.0
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        lower, upper = self._transform.bounds
        with np.errstate(invalid="ignore"):
            x = np.asarray(self._transform.from_latent(high))
        return np.where(np.isneginf(high), lower, np.where(np.isposinf(high), upper, x))[()]

    def interval(self, confidence: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Return the central interval with this probability."""
        outside = 0.5 * (1.0 - confidence)
        return self.ppf(outside), self.isf(outside)

    def median(self) -> float:
        """Return the median."""
        return float(self.ppf(0.5))

    def mean(self) -> float:
        """Return the mean."""
        return self._mean

    def var(self) -> float:
        """Return the variance."""
        return self._variance

    def std(self) -> float:
        """Return the standard deviation."""
        return float(np.sqrt(self._variance))

    def rvs(self, size: int | tuple[int, ...] = 1, random_state: RandomState = None) -> FloatArray:
        """Draw independent values: (*size,), or a number for size 1, as in SciPy."""
        rng = np.random.default_rng(random_state)
        which = rng.choice(len(self._laws), size=size, p=self._shares / self._shares.sum())
        draws = np.stack([law.rvs(size=size, random_state=rng) for law in self._laws])
        draws = draws.reshape(len(self._laws), *which.shape)
        x = self._transform.from_latent(np.take_along_axis(draws, which[None], axis=0)[0])
        return x[0] if np.shape(x) == (1,) else x
