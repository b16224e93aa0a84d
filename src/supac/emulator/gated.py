"""The risk as an emulator of the inliers, a gate for the outliers, and a correction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from supac.arrays import BoolArray, FloatArray
from supac.emulator.gate import Gate, Units
from supac.families import Distribution, NormalWhitening, Whitening
from supac.surrogate.estimator import BatchPlan, EmulatorState
from supac.surrogate.least_squares import project_known
from supac.surrogate.surrogate import Surrogate


class FittedEmulator(Protocol):
    """Predict the risk from the runs of a training set that are no outliers."""

    @property
    def hyperparameters(self) -> FloatArray:
        """Return the hyperparameters as one vector."""

    def misfit(self) -> float:
        """Compute minus the log-evidence."""

    def predict(self, x: FloatArray) -> FloatArray:
        """Predict the mean risk: (n, dim) → (n,)."""

    def leave_one_out(self) -> tuple[FloatArray, FloatArray]:
        """Return leave-one-out predicted risks and squared standardised residuals of inliers."""

    def predict_outliers(self, rows: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Return predicted risks and squared standardised residuals of runs not trained on."""

    def moments(self, whitening: NormalWhitening) -> tuple[float, FloatArray, float]:
        """Compute the mean risk, E[risk · features], and the share of variance they explain."""


class TrainingSet(Protocol):
    """Hold runs in standardised units, from which emulators are fitted."""

    @property
    def units(self) -> Units:
        """Return the units of the parameters."""

    @property
    def default(self) -> FloatArray:
        """Return the hyperparameters to start from."""

    def condition(
        self, inliers: BoolArray, inflation: FloatArray, hyperparameters: FloatArray, steps: int
    ) -> FittedEmulator:
        """Improve the hyperparameters by `steps` of L-BFGS, and condition on the inliers."""


def emulator_plan(first: int, n: int, widening: tuple[float, float], probes: float) -> BatchPlan:
    """Return small Latin batches with probes, and many updates on one model."""
    wide, batch = widening[min(n, 1)], max(10, n // 20)
    return BatchPlan(first, batch, latin=True, width=wide, probes=probes, inner=25, uses_known=True)


@dataclass(frozen=True, eq=False)
class Correction:
    """Represent the function β·features + mean, with the features of one distribution."""

    at: Distribution
    whitening: Whitening
    beta: FloatArray
    mean: float

    def __call__(self, x: FloatArray) -> FloatArray:
        """Evaluate it: (n, dim) → (n,)."""
        return self.mean + self.whitening.features(x) @ self.beta

    def surrogate(self) -> Surrogate:
        """Return the same function by its η."""
        eta = self.whitening.coefficients(self.beta)
        return Surrogate(eta, self.mean, self.at, deviation=float(np.linalg.norm(self.beta)))


@dataclass(frozen=True, eq=False)
class GatedModel:
    """Model the risk by emulator + severity · gate + correction.

    The gate is the probability that a run fails or is an outlier, the severity the mean excess
    risk of such a run.
    """

    emulator: FittedEmulator
    gate: Gate
    severity: float
    correction: Correction | None
    error: float
    """Root mean square leave-one-out error of the inliers."""
    size: float
    """Effective number of runs around the current posterior."""
    outliers: int
    state: EmulatorState
    seed: int

    def predict(self, x: FloatArray) -> FloatArray:
        """Predict the risk of inliers: (n, dim) → (n,)."""
        expected = self.emulator.predict(x)
        return expected if self.correction is None else expected + self.correction(x)

    def project(self, at: Distribution, rng: np.random.Generator) -> Surrogate:
        """Project the risk: in closed form for Gaussian families, from common draws for others."""
        whitening = at.whiten()
        if not isinstance(whitening, NormalWhitening):
            known = project_known(self.risk, at, np.random.default_rng(self.seed))
            return replace(known, effective_size=self.size, loo_error=self.error)
        mean, beta, explained = self.emulator.moments(whitening)
        chance, slope, curvature = self.gate.expectation(*at.family.moments(at.theta))
        beta = beta + self.severity * whitening.projection(slope, curvature)
        eta, mean = whitening.coefficients(beta), mean + self.severity * chance
        if self.correction is not None:
            correction = self.correction.surrogate()
            eta = eta + correction.eta
            mean += correction.mean_under(at.theta)
        deviation = float(np.linalg.norm(beta))
        return Surrogate(
            eta, mean, at, deviation, explained, effective_size=self.size, loo_error=self.error
        )

    def risk(self, x: FloatArray) -> FloatArray:
        """Predict the mean risk of all runs, outliers included: (n, dim) → (n,)."""
        return self.predict(x) + self.severity * self.gate.probability(x)

    def failure_chance(self, at: Distribution) -> float:
        """Compute the share of the runs of `at` that will fail or be outliers."""
        if at.family.is_gaussian:
            return self.gate.expectation(*at.family.moments(at.theta))[0]
        return float(self.gate.probability(at.sample(1_000, self.seed)).mean())

    def probes(self, n: int, at: Distribution, rng: np.random.Generator) -> FloatArray:
        """Choose points in the tails of `at` where the gate is least certain: (n, dim).

        Greedily the largest √(p(1 − p)) among wide draws; each choice damps its neighbourhood.
        """
        whitening = at.whiten()
        if not isinstance(whitening, NormalWhitening):
            return np.empty((0, at.dim))
        candidates = whitening.spread(1.6 * rng.standard_normal((400, at.dim)))
        chance = self.gate.probability(candidates)
        doubt = np.sqrt(chance * (1.0 - chance))
        u = candidates @ self.gate.units.scale
        picked = []
        for _ in range(n):
            best = int(np.argmax(doubt))
            picked.append(best)
            distance = ((u - u[best]) ** 2).sum(axis=1)
            doubt = doubt * -np.expm1(-0.5 * distance / at.dim)
        return candidates[picked]
