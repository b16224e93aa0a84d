"""Gaussian families with a restricted covariance: given, given up to a scale, or of low rank."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from supac.arrays import BoolArray, FloatArray, IntArray, covariance_matrix, frozen, vector, whole
from supac.codec import register
from supac.families.family import Distribution, ParametricFamily, check_dim
from supac.families.gaussian import LOG_2PI, GaussianFamily, NormalWhitening


class _KnownCovariance(GaussianFamily):
    """Base of the families with a given covariance, up to a scale."""

    def __init__(self, covariance: Any, extra: int):
        known = frozen(covariance_matrix(covariance, "covariance"))
        super().__init__(len(known), len(known) + extra, known.shape, known.tobytes())
        self.covariance = known

    @cached_property
    def coupled(self) -> BoolArray:
        return frozen(self.covariance != 0.0)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(dim={self.dim})"

    @cached_property
    def _root(self) -> FloatArray:
        """Compute C = U⁻ᵀ from the Cholesky factor UUᵀ = Σ, U upper triangular."""
        upper = cholesky(self.covariance[::-1, ::-1], lower=True)[::-1, ::-1]
        return solve_triangular(upper, np.eye(self.dim), trans="T")

    @cached_property
    def _precision(self) -> FloatArray:
        return self._root @ self._root.T


@register(arguments=("covariance",))
class FixedGaussian(_KnownCovariance):
    """Gaussians with a given covariance Σ: T = x, θ = Σ⁻¹μ."""

    def __init__(self, covariance: Any):
        super().__init__(covariance, 0)

    def standard(self, theta: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        return self.covariance @ theta, self._root

    def quadratic_form(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        return eta, np.zeros((self.dim, self.dim))

    def statistics(self, x: FloatArray) -> FloatArray:
        return x

    def log_base(self, x: FloatArray) -> FloatArray:
        return self.log_prob(np.zeros(self.dim), x)

    def log_partition(self, theta: FloatArray) -> float:
        return 0.5 * float(theta @ self.covariance @ theta)

    def mean_statistics(self, theta: FloatArray) -> FloatArray:
        return self.covariance @ theta

    def from_mean_statistics(self, mean: FloatArray) -> FloatArray:
        return self._precision @ mean

    def fisher(self, theta: FloatArray) -> FloatArray:
        return np.array(self.covariance)

    def from_moments(self, mean: FloatArray, covariance: FloatArray) -> FloatArray:
        return self._precision @ mean

    def features(self, z: FloatArray) -> FloatArray:
        return z

    def quadratic_moments(self, hessian: FloatArray) -> FloatArray:
        return np.empty(0)

    def coefficients(self, at: NormalWhitening, beta: FloatArray) -> FloatArray:
        return at.root @ beta

    def coordinates(self, theta: FloatArray) -> FloatArray:
        """Return the mean."""
        return self.mean_statistics(theta)

    def from_coordinates(self, phi: FloatArray) -> FloatArray:
        return self._precision @ phi

    def pull_back(self, phi: FloatArray, gradient: FloatArray) -> FloatArray:
        return self._precision @ gradient


@register(arguments=("covariance",))
class ScaledGaussian(_KnownCovariance):
    """Gaussians N(μ, sΣ) with Σ given and P = Σ⁻¹: T = (x, −½ xᵀPx), θ = (Pμ/s, 1/s)."""

    def __init__(self, covariance: Any):
        super().__init__(covariance, 1)

    def standard(self, theta: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        if not theta[-1] > 0.0:
            return None
        return self.covariance @ theta[:-1] / theta[-1], self._root * np.sqrt(theta[-1])

    def quadratic_form(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        return eta[:-1], -eta[-1] * self._precision

    def _half_square(self, x: FloatArray) -> FloatArray:
        z = x @ self._root
        return np.asarray(0.5 * np.einsum("...i,...i->...", z, z))

    def statistics(self, x: FloatArray) -> FloatArray:
        return np.hstack([x, -self._half_square(x)[:, None]])

    def mean_statistics(self, theta: FloatArray) -> FloatArray:
        mean, _ = self._standard(theta)
        return np.append(mean, -self._half_square(mean) - 0.5 * self.dim / theta[-1])

    def from_mean_statistics(self, mean: FloatArray) -> FloatArray:
        scale = 2.0 * (-mean[-1] - float(self._half_square(mean[:-1]))) / self.dim
        return self._natural(mean[:-1], scale)

    def fisher(self, theta: FloatArray) -> FloatArray:
        mean, _ = self._standard(theta)
        scale = 1.0 / theta[-1]
        corner = -scale * mean[:, None]
        last = 0.5 * self.dim * scale**2 + 2.0 * scale * self._half_square(mean)
        return np.block([[scale * self.covariance, corner], [corner.T, np.array([[last]])]])

    def from_moments(self, mean: FloatArray, covariance: FloatArray) -> FloatArray:
        return self._natural(mean, float(np.trace(self._precision @ covariance)) / self.dim)

    def _natural(self, mean: FloatArray, scale: float) -> FloatArray:
        if not scale > 0.0:
            raise ValueError(f"the scale of the covariance must be positive, not {scale}")
        return np.append(self._precision @ mean / scale, 1.0 / scale)

    def features(self, z: FloatArray) -> FloatArray:
        """Return z, then (|z|² − d)/√(2d)."""
        radius = (np.einsum("ij,ij->i", z, z) - self.dim) / np.sqrt(2.0 * self.dim)
        return np.hstack([z, radius[:, None]])

    def quadratic_moments(self, hessian: FloatArray) -> FloatArray:
        return np.array([np.trace(hessian) / np.sqrt(2.0 * self.dim)])

    def coefficients(self, at: NormalWhitening, beta: FloatArray) -> FloatArray:
        last = -2.0 * beta[-1] / (np.sqrt(2.0 * self.dim) * (1.0 / float(at.theta[-1])))
        linear = at.root @ beta[:-1] + last * (self._precision @ at.mean)
        return np.append(linear, last)

    def coordinates(self, theta: FloatArray) -> FloatArray:
        """Return the mean and √s."""
        mean, _ = self._standard(theta)
        return np.append(mean, theta[-1] ** -0.5)

    def from_coordinates(self, phi: FloatArray) -> FloatArray:
        return self._natural(phi[:-1], float(phi[-1] ** 2))

    def pull_back(self, phi: FloatArray, gradient: FloatArray) -> FloatArray:
        mean, root_scale = phi[:-1], float(phi[-1])
        along_mean = self._precision @ gradient[:-1]
        by_scale = -2.0 * (along_mean @ mean + gradient[-1]) / root_scale**3
        return np.append(along_mean / root_scale**2, by_scale)


def fixed_gaussian(mean: Any, covariance: Any) -> Distribution:
    """Return a Gaussian in the family with this covariance: only the mean is learnt."""
    return _member(FixedGaussian(covariance), mean)


def scaled_gaussian(mean: Any, covariance: Any) -> Distribution:
    """Return a Gaussian in the family of the multiples of this covariance."""
    return _member(ScaledGaussian(covariance), mean)


def _member(family: FixedGaussian | ScaledGaussian, mean: Any) -> Distribution:
    centre = vector(mean, "mean", family.dim)
    return Distribution(family, family.from_moments(centre, family.covariance))


@register(arguments=("dim", "rank"))
class LowRankGaussian(ParametricFamily):
    """N(μ, D + UUᵀ), D diagonal and U (dim, rank): θ = (μ, log D_ii, U_ij for j ≤ i).

    It has about rank·dim parameters, a full covariance dim²/2. U is lower trapezoidal, because
    rotations of its columns leave UUᵀ unchanged.
    """

    is_gaussian = True

    def __init__(self, dim: int, rank: int):
        if whole(rank, "rank", least=1) >= check_dim(dim):
            raise ValueError(
                f"rank = {rank} must be less than the {dim} coordinates; a full covariance is "
                "gaussian(mean, covariance)"
            )
        self.rank = rank
        super().__init__(dim, 2 * dim + rank * dim - rank * (rank - 1) // 2, rank)

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

    def mean_point(self, theta: FloatArray) -> FloatArray:
        return theta[: self.dim]

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
        return np.asarray(-0.5 * (square + log_det + self.dim * LOG_2PI))

    def score(self, theta: FloatArray, x: FloatArray) -> FloatArray:
        """Return z = Σ⁻¹(x − μ) for μ, ½D_ii(z_i² − Σ⁻¹_ii) for log D, (zzᵀ − Σ⁻¹)U for U."""
        mean, diagonal, directions = self.split(theta)
        inverse, shared, _ = self._precision(theta)
        z = (x - mean) * inverse - ((x - mean) @ shared.T) @ shared
        own = 0.5 * diagonal * (z**2 - (inverse - (shared**2).sum(axis=0)))
        mean_part = directions * inverse[:, None] - shared.T @ (shared @ directions)
        spread = z[:, :, None] * (z @ directions)[:, None, :] - mean_part
        return np.hstack([z, own, spread[:, *self._entries]])

    def mean_gradient(
        self, theta: FloatArray, slope: FloatArray, hessian: FloatArray
    ) -> FloatArray | None:
        """Return E[∇f] for μ, ½D_ii H_ii for log D and HU for U, H = E[∇²f] (Bonnet, Price)."""
        _, diagonal, directions = self.split(theta)
        own, shared = 0.5 * diagonal * np.diag(hessian), hessian @ directions
        return np.concatenate([slope, own, shared[self._entries]])

    def information(self, theta: FloatArray) -> FloatArray:
        """Return P for μ and ½tr(P ∂_aΣ P ∂_bΣ) for the others, P = Σ⁻¹."""
        _, diagonal, directions = self.split(theta)
        inverse, shared, _ = self._precision(theta)
        precision = np.diag(inverse) - shared.T @ shared
        across = precision @ directions  # (dim, rank)
        within = directions.T @ across
        i, j = self._entries
        own = 0.5 * np.outer(diagonal, diagonal) * precision**2
        mixed = diagonal[:, None] * precision[:, i] * across[:, j]
        both = precision[np.ix_(i, i)] * within[np.ix_(j, j)]
        both += across[np.ix_(i, j)] * across[np.ix_(i, j)].T
        found = np.zeros((self.size, self.size))
        found[: self.dim, : self.dim] = precision
        found[self.dim :, self.dim :] = np.block([[own, mixed], [mixed.T, both]])
        return found

    def sample(self, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        mean, diagonal, directions = self.split(theta)
        own, shared = rng.standard_normal((n, self.dim)), rng.standard_normal((n, self.rank))
        return np.asarray(mean + own * np.sqrt(diagonal) + shared @ directions.T)

    def entropy(self, theta: FloatArray) -> float:
        return 0.5 * (self._precision(theta)[2] + self.dim * (1.0 + LOG_2PI))


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
