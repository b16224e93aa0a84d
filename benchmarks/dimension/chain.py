"""A long Markov chain on the Poisson benchmark: means and spreads to compare posteriors with.

The target is the Gibbs posterior exp(−R/λ)·prior, which at λ = 2/169 is the Bayesian posterior of
a prior N(0, 2²) of log a. Hamiltonian Monte Carlo with exact gradients, in coordinates in which a
good Gaussian posterior is standard normal; several chains, from draws of it that are a fifth wider.

    make poisson-chain                                    # five minutes on one core
    make poisson-chain ARGS="--draws 500 --out /tmp/chain.json"
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

from dimension.optimum import good_gaussian
from dimension.physics import POISSON_NOISE, POISSON_SPREAD, Fluid, poisson_data, poisson_model
from dimension.problems import problem
from outside.problem import Gaussian
from supac.arrays import FloatArray

CHAIN = Path(__file__).parents[1] / "results" / "poisson-chain.json"
CHAINS, DRAWS, WARM_UP = 4, 4000, 600
TRAJECTORY = 1.6
"""Length of a trajectory; a quarter of a period of a standard normal is π/2."""
ACCEPTANCE = 0.8
MOST_STEPS = 20
"""Of a trajectory, while the step is short because the start was bad."""
FARTHEST = 6.0 * POISSON_SPREAD
"""Of log a from its prior mean; trajectories that diverge go farther, and are rejected."""


class Target:
    """The log-density, but for a constant, in coordinates z with x = centre + root·z."""

    def __init__(self, fluid: Fluid, data: FloatArray, around: Gaussian):
        self.fluid, self.data = fluid, data
        self.centre, self.root = around.mean, around.root

    def parameters(self, z: FloatArray) -> FloatArray:
        """Return log-coefficients: (n, d) → (n, d)."""
        return self.centre + z @ self.root.T

    def __call__(self, z: FloatArray) -> tuple[float, FloatArray]:
        """Compute the log-density at a point and its gradient."""
        x = self.centre + self.root @ z
        if np.abs(x).max() > FARTHEST:
            return -np.inf, np.zeros(len(z))
        grid, coefficients = self.fluid.grid, np.exp(x)
        factor = grid.factor(coefficients)
        u = grid.solve(factor, self.fluid.loads)
        residuals = ((u @ self.fluid.weights.T).ravel() - self.data) / POISSON_NOISE
        load = (residuals / POISSON_NOISE) @ self.fluid.weights
        misfit = grid.sensitivity(coefficients, u, grid.solve(factor, load[None]))[0, 0]
        value = -0.5 * float(residuals @ residuals) - 0.5 * float(x @ x) / POISSON_SPREAD**2
        return value, self.root.T @ (-misfit - x / POISSON_SPREAD**2)


@dataclass
class Chain:
    """Hamiltonian Monte Carlo with a step that is adapted while it warms up."""

    target: Target
    z: FloatArray
    rng: np.random.Generator
    step: float = 0.2
    accepted: float = 0.0
    gradients: int = 0

    def run(self, warm_up: int, draws: int) -> FloatArray:
        """Return the draws after the warm-up: (draws, d)."""
        value, slope = self.target(self.z)
        found = np.empty((draws, len(self.z)))
        for number in range(-warm_up, draws):
            value, slope, chance = self._move(value, slope)
            if number < 0:
                # Robbins and Monro: steps of the logarithm that become shorter.
                self.step *= np.exp((chance - ACCEPTANCE) / (warm_up + number + 10.0) ** 0.6)
            else:
                found[number] = self.z
                self.accepted += chance / draws
        return found

    def _move(self, value: float, slope: FloatArray) -> tuple[float, FloatArray, float]:
        """Make one trajectory, of a length that varies by a fifth, and accept or reject its end."""
        momentum = self.rng.standard_normal(len(self.z))
        steps = round(TRAJECTORY * self.rng.uniform(0.8, 1.2) / self.step)
        steps = min(max(steps, 1), MOST_STEPS)
        energy = value - 0.5 * float(momentum @ momentum)
        z, there, uphill = self.z, value, slope
        for _ in range(steps):
            momentum = momentum + 0.5 * self.step * uphill
            z = z + self.step * momentum
            there, uphill = self.target(z)
            momentum = momentum + 0.5 * self.step * uphill
        self.gradients += steps
        change = there - 0.5 * float(momentum @ momentum) - energy
        chance = float(np.exp(min(change, 0.0))) if np.isfinite(change) else 0.0
        if self.rng.random() < chance:
            self.z = z
            return there, uphill, chance
        return value, slope, chance


def effective_sizes(chains: FloatArray) -> FloatArray:
    """Estimate the effective number of draws of each coordinate: (chains, draws, d) → (d,).

    Geyer's initial monotone sequence of the autocorrelations between and within chains.
    """
    count, draws, dim = chains.shape
    centred = chains - chains.mean(axis=1, keepdims=True)
    spectrum = np.abs(np.fft.rfft(centred, 2 * draws, axis=1)) ** 2
    covariances = np.fft.irfft(spectrum, axis=1)[:, :draws].mean(axis=0) / draws
    within = covariances[0] * draws / (draws - 1.0)
    total = within * (draws - 1.0) / draws + chains.mean(axis=1).var(axis=0, ddof=1)
    correlations = 1.0 - (within - covariances) / total
    pairs = correlations[: 2 * (draws // 2)].reshape(-1, 2, dim).sum(axis=1)
    positive = np.logical_and.accumulate(pairs > 0.0, axis=0)
    pairs = np.minimum.accumulate(np.where(positive, pairs, 0.0), axis=0)
    return np.asarray(count * draws / np.maximum(2.0 * pairs.sum(axis=0) - 1.0, 1e-3))


def scale_reduction(chains: FloatArray) -> FloatArray:
    """Compute split R̂ of each coordinate: (chains, draws, d) → (d,)."""
    half = chains.shape[1] // 2
    parts = np.concatenate([chains[:, :half], chains[:, half : 2 * half]])
    within = parts.var(axis=1, ddof=1).mean(axis=0)
    between = parts.mean(axis=1).var(axis=0, ddof=1)
    return np.asarray(np.sqrt(1.0 + between / within))


def main() -> None:
    """Run the chains and keep what they found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--draws", type=int, default=DRAWS, help="of each chain")
    parser.add_argument("--out", type=Path, default=CHAIN)
    options = parser.parse_args()
    around = good_gaussian(problem("poisson-64"))
    target = Target(poisson_model(), poisson_data(), around)
    start = time.process_time()
    found, chains = [], []
    for number in range(CHAINS):
        rng = np.random.default_rng(number)
        chain = Chain(target, 1.2 * rng.standard_normal(len(around.mean)), rng)
        found.append(target.parameters(chain.run(WARM_UP, options.draws)))
        chains.append(chain)
        print(f"chain {number}: step {chain.step:.3f}, accepted {chain.accepted:.2f}", flush=True)
    summary = summarise(np.array(found))
    summary["gradients"] = sum(chain.gradients for chain in chains)
    summary["processor_seconds"] = round(time.process_time() - start)
    options.out.write_text(json.dumps(summary, indent=1) + "\n")
    print({key: value for key, value in summary.items() if not isinstance(value, list)})


def summarise(x: FloatArray) -> dict[str, object]:
    """Return moments and quantiles of the log-coefficients, and how well they are known."""
    flat = x.reshape(-1, x.shape[-1])
    sizes, reduction = effective_sizes(x), scale_reduction(x)
    return {
        "chains": len(x),
        "draws": len(flat),
        "mean": _rounded(flat.mean(axis=0)),
        "sd": _rounded(flat.std(axis=0, ddof=1)),
        "quantile_05": _rounded(np.quantile(flat, 0.05, axis=0)),
        "quantile_95": _rounded(np.quantile(flat, 0.95, axis=0)),
        "mean_coefficient": _rounded(np.exp(flat).mean(axis=0)),
        "effective_size": [round(float(each)) for each in sizes],
        "least_effective_size": round(float(sizes.min())),
        "largest_scale_reduction": round(float(reduction.max()), 4),
    }


def _rounded(values: FloatArray) -> list[float]:
    return [float(f"{each:.5g}") for each in values]


if __name__ == "__main__":
    main()
