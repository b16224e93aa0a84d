"""A Gaussian process on the risk itself."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from supac.arrays import BoolArray, FloatArray
from supac.codec import register
from supac.emulator.process import Hyperprior, Process, fit_hyperparameters, misfit
from supac.emulator.screening import GatedModel, fit_gated, nearest, units
from supac.families import Distribution, NormalWhitening
from supac.problem.evaluations import Evaluations
from supac.surrogate.surrogate import Context

_RECENT = 32  # runs that say where the bulk of the risks is


@register
@dataclass(frozen=True)
class GaussianProcess:
    """Emulates the risk, in closed form under Gaussian posteriors.

    Above `limit` evaluations only those nearest to the current posterior are used. The first batch
    and the others are drawn wider than the posterior by the factors of `widening`; a risk saturates
    in the tails, so little is learnt there. The share `probes` of a batch looks for failures in the
    tails all the same, once steps stay inside the trust region.
    """

    limit: int = 600
    widening: tuple[float, float] = (1.0, 1.0)
    probes: float = 0.1

    def fit(
        self, evaluations: Evaluations, current: Distribution, context: Context | None = None
    ) -> GatedModel:
        """The process with its gate."""
        context = context or Context()
        usable = evaluations.usable(context.failure_risk)
        runs, rows = nearest(usable, current, self.limit)
        emulation = RiskEmulation.build(runs, current, context)
        return fit_gated(emulation, usable, runs, rows, current, context)


@dataclass(frozen=True)
class Warp:
    """The identity up to `cap`, logarithmic above: y ↦ cap + scale·log(1 + (y − cap)/scale)."""

    cap: float = np.inf
    scale: float = 1.0

    @classmethod
    def above(cls, risk: FloatArray, deviations: float = 8.0) -> Warp:
        """Squashes what is so many robust standard deviations above the latest risks' median."""
        recent = risk[-_RECENT:]
        middle = float(np.median(recent))
        deviation = max(1.4826 * float(np.median(np.abs(recent - middle))), 1e-12)
        return cls(middle + deviations * deviation, deviations * deviation)

    def __call__(self, risk: FloatArray) -> FloatArray:
        """Risks as they are emulated: (n,) → (n,)."""
        excess = np.maximum(risk - self.cap, 0.0) / self.scale
        return np.minimum(risk, self.cap) + self.scale * np.log1p(excess)

    def log_jacobian(self, risk: FloatArray) -> float:
        """Log of the product of its slopes."""
        return -float(np.log1p(np.maximum(risk - self.cap, 0.0) / self.scale).sum())


@dataclass(frozen=True, eq=False)
class RiskEmulation:
    """The runs in the units in which they are emulated."""

    u: FloatArray
    risk: FloatArray
    centre: FloatArray
    scale: FloatArray
    prior: Hyperprior

    @classmethod
    def build(cls, runs: Evaluations, current: Distribution, context: Context) -> RiskEmulation:
        """Parameters in prior standard deviations from the current mean."""
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
        """One set of hyperparameters for each of the two warps."""
        return np.concatenate([self.prior.centre, self.prior.centre])

    def condition(
        self, kept: BoolArray, inflation: FloatArray, phi: FloatArray, steps: int
    ) -> RiskBulk:
        """The risk as it is or squashed, whichever has the larger evidence."""
        risk, u = self.risk[kept], self.u[kept]
        plain, squashed = np.split(phi, 2)
        candidates = [_Standardised.of(risk, Warp(), inflation, plain)]
        if (risk > Warp.above(risk).cap).any():
            candidates.append(_Standardised.of(risk, Warp.above(risk), inflation, squashed))
        costs = [each.cost(u, inflation, self.prior) for each in candidates]
        if steps:
            # The less likely warp is kept up to date with fewer steps.
            for which, each in enumerate(candidates):
                few = steps if which == int(np.argmin(costs)) else (steps + 2) // 3
                better = fit_hyperparameters(each.phi, u, each.y, inflation, self.prior, few)
                candidates[which] = replace(each, phi=better)
            costs = [each.cost(u, inflation, self.prior) for each in candidates]
        chosen = candidates[int(np.argmin(costs))]
        process = Process(chosen.phi, self.prior, u, chosen.y, inflation)
        both = np.concatenate([candidates[0].phi, candidates[-1].phi])
        return RiskBulk(self, both, process, chosen, min(costs))


@dataclass(frozen=True, eq=False)
class _Standardised:
    """Risks warped and standardised, and the hyperparameters of their process."""

    phi: FloatArray
    warp: Warp
    mean: float
    deviation: float
    y: FloatArray
    log_jacobian: float

    @classmethod
    def of(
        cls, risk: FloatArray, warp: Warp, inflation: FloatArray, phi: FloatArray
    ) -> _Standardised:
        warped, weight = warp(risk), 1.0 / inflation
        mean = float(weight @ warped / weight.sum())
        deviation = float(np.sqrt(weight @ (warped - mean) ** 2 / weight.sum())) + 1e-12
        y = ((warped - mean) / deviation)[:, None]
        log_jacobian = warp.log_jacobian(risk) - len(risk) * np.log(deviation)
        return cls(phi, warp, mean, deviation, y, float(log_jacobian))

    def cost(self, u: FloatArray, inflation: FloatArray, prior: Hyperprior) -> float:
        """Minus the log-evidence of the risks as they are."""
        return misfit(self.phi, u, self.y, inflation, prior)[0] - self.log_jacobian


@dataclass(frozen=True, eq=False)
class RiskBulk:
    """A process of the standardised, perhaps squashed risk."""

    emulation: RiskEmulation
    phi: FloatArray
    process: Process
    risk: _Standardised
    cost: float

    def misfit(self) -> float:
        """Minus the log-evidence of the risks."""
        return self.cost

    def _inputs(self, x: FloatArray) -> FloatArray:
        return (x - self.emulation.centre) @ self.emulation.scale

    def predict(self, x: FloatArray) -> FloatArray:
        """The expected risk: (n, dim) → (n,)."""
        return self.risk.mean + self.risk.deviation * self.process.predict(self._inputs(x))[:, 0]

    def left_out(self) -> tuple[FloatArray, FloatArray]:
        """For each run kept, its risk and squared standardised error as others predict them."""
        process = self.process
        error = process.y[:, 0] - process.left_out[:, 0]
        surprise = error**2 / (process.amplitude * process.left_out_variance)
        return self.risk.mean + self.risk.deviation * process.left_out[:, 0], surprise

    def held_out(self, rows: BoolArray) -> tuple[FloatArray, FloatArray]:
        """The same for runs that were not kept."""
        mean, variance = self.process.predict_with_variance(self.emulation.u[rows])
        observed = (
            self.risk.warp(self.emulation.risk[rows]) - self.risk.mean
        ) / self.risk.deviation
        spread = self.process.amplitude * (variance + self.process.noise)
        surprise = (observed - mean[:, 0]) ** 2 / spread
        return self.risk.mean + self.risk.deviation * mean[:, 0], surprise

    def moments(self, whitening: NormalWhitening) -> tuple[float, FloatArray, float]:
        """Mean risk and E[risk · features], in closed form."""
        scale = self.emulation.scale
        mean = (whitening.mean - self.emulation.centre) @ scale
        covariance = scale.T @ whitening.covariance @ scale
        value, slope, curvature = self.process.expectation(mean, covariance)
        beta = whitening.projection(
            self.risk.deviation * (scale @ slope),
            self.risk.deviation * (scale @ curvature @ scale.T),
        )
        return self.risk.mean + self.risk.deviation * value, beta, np.nan
