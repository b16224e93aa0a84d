"""Fields of 14 to 30 points on a line, for development; synthetic data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import supac
from outside.ode import compiled, runge_kutta
from outside.problem import OutsideProblem
from outside.synthetic import synthetic
from supac import marginals
from supac.arrays import FloatArray

_NUGGET = 1e-9


def field(
    points: int, length: float, variance: float, seed: int, *, smooth: bool = False
) -> tuple[supac.Parameters, FloatArray]:
    """Return a Gaussian field with exponential or Matérn-3/2 covariance, and a draw of it."""
    places = (np.arange(points) + 0.5) / points
    distance = np.abs(places[:, None] - places) / length
    if smooth:
        scaled = np.sqrt(3.0) * distance
        correlation = (1.0 + scaled) * np.exp(-scaled)
    else:
        correlation = np.exp(-distance)
    covariance = variance * correlation + _NUGGET * np.eye(points)
    own = {f"f{i}": marginals.Normal(0.0, float(np.sqrt(variance))) for i in range(points)}
    parameters = supac.Parameters(own, latent=supac.gaussian(np.zeros(points), covariance))
    draw = np.random.default_rng(seed).standard_normal(points)
    return parameters, np.linalg.cholesky(covariance) @ draw


@compiled
def _conduction(s: FloatArray, p: FloatArray, out: FloatArray) -> None:
    last = len(s) - 1
    for i in range(last + 1):
        left = s[i - 1] if i > 0 else 1.0
        right = s[i + 1] if i < last else 0.0
        out[i] = np.exp(p[i]) * (left - 2.0 * s[i] + right)


def _heated_rod(points: int, noise: float, temperature: float, seed: int) -> OutsideProblem:
    """Return a rod of unknown diffusivity that is heated at one end."""
    times = np.array([1.0, 3.0, 6.0, 12.0, 24.0, 48.0])
    parameters, latent = field(points, 0.3, 0.5, seed)

    def simulate(x: FloatArray, seed: int) -> FloatArray:
        return runge_kutta(_conduction, np.zeros(points), x, times, 0.05)[:, ::2].ravel()

    return synthetic(
        f"rod{points}",
        "heat equation; synthetic data",
        parameters,
        latent,
        simulate,
        scale=1.0,
        noise=noise,
        loss=supac.MeanSquare(),
        temperature=temperature,
        failure_risk=10.0,
        logarithmic=True,
    )


def beam() -> OutsideProblem:
    """Displacements of a bar of 30 unknown stiffnesses under three loads."""
    points = 30
    places = (np.arange(points) + 0.5) / points
    loads = np.array([np.ones(points), 2.0 * (places < 0.5), 2.0 * (places > 0.6)])
    forces = np.concatenate([np.zeros((3, 1)), np.cumsum(loads, axis=1) / points], axis=1)
    parameters, latent = field(points, 0.25, 1.0, 31, smooth=True)

    def simulate(x: FloatArray, seed: int) -> FloatArray:
        give = np.exp(-x)
        between = 0.5 * (give[1:] + give[:-1])
        joints = np.concatenate([[0.5 * give[0]], between, [0.5 * give[-1]]]) / points
        support = (forces @ joints) / joints.sum()
        moved = np.cumsum((support[:, None] - forces) * joints, axis=1)
        return np.asarray(10.0 * moved[:, 1:-1:3].ravel())

    return synthetic(
        "beam30",
        "an elastic bar; synthetic data",
        parameters,
        latent,
        simulate,
        scale=0.1,
        noise=1.0,
        loss=supac.MeanSquare(),
        temperature=0.02,
        failure_risk=1e5,
        logarithmic=True,
    )


def rays() -> OutsideProblem:
    """Travel times of 30 rays through 24 layers of unknown slowness."""
    points, rng = 24, np.random.default_rng(3)
    crossed = rng.uniform(size=(30, points)) < 0.5
    lengths = rng.uniform(0.0, 4.0 / points, (30, points)) * crossed
    parameters, latent = field(points, 0.2, 0.3, 32)
    return synthetic(
        "rays24",
        "travel times; synthetic data",
        parameters,
        latent,
        lambda x, seed: lengths @ np.exp(x),
        scale=0.03,
        noise=1.0,
        loss=supac.Welsch(3.0),
        temperature=0.003,
    )


@compiled
def _warmed(flux: FloatArray, cells: int, steps: int) -> FloatArray:
    """Return the temperature of the seventh cell of a wall at every tenth step."""
    temperature, out = np.zeros(cells), np.empty(steps // 10)
    for i in range(steps):
        before = temperature.copy()
        for j in range(cells):
            left = before[j - 1] if j > 0 else before[j]
            right = before[j + 1] if j < cells - 1 else before[j]
            conducted = 0.4 * (left - 2.0 * before[j] + right)
            temperature[j] = before[j] + conducted * (1.0 + 0.3 * np.tanh(before[j]))
        temperature[0] += 0.1 * flux[i]
        if i % 10 == 9:
            out[i // 10] = temperature[6]
    return out


def flux() -> OutsideProblem:
    """A heat flux at 14 times, from the temperature inside a wall (Beck, 1985)."""
    points, steps = 14, 420
    parameters, latent = field(points, 0.3, 1.0, 33, smooth=True)
    times, knots = np.arange(steps) / steps, (np.arange(points) + 0.5) / points
    return synthetic(
        "flux14",
        "Beck, Blackwell and St. Clair (1985), Inverse Heat Conduction; synthetic data",
        parameters,
        latent,
        lambda x, seed: _warmed(np.interp(times, knots, x), 20, steps),
        scale=0.02,
        noise=1.0,
        loss=supac.MeanSquare(),
        temperature=2.0 / 42.0,
        failure_risk=1e5,
        logarithmic=True,
    )


PROBLEMS: dict[str, Callable[[], OutsideProblem]] = {
    "rod16": lambda: _heated_rod(16, 0.003, 1e-6, 13),
    "rod24": lambda: _heated_rod(24, 0.01, 1e-5, 14),
    "beam30": beam,
    "rays24": rays,
    "flux14": flux,
}
