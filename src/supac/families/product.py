"""Products of independent exponential families, which are exponential families."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import block_diag

from supac.arrays import BoolArray, FloatArray, IntArray
from supac.codec import register
from supac.families.family import Distribution, Family, Whitening, check_dim


@register(arguments=("factors", "groups"))
class Product(Family):
    """Product of `factors`, with factor k on the coordinates `groups[k]` of x.

    θ and T are the concatenated ones of the factors. Without `groups` the factors take consecutive
    coordinates.
    """

    def __init__(self, factors: Sequence[Family], groups: Sequence[Sequence[int]] | None = None):
        dim = check_dim(sum(factor.dim for factor in factors))
        if groups is None:
            ends = np.cumsum([factor.dim for factor in factors])
            groups = [range(e - f.dim, e) for f, e in zip(factors, ends, strict=True)]
        self._factors = tuple(factors)
        self.groups: tuple[IntArray, ...] = tuple(np.array(g, dtype=np.intp) for g in groups)
        if [len(group) for group in self.groups] != [factor.dim for factor in self.factors]:
            raise ValueError("groups must give each factor as many coordinates as it has")
        if sorted(np.concatenate([*self.groups, []]).tolist()) != list(range(dim)):
            raise ValueError(f"groups must hold each of the coordinates 0 to {dim - 1} once")
        size = sum(factor.size for factor in self.factors)
        super().__init__(dim, size, self.factors, tuple(tuple(g.tolist()) for g in self.groups))
        self.chart_size = sum(factor.chart_size for factor in self.factors)
        self._pairs = list(zip(self.factors, self.groups, strict=True))

    @property
    def factors(self) -> tuple[Family, ...]:
        return self._factors

    @cached_property
    def coupled(self) -> BoolArray:
        coupled = np.eye(self.dim, dtype=bool)
        for factor, group in self._pairs:
            coupled[np.ix_(group, group)] = factor.coupled
        return coupled

    def __repr__(self) -> str:
        return f"Product({list(self.factors)}, {[group.tolist() for group in self.groups]})"

    def split(self, flat: FloatArray) -> Iterator[tuple[Family, IntArray, FloatArray]]:
        """Yield each factor with its coordinates and its part of a vector such as θ."""
        parts = np.split(flat, np.cumsum([factor.size for factor in self.factors])[:-1])
        return zip(self.factors, self.groups, parts, strict=True)

    def statistics(self, x: FloatArray) -> FloatArray:
        return np.hstack([factor.statistics(x[:, group]) for factor, group in self._pairs])

    def marginal(self, theta: FloatArray, i: int) -> tuple[FloatArray, list[Any]]:
        parts = ((f, g.tolist(), part) for f, g, part in self.split(theta))
        return next(f.marginal(part, g.index(i)) for f, g, part in parts if i in g)

    def log_base(self, x: FloatArray) -> FloatArray:
        return np.sum([factor.log_base(x[:, group]) for factor, group in self._pairs], axis=0)

    def log_partition(self, theta: FloatArray) -> float:
        return float(sum(factor.log_partition(part) for factor, _, part in self.split(theta)))

    def mean_statistics(self, theta: FloatArray) -> FloatArray:
        return np.concatenate([f.mean_statistics(part) for f, _, part in self.split(theta)])

    def from_mean_statistics(self, mean: FloatArray) -> FloatArray:
        return np.concatenate([f.from_mean_statistics(part) for f, _, part in self.split(mean)])

    def fisher(self, theta: FloatArray) -> FloatArray:
        return np.asarray(block_diag(*[f.fisher(part) for f, _, part in self.split(theta)]))

    def sample(self, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        x = np.empty((n, self.dim))
        for factor, group, part in self.split(theta):
            x[:, group] = factor.sample(part, n, rng)
        return x

    def moments(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean, covariance = np.empty(self.dim), np.zeros((self.dim, self.dim))
        for factor, group, part in self.split(theta):
            mean[group], covariance[np.ix_(group, group)] = factor.moments(part)
        return mean, covariance

    def from_moments(self, mean: FloatArray, covariance: FloatArray) -> FloatArray:
        blocks = ((f, mean[g], covariance[np.ix_(g, g)]) for f, g in self._pairs)
        return np.concatenate([factor.from_moments(*moments) for factor, *moments in blocks])

    def whiten(self, theta: FloatArray) -> Whitening:
        return _ProductWhitening(self, [f.whiten(part) for f, _, part in self.split(theta)])

    def log_prob(self, theta: FloatArray, x: FloatArray) -> FloatArray:
        return np.sum([f.log_prob(part, x[:, g]) for f, g, part in self.split(theta)], axis=0)

    def kl(self, theta: FloatArray, other: FloatArray) -> float:
        pairs = zip(self.split(theta), self.split(other), strict=True)
        return float(sum(factor.kl(mine, yours) for (factor, _, mine), (_, _, yours) in pairs))

    def coordinates(self, theta: FloatArray) -> FloatArray:
        return np.concatenate([f.coordinates(part) for f, _, part in self.split(theta)])

    def _split_chart(self, phi: FloatArray) -> Iterator[tuple[Family, FloatArray]]:
        parts = np.split(phi, np.cumsum([factor.chart_size for factor in self.factors])[:-1])
        return zip(self.factors, parts, strict=True)

    def from_coordinates(self, phi: FloatArray) -> FloatArray:
        return np.concatenate([f.from_coordinates(part) for f, part in self._split_chart(phi)])

    def pull_back(self, phi: FloatArray, gradient: FloatArray) -> FloatArray:
        parts = zip(self._split_chart(phi), self.split(gradient), strict=True)
        return np.concatenate([f.pull_back(mine, part) for (f, mine), (_, _, part) in parts])


class _ProductWhitening(Whitening):
    """Concatenation of the whitenings of the factors."""

    def __init__(self, family: Product, parts: Sequence[Whitening]):
        self._family, self._parts = family, parts

    def _pairs(self, x: FloatArray) -> Iterator[tuple[Whitening, FloatArray]]:
        coordinates = (x[:, group] for group in self._family.groups)
        return zip(self._parts, coordinates, strict=True)

    def points(self, x: FloatArray) -> FloatArray:
        return np.hstack([part.points(own) for part, own in self._pairs(x)])

    def features(self, x: FloatArray) -> FloatArray:
        return np.hstack([part.features(own) for part, own in self._pairs(x)])

    def coefficients(self, beta: FloatArray) -> FloatArray:
        parts = zip(self._parts, self._family.split(beta), strict=True)
        return np.concatenate([whitening.coefficients(own) for whitening, (_, _, own) in parts])


def product(*distributions: Distribution) -> Distribution:
    """Return the joint distribution of independent ones."""
    family = Product([distribution.exponential for distribution in distributions])
    return Distribution(family, np.concatenate([d.theta for d in distributions]))
