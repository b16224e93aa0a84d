"""The likelihood of a smooth discrepancy, with matrices that many points share.

With the correlations R(ℓ) of b and known noise w, C = 1 + α² W⁻¹ R(ℓ) W⁻¹, W = diag(w), depends on
the ratio α of amplitude and noise level and on ℓ. For an ℓ, one decomposition W⁻¹ R W⁻¹ = V Λ Vᵀ
serves every α. So there is one for each ℓ of a grid, and between them −log p is interpolated by a
polynomial in log ℓ.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from supac.arrays import FloatArray, IntArray
from supac.problem.fields import COVARIANCES

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


@dataclass(frozen=True, eq=False)
class SharedFactors:
    """Decompositions of the correlations of one series, for lengths of a grid."""

    times: FloatArray
    """(k,)."""
    noise: FloatArray
    """Noise of each measurement, up to its level: (k,)."""
    covariance: str
    _made: dict[int, tuple[FloatArray, FloatArray]] = field(default_factory=dict, repr=False)
    _last: list[tuple[tuple[FloatArray, ...], Terms]] = field(default_factory=list, repr=False)
    """The last question and answer: a value and its slopes are asked for one after the other."""

    @cached_property
    def _distances(self) -> FloatArray:
        return np.abs(self.times[:, None] - self.times)

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

    def decomposition(self, node: int) -> tuple[FloatArray, FloatArray]:
        """Return V (k, r) and Λ (r,) at ℓ = exp(step·node), without what is nothing beside Λ."""
        if node not in self._made:
            self._made[node] = self.eigen(float(np.exp(_STEP * node)))
        return self._made[node]

    def eigen(self, length: float) -> tuple[FloatArray, FloatArray]:
        """Return V (k, r) and Λ (r,) at a length."""
        if len(self.times) > MANY and self.covariance == SMOOTH:
            values, vectors = self._among_polynomials(length)
        else:
            matrix = COVARIANCES[self.covariance](self._distances / length)
            values, vectors = eigh(matrix / np.outer(self.noise, self.noise), driver="evd")
        kept = values > _NOTHING * values[-1]
        return np.ascontiguousarray(vectors[:, kept]), values[kept]

    def solve(self, right: FloatArray, ratio: float, length: float) -> FloatArray:
        """Return C⁻¹ of columns (k, m) at one point."""
        vectors, values = self.eigen(length)
        size = ratio**2 * values
        return np.asarray(right - vectors @ ((size / (1.0 + size))[:, None] * (vectors.T @ right)))

    def _among_polynomials(self, length: float) -> tuple[FloatArray, FloatArray]:
        """Return eigenvalues and eigenvectors of smooth correlations of many measurements.

        R(t, t') is interpolated between Chebyshev points, to all digits: R = Φ K Φᵀ, with R = K at
        these points and polynomials Φ. So the eigenvectors are in the span of W⁻¹Φ.
        """
        first, whole = self.times.min(), float(np.ptp(self.times))
        count = int(np.ceil(30 + 3.0 * min(whole / length, 2.0 * _SHORT_OF_MANY)))
        angles = (np.arange(count) + 0.5) * np.pi / count
        points = np.cos(angles)
        place = 2.0 * (self.times - first) / whole - 1.0
        # Φ_j(x) = Σ_k c_k T_k(x_j) T_k(x)/count, with c_0 = 1 and else 2.
        order = np.arange(count)
        here = np.cos(np.arccos(np.clip(place, -1.0, 1.0))[:, None] * order)
        there = np.cos(angles[:, None] * order)
        there[:, 0] *= 0.5
        basis = (2.0 / count) * here @ there.T
        orthonormal, root = np.linalg.qr(basis / self.noise[:, None])
        apart = 0.5 * whole * np.abs(points[:, None] - points)
        values, vectors = eigh(root @ COVARIANCES[self.covariance](apart / length) @ root.T)
        return values, orthonormal @ vectors

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
        low, high = self._range
        with np.errstate(divide="ignore"):
            place = np.clip(np.log(length), low, high) / _STEP
        inside = (length > np.exp(low)) & (length < np.exp(high))
        first = np.floor(place).astype(np.intp) - (_STENCIL // 2 - 1)
        weights, slopes = _lagrange(place - first)
        value, by_ratio, by_length = (np.zeros(len(u)) for _ in range(3))
        by_u = np.zeros(u.shape)
        for node in range(int(first.min()), int(first.max()) + _STENCIL):
            own = node - first
            rows = np.flatnonzero((own >= 0) & (own < _STENCIL))
            if not len(rows):
                continue
            weight, slope = weights[rows, own[rows]], slopes[rows, own[rows]]
            found = self._at_node(node, u[rows], ratio[rows])
            value[rows] += weight * found.value
            by_ratio[rows] += weight * found.by_ratio
            by_u[rows] += weight[:, None] * found.by_residual
            by_length[rows] += slope * found.value
        return Terms(value, by_u, by_ratio, np.where(inside, by_length / (_STEP * length), 0.0))

    def _at_node(self, node: int, u: FloatArray, ratio: FloatArray) -> Terms:
        """Compute the terms at one length of the grid."""
        vectors, values = self.decomposition(node)
        along = u @ vectors
        size = ratio[:, None] ** 2 * values
        part = size / (1.0 + size)
        damped = along * part
        value = np.einsum("ij,ij->i", u, u) - np.einsum("ij,ij->i", along, damped)
        value += np.log1p(size).sum(axis=1)
        change = part - (along**2 * part) / (1.0 + size)
        with np.errstate(divide="ignore", invalid="ignore"):
            by_ratio = np.nan_to_num(2.0 * change.sum(axis=1) / ratio)
        return Terms(value, 2.0 * (u - damped @ vectors.T), by_ratio, np.zeros(len(u)))


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
