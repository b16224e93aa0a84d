"""The likelihood of a smooth discrepancy, with matrices that many points share.

With the correlations R(ℓ) of b and known noise w, C = 1 + α² W⁻¹ R(ℓ) W⁻¹, W = diag(w), depends on
the ratio α of amplitude and noise level and on ℓ. For an ℓ, one decomposition W⁻¹ R W⁻¹ = V Λ Vᵀ
serves every α. So there is one for each ℓ of a grid, and between them −log p is interpolated by a
polynomial in log ℓ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from supac.arrays import FloatArray, IntArray
from supac.problem.correlations import Correlation

MANY = 300
"""Measurements beyond which eigenvectors are found among polynomials, if the correlation is smooth.
"""
SMOOTH = "squared-exponential"
"""The correlation whose eigenvalues are nothing but for a few."""
_STEP = 0.05  # of log ℓ
_STENCIL = 8  # lengths of the grid that a value is interpolated between
_SHORT = 8.0  # shortest length of the grid is the smallest distance, divided by it: R is 1 there
_LONG = 1_000.0  # longest one, in units of the whole time: R is constant there
_SHORT_OF_MANY = 200.0  # their shortest length is the whole time, divided by it
_NOTHING = 1e-13  # eigenvalues that are left out, in units of the largest


class Terms(NamedTuple):
    """The sum uᵀC⁻¹u + log|C| at n points, and its derivatives."""

    value: FloatArray
    by_residual: FloatArray
    """(n, k)."""
    by_ratio: FloatArray
    by_length: FloatArray


class Smooth(NamedTuple):
    """The sum log|C| − uᵀ(1 − C⁻¹)u at n points, of known coordinates of u, and its derivatives."""

    value: FloatArray
    by_coordinates: dict[int, FloatArray]
    """For each basis that was used: (n, its size)."""
    by_variance: FloatArray
    by_ratio: FloatArray
    by_length: FloatArray


class Decomposition(NamedTuple):
    """W⁻¹ R W⁻¹ = V Λ Vᵀ, without what is nothing beside Λ."""

    size: int
    """Of the basis in which V is given; 0 for the measurements themselves."""
    vectors: FloatArray
    """(count, r); of a basis only the first `count` members are used."""
    values: FloatArray
    """Λ: (r,)."""


class Coordinates:
    """Coordinates of vectors in each of the bases, computed when they are asked for first."""

    def __init__(self, of: Callable[[int], FloatArray]) -> None:
        self._of, self._found = of, dict[int, FloatArray]()

    def __call__(self, size: int) -> FloatArray:
        """Return those in the basis of a size: (n, size)."""
        if size not in self._found:
            self._found[size] = self._of(size)
        return self._found[size]


@dataclass(frozen=True, eq=False)
class SharedFactors:
    """Decompositions of the correlations of one series, for lengths of a grid."""

    times: FloatArray
    """(k,)."""
    noise: FloatArray
    """Noise of each measurement, up to its level: (k,)."""
    correlation: Correlation
    _made: dict[int, Decomposition] = field(default_factory=dict, repr=False)
    _bases: dict[int, tuple[FloatArray, FloatArray]] = field(default_factory=dict, repr=False)
    _last: list[tuple[tuple[FloatArray, ...], Terms]] = field(default_factory=list, repr=False)
    """The last question and answer: a value and its slopes are asked for one after the other."""

    @cached_property
    def _range(self) -> tuple[float, float]:
        """Return the logarithms of the shortest and of the longest length that matter."""
        gaps = np.diff(np.sort(self.times))
        gaps = gaps[gaps > 0.0]
        if not len(gaps):
            return 0.0, 0.0
        whole = float(np.ptp(self.times))
        low = gaps.min() / _SHORT
        if len(self.times) > MANY:
            low = max(low, whole / _SHORT_OF_MANY)
        return float(np.log(low)), float(np.log(_LONG * whole))

    def decomposition(self, node: int) -> Decomposition:
        """Return the decomposition at ℓ = exp(step·node)."""
        if node not in self._made:
            self._made[node] = self.eigen(float(np.exp(_STEP * node)))
        return self._made[node]

    def eigen(self, length: float) -> Decomposition:
        """Return the decomposition at a length."""
        size = 0
        if len(self.times) > MANY and self.correlation.name == SMOOTH:
            size, values, vectors = self._among_polynomials(length)
        else:
            matrix = self.correlation.between(self.times, self.times, length)
            values, vectors = eigh(matrix / np.outer(self.noise, self.noise), driver="evd")
        kept = values > _NOTHING * values[-1]
        return Decomposition(size, np.ascontiguousarray(vectors[:, kept]), values[kept])

    def solve(self, right: FloatArray, ratio: float, length: float) -> FloatArray:
        """Return C⁻¹ of columns (k, m) at one point."""
        found = self.eigen(length)
        size, count = ratio**2 * found.values, len(found.vectors)
        along = (self.coordinates(right.T, found.size)[:, :count] @ found.vectors).T
        weighed = found.vectors @ ((size / (1.0 + size))[:, None] * along)
        return np.asarray(right - (self.basis(found.size)[:, :count] @ weighed))

    def _among_polynomials(self, length: float) -> tuple[int, FloatArray, FloatArray]:
        """Return eigenvalues and eigenvectors of smooth correlations of many measurements.

        R(t, t') is interpolated between Chebyshev points, to all digits: R = Φ K Φᵀ, with R = K at
        these points and polynomials Φ. So the eigenvectors are in the span of W⁻¹Φ, the first
        members of a basis, whose size is returned, too.
        """
        whole = float(np.ptp(self.times))
        count = int(np.ceil(30 + 3.0 * min(whole / length, 2.0 * _SHORT_OF_MANY)))
        size = 2 ** int(np.ceil(np.log2(count)))
        angles = (np.arange(count) + 0.5) * np.pi / count
        points = np.cos(angles)
        # Φ_j(x) = Σ_k c_k T_k(x_j) T_k(x)/count, with c_0 = 1 and else 2.
        there = np.cos(angles[:, None] * np.arange(count))
        there[:, 0] *= 0.5
        root = (2.0 / count) * self._polynomials(size)[1][:count, :count] @ there.T
        places = float(self.times.min()) + 0.5 * whole * (points + 1.0)
        values, vectors = eigh(root @ self.correlation.between(places, places, length) @ root.T)
        return size, values, vectors

    def _polynomials(self, size: int) -> tuple[FloatArray, FloatArray]:
        """Return Q (k, size) and R with Q R = W⁻¹T, of Chebyshev polynomials T."""
        if size not in self._bases:
            place = 2.0 * (self.times - self.times.min()) / float(np.ptp(self.times)) - 1.0
            angles = np.arccos(np.clip(place, -1.0, 1.0))[:, None] * np.arange(size)
            self._bases[size] = np.linalg.qr(np.cos(angles) / self.noise[:, None])
        return self._bases[size]

    def basis(self, size: int) -> FloatArray:
        """Return an orthonormal basis, in columns: (k, at most size)."""
        return self._polynomials(size)[0] if size else np.eye(len(self.times))

    def coordinates(self, u: FloatArray, size: int) -> FloatArray:
        """Return coordinates of rows (n, k) in the basis."""
        return np.asarray(u @ self._polynomials(size)[0]) if size else u

    def back(self, coordinates: FloatArray, size: int) -> FloatArray:
        """Return the rows of these coordinates: (n, k)."""
        return np.asarray(coordinates @ self._polynomials(size)[0].T) if size else coordinates

    def terms(self, u: FloatArray, ratio: FloatArray, length: FloatArray) -> Terms:
        """Compute the terms at residuals u (n, k), ratios α (n,) and lengths ℓ (n,)."""
        asked = (u, ratio, length)
        for before, found in self._last:
            if all(map(np.array_equal, before, asked)):
                return found
        kept = u.copy(), ratio.copy(), length.copy()
        self._last[:] = [(kept, self._terms(*kept))]
        return self._last[0][1]

    def _terms(self, u: FloatArray, ratio: FloatArray, length: FloatArray) -> Terms:
        own = Coordinates(lambda size: self.coordinates(u, size))
        found, by_u = self.smooth(own, ratio, length), 2.0 * u
        for size, slopes in found.by_coordinates.items():
            by_u += self.back(slopes, size)
        value = found.value + np.einsum("ij,ij->i", u, u)
        return Terms(value, by_u, found.by_ratio, found.by_length)

    def smooth(
        self,
        u: Coordinates,
        ratio: FloatArray,
        length: FloatArray,
        errors: Coordinates | None = None,
        variance: FloatArray | None = None,
    ) -> Smooth:
        """Compute log|C| − uᵀ(1 − C⁻¹)u at n points.

        If u has independent normal errors with the `variance` (n,) along the rows of `errors`, it
        is the expectation over them.
        """
        low, high = self._range
        with np.errstate(divide="ignore"):
            place = np.clip(np.log(length), low, high) / _STEP
        inside = (length > np.exp(low)) & (length < np.exp(high))
        first = np.floor(place).astype(np.intp) - (_STENCIL // 2 - 1)
        weights, slopes = _lagrange(place - first)
        value, by_variance, by_ratio, by_length = np.zeros((4, len(ratio)))
        by_u: dict[int, FloatArray] = {}
        for node in range(int(first.min()), int(first.max()) + _STENCIL):
            own = node - first
            rows = np.flatnonzero((own >= 0) & (own < _STENCIL))
            if not len(rows):
                continue
            weight, slope = weights[rows, own[rows]], slopes[rows, own[rows]]
            size, vectors, values = self.decomposition(node)
            here, count = u(size), len(vectors)
            along = here[rows, :count] @ vectors
            much = ratio[rows, None] ** 2 * values
            part = much / (1.0 + much)
            damped = along * part
            squares = along**2
            if errors is not None and variance is not None:
                wide = ((errors(size)[:, :count] @ vectors) ** 2).sum(axis=0)
                squares += variance[rows, None] * wide
                by_variance[rows] -= weight * (part @ wide)
            now = np.log1p(much).sum(axis=1) - np.einsum("ij,ij->i", squares, part)
            change = part - squares * part / (1.0 + much)
            by_ratio[rows] += weight * change.sum(axis=1)
            value[rows] += weight * now
            by_length[rows] += slope * now
            if size not in by_u:
                by_u[size] = np.zeros(here.shape)
            damped *= -2.0 * weight[:, None]
            by_u[size][rows, :count] += damped @ vectors.T
        by_ratio *= 2.0 / np.maximum(ratio, 1e-300)
        by_length = np.where(inside, by_length / (_STEP * length), 0.0)
        return Smooth(value, by_u, by_variance, by_ratio, by_length)


def _lagrange(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the weights of interpolation between 0, 1, …, 7 at x, and their slopes: (n, 8)."""
    nodes = np.arange(float(_STENCIL))
    weights, slopes = np.ones((len(x), _STENCIL)), np.zeros((len(x), _STENCIL))
    for i in range(_STENCIL):
        others: IntArray = np.flatnonzero(nodes != i)
        for j in others:
            slopes[:, i] = (slopes[:, i] * (x - j) + weights[:, i]) / (i - j)
            weights[:, i] *= (x - j) / (i - j)
    return weights, slopes
