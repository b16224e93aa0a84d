"""Coordinates in which one member of a family is standard."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from supac.arrays import FloatArray

_RIDGE = 1e-12  # relative: the information may be singular


class Whitening(ABC):
    """Coordinates in which one member of a family is standard."""

    @abstractmethod
    def points(self, x: FloatArray) -> FloatArray:
        """Map points to coordinates with a meaningful Euclidean distance: (n, dim) → (n, p).

        Mahalanobis distance for a Gaussian, else the distance between whitened scores.
        """

    @abstractmethod
    def features(self, x: FloatArray) -> FloatArray:
        """Compute the score, orthonormalised under the member: (n, dim) → (n, size)."""

    @abstractmethod
    def coefficients(self, beta: FloatArray) -> FloatArray:
        """Return the η with η·score(x) = beta·features(x)."""


class NormalWhitening(Whitening):
    """Coordinates z = Cᵀ(x − μ) in which a Gaussian is N(0, I)."""

    def __init__(self, mean: FloatArray, root: FloatArray):
        self._mean, self._root = mean, root

    @property
    def mean(self) -> FloatArray:
        """Return μ: (dim,)."""
        return self._mean

    @property
    def covariance(self) -> FloatArray:
        """Compute C⁻ᵀC⁻¹: (dim, dim)."""
        return np.asarray(cho_solve((self._root, True), np.eye(len(self._root))))

    @abstractmethod
    def features_of_points(self, z: FloatArray) -> FloatArray:
        """Compute the features from z: (n, dim) → (n, size)."""

    @abstractmethod
    def _quadratic_moments(self, hessian: FloatArray) -> FloatArray:
        """Compute E[f · feature] for the quadratic features, given E[∇²f] in z."""

    def points(self, x: FloatArray) -> FloatArray:
        """Compute z = Cᵀ(x − μ)."""
        return (x - self._mean) @ self._root

    def spread(self, z: FloatArray) -> FloatArray:
        """Compute x = μ + C⁻ᵀz, the inverse of `points`: (n, dim) → (n, dim)."""
        return self._mean + np.asarray(solve_triangular(self._root, z.T, lower=True, trans="T").T)

    def features(self, x: FloatArray) -> FloatArray:
        """Compute the centred, orthonormal statistics."""
        return self.features_of_points(self.points(x))

    def projection(self, gradient: FloatArray, hessian: FloatArray) -> FloatArray:
        """Compute E[f · features] from E[∇f] and E[∇²f] in x (Bonnet, Price)."""
        slope = solve_triangular(self._root, gradient, lower=True)
        half = solve_triangular(self._root, hessian, lower=True)
        curvature = solve_triangular(self._root, half.T, lower=True)
        return np.concatenate([slope, self._quadratic_moments(np.asarray(curvature))])


class ScoreWhitening(Whitening):
    """Whitening by the Cholesky factor of the information.

    With I(θ) = CCᵀ, both features and points are C⁻¹∂_θ log π_θ(x).
    """

    def __init__(self, score: Callable[[FloatArray], FloatArray], information: FloatArray):
        power = np.diag(information)
        self._score, self._scale = score, np.sqrt(np.where(power > 0.0, power, 1.0))
        relative = information / np.outer(self._scale, self._scale)
        self._root = np.linalg.cholesky(relative + _RIDGE * np.eye(len(relative)))

    def points(self, x: FloatArray) -> FloatArray:
        """Return the features."""
        return self.features(x)

    def features(self, x: FloatArray) -> FloatArray:
        """Compute C⁻¹∂_θ log π_θ(x)."""
        score = self._score(x) / self._scale
        return np.asarray(solve_triangular(self._root, score.T, lower=True).T)

    def coefficients(self, beta: FloatArray) -> FloatArray:
        """Compute C⁻ᵀ beta."""
        return np.asarray(solve_triangular(self._root, beta, lower=True, trans="T")) / self._scale
