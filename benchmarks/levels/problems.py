"""Problems with a coarse model beside the fine one; synthetic data, priors N(0, 1) or of a field.

Those for development may be looked at while the search is changed; those for judgement are for the
table alone, and nothing is tuned on them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
from scipy.linalg import solveh_banded

from dimension.problem import WideProblem, observe
from outside.problem import Role
from supac.arrays import FloatArray

Many = Callable[[FloatArray], FloatArray]
"""Parameters (n, d) → outputs (n, m)."""
Slopes = Callable[[FloatArray, FloatArray], FloatArray]
"""States (n, s) and parameters (n, d) → derivatives (n, s)."""


@dataclass(frozen=True, eq=False)
class Levels:
    """A problem, and a coarse model of its residuals."""

    fine: WideProblem
    coarse: Many
    """Residuals of the coarse model: (n, d) → (n, m)."""
    cost: float
    """Of a coarse run, in fine ones."""


@np.errstate(all="ignore")  # a coarse step may be unstable: the run fails
def integrate(
    slopes: Slopes, start: FloatArray, p: FloatArray, times: FloatArray, steps: int, order: int
) -> FloatArray:
    """Return the states at times, by so many steps between two of them: (n, times, s).

    Of order 1 (Euler), 2 (Heun) or 4 (the classical method).
    """
    state, rows = start, [start]
    for width in np.diff(times):
        h = width / steps
        for _ in range(steps):
            k1 = slopes(state, p)
            if order == 1:
                state = state + h * k1
                continue
            if order == 2:
                state = state + 0.5 * h * (k1 + slopes(state + h * k1, p))
                continue
            k2 = slopes(state + 0.5 * h * k1, p)
            k3 = slopes(state + 0.5 * h * k2, p)
            k4 = slopes(state + h * k3, p)
            state = state + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        rows.append(state)
    return np.stack(rows, axis=1)


def made(
    name: str,
    role: Role,
    source: str,
    simulate: Many,
    coarse: Many,
    truth: FloatArray,
    *,
    noise: float,
    cost: float,
    seed: int,
    covariance: FloatArray | None = None,
    draws: int = 256,
) -> Levels:
    """Return a problem whose data are the fine model's at `truth`, with noise."""
    outputs = simulate(truth[None])[0]
    errors = noise * np.random.default_rng(seed).standard_normal(len(outputs))
    problem = WideProblem(
        name,
        role,
        source,
        np.eye(len(truth)) if covariance is None else covariance,
        observe(simulate, truth, errors, scale=noise, limit=1e3),
        temperature=2.0 / len(outputs),
        truth=truth,
        draws=draws,
    )
    data = outputs + errors

    def residuals(x: FloatArray) -> FloatArray:
        return np.clip((coarse(np.atleast_2d(x)) - data) / noise, -1e3, 1e3)

    return Levels(problem, residuals, cost)


def _truth(seed: int, dim: int) -> FloatArray:
    return 0.6 * np.random.default_rng([seed, 1]).standard_normal(dim)


# Development


def _spread(s: FloatArray, p: FloatArray) -> FloatArray:
    rates = np.exp(0.3 * p[:, :4]) * [0.9, 0.5, 0.3, 0.02]
    new, ill, well, back = (
        rates[:, 0] * s[:, 0] * s[:, 2],
        rates[:, 1] * s[:, 1],
        rates[:, 2] * s[:, 2],
        rates[:, 3] * s[:, 3],
    )
    return np.stack([back - new, new - ill, ill - well, well - back], axis=1)


def _epidemic(x: FloatArray, steps: int, order: int) -> FloatArray:
    times = np.arange(0.0, 61.0, 3.0)
    ill = 0.01 * np.exp(0.5 * x[:, 4])
    exposed = 0.01 * np.exp(0.5 * x[:, 5])
    start = np.stack([1.0 - ill - exposed, exposed, ill, 0.0 * ill], axis=1)
    return integrate(_spread, start, x, times, steps, order)[:, 1:, 1:3].reshape(len(x), -1)


def epidemic(cost: float = 0.05) -> Levels:
    """An epidemic with latency and waning; Euler's steps of 1.5 days beside a method of order 4."""
    fine, coarse = (partial(_epidemic, steps=n, order=k) for n, k in ((12, 4), (2, 1)))
    return made(
        "epidemic",
        "development",
        "SEIRS",
        fine,
        coarse,
        _truth(1, 6),
        noise=0.01,
        cost=cost,
        seed=1,
    )


def _hunt(s: FloatArray, p: FloatArray) -> FloatArray:
    rates = np.exp(0.25 * p[:, :4]) * [0.55, 0.028, 0.84, 0.026]
    eaten = s[:, 0] * s[:, 1]
    return np.stack(
        [rates[:, 0] * s[:, 0] - rates[:, 1] * eaten, rates[:, 3] * eaten - rates[:, 2] * s[:, 1]],
        axis=1,
    )


def _predators(x: FloatArray, steps: int, order: int) -> FloatArray:
    start = np.exp(0.2 * x[:, 4:6]) * [30.0, 6.0]
    found = integrate(_hunt, start, x, np.arange(0.0, 21.0), steps, order)
    return np.log(np.maximum(found[:, 1:], 1e-3)).reshape(len(x), -1)


def predators(cost: float = 0.1) -> Levels:
    """Hares and lynxes over twenty years; Heun's steps of a quarter of a year."""
    fine, coarse = (partial(_predators, steps=n, order=k) for n, k in ((40, 4), (4, 2)))
    truth = 0.5 * _truth(2, 6)
    return made(
        "predators", "development", "Lotka and Volterra", fine, coarse, truth,
        noise=0.15, cost=cost, seed=2,
    )  # fmt: skip


def _burgers(x: FloatArray, cells: int) -> FloatArray:
    """Solve u_t + (u²/2)_x = ν u_xx by Godunov's flux; observe twelve places at three times."""
    places = (np.arange(cells) + 0.5) / cells
    viscosity = 0.01 * np.exp(0.5 * x[:, :1])
    waves = [0.35 / k * x[:, k : k + 1] * np.sin(2.0 * np.pi * k * places + k) for k in range(1, 6)]
    u = 1.0 + np.sum(waves, axis=0)
    h, largest = 1.0 / cells, 3.5
    dt = 1.0 / np.ceil(1.0 / min(0.4 * h / largest, 0.2 * h**2 / (0.01 * np.exp(2.0))))
    rows, seen = [], ((np.arange(12) + 0.5) / 12 * cells).astype(int)
    for _ in range(3):
        for _ in range(int(np.ceil(0.15 / dt))):
            left, right = u, np.roll(u, -1, axis=1)
            flux = (
                np.maximum(0.5 * np.maximum(left, 0.0) ** 2, 0.5 * np.minimum(right, 0.0) ** 2)
                - viscosity * (right - left) / h
            )
            u = u - dt / h * (flux - np.roll(flux, 1, axis=1))
        rows.append(u[:, seen])
    return np.concatenate(rows, axis=1)


def burgers(cost: float = 0.05) -> Levels:
    """Burgers' equation with an unknown start; 20 cells beside 100."""
    fine, coarse = partial(_burgers, cells=100), partial(_burgers, cells=20)
    return made(
        "burgers", "development", "Burgers", fine, coarse, _truth(3, 6),
        noise=0.03, cost=cost, seed=3, draws=256,
    )  # fmt: skip


@cache
def _modes(cells: int) -> FloatArray:
    """Return 25 cosines on a square grid, of falling size: (cells², 25)."""
    place = (np.arange(cells) + 0.5) / cells
    waves = np.cos(np.pi * np.arange(5)[:, None] * place)
    i, j = np.divmod(np.arange(25), 5)
    size = 1.2 / (1.0 + i**2 + j**2)
    both = waves[i][:, :, None] * waves[j][:, None, :]
    return (size[:, None, None] * both).reshape(25, -1).T


def _darcy(x: FloatArray, cells: int) -> FloatArray:
    """Solve −∇·(e^a ∇p) = 1 with p = 0 at the edge; observe 25 places."""
    return np.array([_pressure(each, cells) for each in x])


def _pressure(x: FloatArray, cells: int) -> FloatArray:
    k = np.exp(_modes(cells) @ x).reshape(cells, cells)
    wide = np.pad(k, 1, mode="edge")
    inner = wide[1:-1, 1:-1]
    across = [
        2.0 * inner * other / (inner + other)
        for other in (wide[:-2, 1:-1], wide[2:, 1:-1], wide[1:-1, :-2], wide[1:-1, 2:])
    ]
    up, down, left, right = across
    up[0], down[-1] = 2.0 * k[0], 2.0 * k[-1]
    left[:, 0], right[:, -1] = 2.0 * k[:, 0], 2.0 * k[:, -1]
    n = cells * cells
    banded = np.zeros((cells + 1, n))
    banded[0] = (up + down + left + right).ravel()
    beside = right.copy()
    beside[:, -1] = 0.0
    banded[1] = -beside.ravel()
    banded[cells, : n - cells] = -down[:-1].ravel()
    p = solveh_banded(banded, np.full(n, 1.0 / cells**2), lower=True, check_finite=False)
    field = p.reshape(cells, cells)
    at = (np.arange(5) + 0.5) / 5 * cells - 0.5
    low = np.clip(np.floor(at).astype(int), 0, cells - 2)
    part = at - low
    rows = (1.0 - part)[:, None] * field[low] + part[:, None] * field[low + 1]
    seen = (1.0 - part) * rows[:, low] + part * rows[:, low + 1]
    return np.asarray(100.0 * seen.ravel())


def darcy(cost: float = 0.05) -> Levels:
    """Flow through a field of 25 components; a mesh of 8 × 8 beside 24 × 24."""
    fine, coarse = partial(_darcy, cells=24), partial(_darcy, cells=8)
    return made(
        "darcy", "development", "Darcy", fine, coarse, _truth(4, 25),
        noise=0.1, cost=cost, seed=4, draws=256,
    )  # fmt: skip


# Judgement


def _nerve(s: FloatArray, p: FloatArray) -> FloatArray:
    a, b, c = 0.2 * np.exp(0.3 * p[:, 0]), 0.2 * np.exp(0.3 * p[:, 1]), 3.0 * np.exp(0.15 * p[:, 2])
    v, r = s[:, 0], s[:, 1]
    return np.stack([c * (v - v**3 / 3.0 + r), -(v - a + b * r) / c], axis=1)


def _fhn(x: FloatArray, steps: int, order: int) -> FloatArray:
    start = np.stack([-1.0 + 0.3 * x[:, 3], 1.0 + 0.3 * x[:, 4]], axis=1)
    found = integrate(_nerve, start, x, np.linspace(0.0, 10.0, 21), steps, order)
    return np.clip(np.nan_to_num(found[:, 1:].reshape(len(x), -1), nan=9.0), -9.0, 9.0)


def fhn(cost: float = 0.1) -> Levels:
    """FitzHugh and Nagumo's nerve; Heun's steps of an eighth beside a method of order 4."""
    fine, coarse = (partial(_fhn, steps=n, order=k) for n, k in ((10, 4), (4, 2)))
    return made(
        "fhn", "judgement", "FitzHugh and Nagumo", fine, coarse, 0.5 * _truth(5, 5),
        noise=0.1, cost=cost, seed=5,
    )  # fmt: skip


def _chain(s: FloatArray, p: FloatArray) -> FloatArray:
    k = np.exp(0.4 * p[:, :4]) * [0.8, 0.4, 0.2, 0.1]
    a, b, c = s.T
    ab, ba, bc, cc = k[:, 0] * a, k[:, 3] * b, k[:, 1] * b**2, k[:, 2] * c
    return np.stack([ba - ab, ab - ba - bc, bc - cc], axis=1)


def _reactor(x: FloatArray, steps: int, order: int) -> FloatArray:
    start = np.stack([2.0 * np.exp(0.2 * x[:, 4]), 0.0 * x[:, 4], 0.0 * x[:, 4]], axis=1)
    found = integrate(_chain, start, x, np.linspace(0.0, 16.0, 17), steps, order)
    return np.clip(found[:, 1:].reshape(len(x), -1), -9.0, 9.0)


def reactor(cost: float = 0.1) -> Levels:
    """A chain of reactions, one of them of second order; three Euler steps an hour."""
    fine, coarse = (partial(_reactor, steps=n, order=k) for n, k in ((12, 4), (3, 1)))
    return made(
        "reactor", "judgement", "mass action", fine, coarse, _truth(6, 5),
        noise=0.02, cost=cost, seed=6,
    )  # fmt: skip


def _rod(x: FloatArray, cells: int) -> FloatArray:
    """Heat a rod of ten unknown diffusivities at one end; observe nine places at four times."""
    places = (np.arange(cells) + 0.5) / cells
    k = np.exp(0.5 * np.array([np.interp(places, (np.arange(10) + 0.5) / 10, row) for row in x]))
    between = 2.0 / (1.0 / k[:, 1:] + 1.0 / k[:, :-1])
    u, h = np.zeros_like(k), 1.0 / cells
    dt = 0.3 * h**2 / float(np.exp(0.5 * 3.0))
    steps = int(np.ceil(0.05 / dt))
    dt, rows = 0.05 / steps, []
    at = (np.arange(9) + 1.0) / 10
    for _ in range(4):
        for _ in range(steps):
            flow = np.zeros((len(x), cells + 1))
            flow[:, 1:-1] = between * (u[:, :-1] - u[:, 1:]) / h
            flow[:, 0] = 2.0 * k[:, 0] * (1.0 - u[:, 0]) / h
            flow[:, -1] = 2.0 * k[:, -1] * u[:, -1] / h
            u = np.clip(u + dt / h * (flow[:, :-1] - flow[:, 1:]), -9.0, 9.0)
        rows.append(np.array([np.interp(at, places, row) for row in u]))
    return np.concatenate(rows, axis=1)


def rod(cost: float = 0.05) -> Levels:
    """A heated rod of ten diffusivities; 10 cells beside 40."""
    fine, coarse = partial(_rod, cells=40), partial(_rod, cells=10)
    return made(
        "rod", "judgement", "heat equation", fine, coarse, _truth(7, 10),
        noise=0.01, cost=cost, seed=7, draws=256,
    )  # fmt: skip


def _tracer(x: FloatArray, cells: int) -> FloatArray:
    """Carry a tracer through a column with sorption and decay; observe its outflow."""
    speed, mixing, decay, pulse, held = (
        np.exp(0.3 * x[:, i]) * usual for i, usual in enumerate((1.0, 0.01, 0.2, 0.5, 0.3))
    )
    h, dt = 1.0 / cells, 0.15 / cells
    u = np.zeros((len(x), cells))
    rows, steps = [], int(np.ceil(0.1 / dt))
    dt, now = 0.1 / steps, 0.0
    slow = 1.0 + held
    for _ in range(30):
        for _ in range(steps):
            inflow = (now < pulse).astype(float)[:, None]
            before = np.concatenate([inflow, u[:, :-1]], axis=1)
            after = np.concatenate([u[:, 1:], u[:, -1:]], axis=1)
            change = -speed[:, None] * (u - before) / h - decay[:, None] * u
            limited = np.minimum(mixing[:, None] / h**2, 0.4 / dt)
            change += limited * (before - 2.0 * u + after)
            u = np.clip(u + dt * change / slow[:, None], 0.0, 2.0)
            now += dt
        rows.append(u[:, -1])
    return np.stack(rows, axis=1)


def tracer(cost: float = 0.2) -> Levels:
    """A tracer in a column; 12 cells, which mix far too much, beside 60."""
    fine, coarse = partial(_tracer, cells=60), partial(_tracer, cells=12)
    return made(
        "tracer", "judgement", "advection and dispersion", fine, coarse, _truth(8, 5),
        noise=0.02, cost=cost, seed=8, draws=256,
    )  # fmt: skip


def _springs(s: FloatArray, p: FloatArray) -> FloatArray:
    k = np.exp(0.25 * p[:, :3]) * [1.0, 0.8, 0.6]
    drag = 0.1 * np.exp(0.5 * p[:, 3])
    x, y, v, w = s.T
    pull = k[:, 1] * (y - x) + 0.3 * k[:, 2] * (y - x) ** 3
    return np.stack([v, w, pull - k[:, 0] * x - drag * v, -pull - drag * w], axis=1)


def _oscillator(x: FloatArray, steps: int, order: int) -> FloatArray:
    still = 0.0 * x[:, 4]
    start = np.stack([1.0 + 0.2 * x[:, 4], still, still, 0.2 * x[:, 5]], axis=1)
    found = integrate(_springs, start, x, np.linspace(0.0, 12.0, 25), steps, order)
    return np.clip(found[:, 1:, :2].reshape(len(x), -1), -9.0, 9.0)


def springs(cost: float = 0.1) -> Levels:
    """Two masses on springs; three of Heun's steps between two observations."""
    fine, coarse = (partial(_oscillator, steps=n, order=k) for n, k in ((12, 4), (3, 2)))
    return made(
        "springs", "judgement", "Newton", fine, coarse, 0.6 * _truth(9, 6),
        noise=0.05, cost=cost, seed=9,
    )  # fmt: skip


# Coarse models that mislead


def _hash_noise(x: FloatArray, width: int, seed: int) -> FloatArray:
    """Return standard normal numbers that depend on the points alone: (n, width)."""
    rows = []
    for each in np.ascontiguousarray(x):
        key = np.frombuffer(each.tobytes(), dtype=np.uint32)
        rows.append(np.random.default_rng([seed, *key.tolist()]).standard_normal(width))
    return np.array(rows)


def useless(own: Levels) -> Levels:
    """Noise alone, as large as the outputs vary."""
    width = own.fine.residuals(own.fine.truth[None]).shape[1]
    some = own.fine.residuals(np.random.default_rng(0).standard_normal((64, own.fine.dim)))
    size = float(some.std())
    return replace(own, coarse=lambda x: size * _hash_noise(x, width, 1))


def other(own: Levels) -> Levels:
    """The fine model of parameters in another order: another problem's model."""
    order = np.roll(np.arange(own.fine.dim), 1)
    return replace(own, coarse=lambda x: -own.fine.residuals(-x[:, order]))


def biased(own: Levels) -> Levels:
    """A coarse model whose optimum is a prior standard deviation off in two parameters."""
    shift = np.zeros(own.fine.dim)
    shift[:2] = 1.0, -1.0
    return replace(own, coarse=lambda x: own.coarse(x + shift))


def noisy(own: Levels) -> Levels:
    """Noise of one data standard deviation in every coarse output."""
    width = own.fine.residuals(own.fine.truth[None]).shape[1]
    return replace(own, coarse=lambda x: own.coarse(x) + _hash_noise(x, width, 2))


def failing(own: Levels) -> Levels:
    """A coarse model that fails around the optimum."""
    truth = own.fine.truth

    def coarse(x: FloatArray) -> FloatArray:
        near = ((x - truth) ** 2).sum(axis=1) < 0.5 * len(truth)
        found = own.coarse(x)
        found[near] = np.nan
        return found

    return replace(own, coarse=coarse)


BAD: dict[str, Any] = {each.__name__: each for each in (useless, other, biased, noisy, failing)}
GOOD: dict[str, Callable[..., Levels]] = {
    each.__name__: each
    for each in (epidemic, predators, burgers, darcy, fhn, reactor, rod, tracer, springs)
}
NAMES = (
    *("epidemic", "predators", "burgers", "burgers-.2", "darcy", "darcy-.2"),
    *(f"epidemic-{each}" for each in BAD),
    *("fhn", "reactor", "rod", "tracer", "springs"),
    *(f"{own}-{each}" for own in ("reactor", "springs") for each in BAD),
)


@cache
def problem(name: str) -> Levels:
    """Return the problem of this name."""
    own, _, kind = name.partition("-")
    if kind in BAD:
        found: Levels = BAD[kind](problem(own))
        return found
    return GOOD[own](cost=float(kind)) if kind else GOOD[own]()


def role(name: str) -> Role:
    """Return whether a problem is for development or for judgement."""
    return problem(name.partition("-")[0]).fine.role
