"""Gaussian families whose covariance is given, or given up to a scale."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from supac.arrays import BoolArray, FloatArray, covariance_matrix, frozen, vector
from supac.codec import register
from supac.families.family import Distribution, Whitening
from supac.families.gaussian import GaussianFamily, NormalWhitening


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

    def whiten(self, theta: FloatArray) -> Whitening:
        return _FixedWhitening(*self._standard(theta))

    def coordinates(self, theta: FloatArray) -> FloatArray:
        """Return the mean."""
        return self.mean_statistics(theta)

    def from_coordinates(self, phi: FloatArray) -> FloatArray:
        return self._precision @ phi

    def pull_back(self, phi: FloatArray, gradient: FloatArray) -> FloatArray:
        return self._precision @ gradient


class _FixedWhitening(NormalWhitening):
    """Features z."""

    def features_of_points(self, z: FloatArray) -> FloatArray:
        return z

    def _quadratic_moments(self, hessian: FloatArray) -> FloatArray:
        return np.empty(0)

    def coefficients(self, beta: FloatArray) -> FloatArray:
        return self._root @ beta


@register(arguments=("covariance",))
class ScaledGaussian(_KnownCovariance):
    """Gaussians N(μ, sΣ) with Σ given and P = Σ⁻¹: T = (x, −½ xᵀPx), θ = (Pμ/s, 1/s)."""

    def __init__(self, covariance: Any):
        super().__init__(covariance, 1)

    def standard(self, theta: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        if not theta[-1] > 0.0:
            return None
        return self.covariance @ theta[:-1] / theta[-1], self._root * np.sqrt(theta[-1])

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

    def whiten(self, theta: FloatArray) -> Whitening:
        return _ScaledWhitening(self, *self._standard(theta), scale=1.0 / float(theta[-1]))

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


class _ScaledWhitening(NormalWhitening):
    """Features z, then (|z|² − d)/√(2d)."""

    def __init__(self, family: ScaledGaussian, mean: FloatArray, root: FloatArray, scale: float):
        super().__init__(mean, root)
        self._family, self._scale = family, scale

    def _quadratic_moments(self, hessian: FloatArray) -> FloatArray:
        return np.array([np.trace(hessian) / np.sqrt(2.0 * len(hessian))])

    def features_of_points(self, z: FloatArray) -> FloatArray:
        dim = z.shape[1]
        radius = (np.einsum("ij,ij->i", z, z) - dim) / np.sqrt(2.0 * dim)
        return np.hstack([z, radius[:, None]])

    def coefficients(self, beta: FloatArray) -> FloatArray:
        last = -2.0 * beta[-1] / (np.sqrt(2.0 * len(self._mean)) * self._scale)
        linear = self._root @ beta[:-1] + last * (self._family._precision @ self._mean)
        return np.append(linear, last)


def fixed_gaussian(mean: Any, covariance: Any) -> Distribution:
    """Return a Gaussian in the family with this covariance: only the mean is learnt."""
    return _member(FixedGaussian(covariance), mean)


def scaled_gaussian(mean: Any, covariance: Any) -> Distribution:
    """Return a Gaussian in the family of the multiples of this covariance."""
    return _member(ScaledGaussian(covariance), mean)


def _member(family: FixedGaussian | ScaledGaussian, mean: Any) -> Distribution:
    centre = vector(mean, "mean", family.dim)
    return Distribution(family, family.from_moments(centre, family.covariance))
