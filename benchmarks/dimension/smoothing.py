"""Formulas: averages of parameters, with and without a nonlinear response, and a sparse one."""

from __future__ import annotations

import numpy as np

from dimension.fields import exponential
from dimension.problem import WideProblem, observe
from outside.problem import Role
from supac.arrays import FloatArray

NOISE, OUTPUTS, TEMPERATURE = 0.05, 60, 0.01
IMPORTANT = 10
"""Parameters of the sparse problem that matter."""


def _kernel(dim: int, width: float) -> FloatArray:
    """Return Gaussian weights of evenly spaced parameters for evenly spaced outputs: (m, d)."""
    at, of = np.linspace(0.0, 1.0, OUTPUTS), np.linspace(0.0, 1.0, dim)
    return np.asarray(np.exp(-0.5 * ((at[:, None] - of) / width) ** 2))


def linear(name: str, role: Role, dim: int, seed: int) -> WideProblem:
    """Sixty overlapping averages of independent parameters."""
    return _smoothing(name, role, dim, seed, bend=0.0)


def nonlinear(name: str, role: Role, dim: int, seed: int) -> WideProblem:
    """The same through a wavy response, z + 0.15 sin 2z."""
    return _smoothing(name, role, dim, seed, bend=0.15)


def _smoothing(name: str, role: Role, dim: int, seed: int, bend: float) -> WideProblem:
    rng = np.random.default_rng(seed)
    weights = _kernel(dim, 0.08)
    weights /= np.sqrt((weights**2).sum(axis=1, keepdims=True))
    truth = 1.5 * rng.standard_normal(dim)
    noise = NOISE * rng.standard_normal(OUTPUTS)

    def simulate(x: FloatArray) -> FloatArray:
        z = x @ weights.T
        return z + bend * np.sin(2.0 * z)

    def slopes(x: FloatArray) -> FloatArray:
        return (1.0 + 2.0 * bend * np.cos(2.0 * weights @ x))[:, None] * weights

    return WideProblem(
        name=name,
        role=role,
        source="a formula; synthetic data",
        covariance=np.eye(dim),
        residuals=observe(simulate, truth, noise, scale=1.0),
        temperature=TEMPERATURE,
        truth=truth,
        slopes=slopes,
        linear=bend == 0.0,
    )


def correlated(name: str, role: Role, dim: int, seed: int) -> WideProblem:
    """Sixty narrow averages of a rough field on a line, which the prior says is correlated."""
    rng = np.random.default_rng(seed)
    weights = _kernel(dim, 0.03)
    weights /= weights.sum(axis=1, keepdims=True)
    covariance = exponential(np.linspace(0.0, 1.0, dim)[:, None], 0.15)
    truth = np.linalg.cholesky(covariance) @ rng.standard_normal(dim)
    noise = NOISE * rng.standard_normal(OUTPUTS)
    return WideProblem(
        name=name,
        role=role,
        source="a formula; synthetic data",
        covariance=covariance,
        residuals=observe(lambda x: x @ weights.T, truth, noise, scale=1.0),
        temperature=TEMPERATURE,
        truth=truth,
        slopes=lambda x: weights,
        linear=True,
    )


def sparse(name: str, role: Role, dim: int, seed: int) -> WideProblem:
    """Many independent parameters of which ten matter; sines and a product of theirs."""
    rng = np.random.default_rng(seed)
    chosen = rng.choice(dim, IMPORTANT, replace=False)
    weights = rng.standard_normal((OUTPUTS, IMPORTANT)) / np.sqrt(IMPORTANT)
    weights *= np.exp(-np.arange(IMPORTANT) / 4.0)
    waves = 0.15 * rng.standard_normal((OUTPUTS, 3))
    product = 0.2 * np.sin(6.0 * np.linspace(0.0, 1.0, OUTPUTS))
    truth = rng.standard_normal(dim)
    noise = NOISE * rng.standard_normal(OUTPUTS)

    def simulate(x: FloatArray) -> FloatArray:
        z = x[:, chosen]
        bent = np.sin(1.5 * z[:, :3]) @ waves.T
        return np.asarray(z @ weights.T + bent + z[:, 3:4] * z[:, 4:5] * product)

    return WideProblem(
        name=name,
        role=role,
        source="a formula; synthetic data",
        covariance=np.eye(dim),
        residuals=observe(simulate, truth, noise, scale=1.0),
        temperature=TEMPERATURE,
        truth=truth,
    )
