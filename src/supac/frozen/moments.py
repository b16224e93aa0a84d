"""Mean and covariance of parameters that are functions of a Gaussian.

With u = m + s·z, z standard normal, and h_k the Hermite polynomials that are orthonormal under it,
a parameter is x_i(u_i) = Σ_k a_ik h_k(z_i), and by Mehler's formula

    mean_i = a_i0,    cov_ij = Σ_{k ≥ 1} a_ik a_jk ρ_ij^k,

ρ being the correlations of u. The a_ik are integrals of one variable, by the trapezoidal rule:
beside a Gaussian its error vanishes faster than any power of the step.
"""

from __future__ import annotations

import numpy as np

from supac.arrays import FloatArray
from supac.families import Distribution, Mixture, Product, StudentT
from supac.marginals import LogNormal
from supac.parameters import Parameters

_TERMS = 80
_STEP = 0.05
_REACH = 12.0  # standard deviations beyond which there is nothing to integrate
_DRAWS = 200_000  # behind families that are no Gaussians


def moments(latent: Distribution, parameters: Parameters) -> tuple[FloatArray, FloatArray]:
    """Mean (dim,) and covariance (dim, dim) in the user's units.

    For Gaussians and mixtures of them by Mehler's formula, else from draws, always the same ones.
    """
    parts = _gaussians(latent)
    if parts is None:
        return _from_draws(latent, parameters)
    shares = np.array([share for share, _, _ in parts])
    found = [_pushed(mean, covariance, parameters) for _, mean, covariance in parts]
    means = np.stack([mean for mean, _ in found])
    centre = shares @ means
    between = means - centre
    within = np.einsum("k,kij->ij", shares, np.stack([covariance for _, covariance in found]))
    return centre, within + (shares * between.T) @ between


def _gaussians(latent: Distribution) -> list[tuple[float, FloatArray, FloatArray]] | None:
    """Weights, means and covariances of the Gaussians that it consists of; None if of others."""
    family = latent.family
    if isinstance(family, Product) and all(each.is_gaussian for each in family.factors):
        return [(1.0, latent.mean, latent.covariance)]
    if family.is_gaussian:
        return [(1.0, latent.mean, latent.covariance)]
    if isinstance(family, Mixture) and family.base.is_gaussian:
        log_shares, components = family.split(latent.theta)
        each = [(family.base.moments(theta)) for theta in components]
        return [(float(np.exp(w)), *m) for w, m in zip(log_shares, each, strict=True)]
    return None


def _pushed(
    mean: FloatArray, covariance: FloatArray, parameters: Parameters
) -> tuple[FloatArray, FloatArray]:
    """Of a Gaussian N(mean, covariance) behind the parameters."""
    deviations = np.sqrt(np.diag(covariance))
    z = _grid(parameters, deviations)
    weight = _STEP * np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    x = parameters.from_latent(mean + z[:, None] * deviations)
    centre = weight @ x
    away = x - centre
    root = np.sqrt(weight)
    coefficients = _hermite(z, root) @ (root[:, None] * away)
    correlation = covariance / np.outer(deviations, deviations)
    power, total = np.ones_like(correlation), np.zeros_like(correlation)
    for row in coefficients:
        power = power * correlation
        total += np.outer(row, row) * power
    np.fill_diagonal(total, weight @ away**2)
    return centre, total


def _grid(parameters: Parameters, deviations: FloatArray) -> FloatArray:
    """Points of z, as far out as the second moments have any mass."""
    # The square of a log-normal has its mass around z = 2·log_sd·s.
    widths = [
        2.0 * marginal.log_sd * s if isinstance(marginal, LogNormal) else 0.0
        for marginal, s in zip(parameters.marginals.values(), deviations, strict=True)
    ]
    count = int(np.ceil((_REACH + max(widths)) / _STEP))
    return _STEP * np.arange(-count, count + 1, dtype=np.float64)


def _hermite(z: FloatArray, root: FloatArray) -> FloatArray:
    """h_1(z), …, h_80(z), times the root of the weight, which keeps them bounded: (80, n)."""
    rows = [root, z * root]
    for k in range(1, _TERMS):
        rows.append((z * rows[k] - np.sqrt(k) * rows[k - 1]) / np.sqrt(k + 1.0))
    return np.asarray(np.stack(rows[1:]), dtype=np.float64)


def _from_draws(latent: Distribution, parameters: Parameters) -> tuple[FloatArray, FloatArray]:
    x = parameters.sample(latent, _DRAWS, 0)
    centre, covariance = x.mean(axis=0), np.atleast_2d(np.cov(x.T))
    if isinstance(latent.family, StudentT):
        # exp(t) has no mean when t has a Student-t's tails, whatever draws would say.
        heavy = [isinstance(each, LogNormal) for each in parameters.marginals.values()]
        centre[heavy] = np.inf
        covariance[heavy, :] = covariance[:, heavy] = np.nan
        covariance[heavy, heavy] = np.inf
    return centre, covariance
