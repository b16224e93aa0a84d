"""Fields to be found from measurements of what flows through them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dimension.diffusion import Diffusion
from dimension.fields import cell_centres, exponential, matern
from dimension.problem import WideProblem, observe
from outside.problem import Role
from supac.arrays import FloatArray

POISSON_DATA = Path(__file__).parents[3] / "shared" / "reference" / "poisson"
POISSON_NOISE, POISSON_SPREAD = 0.05, 2.0
"""Standard deviations of the data's noise and of the prior's log-coefficients."""
LIMIT = 100.0
"""Of residuals on both sides, in standard deviations of the noise."""

FAR = 20.0
"""Logarithms of coefficients beyond which they are constant."""


def groundwater(name: str, role: Role, dim: int, seed: int) -> WideProblem:
    """Log-conductivity along a line between two rivers, from heads in three pumping states."""
    rng = np.random.default_rng(seed)
    covariance = exponential(((np.arange(dim) + 0.5) / dim)[:, None], 0.2)
    truth = np.linalg.cholesky(covariance) @ rng.standard_normal(dim)
    sources = np.full((3, dim + 1), 1.0 / dim)
    for state, well in ((1, 0.3), (2, 0.7)):
        sources[state, int(well * dim)] -= 0.75
    # Flow through each cell but for that through the first: what the nodes before it have added.
    gained = np.cumsum(np.pad(sources[:, 1:-1], ((0, 0), (1, 0))), axis=1)
    observed = np.unique(np.linspace(1, dim - 1, 20).astype(int))

    def simulate(x: FloatArray) -> FloatArray:
        resistance = np.exp(-np.clip(x, -8.0, 8.0)) / dim
        flow = gained - (resistance @ gained.T / resistance.sum(axis=1, keepdims=True))[..., None]
        heads = -np.cumsum(flow * resistance[:, None], axis=2)[..., observed - 1]
        return heads.reshape(len(x), -1)

    clean = simulate(truth[None])[0]
    scale = 0.05 * float(np.abs(clean).max())
    noise = scale * rng.standard_normal(len(clean))

    def slopes(x: FloatArray) -> FloatArray:
        resistance = np.exp(-np.clip(x, -8.0, 8.0)) / dim
        flow = gained - (gained @ resistance / resistance.sum())[:, None]
        before = np.arange(dim) < observed[:, None]
        share = np.cumsum(resistance)[observed - 1] / resistance.sum()
        by_cell = flow[:, None] * (before - share[:, None]) * resistance
        return by_cell.reshape(-1, dim) / scale

    return WideProblem(
        name=name,
        role=role,
        source="Darcy's law in one dimension; synthetic data",
        covariance=covariance,
        residuals=observe(simulate, truth, noise, scale=scale, limit=LIMIT),
        temperature=2.0 / len(clean),
        truth=truth,
        slopes=slopes,
    )


class Fluid:
    """Outputs of a diffusion whose log-coefficients are the parameters."""

    def __init__(self, grid: Diffusion, loads: FloatArray, places: FloatArray):
        self.grid, self.loads, self.weights = grid, loads, grid.interpolation(places)

    def simulate(self, x: FloatArray) -> FloatArray:
        """Compute u at the places for each load: (n, d) → (n, s·o)."""
        return np.array([self._solve(each) for each in np.exp(np.clip(x, -FAR, FAR))])

    def _solve(self, coefficients: FloatArray) -> FloatArray:
        u = self.grid.solve(self.grid.factor(coefficients), self.loads)
        return (u @ self.weights.T).ravel()

    def slopes(self, x: FloatArray) -> FloatArray:
        """Compute the outputs' derivatives at a point: (d,) → (s·o, d)."""
        coefficients = np.exp(np.clip(x, -FAR, FAR))
        factor = self.grid.factor(coefficients)
        u, adjoint = (self.grid.solve(factor, each) for each in (self.loads, self.weights))
        by_place = self.grid.sensitivity(coefficients, u, adjoint)
        return by_place.swapaxes(0, 1).reshape(-1, self.grid.cells)


def poisson_model() -> Fluid:
    """The benchmark of Aristoff and Bangerth (2023): 8 × 8 coefficients, u at 13 × 13 points."""
    grid = Diffusion(8, 8, refine=4)
    inner = np.arange(1, 14) / 14.0
    places = np.column_stack([np.repeat(inner, 13), np.tile(inner, 13)])
    return Fluid(grid, 10.0 * grid.uniform_load()[None], places)


def poisson_data() -> FloatArray:
    """Read the 169 published measurements."""
    path = POISSON_DATA / "measurements.csv"
    if not path.is_file():
        raise FileNotFoundError(f"the data of the Poisson benchmark are not at {path}")
    return np.loadtxt(path)


def poisson(name: str, role: Role) -> WideProblem:
    """The published benchmark with its data."""
    truth = np.zeros((8, 8))
    # The published truth: two inclusions, of 1/10 and of 10.
    truth[1:3, 1:3], truth[5:7, 5:7] = np.log(0.1), np.log(10.0)
    return _poisson(name, role, poisson_data(), truth.ravel(), "their data (deal.II gallery)")


def poisson_like(name: str, role: Role, seed: int) -> WideProblem:
    """The same model with data of a coefficient field drawn from the prior."""
    rng = np.random.default_rng(seed)
    truth = POISSON_SPREAD * rng.standard_normal(64)
    clean = poisson_model().simulate(truth[None])[0]
    data = clean + POISSON_NOISE * rng.standard_normal(len(clean))
    return _poisson(name, role, data, truth, "synthetic data")


def _poisson(
    name: str, role: Role, data: FloatArray, truth: FloatArray, origin: str
) -> WideProblem:
    fluid = poisson_model()

    def residuals(x: FloatArray) -> FloatArray:
        far = (fluid.simulate(np.atleast_2d(x)) - data) / POISSON_NOISE
        return np.clip(far, -LIMIT, LIMIT)

    return WideProblem(
        name=name,
        role=role,
        source=f"Aristoff and Bangerth (2023); {origin}",
        covariance=POISSON_SPREAD**2 * np.eye(64),
        residuals=residuals,
        temperature=2.0 / len(data),
        truth=truth,
        slopes=lambda x: fluid.slopes(x) / POISSON_NOISE,
        draws=1024,
    )


def darcy(name: str, role: Role, rows: int, columns: int, seed: int) -> WideProblem:
    """Log-permeability of an aquifer from heads at 25 wells, two of which are pumped in turn."""
    rng = np.random.default_rng(seed)
    covariance = matern(cell_centres(rows, columns), 0.3)
    dim = rows * columns
    truth = np.linalg.cholesky(covariance) @ rng.standard_normal(dim)
    grid = Diffusion(rows, columns, refine=1)
    inner = np.arange(1, 6) / 6.0
    wells = np.column_stack([np.tile(inner, 5), np.repeat(inner, 5)])
    pumped = grid.interpolation(np.array([[0.3, 0.35], [0.7, 0.6]]))
    fluid = Fluid(grid, grid.uniform_load() - 0.5 * pumped, wells)
    clean = fluid.simulate(truth[None])[0]
    scale = 0.03 * float(np.abs(clean).max())
    noise = scale * rng.standard_normal(len(clean))
    return WideProblem(
        name=name,
        role=role,
        source="Darcy's law in two dimensions, Matérn field; synthetic data",
        covariance=covariance,
        residuals=observe(fluid.simulate, truth, noise, scale=scale, limit=LIMIT),
        temperature=2.0 / len(clean),
        truth=truth,
        slopes=lambda x: fluid.slopes(x) / scale,
        draws=1024,
    )


def tomography(name: str, role: Role, rows: int, columns: int, seed: int) -> WideProblem:
    """Log-slowness of rock between two boreholes from the times of 80 straight rays."""
    rng = np.random.default_rng(seed)
    covariance = 0.25 * exponential(cell_centres(rows, columns), 0.4)
    truth = np.linalg.cholesky(covariance) @ rng.standard_normal(rows * columns)
    lengths = ray_lengths(rows, columns, shots=8, receivers=10)
    scale = 0.06
    noise = scale * rng.standard_normal(len(lengths))
    return WideProblem(
        name=name,
        role=role,
        source="straight rays; synthetic data",
        covariance=covariance,
        residuals=observe(lambda x: np.exp(x) @ lengths.T, truth, noise, scale=scale, limit=LIMIT),
        temperature=2.0 / len(lengths),
        truth=truth,
        slopes=lambda x: lengths * np.exp(x) / scale,
    )


def ray_lengths(rows: int, columns: int, shots: int, receivers: int) -> FloatArray:
    """Return the length of each ray from left to right in each cell: (rays, cells)."""
    start, end = ((np.arange(n) + 0.5) / n for n in (shots, receivers))
    along = (np.arange(2000) + 0.5) / 2000
    rays = []
    for y0 in start:
        for y1 in end:
            row = ((y0 + (y1 - y0) * along) * rows).astype(int)
            cell = row * columns + (along * columns).astype(int)
            share = np.bincount(cell, minlength=rows * columns) / len(along)
            rays.append(np.hypot(1.0, y1 - y0) * share)
    return np.array(rays)
