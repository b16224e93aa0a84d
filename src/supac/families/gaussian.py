"""Gaussian families with any covariance, with blocks or with a diagonal one; standard normal draws.

All use the mean μ and the Cholesky factor C of the precision, P = CCᵀ: z = Cᵀ(x − μ) is standard
normal, and sampling, whitening and KL need no inverse.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs, dtrtri, dtrtrs
from scipy.special import ndtri

from supac.arrays import BoolArray, FloatArray, IntArray, covariance_matrix, finite, frozen, vector
from supac.codec import register
from supac.families.family import Distribution, Family, Whitening, check_dim

MANY = 40
"""Parameters from which a covariance is made of half of its entries."""
LOG_2PI = float(np.log(2.0 * np.pi))


class GaussianFamily(Family):
    """Base of the Gaussian families.

    Subclasses define `standard`, and the statistics made orthonormal: z, then quadratic functions
    of it.
    """

    is_gaussian = True

    @abstractmethod
    def standard(self, theta: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """Compute (μ, C) with precision CCᵀ, C lower triangular; None outside Θ."""

    @abstractmethod
    def quadratic_form(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return b (dim,) and H (dim, dim) with η·T(x) = b·x + ½ xᵀHx."""

    @abstractmethod
    def features(self, z: FloatArray) -> FloatArray:
        """Compute the orthonormal statistics of standard normal points: (n, dim) → (n, size)."""

    @abstractmethod
    def quadratic_moments(self, hessian: FloatArray) -> FloatArray:
        """Compute E[f · feature] for the quadratic features, given E[∇²f] in z."""

    @abstractmethod
    def coefficients(self, at: NormalWhitening, beta: FloatArray) -> FloatArray:
        """Return the η with η·score(x) = beta·features(z(x)) at one member."""

    def whiten(self, theta: FloatArray) -> NormalWhitening:
        return NormalWhitening(self, theta)

    def _standard(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        member = self.standard(theta)
        if member is None:
            raise ValueError(f"theta = {theta} is outside the domain of {self}")
        return member

    def log_base(self, x: FloatArray) -> FloatArray:
        return np.zeros(len(x))

    def log_partition(self, theta: FloatArray) -> float:
        """½ μᵀPμ − ½ log det(P/2π), where θ begins with Pμ."""
        member = self.standard(theta)
        if member is None:
            return float("inf")
        mean, root = member
        log_det_root = float(np.log(np.diag(root)).sum())
        return 0.5 * float(mean @ theta[: self.dim]) - log_det_root + 0.5 * self.dim * LOG_2PI

    def sample(self, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        return self.whiten(theta).spread(rng.standard_normal((n, self.dim)))

    def mean_point(self, theta: FloatArray) -> FloatArray:
        return self._standard(theta)[0]

    def moments(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        at = self.whiten(theta)
        return at.mean, at.covariance

    def log_prob(self, theta: FloatArray, x: FloatArray) -> FloatArray:
        mean, root = self._standard(theta)
        z = (x - mean) @ root
        log_density_at_mean = np.log(np.diag(root)).sum() - 0.5 * self.dim * LOG_2PI
        return np.asarray(log_density_at_mean - 0.5 * np.einsum("ij,ij->i", z, z))

    def kl(self, theta: FloatArray, other: FloatArray) -> float:
        """½(tr(P'Σ) − d + |C'ᵀ(μ − μ')|² + log det P − log det P')."""
        pair = (np.asarray(each, np.float64).tobytes() for each in (theta, other))
        return _recent_kl(self, *pair)

    def _divergence(self, theta: FloatArray, other: FloatArray) -> float:
        first, second = self.standard(theta), self.standard(other)
        if first is None or second is None:
            return float("inf")
        ratio, _ = dtrtrs(first[1], second[1], lower=1)
        excess = ratio.diagonal() ** 2 - 1.0
        ratio[self._indices, self._indices] = 0.0  # what is left is below the diagonal
        shift = second[1].T @ (first[0] - second[0])
        # e − log(1 + e) on the diagonal: accurate for two members that are close.
        with np.errstate(divide="ignore"):  # infinite for one that is 10⁸ times as narrow
            spread = (excess - np.log1p(excess)).sum() + np.vdot(ratio, ratio)
        return 0.5 * float(spread + shift @ shift)

    @cached_property
    def _indices(self) -> IntArray:
        return np.arange(self.dim)

    def kl_of_first(self, count: int, theta: FloatArray, other: FloatArray) -> float:
        """Compute KL between the marginals of the first `count` coordinates; +inf outside Θ."""
        if self.standard(theta) is None or self.standard(other) is None:
            return float("inf")
        (mean, covariance), (centre, spread) = self.moments(theta), self.moments(other)
        try:
            root = np.linalg.cholesky(spread[:count, :count])
            own = np.linalg.cholesky(covariance[:count, :count])
        except np.linalg.LinAlgError:  # at the edge of Θ, by rounding
            return float("inf")
        ratio = solve_triangular(root, own, lower=True)
        shift = solve_triangular(root, mean[:count] - centre[:count], lower=True)
        log_volumes = float(np.log(np.diag(ratio)).sum())
        return 0.5 * float((ratio**2).sum() + shift @ shift - count) - log_volumes

    def entropy(self, theta: FloatArray) -> float:
        _, root = self._standard(theta)
        return 0.5 * self.dim * (1.0 + LOG_2PI) - float(np.log(np.diag(root)).sum())


class NormalWhitening(Whitening):
    """Coordinates z = Cᵀ(x − μ) in which a Gaussian is N(0, I)."""

    def __init__(self, family: GaussianFamily, theta: FloatArray):
        self.family, self.theta = family, theta
        self.mean, self.root = family._standard(theta)

    @property
    def normal(self) -> NormalWhitening:
        return self

    @cached_property
    def covariance(self) -> FloatArray:
        """Compute C⁻ᵀC⁻¹: (dim, dim)."""
        if len(self.root) > MANY:  # from half of the entries, in two thirds of the time
            half = np.asarray(dpotri(self.root, lower=1)[0])
            return frozen(np.tril(half) + np.tril(half, -1).T)
        covariance = dpotrs(self.root, np.eye(len(self.root)), lower=1)[0]
        return frozen(0.5 * (covariance + covariance.T))  # of many parameters rounding shows

    @cached_property
    def inverse_root(self) -> FloatArray:
        """Compute C⁻¹, lower triangular like C: (dim, dim)."""
        return frozen(np.asarray(dtrtri(self.root, lower=1)[0]))

    def points(self, x: FloatArray) -> FloatArray:
        """Compute z = Cᵀ(x − μ)."""
        return (x - self.mean) @ self.root

    def spread(self, z: FloatArray) -> FloatArray:
        """Compute x = μ + C⁻ᵀz, the inverse of `points`: (n, dim) → (n, dim)."""
        return self.mean + dtrtrs(self.root, z.T, lower=1, trans=1)[0].T

    def features(self, x: FloatArray) -> FloatArray:
        """Compute the centred, orthonormal statistics."""
        return self.family.features(self.points(x))

    def coefficients(self, beta: FloatArray) -> FloatArray:
        return self.family.coefficients(self, beta)

    def projection(self, gradient: FloatArray, hessian: FloatArray) -> FloatArray:
        """Compute E[f · features] from E[∇f] and E[∇²f] in x (Bonnet, Price)."""
        slope = solve_triangular(self.root, gradient, lower=True)
        half = solve_triangular(self.root, hessian, lower=True)
        curvature = solve_triangular(self.root, half.T, lower=True)
        return self.moments(np.asarray(slope), np.asarray(curvature))

    def moments(self, slope: FloatArray, curvature: FloatArray) -> FloatArray:
        """Compute E[f · features] from E[∇f] and E[∇²f] in z."""
        return np.concatenate([slope, self.family.quadratic_moments(curvature)])


@register(arguments=("dim", "blocks"))
class Gaussian(GaussianFamily):
    """Gaussians on R^dim: T = (x, x_i x_j for i ≤ j), θ = (Pμ, −P_ii/2 and −P_ij).

    With `blocks`, groups of indices, the covariance is zero between groups and only the pairs i, j
    within a group are statistics; an index in no group is a group of its own. Cholesky factors and
    inverses have the same zeros.
    """

    @property
    def gaussian(self) -> Gaussian:
        return self

    def __init__(self, dim: int, blocks: Sequence[Sequence[int]] | None = None):
        self._groups = _groups(check_dim(dim), blocks)
        sizes = [len(group) for group in self._groups]
        alone = dim - sum(sizes)
        size = dim + alone + sum(n * (n + 1) // 2 for n in sizes)
        super().__init__(dim, size, tuple(map(tuple, self._groups)))
        self.chart_size = dim + alone + sum(n * n for n in sizes)

    @property
    def blocks(self) -> list[list[int]] | None:
        """Return the groups of more than one index; None if there is only one group."""
        return None if self.chart_size == self.dim + self.dim**2 else self._groups

    # Matrices are made when they are first needed: a file may declare a family of which it has no
    # member.

    @cached_property
    def coupled(self) -> BoolArray:
        labels = np.arange(self.dim)
        for group in self._groups:
            labels[group] = group[0]
        return frozen(labels[:, None] == labels)

    @cached_property
    def _upper(self) -> tuple[IntArray, IntArray]:
        """Rows and columns i ≤ j of the entries of a covariance that are not zero."""
        rows, columns = np.nonzero(np.triu(self.coupled))
        return rows, columns

    @cached_property
    def _diagonal(self) -> BoolArray:
        return np.equal(*self._upper)

    @cached_property
    def _products(self) -> list[tuple[int, slice, slice]]:
        """Divide the products x_i x_j into runs of one i and consecutive j: i, all j, positions."""
        rows, columns = self._upper
        starts = np.flatnonzero(
            (np.diff(rows, prepend=-1) != 0) | (np.diff(columns, prepend=-2) != 1)
        )
        ends = [*starts[1:].tolist(), len(rows)]
        return [
            (int(rows[k]), slice(int(columns[k]), int(columns[k]) + end - k), slice(k, end))
            for k, end in zip(starts.tolist(), ends, strict=True)
        ]

    def __repr__(self) -> str:
        blocks = "" if self.blocks is None else f", blocks={self.blocks}"
        return f"Gaussian({self.dim}{blocks})"

    def _symmetric(self, upper: FloatArray) -> FloatArray:
        matrix = np.zeros((self.dim, self.dim))
        matrix[self._upper] = matrix.T[self._upper] = upper
        return matrix

    def _quadratic(self, hessian: FloatArray) -> FloatArray:
        """Return the coefficients of x_i x_j, i ≤ j, in ½ xᵀ·hessian·x."""
        upper = hessian[self._upper]
        return np.where(self._diagonal, 0.5 * upper, upper)

    def _natural(self, mean: FloatArray, precision: FloatArray) -> FloatArray:
        return np.concatenate([precision @ mean, self._quadratic(-precision)])

    def standard(self, theta: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        recent = _recent_standard if self.dim <= MANY else _recent_large_standard
        return recent(self, np.asarray(theta, np.float64).tobytes())

    def _factorise(self, theta: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        _, precision = self.quadratic_form(-theta)
        # LAPACK directly: SciPy's checks would take longer than the factorisation.
        root, failed = dpotrf(precision, lower=1)
        if failed:
            return None
        return np.asarray(dpotrs(root, theta[: self.dim], lower=1)[0]), root

    def quadratic_form(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        upper = eta[self.dim :]
        hessian = self._symmetric(np.where(self._diagonal, 2.0 * upper, upper))
        return eta[: self.dim], hessian

    def statistics(self, x: FloatArray) -> FloatArray:
        i, j = self._upper
        return np.hstack([x, x[:, i] * x[:, j]])

    def mean_statistics(self, theta: FloatArray) -> FloatArray:
        mean, covariance = self.moments(theta)
        second = covariance + mean[:, None] * mean
        return np.concatenate([mean, second[self._upper]])

    def from_mean_statistics(self, mean: FloatArray) -> FloatArray:
        first = mean[: self.dim]
        second = self._symmetric(mean[self.dim :])
        return self.from_moments(first, second - np.where(self.coupled, np.outer(first, first), 0))

    def fisher(self, theta: FloatArray) -> FloatArray:
        mean, covariance = self.moments(theta)
        i, j = self._upper
        mixed = covariance[:, i] * mean[j] + covariance[:, j] * mean[i]
        second = covariance + np.outer(mean, mean)
        cross = np.outer(mean, mean)
        # Isserlis: cov(x_i x_j, x_k x_l) = Σ_ik M_jl + Σ_jl μ_i μ_k + Σ_il M_jk + Σ_jk μ_i μ_l.
        quartic = (
            covariance[np.ix_(i, i)] * second[np.ix_(j, j)]
            + covariance[np.ix_(j, j)] * cross[np.ix_(i, i)]
            + covariance[np.ix_(i, j)] * second[np.ix_(j, i)]
            + covariance[np.ix_(j, i)] * cross[np.ix_(i, j)]
        )
        return np.block([[covariance, mixed], [mixed.T, quartic]])

    def from_moments(self, mean: FloatArray, covariance: FloatArray) -> FloatArray:
        matched = np.where(self.coupled, covariance_matrix(covariance, "covariance", self.dim), 0.0)
        root = np.linalg.cholesky(matched)
        return self._natural(mean, np.asarray(cho_solve((root, True), np.eye(self.dim))))

    def with_marginal(self, count: int, theta: FloatArray, other: FloatArray) -> FloatArray | None:
        """Combine a marginal and a conditional; None if there is no such conditional.

        The first `count` coordinates x have their marginal in the member `other`, N(μ, S), and the
        rest, given these, is as in `theta`, of which P_xz, P_zz and (Pμ)_z are kept:
        P_xx = S⁻¹ + P_xz P_zz⁻¹ P_zx. So P_zz of `theta` must be positive definite, P need not.
        """
        mean, covariance = self.moments(other)
        precision = -self.quadratic_form(theta)[1]
        cross, linear = precision[:count, count:], np.array(theta[: self.dim])
        factor, failed = dpotrf(precision[count:, count:], lower=1)
        if failed or not np.isfinite(theta).all():
            return None
        own = factor, True
        root = np.linalg.cholesky(covariance[:count, :count]), True
        precision[:count, :count] = cho_solve(root, np.eye(count)) + cross @ cho_solve(own, cross.T)
        linear[:count] = cho_solve(root, mean[:count]) + cross @ cho_solve(own, linear[count:])
        return np.concatenate([linear, self._quadratic(-precision)])

    def features(self, z: FloatArray) -> FloatArray:
        """Return z_i, then z_i z_j for i ≤ j, with (z_i² − 1)/√2 on the diagonal."""
        # A statistic after the other: products of columns are those of contiguous numbers.
        columns, found = np.ascontiguousarray(z.T), np.empty((self.size, len(z)))
        found[: self.dim] = columns
        products = found[self.dim :]
        for i, others, places in self._products:
            np.multiply(columns[i], columns[others], out=products[places])
        products[self._diagonal] = (products[self._diagonal] - 1.0) / np.sqrt(2.0)
        return found.T

    def quadratic_moments(self, hessian: FloatArray) -> FloatArray:
        upper = hessian[self._upper]
        return np.where(self._diagonal, np.sqrt(0.5) * upper, upper)

    def coefficients(self, at: NormalWhitening, beta: FloatArray) -> FloatArray:
        upper = np.where(self._diagonal, np.sqrt(2.0), 1.0) * beta[self.dim :]
        hessian = at.root @ self._symmetric(upper) @ at.root.T
        linear = at.root @ beta[: self.dim] - hessian @ at.mean
        return np.concatenate([linear, self._quadratic(hessian)])

    def expansion(self, mean: FloatArray, slope: FloatArray, hessian: FloatArray) -> FloatArray:
        """Return the η of slope·(x − mean) + ½(x − mean)ᵀ·hessian·(x − mean), within blocks."""
        if self.blocks is not None:
            hessian = np.where(self.coupled, hessian, 0.0)
        return np.concatenate([slope - hessian @ mean, self._quadratic(hessian)])

    def coordinates(self, theta: FloatArray) -> FloatArray:
        """Return the mean and the entries within blocks of S, SSᵀ = Σ."""
        mean, root = self._standard(theta)
        inverse_root = solve_triangular(root, np.eye(self.dim), lower=True, trans="T")
        return np.concatenate([mean, inverse_root[self.coupled]])

    def _from_chart(self, phi: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        root = np.zeros((self.dim, self.dim))
        root[self.coupled] = phi[self.dim :]
        inverse_root = np.linalg.solve(root, np.eye(self.dim))
        return phi[: self.dim], root, inverse_root.T @ inverse_root

    def from_coordinates(self, phi: FloatArray) -> FloatArray:
        mean, _, precision = self._from_chart(phi)
        return self._natural(mean, precision)

    def pull_back(self, phi: FloatArray, gradient: FloatArray) -> FloatArray:
        mean, root, precision = self._from_chart(phi)
        linear, upper = gradient[: self.dim], gradient[self.dim :]
        # gradient·dθ = linear·d(Pμ) + ⟨slope, dP⟩, and dP = −P(dS Sᵀ + S dSᵀ)P.
        outer = np.outer(linear, mean)
        slope = 0.5 * (outer + outer.T - self._symmetric(upper))
        by_root = -2.0 * precision @ slope @ precision @ root
        return np.concatenate([precision @ linear, by_root[self.coupled]])


@register(arguments=("dim",))
class DiagonalGaussian(Gaussian):
    """Gaussians on R^dim with independent coordinates: T = (x, x²), θ = (μ/σ², −1/(2σ²)).

    That is `Gaussian(dim, blocks=[])`; what takes time there is computed without matrices here.
    """

    def __init__(self, dim: int):
        super().__init__(dim, [])

    def __repr__(self) -> str:
        return f"DiagonalGaussian({self.dim})"

    def standard(self, theta: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        if not (theta[self.dim :] < 0.0).all():
            return None
        variances = -0.5 / theta[self.dim :]
        return theta[: self.dim] * variances, np.diag(variances**-0.5)

    def moments(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        variances = -0.5 / theta[self.dim :]
        return theta[: self.dim] * variances, np.diag(variances)

    def from_moments(self, mean: FloatArray, covariance: FloatArray) -> FloatArray:
        variances = np.diag(covariance)
        if not (variances > 0.0).all():
            raise ValueError(f"variances must be positive, not {variances}")
        return np.concatenate([mean / variances, -0.5 / variances])

    def log_prob(self, theta: FloatArray, x: FloatArray) -> FloatArray:
        mean, root = self._standard(theta)
        scale = np.diag(root)
        z = (x - mean) * scale
        at_mean = np.log(scale).sum() - 0.5 * self.dim * LOG_2PI
        return np.asarray(at_mean - 0.5 * np.einsum("ij,ij->i", z, z))

    def coefficients(self, at: NormalWhitening, beta: FloatArray) -> FloatArray:
        inverse_deviation = np.diag(at.root)
        quadratic = np.sqrt(0.5) * beta[self.dim :] * inverse_deviation**2
        linear = beta[: self.dim] * inverse_deviation - 2.0 * quadratic * at.mean
        return np.concatenate([linear, quadratic])


def _frozen_standard(family: Gaussian, theta: bytes) -> tuple[FloatArray, FloatArray] | None:
    """Return the mean and the Cholesky factor of a member, which cannot be written to."""
    member = family._factorise(np.frombuffer(theta))
    if member is not None:
        for each in member:
            each.flags.writeable = False
    return member


# The latest are kept: a round needs each often, and all from which earlier batches were drawn.
# Fewer are kept of many parameters, each of which may be megabytes.
_recent_standard = lru_cache(maxsize=256)(_frozen_standard)
_recent_large_standard = lru_cache(maxsize=16)(_frozen_standard)


@lru_cache(maxsize=16)
def _recent_kl(family: GaussianFamily, theta: bytes, other: bytes) -> float:
    """Return KL between two members; the latest are kept: a round needs each two or three times."""
    return family._divergence(np.frombuffer(theta), np.frombuffer(other))


def gaussian(
    mean: Any, covariance: Any, blocks: Sequence[Sequence[int]] | None = None
) -> Distribution:
    """Return a Gaussian in the family that the shape of its covariance implies.

    A (dim, dim) matrix: all Gaussians. A vector of variances, or one number: independent
    coordinates. `blocks`, groups of indices: covariances that are zero between groups.
    """
    centre = vector(np.atleast_1d(finite(mean, "mean")), "mean")
    dim = len(centre)
    spread = finite(covariance, "covariance")
    if spread.ndim == 0:
        spread = np.full(dim, float(spread))
    if spread.ndim == 1:
        if not (vector(spread, "covariance", dim) > 0.0).all():
            raise ValueError(f"covariance, given as variances, must be positive, not {spread}")
        if blocks is None:
            diagonal = DiagonalGaussian(dim)
            return Distribution(diagonal, diagonal.from_moments(centre, np.diag(spread)))
        spread = np.diag(spread)
    spread = covariance_matrix(spread, "covariance", dim)
    family = Gaussian(dim, blocks)
    if np.any(spread[~family.coupled]):
        raise ValueError(
            "covariance has entries between blocks; set them to zero or join the blocks"
        )
    return Distribution(family, family.from_moments(centre, spread))


def _groups(dim: int, blocks: Sequence[Sequence[int]] | None) -> list[list[int]]:
    """Return the groups of more than one index, in order; all of them are one without `blocks`."""
    if blocks is None:
        return [list(range(dim))] if dim > 1 else []
    named = [int(index) for block in blocks for index in block]
    if len(set(named)) < len(named) or any(not 0 <= index < dim for index in named):
        raise ValueError(f"blocks must hold different indices from 0 to {dim - 1}, not {blocks!r}")
    return sorted(sorted(map(int, block)) for block in blocks if len(block) > 1)


def latin_hypercube(n: int, dim: int, rng: np.random.Generator) -> FloatArray:
    """Draw a normal Latin hypercube: one draw per coordinate in each of n slices: (n, dim)."""
    # As by `scipy.stats.qmc`, bit for bit: its own generator, and a slice for each row.
    own = rng.spawn(1)[0]
    within = own.random((n, dim))
    slices = own.permuted(np.tile(np.arange(1, n + 1), (dim, 1)), axis=1)
    uniform = (slices.T - within) / n
    return np.asarray(ndtri(np.clip(uniform, 1e-12, 1.0 - 1e-12)))


def orthogonal(n: int, dim: int, rng: np.random.Generator) -> FloatArray:
    """Draw normal pairs ±z, in groups of up to `dim` mutually orthogonal pairs: (n, dim)."""
    normal, radii, left = [], [], n
    while left > 0:
        pairs = min((left + 1) // 2, dim)
        normal.append(rng.standard_normal((dim, dim)))
        radii.append(np.sqrt(rng.chisquare(dim, size=(pairs, 1))))
        left -= 2 * pairs
    bases, triangles = np.linalg.qr(np.reshape(normal, (-1, dim, dim)))
    # Without the signs the rotations would not be uniform.
    bases *= np.sign(np.diagonal(triangles, axis1=1, axis2=2))[:, None]
    pairs_of = [basis[: len(r)] * r for basis, r in zip(bases, radii, strict=True)]
    return np.concatenate([z for pairs in pairs_of for z in (pairs, -pairs)])[:n]
