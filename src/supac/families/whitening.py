"""Coordinates in which one member of a family is standard."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from supac.arrays import FloatArray

_RIDGE = 1e-12  # of the information, relative: directions that change nothing have none


class Whitening(ABC):
    """Coordinates in which one member of a family is standard."""

    @abstractmethod
    def points(self, x: FloatArray) -> FloatArray:
        """(n, dim) → (n, p): Euclidean distance there is the member's own distance between points.

        Mahalanobis' for a Gaussian; elsewhere the distance between whitened scores.
        """

    @abstractmethod
    def features(self, x: FloatArray) -> FloatArray:
        """(n, dim) → (n, size): the score, orthonormal under the member."""

    @abstractmethod
    def coefficients(self, beta: FloatArray) -> FloatArray:
        """The η with η·score(x) = beta·features(x)."""


class NormalWhitening(Whitening):
    """Coordinates z = Cᵀ(x − μ) in which a Gaussian is N(0, I)."""

    def __init__(self, mean: FloatArray, root: FloatArray):
        self._mean, self._root = mean, root

    @property
    def mean(self) -> FloatArray:
        """μ: (dim,)."""
        return self._mean

    @property
    def covariance(self) -> FloatArray:
        """C⁻ᵀC⁻¹: (dim, dim)."""
        return np.asarray(cho_solve((self._root, True), np.eye(len(self._root))))

    @abstractmethod
    def features_of_points(self, z: FloatArray) -> FloatArray:
        """The features as functions of z, the same for every member: (n, dim) → (n, size)."""

    @abstractmethod
    def _quadratic_moments(self, hessian: FloatArray) -> FloatArray:
        """E[f · feature] for the features of second degree, given E[∇²f] in z."""

    def points(self, x: FloatArray) -> FloatArray:
        """z = Cᵀ(x − μ)."""
        return (x - self._mean) @ self._root

    def spread(self, z: FloatArray) -> FloatArray:
        """x = μ + C⁻ᵀz, the inverse of `points`: (n, dim) → (n, dim)."""
        return self._mean + np.asarray(solve_triangular(self._root, z.T, lower=True, trans="T").T)

    def features(self, x: FloatArray) -> FloatArray:
        """The statistics, centred and orthonormal."""
        return self.features_of_points(self.points(x))

    def projection(self, gradient: FloatArray, hessian: FloatArray) -> FloatArray:
        """E[f · features], from E[∇f] and E[∇²f] in x by the identities of Bonnet and Price."""
        slope = solve_triangular(self._root, gradient, lower=True)
        half = solve_triangular(self._root, hessian, lower=True)
        curvature = solve_triangular(self._root, half.T, lower=True)
        return np.concatenate([slope, self._quadratic_moments(np.asarray(curvature))])


class ScoreWhitening(Whitening):
    """Whitening by the Cholesky factor of the information.

    With I(θ) = CCᵀ the features are C⁻¹∂_θℓ(θ, x), and they are the points as well.
    """

    def __init__(self, score: Callable[[FloatArray], FloatArray], information: FloatArray):
        power = np.diag(information)
        self._score, self._scale = score, np.sqrt(np.where(power > 0.0, power, 1.0))
        relative = information / np.outer(self._scale, self._scale)
        self._root = np.linalg.cholesky(relative + _RIDGE * np.eye(len(relative)))

    def points(self, x: FloatArray) -> FloatArray:
        """The features themselves."""
        return self.features(x)

    def features(self, x: FloatArray) -> FloatArray:
        """C⁻¹∂_θℓ(θ, x)."""
        score = self._score(x) / self._scale
        return np.asarray(solve_triangular(self._root, score.T, lower=True).T)

    def coefficients(self, beta: FloatArray) -> FloatArray:
        """C⁻ᵀ beta."""
        return np.asarray(solve_triangular(self._root, beta, lower=True, trans="T")) / self._scale
