"""Mixtures of Gaussians fitted to particles by expectation–maximisation."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import logsumexp

from supac.arrays import FloatArray
from supac.families import Distribution, gaussian, mixture

_ROUNDS = 60
_SETTLED = 1e-4  # gain of the mean log-likelihood that ends the rounds
_PRIOR_PARTICLES = 2.0  # that a component's covariance has of the overall one, a parameter
_LEAST_WEIGHT = 1e-3


def fit_mixture(x: FloatArray, count: int, rng: np.random.Generator) -> Distribution:
    """Fit a mixture of `count` Gaussians to points (n, dim); of one, their moments.

    Each covariance is drawn a little towards that of all points, shrunk to the volume of one of
    `count` parts, so that none collapses.
    """
    centre, covariance = x.mean(axis=0), np.atleast_2d(np.cov(x.T))
    root = np.linalg.cholesky(covariance)
    if count == 1:
        return gaussian(centre, covariance)
    z = solve_triangular(root, (x - centre).T, lower=True).T
    weights, means, roots = _fit(z, count, rng)
    kept = weights >= _LEAST_WEIGHT
    parts = [
        gaussian(centre + root @ m, root @ r @ r.T @ root.T)
        for m, r, keep in zip(means, roots, kept, strict=True)
        if keep
    ]
    return mixture(parts, (weights[kept] / weights[kept].sum()).tolist())


def _fit(
    z: FloatArray, count: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return weights, means and Cholesky factors of the components of whitened points."""
    n, dim = z.shape
    means = _spread_out(z, count, rng)
    part = count ** (-2.0 / dim) * np.eye(dim)  # the covariance of a part of the volume
    roots = np.array([np.linalg.cholesky(part)] * count)
    weights, before = np.full(count, 1.0 / count), -np.inf
    for _ in range(_ROUNDS):
        logs = np.log(weights) + _log_densities(z, means, roots)
        total = logsumexp(logs, axis=1, keepdims=True)
        shares = np.exp(logs - total)
        sizes = shares.sum(axis=0) + 1e-12
        weights = np.maximum(sizes / n, 1e-12)
        means = (shares.T @ z) / sizes[:, None]
        for k in range(count):
            away = z - means[k]
            scatter = (shares[:, k, None] * away).T @ away + _PRIOR_PARTICLES * dim * part
            roots[k] = np.linalg.cholesky(scatter / (sizes[k] + _PRIOR_PARTICLES * dim))
        now = float(total.mean())
        if now - before < _SETTLED:
            break
        before = now
    return weights, means, roots


def _spread_out(z: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
    """Choose first means far from each other, as k-means++ does."""
    chosen = [z[rng.integers(len(z))]]
    for _ in range(count - 1):
        near = np.min([((z - each) ** 2).sum(axis=1) for each in chosen], axis=0)
        chosen.append(z[rng.choice(len(z), p=near / near.sum())])
    return np.array(chosen)


def _log_densities(z: FloatArray, means: FloatArray, roots: FloatArray) -> FloatArray:
    """Compute the log-density of each component: (n, count)."""
    columns = []
    for mean, root in zip(means, roots, strict=True):
        white = solve_triangular(root, (z - mean).T, lower=True)
        volume = np.log(np.diag(root)).sum() + 0.5 * len(mean) * np.log(2.0 * np.pi)
        columns.append(-0.5 * (white**2).sum(axis=0) - volume)
    return np.column_stack(columns)
