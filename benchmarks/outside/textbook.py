"""Textbook models for development: oscillations under a loss that flattens, steep square losses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import supac
from outside.ode import compiled, runge_kutta
from outside.problem import OutsideProblem
from outside.synthetic import log_normals, synthetic
from supac.arrays import FloatArray

_DIES_OUT = 3e-3


@compiled
def _selkov(s: FloatArray, p: FloatArray, out: FloatArray) -> None:
    fast = p[0] * s[1] + s[0] ** 2 * s[1]
    out[0] = p[2] * (fast - s[0])
    out[1] = p[2] * (p[1] - fast)


def selkov() -> OutsideProblem:
    """Oscillating glycolysis (Sel'kov, 1968)."""
    times, latent = np.linspace(1.0, 25.0, 25), np.array([-1.7, -1.3, -1.4])
    return synthetic(
        "selkov",
        "Sel'kov (1968); synthetic data",
        log_normals({"a": 0.04, "b": 0.46, "rate": 0.58}, latent, [0.4, 0.2, 0.4]),
        latent,
        lambda x, seed: runge_kutta(_selkov, np.ones(2), x, times, 0.05).ravel(),
        scale=0.15,
        noise=1.0,
        loss=supac.CappedSquare(4.0),
        temperature=0.01,
    )


@compiled
def _brusselator(s: FloatArray, p: FloatArray, out: FloatArray) -> None:
    fast = p[2] * s[0] ** 2 * s[1]
    out[0] = p[0] - (p[1] + 1.0) * p[3] * s[0] + fast
    out[1] = p[1] * p[3] * s[0] - fast


def brusselator() -> OutsideProblem:
    """An autocatalytic reaction (Prigogine and Lefever, 1968)."""
    times, latent = np.linspace(0.5, 12.0, 24), np.array([-0.7, 1.1, 0.9, -0.8])
    truth = {"A": 0.8, "B": 3.2, "k": 1.4, "m": 0.75}
    return synthetic(
        "brusselator",
        "Prigogine and Lefever (1968); synthetic data",
        log_normals(truth, latent, [0.35] * 4),
        latent,
        lambda x, seed: runge_kutta(_brusselator, np.ones(2), x, times, 0.025).ravel(),
        scale=0.2,
        noise=1.0,
        loss=supac.Welsch(3.0),
        temperature=0.005,
    )


@compiled
def _predators(s: FloatArray, p: FloatArray, out: FloatArray) -> None:
    eaten = p[2] * s[0] / (1.0 + p[2] * p[3] * s[0]) * s[1]
    out[0] = p[0] * s[0] * (1.0 - s[0] / p[1]) - eaten
    out[1] = p[4] * eaten - p[5] * s[1]


def predators() -> OutsideProblem:
    """Predators that tire (Rosenzweig and MacArthur, 1963); where a species dies out, runs fail."""
    times, latent = np.linspace(0.8, 20.0, 25), np.array([0.6, -0.9, 1.0, 0.5, -0.8, 0.7])
    truth = {"r": 1.2, "K": 3.6, "a": 1.5, "h": 0.5, "e": 0.45, "m": 0.5}

    def simulate(x: FloatArray, seed: int) -> FloatArray:
        found = runge_kutta(_predators, np.ones(2), x, times, 0.06)
        if not found.min() >= _DIES_OUT:
            raise RuntimeError("a species has died out")
        return found.ravel()

    return synthetic(
        "predators",
        "Rosenzweig and MacArthur (1963); synthetic data",
        log_normals(truth, latent, [0.4] * 6),
        latent,
        simulate,
        scale=0.1,
        noise=1.0,
        loss=supac.CappedSquare(3.0),
        temperature=0.01,
        fails=True,
    )


@compiled
def _infections(s: FloatArray, p: FloatArray, out: FloatArray) -> None:
    new = p[0] * s[0] * s[1]
    out[0] = -new
    out[1] = new - p[1] * s[1]


def epidemic() -> OutsideProblem:
    """Infected people (Kermack and McKendrick, 1927), with a relative error: the risk is steep."""
    times, latent = np.linspace(2.0, 60.0, 24), np.array([0.3, 0.8, 0.3])

    def simulate(x: FloatArray, seed: int) -> FloatArray:
        start = np.array([1.0 - x[2], x[2]])
        return runge_kutta(_infections, start, x, times, 0.6)[:, 1]

    truth = {"contact": 0.62, "recovery": 0.35, "first": 0.012}
    parameters = log_normals(truth, latent, [0.7] * 3)
    clean = simulate(parameters.from_latent(latent[None])[0], 0)
    return synthetic(
        "steep_epidemic",
        "Kermack and McKendrick (1927); synthetic data",
        parameters,
        latent,
        simulate,
        scale=0.1 * clean + 0.001,
        noise=1.0,
        loss=supac.MeanSquare(),
        temperature=0.02,
        failure_risk=1e4,
        logarithmic=True,
    )


PROBLEMS: dict[str, Callable[[], OutsideProblem]] = {
    "selkov": selkov,
    "brusselator": brusselator,
    "predators": predators,
    "steep_epidemic": epidemic,
}
