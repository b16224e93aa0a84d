"""A user's proxy of the risk: a function that costs nothing and is nearly right."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from supac.arrays import FloatArray
from supac.families import Distribution
from supac.problem import Evaluations, Function, Problem
from supac.surrogate.estimator import BatchPlan, Context, Estimator, Surrogate, WrappedModel
from supac.surrogate.least_squares import project_known


@dataclass(frozen=True)
class WithProxy(Estimator):
    """Learn only what a proxy misses, with any estimator."""

    proxy: Function
    estimator: Estimator

    @property
    def reuses(self) -> bool:
        """Return what the estimator of the rest does."""
        return self.estimator.reuses

    def plan(self, problem: Problem, n: int) -> BatchPlan:
        """Return the batches that the estimator of the rest needs."""
        return self.estimator.plan(problem, n)

    def fit(
        self, evaluations: Evaluations, current: Distribution, context: Context | None = None
    ) -> Corrected:
        """Scale the proxy by its least-squares slope, small for a poor one, and fit the rest."""
        context = context or Context()
        runs = evaluations.usable(context.failure_risk)
        proxy = _finite(self.proxy, context.failure_risk)
        known = proxy(runs.x)
        centred = known - known.mean()
        variance = float(centred @ centred)
        slope = float(centred @ runs.risk) / variance if variance > 0.0 else 0.0
        if context.expected is not None:
            latest = proxy(evaluations.x[len(evaluations) - len(context.expected) :])
            context = replace(context, expected=context.expected - slope * latest)
        rest = self.estimator.fit(runs.minus(slope * known), current, context)
        return Corrected(rest, proxy, slope, int(context.rng.integers(2**32)))


@dataclass(frozen=True, eq=False)
class Corrected(WrappedModel):
    """Model the risk by a scaled proxy plus a model of the rest: the space F + G of Theorem 1.

    What is known of the runs is known of the rest, which is the inner model's.
    """

    proxy: Function
    """Finite at every point."""
    scale: float
    seed: int
    """Seed of the draws that project the proxy, the same at every distribution."""

    def predict(self, x: FloatArray) -> FloatArray | None:
        """Add the scaled proxy to the predictions of the rest, if there are any."""
        rest = self.inner.predict(x)
        return None if rest is None else self.scale * self.proxy(x) + rest

    def expected_risk(self, x: FloatArray) -> FloatArray | None:
        """Add the scaled proxy to the risks of the rest, if there are any."""
        rest = self.inner.expected_risk(x)
        return None if rest is None else self.scale * self.proxy(x) + rest

    def project(self, at: Distribution, rng: np.random.Generator) -> Surrogate:
        """Add the projections of the proxy and of the rest, whose diagnostics are kept."""
        known = project_known(self.proxy, at, np.random.default_rng(self.seed))
        missing = self.inner.project(at, rng)
        return replace(
            missing,
            eta=self.scale * known.eta + missing.eta,
            mean=self.scale * known.mean + missing.mean,
            # At most: the two may cancel.
            deviation=abs(self.scale) * known.deviation + missing.deviation,
        )


def _finite(proxy: Function, failure_risk: float | None) -> Function:
    """Replace values of the proxy that are not finite by the failure risk, or by its largest."""

    def checked(x: FloatArray) -> FloatArray:
        values = np.asarray(proxy(x), dtype=np.float64)
        good = np.isfinite(values)
        if good.all():
            return values
        if not good.any():
            raise ValueError("proxy is not finite at any of the points that the posterior draws")
        worst = values[good].max() if failure_risk is None else failure_risk
        return np.where(good, values, worst)

    return checked
