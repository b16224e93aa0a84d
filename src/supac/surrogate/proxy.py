"""A user's proxy of the risk: a function that costs nothing and is nearly right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from supac.arrays import FloatArray
from supac.families import Distribution
from supac.problem import Evaluations, Function
from supac.surrogate.least_squares import project_known
from supac.surrogate.surrogate import Context, Estimator, RiskModel, Surrogate


@dataclass(frozen=True, eq=False)
class Corrected:
    """A scaled proxy plus a model of what it misses: the space F + G of Theorem 1."""

    proxy: Function
    """Finite wherever it is asked."""
    scale: float
    correction: RiskModel
    seed: int
    """Of the draws with which the proxy is projected: the same wherever it is asked."""

    @classmethod
    def fit(
        cls,
        proxy: Function,
        evaluations: Evaluations,
        estimator: Estimator,
        current: Distribution,
        context: Context | None = None,
    ) -> Corrected:
        """The proxy times its least-squares slope (a poor proxy gets little), and the rest."""
        context = context or Context()
        runs = evaluations.usable(context.failure_risk)
        proxy = _finite(proxy, context.failure_risk)
        known = proxy(runs.x)
        centred = known - known.mean()
        variance = float(centred @ centred)
        slope = float(centred @ runs.risk) / variance if variance > 0.0 else 0.0
        if context.expected is not None:
            latest = proxy(evaluations.x[len(evaluations) - len(context.expected) :])
            context = replace(context, expected=context.expected - slope * latest)
        correction = estimator.fit(runs.minus(slope * known), current, context)
        return cls(proxy, slope, correction, int(context.rng.integers(2**32)))

    @property
    def memory(self) -> Mapping[str, FloatArray]:
        """That of the model of the rest."""
        return getattr(self.correction, "memory", {})

    def project(self, at: Distribution, rng: np.random.Generator) -> Surrogate:
        """The sum of the two projections; the diagnostics are the correction's."""
        known = project_known(self.proxy, at, np.random.default_rng(self.seed))
        missing = self.correction.project(at, rng)
        return replace(
            missing,
            eta=self.scale * known.eta + missing.eta,
            mean=self.scale * known.mean + missing.mean,
            # At most: the two may cancel.
            deviation=abs(self.scale) * known.deviation + missing.deviation,
        )


def _finite(proxy: Function, failure_risk: float | None) -> Function:
    """The proxy, where it fails at the risk of a failed run, or else at the worst that it knows."""

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
