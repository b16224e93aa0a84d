"""Bayesian ridge regression on the statistics, with one scale a degree."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from supac.arrays import FloatArray
from supac.codec import register
from supac.families import Distribution, NormalWhitening
from supac.problem import Evaluations, Problem
from supac.surrogate.estimator import BatchPlan, Context
from supac.surrogate.importance import log_mixture
from supac.surrogate.surrogate import Surrogate


@register
@dataclass(frozen=True)
class Ridge:
    """Regress the risk with tempered importance weights and a two-scale ridge.

    Milliseconds a step, however many evaluations there are: for risks that cost little, or when
    there are thousands. The weights are raised to the largest power at which their effective number
    is `runs_per_unknown` times the number of statistics. Of more than `limit` runs the latest
    count: the others come from where the posterior no longer is.
    """

    runs_per_unknown: float = 3.0
    limit: int = 20_000

    def plan(self, problem: Problem, n: int) -> BatchPlan:
        """Return small later batches: the ridge needs no more."""
        return replace(BatchPlan.determining(problem), batch=max(10, n // 20))

    def fit(
        self, evaluations: Evaluations, current: Distribution, context: Context | None = None
    ) -> TemperedRuns:
        """Return the runs that were drawn at random, with the log-density of their mixture."""
        runs = evaluations.usable((context or Context()).failure_risk)
        runs = runs.select(runs.drawn).latest(self.limit)
        return TemperedRuns(runs, log_mixture(runs), self.runs_per_unknown)


@dataclass(frozen=True, eq=False)
class TemperedRuns:
    """Reweight evaluations for any distribution."""

    runs: Evaluations
    log_mixture: FloatArray
    runs_per_unknown: float

    def weights(self, at: Distribution) -> FloatArray:
        """Compute importance weights to the largest power that leaves enough of them: (n,)."""
        log_weights = at.log_prob(self.runs.x) - self.log_mixture
        enough = min(self.runs_per_unknown * at.family.size, 0.9 * len(log_weights))

        def tempered(power: float) -> FloatArray:
            return np.exp(power * log_weights - logsumexp(power * log_weights))

        low, high = 0.0, 1.0
        if _effective_size(tempered(1.0)) >= enough:
            return tempered(1.0)
        for _ in range(30):
            middle = 0.5 * (low + high)
            if _effective_size(tempered(middle)) >= enough:
                low = middle
            else:
                high = middle
        return tempered(low)

    def project(self, at: Distribution, rng: np.random.Generator) -> Surrogate:
        """Solve ridge regression with the tempered weights."""
        whitening, weights = at.whiten(), self.weights(at)
        features, risk = whitening.features(self.runs.x), self.runs.risk
        linear = at.dim if isinstance(whitening, NormalWhitening) else at.family.size
        beta = two_scale_ridge(features, risk, weights, linear)
        residual = risk - features @ beta
        mean = float(weights @ residual)
        total = float(weights @ (risk - weights @ risk) ** 2)
        left = float(weights @ (residual - mean) ** 2)
        return Surrogate(
            eta=whitening.coefficients(beta),
            mean=mean,
            at=at,
            deviation=float(np.linalg.norm(beta)),
            r_squared=1.0 - left / total if total > 0.0 else 1.0,
            effective_size=_effective_size(weights),
        )


def _effective_size(weights: FloatArray) -> float:
    return 1.0 / float(weights @ weights)


def two_scale_ridge(
    features: FloatArray, values: FloatArray, weights: FloatArray, linear: int, updates: int = 8
) -> FloatArray:
    """Compute the coefficients β of weighted ridge regression with a free constant: (size,).

    β ~ N(0, τ²) with one τ for the first `linear` features and one for the others; both and the
    noise are those of largest evidence (MacKay's updates). `weights` sum to one and count as their
    effective number of observations.
    """
    size = 1.0 / float(weights @ weights)
    root = np.sqrt(weights * size)
    design = (features - weights @ features) * root[:, None]
    target = (values - weights @ values) * root
    gram, moment = design.T @ design, design.T @ target
    total = float(target @ target)
    group = (np.arange(len(gram)) >= linear).astype(np.intp)
    counts = np.maximum(np.bincount(group, minlength=2), 1)
    variance = float(np.var(target)) + 1e-30
    noise, scale = 0.3 * variance, variance * np.array([1.0, 0.5]) / counts + 1e-30
    beta = np.zeros(len(gram))
    for _ in range(updates):
        precision = gram / noise
        precision[np.diag_indices(len(gram))] += 1.0 / scale[group]
        spread = np.linalg.inv(precision)
        beta = spread @ moment / noise
        determined = 1.0 - np.diag(spread) / scale[group]
        power = np.bincount(group, beta**2, minlength=2)
        known = np.maximum(np.bincount(group, determined, minlength=2), 1e-3)
        scale = np.maximum(power / known, 1e-14 * variance)
        residual = total - 2.0 * float(beta @ moment) + float(beta @ gram @ beta)
        freedom = max(size - float(determined.sum()), 0.1 * size)
        noise = max(residual / freedom, 1e-14 * variance)
    return beta
