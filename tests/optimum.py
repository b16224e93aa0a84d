"""The best Gaussian for a synthetic risk, found with exact gradients and common draws."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.stats import norm, qmc

import supac
from supac.arrays import FloatArray
from supac.simulators.synthetic import SyntheticRisk


def standard_draws(log2_n: int, dim: int, seed: int) -> FloatArray:
    """2^log2_n scrambled Sobol points as standard normals."""
    return norm.ppf(qmc.Sobol(dim, rng=np.random.default_rng(seed)).random_base2(log2_n))


def true_objective(risk: SyntheticRisk, posterior: supac.Distribution, temperature: float) -> float:
    """π[R] + λ·KL(π, N(0, I)) with 2^17 common draws."""
    z = standard_draws(17, posterior.dim, seed=1)
    x = posterior.mean + z @ np.linalg.cholesky(posterior.covariance).T
    prior = supac.gaussian(np.zeros(posterior.dim), np.eye(posterior.dim))
    return float(risk(x).mean()) + temperature * posterior.kl(prior)


def best_gaussian(risk: SyntheticRisk, temperature: float) -> supac.Distribution:
    """The minimiser over N(μ, LLᵀ), by L-BFGS on ∇ of π[R] + λ·KL(π, N(0, I))."""
    dim = len(risk.minimum)
    z = standard_draws(14, dim, seed=0)
    lower = np.tril_indices(dim)
    diagonal = lower[0] == lower[1]

    def unpack(flat: FloatArray) -> tuple[FloatArray, FloatArray]:
        root = np.zeros((dim, dim))
        root[lower] = np.where(diagonal, np.exp(flat[dim:]), flat[dim:])
        return flat[:dim], root

    def objective(flat: FloatArray) -> tuple[float, FloatArray]:
        mean, root = unpack(flat)
        x = mean + z @ root.T
        by_x = risk.gradient(x) / len(z)
        kl = 0.5 * (mean @ mean + (root**2).sum() - dim) - np.log(np.diag(root)).sum()
        by_root = by_x.T @ z + temperature * (root - np.diag(1.0 / np.diag(root)))
        by_flat = by_root[lower] * np.where(diagonal, root[lower], 1.0)
        by_mean = by_x.sum(axis=0) + temperature * mean
        return float(risk(x).mean() + temperature * kl), np.concatenate([by_mean, by_flat])

    start = np.concatenate([0.5 * risk.minimum, np.where(diagonal, np.log(0.5), 0.0)])
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 1000})
    mean, root = unpack(found.x)
    return supac.gaussian(mean, root @ root.T)
