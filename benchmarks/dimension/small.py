"""Ordinary differential equations with six parameters, by Runge and Kutta's method."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dimension.problem import WideProblem, observe
from outside.problem import Role
from supac.arrays import FloatArray

LIMIT = 100.0
"""Residuals beyond which it does not matter how far the data are."""


def few_epidemic(name: str, role: Role, seed: int) -> WideProblem:
    """Susceptible, exposed, ill and recovered; weekly new cases and those in hospital."""

    def change(y: FloatArray, rates: FloatArray) -> FloatArray:
        infect, wake, heal, admit = rates[:4]
        s, e, i, h = y
        new = infect * s * i
        return np.stack([-new, new - wake * e, wake * e - heal * i, admit * i - 0.1 * h])

    def simulate(x: FloatArray) -> FloatArray:
        scales = np.array([0.6, 0.3, 0.2, 0.03, 2e-3, 0.9])[:, None]
        rates = scales * np.exp(0.4 * np.clip(x.T, -6.0, 6.0))
        start = np.stack([1.0 - rates[4], rates[4], 0.0 * rates[4], 0.0 * rates[4]])
        path = _runge_kutta(change, start, rates, days=84, steps=2)
        reported = rates[5][:, None] * -np.diff(path[:, 0, ::7], axis=1)
        return np.log(1e-6 + np.concatenate([reported, path[:, 3, 7::7]], axis=1))

    return _made(name, role, seed, simulate, scale=0.15, source="SEIR with hospitals")


def predators(name: str, role: Role, seed: int) -> WideProblem:
    """Prey and predators (Lotka and Volterra), both counted at twelve times."""

    def change(y: FloatArray, rates: FloatArray) -> FloatArray:
        prey, hunters = y
        return np.stack(
            [
                rates[0] * prey - rates[1] * prey * hunters,
                rates[2] * prey * hunters - rates[3] * hunters,
            ]
        )

    def simulate(x: FloatArray) -> FloatArray:
        scales = np.array([0.6, 0.03, 0.02, 0.8, 30.0, 8.0])[:, None]
        rates = scales * np.exp(0.25 * np.clip(x.T, -6.0, 6.0))
        path = _runge_kutta(change, rates[4:], rates, days=24, steps=3)
        return np.log(1e-3 + np.concatenate([path[:, 0, 2::2], path[:, 1, 2::2]], axis=1))

    return _made(name, role, seed, simulate, scale=0.2, source="Lotka and Volterra")


def _runge_kutta(
    change: Callable[[FloatArray, FloatArray], FloatArray],
    start: FloatArray,
    rates: FloatArray,
    *,
    days: int,
    steps: int,
) -> FloatArray:
    """Return states of n systems after each day: (n, states, days + 1)."""
    y, found, h = start, [start], 1.0 / steps
    for step in range(1, days * steps + 1):
        a = change(y, rates)
        b = change(y + 0.5 * h * a, rates)
        c = change(y + 0.5 * h * b, rates)
        d = change(y + h * c, rates)
        y = np.clip(y + h / 6.0 * (a + 2.0 * b + 2.0 * c + d), 0.0, 1e6)
        if step % steps == 0:
            found.append(y)
    return np.stack(found, axis=-1).transpose(1, 0, 2)


def _made(
    name: str,
    role: Role,
    seed: int,
    simulate: Callable[[FloatArray], FloatArray],
    *,
    scale: float,
    source: str,
) -> WideProblem:
    rng = np.random.default_rng([seed, 41])
    truth = rng.standard_normal(6)
    outputs = int(simulate(truth[None]).shape[1])
    noise = scale * rng.standard_normal(outputs)
    return WideProblem(
        name=name,
        role=role,
        source=f"{source}; synthetic data",
        covariance=np.eye(6),
        residuals=observe(simulate, truth, noise, scale=scale, limit=LIMIT),
        temperature=2.0 / outputs,
        truth=truth,
    )
