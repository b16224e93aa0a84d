"""Functions that cost nothing: a user's proxy of the risk, and a prior outside the family."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from supac.arrays import FloatArray
from supac.evaluations import Evaluations
from supac.families import Density, Distribution, Family
from supac.surrogate.least_squares import project
from supac.surrogate.surrogate import Context, Estimator, RiskModel, Surrogate

Function = Callable[[FloatArray], FloatArray]


def project_known(function: Function, at: Distribution, rng: np.random.Generator) -> Surrogate:
    """The projection of a free function, from many fresh draws."""
    x = at.sample(2_000 + 50 * at.family.size, rng)
    return project(x, np.asarray(function(x), dtype=np.float64), np.ones(len(x)), at)


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


@dataclass(frozen=True, eq=False)
class LocalPrior:
    """The prior as the family sees it from one of its members: θ_p and θ ↦ KL(π_θ, prior).

    A prior in the family is seen as it is. From a member of a family that is not exponential, θ_p
    is the θ at which KL would have its minimum if it were: θ less the projection of
    log dπ_θ/dπ_p on the score, a natural gradient step. A prior outside an exponential family
    (assumptions A6 and A7) enters through h = log dπ_p/dπ_ref, which Theorem 1 allows to be
    projected like the risk: h ≈ θ_p·T + c. For Catoni's bound that is the approximation space
    {η·T + C + λh} of the paper's appendix.
    """

    theta: FloatArray
    kl: Callable[[FloatArray], float]


def _relative_density(prior: Density, reference: Function) -> Function:
    """h = log dπ_p/dπ_ref, which has to exist (A6), given log π_ref."""

    def h(x: FloatArray) -> FloatArray:
        values = prior.log_prob(x) - reference(x)
        if not np.isfinite(values).all():
            bad = x[~np.isfinite(values)][0]
            raise ValueError(
                f"prior.log_prob is not finite at {bad}, a draw of the posterior: the prior must "
                "cover every point that the family of `start` can draw"
            )
        return values

    return h


def view_prior(prior: Density, at: Distribution, rng: np.random.Generator) -> LocalPrior:
    """The prior as seen from the member `at`."""
    family = at.family
    if not isinstance(family, Family):
        log_ratio = project_known(_relative_density(prior, at.log_prob), at, rng)
        local = at.theta + log_ratio.eta
        return LocalPrior(local, lambda theta: max(family.divergence(theta, prior).value, 0.0))
    if isinstance(prior, Distribution) and prior.family == family:
        return LocalPrior(prior.theta, lambda theta: family.kl(theta, prior.theta))
    h = project_known(_relative_density(prior, family.log_base), at, rng)

    def kl(theta: FloatArray) -> float:
        """π_θ[θ·T − g(θ) − h]."""
        if not family.contains(theta):
            return float("inf")
        mean_log_density = theta @ family.mean_statistics(theta) - family.log_partition(theta)
        return float(mean_log_density) - h.mean_under(theta)

    return LocalPrior(h.eta, kl)
