"""Mean and covariance of parameters that are functions of a latent Gaussian.

With u = m + s·z, z standard normal, and h_k the orthonormal Hermite polynomials, a parameter is
x_i(u_i) = Σ_k a_ik h_k(z_i), and by Mehler's formula

    mean_i = a_i0,    cov_ij = Σ_{k ≥ 1} a_ik a_jk ρ_ij^k,

ρ being the correlations of u. The a_ik are one-dimensional integrals, computed by the trapezoidal
rule, whose error with a Gaussian weight vanishes faster than any power of the step. Since
Σ_{k ≥ 1} a_ik² is the variance, K terms leave out at most

    |ρ_ij|^(K + 1) √(r_i r_j),    r_i = var_i − Σ_{k ≤ K} a_ik²;

if that is too much, the covariance is a two-dimensional integral. For a log-normal parameter,
x_i = c·exp(a·z_i), there is a closed form: cov_ij = mean_i (E x_j(u_j + s_j a ρ_ij) − mean_j).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from supac.arrays import FloatArray
from supac.families import Distribution, StudentT
from supac.families.mixture import mixed_moments
from supac.problem.marginals import LogNormal, Marginal
from supac.problem.problem import Parameters

_TERMS = 80
_STEPS = (0.05, 0.025, 0.0125)
_AGREE = 1e-6  # difference of a step and its double, in standard deviations; the error is far less
_AGREE_AT_LAST = 1e-3  # for the finest step; above it, draws are more accurate
_LEFT_OUT = 1e-10  # error of a correlation by the terms that are not summed
_REACH = 12.0  # half-width of the integrals, in standard deviations
_DRAWS = 200_000  # for non-Gaussian families
_ORDERS = 2.5  # least order without a moment for which the integrals of first and second converge


def moments(latent: Distribution, parameters: Parameters) -> tuple[FloatArray, FloatArray]:
    """Compute mean (dim,) and covariance (dim, dim) in the user's units.

    By integrals for Gaussians and mixtures of them; from draws with a fixed seed for other
    families, and if x(u) is too steep for the finest step.
    """
    parts = _gaussians(latent)
    if parts is not None and any(_orders(each[1], parameters).min() < _ORDERS for each in parts[1]):
        return _from_draws(latent, parameters)
    pushed = [] if parts is None else [_pushed(*each, parameters) for each in parts[1]]
    found = [each for each in pushed if each is not None]
    if parts is None or len(found) < len(pushed):
        return _from_draws(latent, parameters)
    return found[0] if len(found) == 1 else mixed_moments(parts[0], found)


def _gaussians(
    latent: Distribution,
) -> tuple[FloatArray, list[tuple[FloatArray, FloatArray]]] | None:
    """Return weights, and means and covariances, of a mixture of Gaussians; None for others."""
    family = latent.family
    if all(each.is_gaussian for each in family.factors):
        return np.ones(1), [family.moments(latent.theta)]
    mixture = family.mixture
    if mixture is not None and mixture.base.is_gaussian:
        log_shares, components = mixture.split(latent.theta)
        return np.exp(log_shares), [mixture.base.moments(theta) for theta in components]
    return None


def _orders(covariance: FloatArray, parameters: Parameters) -> FloatArray:
    """Return the least order of which each parameter has no moment: (dim,)."""
    growth = np.array([each.growth for each in parameters.transforms.values()])
    return np.asarray(1.0 / np.maximum(growth * np.diag(covariance), 1e-300))


@dataclass(frozen=True, eq=False)
class _Line:
    """A parameter as a function of its standard normal z: x(m + s·z)."""

    marginal: Marginal
    mean: float
    deviation: float

    def __call__(self, z: FloatArray) -> FloatArray:
        return self.marginal.from_latent(self.mean + self.deviation * z)

    @property
    def rate(self) -> float | None:
        """Return a if x = c·exp(a·z), else None."""
        return self.marginal.log_sd * self.deviation if type(self.marginal) is LogNormal else None

    def exponential(self, rate: float) -> float:
        """Compute the mean of c·exp(a·z)."""
        with np.errstate(over="ignore"):
            return float(self(np.zeros(())) * np.exp(0.5 * rate**2))


def _pushed(
    mean: FloatArray, covariance: FloatArray, parameters: Parameters
) -> tuple[FloatArray, FloatArray] | None:
    """Compute the moments for a latent N(mean, covariance); None if no step is fine enough."""
    deviations = np.sqrt(np.diag(covariance))
    lines = [
        _Line(marginal, float(m), float(s))
        for marginal, m, s in zip(parameters.transforms.values(), mean, deviations, strict=True)
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
    """Return points of z and weights, so dense that half of them give nearly the same moments."""
    for step in _STEPS:
        count = 2 * int(np.ceil(0.5 * _REACH / step))
        z = step * np.arange(-count, count + 1, dtype=np.float64)
        weight = step * np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
        apart = max((_disagreement(line(z), weight) for line in lines), default=0.0)
        if apart <= (_AGREE if step > _STEPS[-1] else _AGREE_AT_LAST):
            return z, weight
    return None


def _disagreement(x: FloatArray, weight: FloatArray) -> float:
    """Compare means and variances from all points and from every other point."""
    means, variances = [], []
    for stride in (1, 2):
        share = stride * weight[::stride]
        means.append(share @ x[::stride])
        variances.append(share @ (x[::stride] - means[0]) ** 2)
    scale = variances[0]
    if scale == 0.0:  # x is at a bound, to all digits
        return 0.0
    return float(max(abs(means[1] - means[0]) / np.sqrt(scale), abs(variances[1] / scale - 1.0)))


def _mehler(
    lines: Sequence[_Line],
    x: FloatArray,
    z: FloatArray,
    weight: FloatArray,
    correlation: FloatArray,
) -> FloatArray:
    """Compute the covariances of parameters with the values x (dim, n) at the points z."""
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
    """Compute E away(z) x(ρ z + √(1 − ρ²) w), with w an independent copy of z."""
    across = np.sqrt(max(1.0 - rho**2, 0.0)) * z
    given = np.array([other(rho * each + across) @ weight for each in z])
    return float((weight * away) @ given)


def _tilted(line: _Line, shift: float, z: FloatArray, weight: FloatArray) -> float:
    """Compute E x(z + shift) − E x(z), in closed form for an exponential."""
    if line.rate is not None:
        with np.errstate(over="ignore"):
            return float(line.exponential(line.rate) * np.expm1(line.rate * shift))
    return float(weight @ (line(z + shift) - line(z)))


def _hermite(z: FloatArray, root: FloatArray) -> FloatArray:
    """Compute h_1(z), …, h_80(z) times the root of the weight, which is bounded: (80, n)."""
    rows = [root, z * root]
    for k in range(1, _TERMS):
        rows.append((z * rows[k] - np.sqrt(k) * rows[k - 1]) / np.sqrt(k + 1.0))
    return np.asarray(np.stack(rows[1:]), dtype=np.float64)


def _from_draws(latent: Distribution, parameters: Parameters) -> tuple[FloatArray, FloatArray]:
    x = parameters.sample(latent, _DRAWS, 0)
    centre, covariance = x.mean(axis=0), np.atleast_2d(np.cov(x.T))
    if isinstance(latent.family, StudentT):
        # exp(t) has no mean for a Student-t distributed t.
        heavy = [isinstance(each, LogNormal) for each in parameters.transforms.values()]
        centre[heavy] = np.inf
        covariance[heavy, :] = covariance[:, heavy] = np.nan
        covariance[heavy, heavy] = np.inf
    parts = _gaussians(latent)
    if parts is not None:
        orders = np.min([_orders(each[1], parameters) for each in parts[1]], axis=0)
        centre[orders <= 1.0] = np.where(np.isinf(parameters.bounds[:, 0]), np.nan, np.inf)[
            orders <= 1.0
        ]
        covariance[orders <= 2.0, :] = covariance[:, orders <= 2.0] = np.nan
        covariance[orders <= 2.0, orders <= 2.0] = np.inf
    return centre, covariance
