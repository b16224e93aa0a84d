"""Mean and covariance of parameters that are functions of a Gaussian.

With u = m + s·z, z standard normal, and h_k the Hermite polynomials that are orthonormal under it,
a parameter is x_i(u_i) = Σ_k a_ik h_k(z_i), and by Mehler's formula

    mean_i = a_i0,    cov_ij = Σ_{k ≥ 1} a_ik a_jk ρ_ij^k,

ρ being the correlations of u. The a_ik are integrals of one variable, by the trapezoidal rule:
beside a Gaussian its error vanishes faster than any power of the step. Since Σ_{k ≥ 1} a_ik² is the
variance, what K terms leave out is known: with r_i = var_i − Σ_{k ≤ K} a_ik² it is at most

    |ρ_ij|^(K + 1) √(r_i r_j),

and where that is too much, the covariance is an integral of two variables. A log-normal parameter,
x_i = c·exp(a·z_i), tilts the Gaussian: cov_ij = mean_i (E x_j(u_j + s_j a ρ_ij) − mean_j).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from supac.arrays import FloatArray
from supac.families import Distribution, Mixture, Product, StudentT
from supac.problem.marginals import LogNormal, Marginal
from supac.problem.parameters import Parameters

_TERMS = 80
_STEPS = (0.05, 0.025, 0.0125)
_AGREE = 1e-6  # between a step and its double, in standard deviations: far less is the error then
_AGREE_AT_LAST = 1e-3  # where there is no finer step: more than that, and draws are better
_LEFT_OUT = 1e-10  # of the correlations, by the terms that are not summed
_REACH = 12.0  # standard deviations beyond which there is nothing to integrate
_DRAWS = 200_000  # behind families that are no Gaussians


def moments(latent: Distribution, parameters: Parameters) -> tuple[FloatArray, FloatArray]:
    """Mean (dim,) and covariance (dim, dim) in the user's units.

    For Gaussians and mixtures of them by integrals, else from draws, always the same ones; so too
    where x(u) is too steep for the finest of the steps.
    """
    parts = _gaussians(latent)
    if parts is None:
        return _from_draws(latent, parameters)
    shares = np.array([share for share, _, _ in parts])
    pushed = [_pushed(mean, covariance, parameters) for _, mean, covariance in parts]
    found = [each for each in pushed if each is not None]
    if len(found) < len(pushed):
        return _from_draws(latent, parameters)
    if len(found) == 1:
        return found[0]
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


@dataclass(frozen=True, eq=False)
class _Line:
    """A parameter as a function of the standard normal z behind it, x(m + s·z)."""

    marginal: Marginal
    mean: float
    deviation: float

    def __call__(self, z: FloatArray) -> FloatArray:
        return self.marginal.from_latent(self.mean + self.deviation * z)

    @property
    def rate(self) -> float | None:
        """The a in c·exp(a·z), where it is of this kind."""
        return self.marginal.log_sd * self.deviation if type(self.marginal) is LogNormal else None

    def exponential(self, rate: float) -> float:
        """The mean of c·exp(a·z)."""
        with np.errstate(over="ignore"):
            return float(self(np.zeros(())) * np.exp(0.5 * rate**2))


def _pushed(
    mean: FloatArray, covariance: FloatArray, parameters: Parameters
) -> tuple[FloatArray, FloatArray] | None:
    """Of a Gaussian N(mean, covariance) behind the parameters; None where no step will do."""
    deviations = np.sqrt(np.diag(covariance))
    lines = [
        _Line(marginal, float(m), float(s))
        for marginal, m, s in zip(parameters.marginals.values(), mean, deviations, strict=True)
    ]
    bounded = [i for i, line in enumerate(lines) if line.rate is None]
    grid = _grid([lines[i] for i in bounded])
    if grid is None:
        return None
    z, weight = grid
    dim = len(lines)
    centre, total = np.zeros(dim), np.zeros((dim, dim))
    correlation = covariance / np.outer(deviations, deviations)
    x = np.stack([lines[i](z) for i in bounded]) if bounded else np.empty((0, len(z)))
    centre[bounded] = x @ weight
    inner = np.ix_(bounded, bounded)
    total[inner] = _mehler([lines[i] for i in bounded], x, z, weight, correlation[inner])
    for i, line in enumerate(lines):
        if line.rate is not None:
            centre[i] = line.exponential(line.rate)
            shifts = zip(lines, line.rate * correlation[i], strict=True)
            moved = [_tilted(other, float(shift), z, weight) for other, shift in shifts]
            with np.errstate(over="ignore"):
                total[i] = total[:, i] = centre[i] * np.array(moved)
    return centre, total


def _grid(lines: Sequence[_Line]) -> tuple[FloatArray, FloatArray] | None:
    """Points of z and their weights, so near to each other that half as many would nearly do."""
    for step in _STEPS:
        count = 2 * int(np.ceil(0.5 * _REACH / step))
        z = step * np.arange(-count, count + 1, dtype=np.float64)
        weight = step * np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
        apart = max((_disagreement(line(z), weight) for line in lines), default=0.0)
        if apart <= (_AGREE if step > _STEPS[-1] else _AGREE_AT_LAST):
            return z, weight
    return None


def _disagreement(x: FloatArray, weight: FloatArray) -> float:
    """Between the means and variances of all points and of every other one."""
    means, variances = [], []
    for stride in (1, 2):
        share = stride * weight[::stride]
        means.append(share @ x[::stride])
        variances.append(share @ (x[::stride] - means[0]) ** 2)
    scale = variances[0]
    if scale == 0.0:  # at a bound, to all digits
        return 0.0
    return float(max(abs(means[1] - means[0]) / np.sqrt(scale), abs(variances[1] / scale - 1.0)))


def _mehler(
    lines: Sequence[_Line],
    x: FloatArray,
    z: FloatArray,
    weight: FloatArray,
    correlation: FloatArray,
) -> FloatArray:
    """Covariances of the parameters with the values x (dim, n) at the points z."""
    away = x - (x @ weight)[:, None]
    root = np.sqrt(weight)
    coefficients = _hermite(z, root) @ (root * away).T
    power, total = np.ones_like(correlation), np.zeros_like(correlation)
    for row in coefficients:
        power = power * correlation
        total += np.outer(row, row) * power
    variance = away**2 @ weight
    unsummed = np.maximum(variance - (coefficients**2).sum(axis=0), 0.0)
    rest = np.sqrt(unsummed / np.where(variance > 0.0, variance, 1.0))
    left_out = np.abs(power * correlation) * np.outer(rest, rest)
    for i, j in np.argwhere(np.triu(left_out > _LEFT_OUT, 1)):
        total[i, j] = total[j, i] = _double(away[i], lines[j], float(correlation[i, j]), z, weight)
    np.fill_diagonal(total, variance)
    return total


def _double(away: FloatArray, other: _Line, rho: float, z: FloatArray, weight: FloatArray) -> float:
    """E away(z) x(ρ z + √(1 − ρ²) w), with w as z and independent of it."""
    across = np.sqrt(max(1.0 - rho**2, 0.0)) * z
    given = np.array([other(rho * each + across) @ weight for each in z])
    return float((weight * away) @ given)


def _tilted(line: _Line, shift: float, z: FloatArray, weight: FloatArray) -> float:
    """E x(z + shift) − E x(z), in closed form for an exponential."""
    if line.rate is not None:
        with np.errstate(over="ignore"):
            return float(line.exponential(line.rate) * np.expm1(line.rate * shift))
    return float(weight @ (line(z + shift) - line(z)))


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
