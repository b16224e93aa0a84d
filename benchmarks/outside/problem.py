"""A problem of the benchmark: what is calibrated, and how good a Gaussian posterior is."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

import supac
from supac.arrays import FloatArray

Role = Literal["development", "judgement"]
Simulator = Callable[[FloatArray, int], FloatArray]
"""Parameters (d,) in the user's units and a seed → outputs (m,)."""

DRAWS_SEED = 20_251_116
"""The draws behind every objective."""
SCORING_NOISE = 77
"""The first seed of the stochastic simulations behind every objective."""
_SMALLEST_VARIANCE = 1e-14


@dataclass(frozen=True)
class Gaussian:
    """A posterior of the latent parameters: mean (d,), covariance (d, d)."""

    mean: FloatArray
    covariance: FloatArray

    @property
    def root(self) -> FloatArray:
        """Return L with L Lᵀ = covariance; eigenvalues that are not positive become tiny."""
        try:
            return np.asarray(np.linalg.cholesky(self.covariance), dtype=np.float64)
        except np.linalg.LinAlgError:
            values, vectors = np.linalg.eigh(0.5 * (self.covariance + self.covariance.T))
            return vectors * np.sqrt(np.maximum(values, _SMALLEST_VARIANCE))

    def kl(self, prior: Gaussian) -> float:
        """Compute KL(self, prior) in nats."""
        over = np.linalg.inv(prior.root)
        scaled, shift = over @ self.root, over @ (self.mean - prior.mean)
        log_volume = float(np.linalg.slogdet(scaled)[1])
        return 0.5 * float((scaled**2).sum() + shift @ shift - len(shift)) - log_volume


def _same(outputs: FloatArray) -> FloatArray:
    return outputs


@dataclass(frozen=True, eq=False)
class OutsideProblem:
    """Minimise q[R] + λ·KL(q, prior) over Gaussians q of the latent parameters."""

    name: str
    role: Role
    source: str
    """Where the model and its numbers are from."""
    parameters: supac.Parameters
    simulate: Simulator
    """A failed run raises a RuntimeError or returns NaN."""
    loss: Callable[[FloatArray], FloatArray]
    """Outputs (n, m) → risks (n,)."""
    temperature: float
    """λ."""
    reference: FloatArray
    """Latent parameters that made the data, or the published ones: a start for long searches."""
    residuals: Callable[[FloatArray], FloatArray] = _same
    """Outputs (m,) → what a least-squares method sees (k,)."""
    square: float = 1.0
    """The risk is about mean(residuals²)/square where the residuals are small."""
    failure_risk: float = 1.0
    """Risk of a failed run."""
    fails: bool = False
    """Whether some runs fail, so that a search must be told to go on."""
    noisy: bool = False
    """Whether the simulator is stochastic."""
    logarithmic: bool = False
    """Whether gaps are those of log-objectives: the prior's is orders of magnitude too large."""
    measured: tuple[FloatArray, FloatArray] | None = None
    """Data and their scale, (m,) each, if the outputs are (simulated − data)/scale."""
    simulate_many: Callable[[FloatArray], FloatArray] | None = None
    """Parameters (n, d) → outputs (n, m), where many runs at once are much faster."""
    easier: OutsideProblem | None = None
    """The same risk with outputs that are easier to learn from, for the search of the best."""
    draws: int = 4096
    """Simulations behind an objective, a power of two."""

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return len(self.parameters)

    @property
    def prior(self) -> Gaussian:
        """Return the prior of the latent parameters."""
        prior = self.parameters.prior
        return Gaussian(np.asarray(prior.mean), np.asarray(prior.covariance))

    @property
    def bound(self) -> supac.Catoni:
        """Return the objective, for `minimize`."""
        return supac.Catoni(temperature=self.temperature, ceiling=self.failure_risk)

    def simulator(self, seed: int) -> Callable[[FloatArray], FloatArray]:
        """Return the simulator of one search; its noise depends on the seed and the point alone."""

        def simulate(x: FloatArray) -> FloatArray:
            return self.simulate(x, zlib.crc32(np.ascontiguousarray(x).tobytes(), seed))

        return simulate

    def composite(self, seed: int) -> supac.Composite:
        """Return the risk of one search as `minimize` takes it."""
        return supac.Composite(self.simulator(seed), self.loss)

    def outputs(self, u: FloatArray, seed: int) -> FloatArray | None:
        """Simulate a latent point, (d,) → (m,); None if the run fails."""
        try:
            outputs = np.asarray(self.simulate(self.parameters.from_latent(u[None])[0], seed))
        except RuntimeError:
            return None
        return outputs if np.isfinite(outputs).all() else None

    def risks(self, u: FloatArray, first_seed: int = SCORING_NOISE) -> FloatArray:
        """Compute the risks of latent points: (n, d) → (n,)."""
        outputs: list[FloatArray | None]
        if self.simulate_many is None:
            outputs = [self.outputs(each, first_seed + i) for i, each in enumerate(u)]
        else:
            rows = self.simulate_many(self.parameters.from_latent(u))
            outputs = [row if np.isfinite(row).all() else None for row in rows]
        ok = np.array([each is not None for each in outputs])
        risks = np.full(len(u), self.failure_risk)
        if ok.any():
            with np.errstate(over="ignore"):
                risks[ok] = self.loss(np.array([each for each in outputs if each is not None]))
        return risks

    def objective(self, posterior: Gaussian) -> float:
        """Compute q[R] + λ·KL(q, prior) from draws that are common to all posteriors."""
        u = posterior.mean + normal_draws(self.draws, self.dim) @ posterior.root.T
        return float(self.risks(u).mean()) + self.temperature * posterior.kl(self.prior)

    def gap_left(self, objective: float, best: float, prior: float) -> float:
        """Compute the share of the way from the prior's objective to the best that is left."""
        if self.logarithmic:
            return float(np.log(objective / best) / np.log(prior / best))
        return (objective - best) / (prior - best)


@cache
def normal_draws(n: int, dim: int, seed: int = DRAWS_SEED) -> FloatArray:
    """Return scrambled Sobol points as standard normal draws: (n, dim)."""
    uniform = qmc.Sobol(dim, rng=np.random.default_rng(seed)).random(n)
    return np.asarray(ndtri(np.clip(uniform, 1e-12, 1.0 - 1e-12)))
