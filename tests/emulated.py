"""Smooth risks and outputs of a few parameters, to be emulated."""

from __future__ import annotations

import numpy as np

import supac
from supac.arrays import FloatArray
from supac.problem import Evaluations

PLANE = supac.gaussian([0.0, 0.0], np.eye(2))


CUBE = supac.gaussian(np.zeros(4), np.eye(4))


def smooth(x: FloatArray) -> FloatArray:
    """A risk with a sine, a linear and a quadratic part."""
    u = x - x.shape[1] / 10.0
    return 0.3 + 0.05 * (u**2).sum(axis=1) + 0.1 * np.sin(u[:, 0]) + 0.05 * u[:, -1]


def outputs_of(x: FloatArray) -> FloatArray:
    """Six smooth outputs of two parameters."""
    rates = np.linspace(0.2, 1.5, 6)
    return np.exp(-0.3 * x[:, :1] * rates) + 0.2 * x[:, 1:] * rates - 1.1


def runs_of(
    prior: supac.Distribution, n: int, seed: int = 0, composite: bool = False
) -> Evaluations:
    x = prior.sample(n, seed)
    outputs = outputs_of(x) if composite else None
    risk = smooth(x) if outputs is None else supac.RootMeanSquare()(outputs)
    return Evaluations.none(prior.dim).append(x, risk, prior, outputs)


def cliff(x: FloatArray) -> FloatArray:
    """A smooth risk that falls off a cliff beyond x₀ = 1.2, where the optimum would be."""
    return np.where(x[:, 0] > 1.2, 2.0, 0.3 * np.tanh(((x - [1.0, 0.3, 0.0, 0.0]) ** 2).sum(1) / 4))
