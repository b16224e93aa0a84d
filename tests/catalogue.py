"""One table of families: every law is tested on every row."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.stats

import supac
from supac.arrays import FloatArray

_SPREAD = np.array([[2.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 0.5]])
_CENTRE = np.array([1.0, -2.0, 0.5])
_BLOCKS = [[3, 0], [1, 4], [2]]


def _blocked(scale: float) -> FloatArray:
    matrix = scale * np.eye(5)
    for block in _BLOCKS[:2]:
        matrix[block[0], block[1]] = matrix[block[1], block[0]] = 0.4 * scale
    return matrix


def _known(family: supac.Family, scale: float) -> supac.Distribution:
    return supac.Distribution(family, family.from_moments(scale * _CENTRE, scale * _SPREAD))


FAMILIES: dict[str, tuple[supac.Distribution, supac.Distribution]] = {
    "gaussian": (
        supac.gaussian(_CENTRE, _SPREAD),
        supac.gaussian(_CENTRE - 0.3, 1.3 * _SPREAD + 0.1 * np.eye(3)),
    ),
    "gaussian-1d": (supac.gaussian([0.3], [[2.0]]), supac.gaussian([0.0], [[1.0]])),
    "diagonal": (supac.gaussian(_CENTRE, [0.5, 1.0, 2.0]), supac.gaussian([0.0, -1.0, 1.0], 1.5)),
    "fixed": (_known(supac.FixedGaussian(_SPREAD), 1.0), _known(supac.FixedGaussian(_SPREAD), 0.7)),
    "scaled": (
        _known(supac.ScaledGaussian(_SPREAD), 1.0),
        _known(supac.ScaledGaussian(_SPREAD), 0.7),
    ),
    "blocks": (
        supac.gaussian(np.arange(5.0), _blocked(1.0), blocks=_BLOCKS),
        supac.gaussian(np.arange(5.0) + 0.2, _blocked(1.5), blocks=_BLOCKS),
    ),
    "beta": (supac.beta(2.5, 0.8), supac.beta(1.5, 1.5)),
    "gamma": (supac.gamma(3.0, 0.5), supac.gamma(2.0, 0.7)),
    "exponential": (supac.exponential(3.0), supac.exponential(1.0)),
    "pareto": (supac.pareto(5.0, 2.0), supac.pareto(7.0, 2.0)),
    "bernoulli": (supac.bernoulli(0.3), supac.bernoulli(0.6)),
    "poisson": (supac.poisson(4.0), supac.poisson(3.0)),
    "product": (
        supac.product(
            supac.beta(2.0, 3.0), supac.gaussian(_CENTRE, _SPREAD), supac.gamma(2.0, 1.0)
        ),
        supac.product(
            supac.beta(1.0, 2.0), supac.gaussian(_CENTRE, np.eye(3)), supac.gamma(3.0, 1.0)
        ),
    ),
}

OUTSIDE: dict[str, tuple[supac.Family, list[float]]] = {
    "gaussian": (supac.Gaussian(2), [0.0, 0.0, -0.5, 2.0, -0.5]),
    "diagonal": (supac.DiagonalGaussian(2), [0.0, 0.0, -0.5, 0.5]),
    "scaled": (supac.ScaledGaussian(np.eye(2)), [0.0, 0.0, -1.0]),
    "beta": (supac.Beta(), [1.0, 0.0]),
    "gamma": (supac.Gamma(), [1.0, 0.5]),
    "exponential": (supac.Exponential(), [0.0]),
    "pareto": (supac.Pareto(1.0), [1.0]),
    "bernoulli": (supac.Bernoulli(), [800.0]),
    "poisson": (supac.Poisson(), [50.0]),
    "blocks": (
        supac.Product([supac.Gaussian(1), supac.Gaussian(1)], [[1], [0]]),
        [0.0, -0.5, 0.0, 0.5],
    ),
    "product": (supac.Product([supac.Beta(), supac.Exponential()]), [1.0, 1.0, 2.0]),
}

# What SciPy says of the same distributions.
SCIPY: dict[str, Any] = {
    "gaussian": scipy.stats.multivariate_normal(_CENTRE, _SPREAD),
    "diagonal": scipy.stats.multivariate_normal(_CENTRE, np.diag([0.5, 1.0, 2.0])),
    "fixed": scipy.stats.multivariate_normal(_CENTRE, _SPREAD),
    "scaled": scipy.stats.multivariate_normal(_CENTRE, _SPREAD),
    "blocks": scipy.stats.multivariate_normal(np.arange(5.0), _blocked(1.0)),
    "beta": scipy.stats.beta(2.5, 0.8),
    "gamma": scipy.stats.gamma(3.0, scale=1.0 / 0.5),
    "exponential": scipy.stats.expon(scale=1.0 / 3.0),
    "pareto": scipy.stats.pareto(5.0, scale=2.0),
    "gaussian-1d": scipy.stats.norm(0.3, np.sqrt(2.0)),
}
