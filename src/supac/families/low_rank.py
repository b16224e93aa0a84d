"""Gaussians whose covariance is diagonal plus low-rank."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from supac.arrays import FloatArray, IntArray, covariance_matrix, vector, whole
from supac.codec import register
from supac.families.family import Distribution, ParametricFamily, check_dim

_LOG_2PI = float(np.log(2.0 * np.pi))


@register(arguments=("dim", "rank"))
class LowRankGaussian(ParametricFamily):
    """N(μ, D + UUᵀ), D diagonal and U (dim, rank): θ = (μ, log D_ii, U_ij for j ≤ i).

    It has about rank·dim parameters, a full covariance dim²/2. U is lower trapezoidal, because
    rotations of its columns leave UUᵀ unchanged.
    """

    def __init__(self, dim: int, rank: int):
        if whole(rank, "rank", least=1) >= check_dim(dim):
            raise ValueError(
                f"rank = {rank} must be less than the {dim} coordinates; a full covariance is "
                "gaussian(mean, covariance)"
            )
        self.rank = rank
        super().__init__(dim, 2 * dim + rank * dim - rank * (rank - 1) // 2, rank)
        self.is_gaussian = True

    @cached_property
    def _entries(self) -> tuple[IntArray, IntArray]:
        """Rows and columns of U that θ holds."""
        return np.tril_indices(self.dim, 0, self.rank)

    def __repr__(self) -> str:
        return f"LowRankGaussian({self.dim}, {self.rank})"

    def split(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return μ (dim,), the diagonal of D (dim,) and U (dim, rank)."""
        directions = np.zeros((self.dim, self.rank))
        directions[self._entries] = theta[2 * self.dim :]
        return theta[: self.dim], np.exp(theta[self.dim : 2 * self.dim]), directions

    def join(self, mean: FloatArray, diagonal: FloatArray, directions: FloatArray) -> FloatArray:
        """Return θ; the directions matter only through UUᵀ."""
        _, lower = np.linalg.qr(directions.T)  # U = lowerᵀ·Q, and Q drops out of UUᵀ
        return np.concatenate([mean, np.log(diagonal), lower.T[self._entries]])

    def contains(self, theta: FloatArray) -> bool:
        """Return True if variances neither overflow nor lose D to rounding."""
        if not np.isfinite(theta).all() or np.abs(theta[self.dim : 2 * self.dim]).max() > 300.0:
            return False
        _, diagonal, directions = self.split(theta)
        return bool((directions**2 / diagonal[:, None]).sum() < 1e12)

    def moments(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean, diagonal, directions = self.split(theta)
        return mean, np.diag(diagonal) + directions @ directions.T

    def _precision(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """Compute 1/D (dim,), V (rank, dim) with Σ⁻¹ = D⁻¹ − VᵀV, and log det Σ (Woodbury)."""
        _, diagonal, directions = self.split(theta)
        scaled = directions / diagonal[:, None]
        root = np.linalg.cholesky(np.eye(self.rank) + directions.T @ scaled)
        log_det = float(np.log(diagonal).sum() + 2.0 * np.log(np.diag(root)).sum())
        return 1.0 / diagonal, np.asarray(np.linalg.solve(root, scaled.T)), log_det

    def log_prob(self, theta: FloatArray, x: FloatArray) -> FloatArray:
        inverse, shared, log_det = self._precision(theta)
        away = x - theta[: self.dim]
        square = (away**2) @ inverse - ((away @ shared.T) ** 2).sum(axis=1)
        return np.asarray(-0.5 * (square + log_det + self.dim * _LOG_2PI))

    def score(self, theta: FloatArray, x: FloatArray) -> FloatArray:
        """Return z = Σ⁻¹(x − μ) for μ, ½D_ii(z_i² − Σ⁻¹_ii) for log D, (zzᵀ − Σ⁻¹)U for U."""
        mean, diagonal, directions = self.split(theta)
        inverse, shared, _ = self._precision(theta)
        z = (x - mean) * inverse - ((x - mean) @ shared.T) @ shared
        own = 0.5 * diagonal * (z**2 - (inverse - (shared**2).sum(axis=0)))
        mean_part = directions * inverse[:, None] - shared.T @ (shared @ directions)
        spread = z[:, :, None] * (z @ directions)[:, None, :] - mean_part
        return np.hstack([z, own, spread[:, *self._entries]])

    def sample(self, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        mean, diagonal, directions = self.split(theta)
        own, shared = rng.standard_normal((n, self.dim)), rng.standard_normal((n, self.rank))
        return np.asarray(mean + own * np.sqrt(diagonal) + shared @ directions.T)

    def entropy(self, theta: FloatArray) -> float:
        return 0.5 * (self._precision(theta)[2] + self.dim * (1.0 + _LOG_2PI))


def low_rank_gaussian(mean: FloatArray, covariance: FloatArray, rank: int) -> Distribution:
    """Return the member with this mean and about these variances and strongest correlations.

    The directions are the largest principal components of the correlation matrix; the diagonal is
    the rest of each variance, at least 1 % of it. Each direction has at least 5 % of the variance,
    since a direction of length zero has no gradient.
    """
    centre = vector(mean, "mean")
    matrix = covariance_matrix(covariance, "covariance", len(centre))
    family = LowRankGaussian(len(centre), rank)
    scales = np.sqrt(np.diag(matrix))
    values, vectors = np.linalg.eigh(matrix / np.outer(scales, scales))
    # The variance that a coordinate does not share is close to the smallest eigenvalue.
    strong = np.sqrt(np.maximum(values[-rank:] - values[0], 0.05)) * vectors[:, -rank:]
    own = np.maximum(1.0 - (strong**2).sum(axis=1), 0.01)
    directions = scales[:, None] * strong
    return Distribution(family, family.join(centre, scales**2 * own, directions))
