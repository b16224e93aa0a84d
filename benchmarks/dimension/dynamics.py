"""Systems that evolve: weather on a circle, heat in a wall, an epidemic among regions."""

from __future__ import annotations

import numpy as np

from dimension.fields import exponential
from dimension.problem import WideProblem, observe
from outside.ode import compiled
from outside.problem import Role
from supac.arrays import FloatArray

LIMIT = 100.0
"""Of residuals on both sides, in standard deviations of the noise."""


def lorenz96(name: str, role: Role, dim: int, seed: int) -> WideProblem:
    """The state of Lorenz's weather (1996) from 30 of its places at three later times."""
    start = 8.0 + np.random.default_rng(5).standard_normal((1, dim))
    for _ in range(200):
        start = _weather_step(start)
    truth = np.random.default_rng(6 + seed).standard_normal(dim)
    observed = np.arange(0, dim, max(dim // 30, 1))[:30]

    def simulate(x: FloatArray) -> FloatArray:
        state, found = start + x, []
        for step in range(8):
            state = _weather_step(state)
            if step in {1, 4, 7}:
                found.append(state[:, observed])
        return np.concatenate(found, axis=1)

    scale, outputs = 0.3, 3 * len(observed)
    noise = scale * np.random.default_rng(seed).standard_normal(outputs)
    return WideProblem(
        name=name,
        role=role,
        source="Lorenz (1996); synthetic data",
        covariance=np.eye(dim),
        residuals=observe(simulate, truth, noise, scale=scale, limit=LIMIT),
        temperature=2.0 / outputs,
        truth=truth,
    )


def _weather_step(x: FloatArray, step: float = 0.05) -> FloatArray:
    """Advance states (n, d) by the classical Runge–Kutta method."""
    k1 = _weather(x)
    k2 = _weather(x + 0.5 * step * k1)
    k3 = _weather(x + 0.5 * step * k2)
    k4 = _weather(x + step * k3)
    return x + step / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


def _weather(x: FloatArray) -> FloatArray:
    ahead, behind, before = (np.roll(x, shift, axis=1) for shift in (-1, 1, 2))
    return np.asarray((ahead - before) * behind - x + 8.0)


def heat(name: str, role: Role, dim: int, seed: int) -> WideProblem:
    """The logarithm of a heat flux in time from temperatures at two depths of a wall.

    The wall conducts better where it is hot, and loses heat at its other side.
    """
    rng = np.random.default_rng(seed)
    covariance = exponential(np.linspace(0.0, 1.0, dim)[:, None], 0.1)
    truth = np.linalg.cholesky(covariance) @ rng.standard_normal(dim)

    def simulate(x: FloatArray) -> FloatArray:
        return _wall(np.exp(np.clip(x, -8.0, 8.0)))

    scale, outputs = 0.1, 80
    noise = scale * rng.standard_normal(outputs)
    return WideProblem(
        name=name,
        role=role,
        source="inverse heat conduction with k(T) = 1 + T/2; synthetic data",
        covariance=covariance,
        residuals=observe(simulate, truth, noise, scale=scale, limit=LIMIT),
        temperature=2.0 / outputs,
        truth=truth,
    )


@compiled
def _wall(fluxes: FloatArray) -> FloatArray:
    """Integrate the temperatures of a wall of ten layers: (n, d) → 40 times at two depths."""
    layers, steps, width = 10, 2000, 0.1
    pace = 1.0 / steps
    out = np.empty((len(fluxes), 80))
    for run in range(len(fluxes)):
        t = np.zeros(layers)
        flow = np.empty(layers + 1)
        for step in range(steps):
            flow[0] = fluxes[run, step * fluxes.shape[1] // steps]
            for i in range(1, layers):
                # Conductivity at the face between two layers.
                k = 1.0 + 0.25 * (t[i - 1] + t[i])
                flow[i] = k * (t[i - 1] - t[i]) / width
            flow[layers] = 2.0 * t[layers - 1]
            for i in range(layers):
                t[i] += pace * (flow[i] - flow[i + 1]) / width
            if (step + 1) % 50 == 0:
                at = (step + 1) // 50 - 1
                out[run, at] = t[1]
                out[run, 40 + at] = t[4]
    return out


def epidemic(name: str, role: Role, dim: int, seed: int) -> WideProblem:
    """Transmission rates of regions on a ring with shortcuts, from cases in twenty of them.

    Each region has susceptible and infectious shares; people meet those of linked regions too.
    """
    rng = np.random.default_rng(seed)
    mixing = _links(dim, rng)
    observed = np.sort(rng.choice(dim, 20, replace=False))
    seeded = np.full(dim, 1e-3)
    seeded[rng.choice(dim, 5, replace=False)] = 0.02
    truth = rng.standard_normal(dim)

    def simulate(x: FloatArray) -> FloatArray:
        rates = 0.45 * np.exp(0.4 * np.clip(x, -8.0, 8.0))
        healthy, ill = np.tile(1.0 - seeded, (len(x), 1)), np.tile(seeded, (len(x), 1))
        found = []
        for step in range(1, 101):
            infected = np.minimum(0.5 * rates * healthy * (ill @ mixing.T), healthy)
            healthy, ill = healthy - infected, ill + infected - 0.1 * ill
            if step % 20 == 0:
                found.append(np.log(healthy[:, observed]))
        return np.concatenate(found, axis=1)

    scale, outputs = 0.2, 100
    noise = scale * rng.standard_normal(outputs)
    return WideProblem(
        name=name,
        role=role,
        source="an epidemic in discrete time among regions; synthetic data",
        covariance=np.eye(dim),
        residuals=observe(simulate, truth, noise, scale=scale, limit=LIMIT),
        temperature=2.0 / outputs,
        truth=truth,
    )


def _links(dim: int, rng: np.random.Generator) -> FloatArray:
    """Return how much people of a region meet those of each: a ring, with shortcuts."""
    links = np.eye(dim) + 0.1 * (np.roll(np.eye(dim), 1, axis=0) + np.roll(np.eye(dim), -1, axis=0))
    pairs = rng.choice(dim, (dim // 5, 2))
    links[pairs[:, 0], pairs[:, 1]] += 0.1
    return np.asarray(links / links.sum(axis=1, keepdims=True))
