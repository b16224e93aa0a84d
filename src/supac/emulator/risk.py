"""An emulator of the risk itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from supac.arrays import BoolArray, FloatArray
from supac.codec import register
from supac.emulator.base import FittedEmulator, TrainingSet
from supac.emulator.gated import GatedModel, emulator_plan, fit_gated
from supac.emulator.process import Hyperprior, Process
from supac.emulator.projection import CommonDraws
from supac.emulator.tuning import DEFAULT, EmulatorTuning, WarpTuning
from supac.emulator.units import Inputs
from supac.families import Distribution, NormalWhitening
from supac.families.gaussian import orthogonal
from supac.problem import Evaluations, Problem
from supac.surrogate.estimator import BatchPlan, Context, Estimator

_PLAIN, _WARPED = "risk", "warped risk"  # names of the processes


@register(later=("tuning",))
@dataclass(frozen=True)
class GaussianProcess(Estimator):
    """Emulate the risk, in closed form under Gaussian posteriors.

    Above `limit` evaluations only those nearest to the current posterior are used. The first batch
    and the others are drawn wider than the posterior by the factors of `widening`; a risk saturates
    in the tails, so little is learnt there. The share `probes` of a batch looks for failures in the
    tails all the same, once steps stay inside the trust region.
    """

    helped_by_outputs = True
    limit: int = 600
    widening: tuple[float, float] = (1.0, 1.0)
    probes: float = 0.1
    tuning: EmulatorTuning | None = field(default=None, repr=False)
    """Numbers of all rules; None for the defaults."""

    def plan(self, problem: Problem, n: int) -> BatchPlan:
        """Return small batches, and many updates on one model."""
        sizes = (self.tuning or DEFAULT).batches
        return emulator_plan(problem, sizes.of_risk, n, self.widening, self.probes, sizes)

    def fit(
        self, evaluations: Evaluations, current: Distribution, context: Context | None = None
    ) -> GatedModel:
        """Fit the process and its gate."""
        context, tuning = context or Context(), self.tuning or DEFAULT
        build = partial(RiskTrainingSet.build, tuning)
        return fit_gated(build, evaluations, current, context, self.limit, tuning)


@dataclass(frozen=True)
class Warp:
    """Map y to itself up to `cap`, and to cap + scale·log(1 + (y − cap)/scale) above."""

    cap: float = np.inf
    scale: float = 1.0

    @classmethod
    def above(cls, risk: FloatArray, tuning: WarpTuning = DEFAULT.warp) -> Warp:
        """Put the cap some robust standard deviations above the latest risks' median."""
        if tuning.deviations is None:
            return cls()
        recent, deviations = risk[-tuning.recent :], tuning.deviations
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
class RiskTrainingSet(TrainingSet):
    """Hold the parameters in prior standard deviations from the current mean, and the risks."""

    u: FloatArray
    risk: FloatArray
    inputs: Inputs
    prior: Hyperprior
    tuning: WarpTuning
    draws: CommonDraws | None
    """Points at which the risk is averaged; None if it has a closed form."""

    @classmethod
    def build(
        cls, tuning: EmulatorTuning, runs: Evaluations, current: Distribution, context: Context
    ) -> RiskTrainingSet:
        """Standardise the runs."""
        inputs, rule = Inputs.of_last_fit(current, context, tuning.units), tuning.hyperprior
        prior = Hyperprior.build(current.family.coupled, rule.risk, rule)
        x, seen = runs.x[runs.ok], runs.risk[runs.ok]
        y = ((seen - seen.mean()) / (seen.std() + 1e-300))[:, None]
        if inputs.units.spectrum is not None:
            prior = prior.best_of(inputs.units.spectrum, inputs(x), y)
        inputs = inputs.chosen(prior.expected_misfit, x, y, tuning.units)
        draws = None
        if inputs.scales is not None:  # from a generator of their own: others keep their numbers
            count = max(tuning.draws.of_risk, tuning.draws.a_parameter * current.dim)
            draws = CommonDraws(orthogonal(count, current.dim, context.rng.spawn(1)[0]))
        return cls(inputs(runs.x), runs.risk, inputs, prior, tuning.warp, draws)

    @property
    def default(self) -> dict[str, FloatArray]:
        """Return hyperparameters of the risk as it is and warped."""
        return dict.fromkeys((_PLAIN, _WARPED), self.prior.centre)

    def condition(
        self,
        inliers: BoolArray,
        inflation: FloatArray,
        hyperparameters: Mapping[str, FloatArray],
        steps: int,
    ) -> FittedRiskEmulator:
        """Emulate the risk as it is or warped, whichever has the larger evidence."""
        risk = self.risk[inliers]
        given = partial(FittedRiskEmulator.of, self, self.u[inliers], risk, inflation)
        candidates, warp = [given(hyperparameters[_PLAIN], Warp())], Warp.above(risk, self.tuning)
        if (risk > warp.cap).any():
            candidates.append(given(hyperparameters[_WARPED], warp))
        if steps:
            # The less likely warp is updated with fewer steps.
            best = int(np.argmin([each.misfit() for each in candidates]))
            candidates = [
                replace(each, process=each.process.fit(steps if i == best else (steps + 2) // 3))
                for i, each in enumerate(candidates)
            ]
        chosen = candidates[int(np.argmin([each.misfit() for each in candidates]))]
        first, last = (candidates[i].process.hyperparameters for i in (0, -1))
        return replace(chosen, hyperparameters={_PLAIN: first, _WARPED: last})


@dataclass(frozen=True, eq=False)
class FittedRiskEmulator(FittedEmulator):
    """Predict the risk from a process of the standardised, perhaps warped risks."""

    training: RiskTrainingSet
    warp: Warp
    mean: float
    deviation: float
    log_jacobian: float

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
        return cls(
            training,
            warp,
            mean,
            deviation,
            log_jacobian,
            process=process,
            hyperparameters={},
        )

    def misfit(self) -> float:
        """Compute minus the log-evidence of the risks before the warp."""
        return self.process.misfit - self.log_jacobian

    def inputs(self, x: FloatArray) -> FloatArray:
        """Return points as inputs of the process: (n, dim) → (n, dim)."""
        return self.training.inputs(x)

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
        """Compute the mean risk and E[risk · features].

        In closed form, but where inputs are not linear in the parameters by common draws.
        """
        inputs, draws = self.training.inputs, self.training.draws
        if draws is not None:
            x = whitening.spread(draws.z)
            risks, gradients = self.process.mean_and_gradient(inputs(x))
            gradients = inputs.back(x, gradients) @ whitening.inverse_root.T
            found = draws.project_gradients(whitening, risks, gradients)
            mean_risk = self.mean + self.deviation * found.mean
            return mean_risk, self.deviation * found.beta, found.explained
        scale = inputs.units.scale
        mean, covariance = inputs.units(whitening.mean), scale.T @ whitening.covariance
        value, slope, curvature = self.process.expectation(mean, covariance @ scale)
        beta = whitening.projection(
            self.deviation * (scale @ slope), self.deviation * (scale @ curvature @ scale.T)
        )
        return self.mean + self.deviation * value, beta, np.nan
