"""Exact expectations in small dimensions, so that theorems can be tested without noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, roots_hermitenorm

import supac
from supac.arrays import FloatArray
from supac.surrogate.estimator import Surrogate
from supac.surrogate.least_squares import project

Function = Callable[[FloatArray], FloatArray]


def nodes(at: supac.Distribution) -> tuple[FloatArray, FloatArray]:
    """Points and weights: Gauss–Hermite for Gaussians, else trapezoids where they converge fast."""
    if isinstance(at.family, supac.Beta | supac.Gamma):
        y = np.linspace(-25.0, 15.0, 801)[:, None]  # log x or logit x: both tails die out
        is_beta = isinstance(at.family, supac.Beta)
        x = expit(y) if is_beta else np.exp(y)
        slope = x * expit(-y) if is_beta else x
        w = np.exp(at.log_prob(x)) * slope[:, 0]
        return x, w / w.sum()
    z, w = roots_hermitenorm(40)
    grids = np.meshgrid(*[z] * at.dim, indexing="ij")
    weights = np.prod(np.meshgrid(*[w] * at.dim, indexing="ij"), axis=0).ravel()
    mean, root = at.mean, np.linalg.cholesky(at.covariance)
    points = np.column_stack([grid.ravel() for grid in grids]) @ root.T + mean
    return points, weights / weights.sum()


def expectation(function: Function, at: supac.Distribution) -> float:
    x, w = nodes(at)
    return float(w @ function(x))


def exact_projection(function: Function, at: supac.Distribution) -> Surrogate:
    """The L²(at) projection on the statistics."""
    x, w = nodes(at)
    return project(x, function(x), w, at)


@dataclass(frozen=True, eq=False)
class Objective:
    """θ ↦ bound(mean_risk(π_θ), KL(π_θ, prior)), without noise."""

    mean_risk: Callable[[supac.Distribution], float]
    prior: supac.Distribution
    bound: supac.Bound

    def __call__(self, theta: FloatArray) -> float:
        if not self.prior.family.contains(theta):
            return float("inf")
        posterior = self.prior.at(theta)
        return self.bound(self.mean_risk(posterior), posterior.kl(self.prior))

    def minimiser(self, start: FloatArray) -> FloatArray:
        """Nelder–Mead, restarted: slow, and without any of the mathematics under test."""
        theta = start
        for _ in range(4):
            theta = minimize(
                self,
                theta,
                method="Nelder-Mead",
                options={"xatol": 1e-9, "fatol": 1e-15, "maxiter": 20_000, "maxfev": 20_000},
            ).x
        return theta


def objective_of(function: Function, prior: supac.Distribution, bound: supac.Bound) -> Objective:
    """The objective of a function, its mean by quadrature."""
    return Objective(lambda at: expectation(function, at), prior, bound)


def objective_on(surrogate: Surrogate, prior: supac.Distribution, bound: supac.Bound) -> Objective:
    """The objective of a surrogate, its mean in closed form."""
    return Objective(lambda at: surrogate.mean_under(at.theta), prior, bound)
