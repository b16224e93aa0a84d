"""Weights from densities: mixture importance sampling, fresh draws alone, a tempered ridge."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from supac.arrays import BoolArray, FloatArray
from supac.codec import register
from supac.families import Distribution
from supac.problem import Evaluations, Problem, Role
from supac.surrogate.estimator import BatchPlan, Context, Estimator, RiskModel, Surrogate
from supac.surrogate.least_squares import project

_NEGLIGIBLE = 1e-300  # of the largest weight: smaller ones overflow when they divide


@register
@dataclass(frozen=True)
class Importance(Estimator):
    """Weight runs by π(x)/mixture(x), the mixture being that of all proposals so far.

    The balance heuristic, self-normalised: every evaluation counts, and no weight explodes as
    long as one proposal covers the point.
    """

    def fit(
        self, evaluations: Evaluations, current: Distribution, context: Context | None = None
    ) -> ImportanceWeighted:
        """Return the runs that were drawn at random, with the log-density of their mixture."""
        runs = evaluations.usable((context or Context()).failure_risk)
        runs = replace(runs, outputs=None).select(weighed(runs))
        return ImportanceWeighted(runs, log_mixture(runs))


@dataclass(frozen=True, eq=False)
class ImportanceWeighted(RiskModel):
    """Reweight evaluations for any distribution."""

    evaluations: Evaluations
    log_mixture: FloatArray

    def weights(self, at: Distribution) -> FloatArray:
        """Compute self-normalised importance weights: (n,), summing to one."""
        return _normalised(at.log_prob(self.evaluations.x) - self.log_mixture)

    def project(self, at: Distribution, rng: np.random.Generator) -> Surrogate:
        """Solve weighted least squares with the importance weights."""
        return project(self.evaluations.x, self.evaluations.risk, self.weights(at), at)

    def mean_risk(self, at: Distribution) -> tuple[float, float, float]:
        """Estimate at[R]; return it with its standard error and the effective sample size."""
        weights, risk = self.weights(at), self.evaluations.risk
        mean = float(weights @ risk)
        error = float(np.sqrt(((weights * (risk - mean)) ** 2).sum()))
        return mean, error, effective_size(weights)


def effective_size(weights: FloatArray) -> float:
    """Compute 1/Σw², the number of equal weights that are worth these, which sum to one.

    It is 0 if there are none.
    """
    return 1.0 / float(weights @ weights) if weights.any() else 0.0


def _normalised(log_weights: FloatArray) -> FloatArray:
    return np.exp(log_weights - logsumexp(log_weights))


def pareto_shape(weights: FloatArray) -> float:
    """Estimate the shape k̂ of the Pareto tail of the weights (Zhang and Stephens, 2009).

    Below 0.7 an importance-weighted mean can be trusted (Vehtari et al., 2024); NaN if there are
    too few weights to tell.
    """
    count = min(len(weights) // 5, int(3.0 * np.sqrt(len(weights))))
    if count < 5:
        return float("nan")
    ordered = np.sort(weights)
    excess = ordered[-count:] - ordered[-count - 1]
    excess = excess / (excess[-1] or 1.0)  # so that what is negligible is not 0 for small weights
    excess = excess[excess > _NEGLIGIBLE]
    if len(excess) < 5:
        return float("-inf")
    n, points = len(excess), 30 + int(np.sqrt(len(excess)))
    quartile = excess[int(n / 4 + 0.5) - 1]
    grid = 1.0 - np.sqrt(points / (np.arange(1, points + 1) - 0.5))
    rates = grid / (3.0 * quartile) + 1.0
    shapes = np.log1p(-rates[:, None] * excess).mean(axis=1)
    fit = n * (np.log(-rates / shapes) - shapes - 1.0)
    rate = float(np.exp(fit - logsumexp(fit)) @ rates)
    shape = float(np.log1p(-rate * excess).mean())
    return (n * shape + 5.0) / (n + 10.0)  # a weak prior around 1/2 steadies small samples


def weighed(runs: Evaluations) -> BoolArray:
    """Mark the draws that have an importance weight: (n,).

    Small batches begin with the mean, which tests a step like a draw and is none: its risk is the
    least, and its weight the largest.
    """
    return runs.drawn & (runs.role != Role.MEAN)


def log_mixture(evaluations: Evaluations) -> FloatArray:
    """Compute log Σ_k (n_k/n)·π_k(x), the density of all proposals together: (n,)."""
    counts = np.bincount(evaluations.step, minlength=len(evaluations.proposals))
    total = np.full(len(evaluations), -np.inf)
    for count, proposal in zip(counts, evaluations.proposals, strict=True):
        if count:
            log_density = np.log(count / len(evaluations)) + proposal.log_prob(evaluations.x)
            total = np.logaddexp(total, log_density)
    return total


@register(name="Uniform")  # its name in stores of version 0.1
@dataclass(frozen=True)
class FreshDraws(Estimator):
    """Weight the last draws equally and reuse no earlier ones: unbiased, and wasteful."""

    @property
    def reuses(self) -> bool:
        """Return False: only the last batch counts."""
        return False

    def fit(
        self, evaluations: Evaluations, current: Distribution, context: Context | None = None
    ) -> EqualWeights:
        """Return the evaluations of the last iteration."""
        runs = evaluations.usable((context or Context()).failure_risk)
        last = runs.iteration == len(runs.proposals) - 1
        return EqualWeights(runs.x[last], runs.risk[last])


@dataclass(frozen=True, eq=False)
class EqualWeights(RiskModel):
    """Weight draws equally at any distribution; meant for the one that they were drawn from."""

    x: FloatArray
    risk: FloatArray

    def project(self, at: Distribution, rng: np.random.Generator) -> Surrogate:
        """Solve least squares with equal weights."""
        return project(self.x, self.risk, np.ones(len(self.x)), at)


@register
@dataclass(frozen=True)
class Ridge(Estimator):
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
class TemperedRuns(RiskModel):
    """Reweight evaluations for any distribution."""

    runs: Evaluations
    log_mixture: FloatArray
    runs_per_unknown: float

    def weights(self, at: Distribution) -> FloatArray:
        """Compute importance weights to the largest power that leaves enough of them: (n,)."""
        log_weights = at.log_prob(self.runs.x) - self.log_mixture
        enough = min(self.runs_per_unknown * at.family.size, 0.9 * len(log_weights))

        def tempered(power: float) -> FloatArray:
            return _normalised(power * log_weights)

        low, high = 0.0, 1.0
        if effective_size(tempered(1.0)) >= enough:
            return tempered(1.0)
        for _ in range(30):
            middle = 0.5 * (low + high)
            if effective_size(tempered(middle)) >= enough:
                low = middle
            else:
                high = middle
        return tempered(low)

    def project(self, at: Distribution, rng: np.random.Generator) -> Surrogate:
        """Solve ridge regression with the tempered weights."""
        whitening, weights = at.whiten(), self.weights(at)
        features, risk = whitening.features(self.runs.x), self.runs.risk
        linear = at.family.size if whitening.normal is None else at.dim
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
            effective_size=effective_size(weights),
        )


def two_scale_ridge(
    features: FloatArray, values: FloatArray, weights: FloatArray, linear: int, updates: int = 8
) -> FloatArray:
    """Compute the coefficients β of weighted ridge regression with a free constant: (size,).

    β ~ N(0, τ²) with one τ for the first `linear` features and one for the others; both and the
    noise are those of largest evidence (MacKay's updates). `weights` sum to one and count as their
    effective number of observations.
    """
    size = effective_size(weights)
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
