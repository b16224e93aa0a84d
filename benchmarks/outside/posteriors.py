"""What a method gives, and an approximation that several of them share."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from outside.problem import Gaussian
from supac.arrays import FloatArray

Posteriors = dict[int, Gaussian]
"""The posterior after at most so many runs."""


class SkippedError(Exception):
    """A method that is not run on a problem."""


class LeastSquares(Protocol):
    """A problem whose risk is about mean(residuals²)/square."""

    @property
    def prior(self) -> Gaussian:
        """The prior of the latent parameters."""

    @property
    def square(self) -> float:
        """Of residuals at a risk of one."""

    @property
    def temperature(self) -> float:
        """λ."""


def laplace(problem: LeastSquares, mean: FloatArray, jacobian: FloatArray) -> Gaussian:
    """Return the Gauss–Newton approximation of the Gibbs posterior exp(−R/λ)·prior.

    R is taken as mean(r²)/square, with the residuals' `jacobian` (k, d) in latent parameters.
    """
    precision = np.linalg.inv(problem.prior.covariance)
    if np.isfinite(jacobian).all():
        weight = 2.0 / (len(jacobian) * problem.square * problem.temperature)
        precision = precision + weight * jacobian.T @ jacobian
    covariance = np.linalg.inv(precision)
    return Gaussian(mean, 0.5 * (covariance + covariance.T))
