"""Joint distribution of all parameters, in the user's units."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from supac.arrays import FloatArray
from supac.families import Distribution
from supac.problem.frozen.marginal import FrozenMarginal
from supac.problem.frozen.moments import moments
from supac.problem.marginals import Normal
from supac.problem.parameters import Parameters, names_of

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
        return f"Frozen({', '.join(self.names)})"

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
        columns = zip(self.parameters.marginals.values(), x.T, strict=True)
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
        marginals = {} if self.parameters is None else self.parameters.marginals
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
            f"parameter must be one of {', '.join(self.names)}, or its number, not {parameter!r}"
        )
