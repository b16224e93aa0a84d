"""The projection of an emulated risk on the statistics of a Gaussian, averaged over common draws.

The coefficients of the statistics are E[∇R] and E[∇²R], in coordinates z in which the Gaussian is
standard (Bonnet, Price). They can be estimated from values of the risk, by regression on all
statistics, of which many parameters have too many. So gradients are used: each holds `dim`
numbers, and a regression of the gradients on z gives E[∇R] as its intercept and E[∇²R] as its
slope. Its cost does not depend on the number of statistics, and it is exact for quadratic
functions. Losses without a derivative are regressed on the statistics of the few directions that
move the outputs most.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.blas import dtrmm

from supac.arrays import FloatArray
from supac.emulator.tuning import DEFAULT, DrawTuning
from supac.families import Family, NormalWhitening
from supac.families.gaussian import orthogonal


@dataclass(frozen=True, eq=False)
class Projection:
    """Mean of a function, E[function · features], and the share of variance explained by them."""

    mean: float
    beta: FloatArray
    explained: float

    @classmethod
    def of(cls, values: FloatArray, fitted: FloatArray, beta: FloatArray) -> Projection:
        """Return the projection of values (n,), approximated by `fitted` (n,), whose mean is zero.

        Over the draws the mean of `fitted` differs from zero by an error that the mean of the
        values shares: it is subtracted (control variate).
        """
        total = float(values.var())
        explained = min(float(fitted.var()) / total, 1.0) if total > 0.0 else 1.0
        return cls(float(values.mean() - fitted.mean()), beta, explained)


@dataclass(frozen=True, eq=False)
class CommonDraws:
    """Standard normal points z (n, dim), the same for all members that are visited in a round."""

    z: FloatArray
    _least_squares: dict[Family, tuple[FloatArray, FloatArray]] = field(default_factory=dict)

    def project_values(self, whitening: NormalWhitening, values: FloatArray) -> Projection:
        """Regress values (n,) on the statistics."""
        family = whitening.family
        if family not in self._least_squares:
            features = family.features(self.z)
            centred = features - features.mean(axis=0)
            solve = np.linalg.solve(centred.T @ centred, centred.T)
            self._least_squares[family] = (features, solve)
        features, least_squares = self._least_squares[family]
        beta = least_squares @ values
        return Projection.of(values, features @ beta, beta)

    @cached_property
    def _mean(self) -> FloatArray:
        return np.asarray(self.z.mean(axis=0))

    @cached_property
    def _regression(self) -> FloatArray:
        """Compute (CᵀC)⁻¹Cᵀ of the centred points C: (dim, n)."""
        centred = self.z - self._mean
        normal = cho_factor(centred.T @ centred, lower=True)
        return np.asarray(cho_solve(normal, centred.T, check_finite=False))

    def project_gradients(
        self, whitening: NormalWhitening, values: FloatArray, gradients: FloatArray
    ) -> Projection:
        """Regress gradients in z (n, dim) on z: the intercept is E[∇R], the slope E[∇²R]."""
        hessian = self._regression @ gradients
        hessian = 0.5 * (hessian + hessian.T)
        slope = gradients.mean(axis=0) - self._mean @ hessian
        fitted = np.einsum("ij,ij->i", self.z @ (0.5 * hessian) + slope, self.z)
        fitted -= 0.5 * np.trace(hessian)
        return Projection.of(values, fitted, whitening.moments(slope, hessian))


@dataclass(frozen=True, eq=False)
class Expansion:
    """Mean of a function under a Gaussian, and E[∇f] and E[∇²f] in its own coordinates x."""

    mean: float
    slope: FloatArray
    hessian: FloatArray
    explained: float
    """Share of the function's variance that they explain."""
    deviation: float
    """Standard deviation of what they explain."""


@dataclass(frozen=True, eq=False)
class PairedDraws:
    """Standard normal points ±z of many parameters; one of each pair is kept: (n, dim).

    Half the difference of the gradients at z and −z is regressed on z: E[∇²f] = E[∇f zᵀ]·Cᵀ with
    z = Cᵀ(x − μ).
    """

    half: FloatArray

    @classmethod
    def of(cls, z: FloatArray) -> PairedDraws:
        """Take one point of each pair of `orthogonal` draws: (n, dim)."""
        n, dim = z.shape
        place = np.arange(n) % (2 * dim)
        size = np.minimum(2 * dim, n - (np.arange(n) - place))
        return cls(z[place < size // 2])

    @cached_property
    def _least_squares(self) -> FloatArray:
        """Compute (ZᵀZ)⁻¹Zᵀ, transposed: (n, dim)."""
        root = cho_factor(self.half.T @ self.half, lower=True)
        return np.ascontiguousarray(cho_solve(root, self.half.T, check_finite=False).T)

    def steps(self, whitening: NormalWhitening) -> FloatArray:
        """Return x − μ of the points that are kept: (n, dim)."""
        return np.asarray(dtrmm(1.0, whitening.inverse_root, self.half, side=1, lower=1))

    def expand(
        self,
        whitening: NormalWhitening,
        steps: FloatArray,
        values: tuple[FloatArray, FloatArray],
        slope: FloatArray,
        differences: FloatArray,
    ) -> Expansion:
        """Return the expansion of a function with values (n,) at both points of each pair.

        The points are at μ ± `steps` (n, dim). `slope` (dim,) is the mean of the gradients in x,
        `differences` (n, dim) are half of those between the two points of a pair.
        """
        mixed = differences.T @ self._least_squares  # E[∇f zᵀ]
        hessian = dtrmm(1.0, whitening.root, mixed.T, lower=1)
        # The regression fits as many pairs as parameters exactly: mixed·z are the differences.
        n, dim = self.half.shape
        bent = differences if n == dim else self.half @ mixed.T
        trace = float(np.vdot(whitening.inverse_root, mixed.T))
        fitted = 0.5 * (np.einsum("ij,ij->i", steps, bent) - trace)
        linear = steps @ slope
        both = np.concatenate([fitted + linear, fitted - linear])
        found = Projection.of(np.concatenate(values), both, slope)
        hessian = 0.5 * (hessian + hessian.T)
        return Expansion(found.mean, slope, hessian, found.explained, float(both.std()))


@dataclass(frozen=True, eq=False)
class SubspaceDraws:
    """Standard normal points, for functions that vary along few of many directions."""

    within: FloatArray
    """Coordinates in the subspace: (n, r)."""
    around: FloatArray
    """Points of which the part outside the subspace is taken: (n, dim)."""
    certain: int = 0
    """Number of directions that are in the subspace whatever a function does."""

    @classmethod
    def of(
        cls,
        dim: int,
        rng: np.random.Generator,
        certain: int = 0,
        tuning: DrawTuning = DEFAULT.draws,
    ) -> SubspaceDraws:
        """Draw the points, for some directions besides `certain` ones."""
        rank = min(tuning.directions + certain, dim)
        n = tuning.a_direction * rank
        return cls(orthogonal(n, rank, rng), rng.standard_normal((n, dim)), certain)

    def basis(self, gradients: FloatArray, certain: FloatArray) -> FloatArray:
        """Find the directions in which gradients (n, dim) are largest: (dim, r).

        The `certain` directions (dim, c) are among them.
        """
        first = np.linalg.qr(certain)[0]
        rest = gradients - (gradients @ first) @ first.T
        right = np.linalg.svd(rest, full_matrices=False)[2]
        rank = self.within.shape[1] - first.shape[1]
        found = np.concatenate([first, right[:rank].T], axis=1)
        # Where gradients span fewer directions, the others found may repeat the certain ones.
        return np.linalg.qr(found)[0] if first.shape[1] else found

    def points(self, basis: FloatArray) -> FloatArray:
        """Return the points, for a subspace with this basis: (n, dim)."""
        return self.around + (self.within - self.around @ basis) @ basis.T

    @cached_property
    def _features(self) -> FloatArray:
        rows, columns = np.triu_indices(self.within.shape[1])
        products = self.within[:, rows] * self.within[:, columns] - (rows == columns)
        return np.hstack([self.within, products])

    @cached_property
    def _least_squares(self) -> FloatArray:
        centred = self._features - self._features.mean(axis=0)
        return np.asarray(np.linalg.pinv(centred), dtype=np.float64)

    @cached_property
    def _normal(self) -> tuple[FloatArray, bool]:
        centred = self._features - self._features.mean(axis=0)
        return cho_factor(centred.T @ centred, lower=True, overwrite_a=True)

    def _regress(self, values: FloatArray) -> FloatArray:
        """Return the coefficients of the statistics for values (n,) of mean zero.

        With many certain directions a pseudo-inverse would take longer than the rest of a round,
        so the normal equations are solved, unless there are as many statistics as draws.
        """
        draws, statistics = self._features.shape
        if not self.certain or statistics >= draws:
            return np.asarray(self._least_squares @ values)
        return np.asarray(cho_solve(self._normal, self._features.T @ values, check_finite=False))

    def project(
        self, whitening: NormalWhitening, basis: FloatArray, values: FloatArray
    ) -> Projection:
        """Regress values (n,) on the statistics of the subspace; none outside it has a part."""
        rank = basis.shape[1]
        found = self._regress(values - values.mean())
        half = np.zeros((rank, rank))
        half[np.triu_indices(rank)] = found[rank:]
        hessian = basis @ (half + half.T) @ basis.T
        beta = whitening.moments(basis @ found[:rank], hessian)
        return Projection.of(values, self._features @ found, beta)
