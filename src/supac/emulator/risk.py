"""An emulator of the risk itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from supac.arrays import BoolArray, FloatArray
from supac.codec import register
from supac.emulator.gated import FittedEmulator, GatedModel, emulator_plan, fit_gated
from supac.emulator.process import Hyperprior, Process
from supac.emulator.units import Units
from supac.families import Distribution, NormalWhitening
from supac.problem import Evaluations, Problem
from supac.surrogate.estimator import BatchPlan, Context

_RECENT = 32  # runs whose risks are the usual ones


@register
@dataclass(frozen=True)
class GaussianProcess:
    """Emulate the risk, in closed form under Gaussian posteriors.

    Above `limit` evaluations only those nearest to the current posterior are used. The first batch
    and the others are drawn wider than the posterior by the factors of `widening`; a risk saturates
    in the tails, so little is learnt there. The share `probes` of a batch looks for failures in the
    tails all the same, once steps stay inside the trust region.
    """

    limit: int = 600
    widening: tuple[float, float] = (1.0, 1.0)
    probes: float = 0.1

    def plan(self, problem: Problem, n: int) -> BatchPlan:
        """Return small batches, and many updates on one model."""
        return emulator_plan(problem, 20, n, self.widening, self.probes)

    def fit(
        self, evaluations: Evaluations, current: Distribution, context: Context | None = None
    ) -> GatedModel:
        """Fit the process and its gate."""
        context = context or Context()
        return fit_gated(RiskTrainingSet.build, evaluations, current, context, self.limit)


@dataclass(frozen=True)
class Warp:
    """Map y to itself up to `cap`, and to cap + scale·log(1 + (y − cap)/scale) above."""

    cap: float = np.inf
    scale: float = 1.0

    @classmethod
    def above(cls, risk: FloatArray, deviations: float = 8.0) -> Warp:
        """Put the cap `deviations` robust standard deviations above the latest risks' median."""
        recent = risk[-_RECENT:]
        middle = float(np.median(recent))
        deviation = 1.4826 * float(np.median(np.abs(recent - middle)))
        if not deviation > 0.0:  # more than half of the risks are equal
            deviation = max(float(recent.std()), 1e-12)
        return cls(middle + deviations * deviation, deviations * deviation)

    def __call__(self, risk: FloatArray) -> FloatArray:
        """Transform risks: (n,) → (n,)."""
        excess = np.maximum(risk - self.cap, 0.0) / self.scale
        return np.minimum(risk, self.cap) + self.scale * np.log1p(excess)

    def log_jacobian(self, risk: FloatArray) -> float:
        """Compute the logarithm of the product of its slopes."""
        return -float(np.log1p(np.maximum(risk - self.cap, 0.0) / self.scale).sum())


@dataclass(frozen=True, eq=False)
class RiskTrainingSet:
    """Hold the parameters in prior standard deviations from the current mean, and the risks."""

    u: FloatArray
    risk: FloatArray
    units: Units
    prior: Hyperprior

    @classmethod
    def build(cls, runs: Evaluations, current: Distribution, context: Context) -> RiskTrainingSet:
        """Standardise the runs."""
        units = Units.of(current, context)
        prior = Hyperprior.build(
            current.family.coupled,
            deviations=(1.0, 0.6, 0.37, 0.08),
            noise_limits=(1e-4, 2.0),
            noise_floor=1e-3,
            oblique=3.0,
        )
        u = units(runs.x)
        if units.spectrum is not None:
            seen = runs.risk[runs.ok]
            y = (seen - seen.mean()) / (seen.std() + 1e-300)
            prior = prior.best_of(units.spectrum, u[runs.ok], y[:, None])
        return cls(u, runs.risk, units, prior)

    @property
    def default(self) -> FloatArray:
        """Return one set of hyperparameters for each of the two warps."""
        return np.concatenate([self.prior.centre, self.prior.centre])

    def condition(
        self, inliers: BoolArray, inflation: FloatArray, hyperparameters: FloatArray, steps: int
    ) -> FittedRiskEmulator:
        """Emulate the risk as it is or warped, whichever has the larger evidence."""
        risk, (plain, warped) = self.risk[inliers], np.split(hyperparameters, 2)
        given = partial(FittedRiskEmulator.of, self, self.u[inliers], risk, inflation)
        candidates = [given(plain, Warp())]
        if (risk > Warp.above(risk).cap).any():
            candidates.append(given(warped, Warp.above(risk)))
        if steps:
            # The less likely warp is updated with fewer steps.
            best = int(np.argmin([each.misfit() for each in candidates]))
            candidates = [
                replace(each, process=each.process.fit(steps if i == best else (steps + 2) // 3))
                for i, each in enumerate(candidates)
            ]
        chosen = candidates[int(np.argmin([each.misfit() for each in candidates]))]
        both = [candidates[0].process.hyperparameters, candidates[-1].process.hyperparameters]
        return replace(chosen, hyperparameters=np.concatenate(both))

    def average(
        self,
        emulator: FittedEmulator,
        inliers: BoolArray,
        inflation: FloatArray,
        steps: int,
    ) -> FittedEmulator:
        """Return the emulator alone: one risk a run is not counted more than once."""
        return emulator


@dataclass(frozen=True, eq=False)
class FittedRiskEmulator:
    """Predict the risk from a process of the standardised, perhaps warped risks."""

    training: RiskTrainingSet
    process: Process
    warp: Warp
    mean: float
    deviation: float
    log_jacobian: float
    hyperparameters: FloatArray
    """Of both warps."""

    @classmethod
    def of(
        cls,
        training: RiskTrainingSet,
        u: FloatArray,
        risk: FloatArray,
        inflation: FloatArray,
        hyperparameters: FloatArray,
        warp: Warp,
    ) -> FittedRiskEmulator:
        """Warp and standardise the risks, and condition a process on them."""
        warped, weight = warp(risk), 1.0 / inflation
        mean = float(weight @ warped / weight.sum())
        deviation = float(np.sqrt(weight @ (warped - mean) ** 2 / weight.sum())) + 1e-12
        y = ((warped - mean) / deviation)[:, None]
        process = Process(hyperparameters, training.prior, u, y, inflation)
        log_jacobian = float(warp.log_jacobian(risk) - len(risk) * np.log(deviation))
        return cls(training, process, warp, mean, deviation, log_jacobian, hyperparameters)

    def misfit(self) -> float:
        """Compute minus the log-evidence of the risks before the warp."""
        return self.process.misfit - self.log_jacobian

    def inputs(self, x: FloatArray) -> FloatArray:
        """Return points as inputs of the process: (n, dim) → (n, dim)."""
        return self.training.units(x)

    def predict(self, x: FloatArray) -> FloatArray:
        """Predict the mean risk: (n, dim) → (n,)."""
        return self.mean + self.deviation * self.process.predict(self.inputs(x))[:, 0]

    def leave_one_out(self) -> tuple[FloatArray, FloatArray]:
        """Return leave-one-out predicted risks and squared standardised residuals of inliers."""
        process = self.process
        error = process.y[:, 0] - process.leave_one_out[:, 0]
        surprise = error**2 / (process.amplitude * process.leave_one_out_variance)
        return self.mean + self.deviation * process.leave_one_out[:, 0], surprise

    def predict_outliers(self, rows: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Return predicted risks and squared standardised residuals of runs not trained on."""
        mean, variance = self.process.predict_with_variance(self.training.u[rows])
        observed = (self.warp(self.training.risk[rows]) - self.mean) / self.deviation
        spread = self.process.amplitude * (variance + self.process.noise)
        surprise = (observed - mean[:, 0]) ** 2 / spread
        return self.mean + self.deviation * mean[:, 0], surprise

    def moments(self, whitening: NormalWhitening) -> tuple[float, FloatArray, float]:
        """Compute the mean risk and E[risk · features] in closed form."""
        scale = self.training.units.scale
        mean, covariance = self.training.units(whitening.mean), scale.T @ whitening.covariance
        value, slope, curvature = self.process.expectation(mean, covariance @ scale)
        beta = whitening.projection(
            self.deviation * (scale @ slope), self.deviation * (scale @ curvature @ scale.T)
        )
        return self.mean + self.deviation * value, beta, np.nan
