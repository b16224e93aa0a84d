"""An emulator of the risk itself."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from supac.arrays import BoolArray, FloatArray
from supac.codec import register
from supac.emulator.gated import GatedModel, units
from supac.emulator.process import Hyperprior, Process, fit_hyperparameters, misfit
from supac.emulator.screening import fit_gated, nearest
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
        return BatchPlan(
            first=20,
            batch=max(10, n // 20),
            latin=True,
            width=self.widening[min(n, 1)],
            probes=self.probes,
            inner=25,
            uses_known=True,
        )

    def fit(
        self, evaluations: Evaluations, current: Distribution, context: Context | None = None
    ) -> GatedModel:
        """Fit the process and its gate."""
        context = context or Context()
        usable = evaluations.usable(context.failure_risk)
        runs, rows = nearest(usable, current, self.limit)
        training = RiskTrainingSet.build(runs, current, context)
        return fit_gated(training, usable, runs, rows, current, context)


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
        deviation = max(1.4826 * float(np.median(np.abs(recent - middle))), 1e-12)
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
    centre: FloatArray
    scale: FloatArray
    prior: Hyperprior

    @classmethod
    def build(cls, runs: Evaluations, current: Distribution, context: Context) -> RiskTrainingSet:
        """Standardise the runs."""
        centre, scale = units(current, context)
        prior = Hyperprior.build(
            current.family.coupled,
            deviations=(1.0, 0.6, 0.37, 0.08),
            noise_limits=(1e-4, 2.0),
            noise_floor=1e-3,
            oblique=3.0,
        )
        return cls((runs.x - centre) @ scale, runs.risk, centre, scale, prior)

    @property
    def default(self) -> FloatArray:
        """Return one set of hyperparameters for each of the two warps."""
        return np.concatenate([self.prior.centre, self.prior.centre])

    def condition(
        self, inliers: BoolArray, inflation: FloatArray, hyperparameters: FloatArray, steps: int
    ) -> FittedRiskEmulator:
        """Emulate the risk as it is or warped, whichever has the larger evidence."""
        risk, u = self.risk[inliers], self.u[inliers]
        plain, warped = np.split(hyperparameters, 2)
        candidates = [_Standardised.of(risk, Warp(), inflation, plain)]
        if (risk > Warp.above(risk).cap).any():
            candidates.append(_Standardised.of(risk, Warp.above(risk), inflation, warped))
        costs = [each.cost(u, inflation, self.prior) for each in candidates]
        if steps:
            # The less likely warp is updated with fewer steps.
            for which, each in enumerate(candidates):
                few = steps if which == int(np.argmin(costs)) else (steps + 2) // 3
                better = fit_hyperparameters(
                    each.hyperparameters, u, each.y, inflation, self.prior, few
                )
                candidates[which] = replace(each, hyperparameters=better)
            costs = [each.cost(u, inflation, self.prior) for each in candidates]
        chosen = candidates[int(np.argmin(costs))]
        process = Process(chosen.hyperparameters, self.prior, u, chosen.y, inflation)
        both = np.concatenate([candidates[0].hyperparameters, candidates[-1].hyperparameters])
        return FittedRiskEmulator(self, both, process, chosen, min(costs))


@dataclass(frozen=True, eq=False)
class _Standardised:
    """Hold risks warped and standardised, and the hyperparameters of their process."""

    hyperparameters: FloatArray
    warp: Warp
    mean: float
    deviation: float
    y: FloatArray
    log_jacobian: float

    @classmethod
    def of(
        cls, risk: FloatArray, warp: Warp, inflation: FloatArray, hyperparameters: FloatArray
    ) -> _Standardised:
        warped, weight = warp(risk), 1.0 / inflation
        mean = float(weight @ warped / weight.sum())
        deviation = float(np.sqrt(weight @ (warped - mean) ** 2 / weight.sum())) + 1e-12
        y = ((warped - mean) / deviation)[:, None]
        log_jacobian = warp.log_jacobian(risk) - len(risk) * np.log(deviation)
        return cls(hyperparameters, warp, mean, deviation, y, float(log_jacobian))

    def cost(self, u: FloatArray, inflation: FloatArray, prior: Hyperprior) -> float:
        """Compute minus the log-evidence of the risks before the warp."""
        return misfit(self.hyperparameters, u, self.y, inflation, prior)[0] - self.log_jacobian


@dataclass(frozen=True, eq=False)
class FittedRiskEmulator:
    """Predict the risk from a process of the standardised, perhaps warped risks."""

    training: RiskTrainingSet
    hyperparameters: FloatArray
    process: Process
    risk: _Standardised
    cost: float

    def misfit(self) -> float:
        """Return minus the log-evidence of the risks."""
        return self.cost

    def _inputs(self, x: FloatArray) -> FloatArray:
        return (x - self.training.centre) @ self.training.scale

    def predict(self, x: FloatArray) -> FloatArray:
        """Predict the mean risk: (n, dim) → (n,)."""
        return self.risk.mean + self.risk.deviation * self.process.predict(self._inputs(x))[:, 0]

    def leave_one_out(self) -> tuple[FloatArray, FloatArray]:
        """Return leave-one-out predicted risks and squared standardised residuals of inliers."""
        process = self.process
        error = process.y[:, 0] - process.leave_one_out[:, 0]
        surprise = error**2 / (process.amplitude * process.leave_one_out_variance)
        return self.risk.mean + self.risk.deviation * process.leave_one_out[:, 0], surprise

    def predict_outliers(self, rows: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Return predicted risks and squared standardised residuals of runs not trained on."""
        mean, variance = self.process.predict_with_variance(self.training.u[rows])
        observed = (self.risk.warp(self.training.risk[rows]) - self.risk.mean) / self.risk.deviation
        spread = self.process.amplitude * (variance + self.process.noise)
        surprise = (observed - mean[:, 0]) ** 2 / spread
        return self.risk.mean + self.risk.deviation * mean[:, 0], surprise

    def moments(self, whitening: NormalWhitening) -> tuple[float, FloatArray, float]:
        """Compute the mean risk and E[risk · features] in closed form."""
        scale = self.training.scale
        mean = (whitening.mean - self.training.centre) @ scale
        covariance = scale.T @ whitening.covariance @ scale
        value, slope, curvature = self.process.expectation(mean, covariance)
        beta = whitening.projection(
            self.risk.deviation * (scale @ slope),
            self.risk.deviation * (scale @ curvature @ scale.T),
        )
        return self.risk.mean + self.risk.deviation * value, beta, np.nan
