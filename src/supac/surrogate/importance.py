"""Weights from densities: mixture importance sampling, and fresh draws alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import logsumexp

from supac.arrays import FloatArray
from supac.codec import register
from supac.families import Distribution
from supac.problem.evaluations import Evaluations
from supac.surrogate.estimator import Context
from supac.surrogate.least_squares import project
from supac.surrogate.surrogate import Surrogate


@register
@dataclass(frozen=True)
class Importance:
    """Weight runs by π(x)/mixture(x), the mixture being that of all proposals so far.

    The balance heuristic, self-normalised: every evaluation counts, and no weight explodes as
    long as one proposal covers the point.
    """

    def fit(
        self, evaluations: Evaluations, current: Distribution, context: Context | None = None
    ) -> ImportanceWeighted:
        """Return the runs that were drawn at random, with the log-density of their mixture."""
        runs = evaluations.usable((context or Context()).failure_risk)
        runs = runs.select(runs.drawn)
        return ImportanceWeighted(runs, log_mixture(runs))


@dataclass(frozen=True, eq=False)
class ImportanceWeighted:
    """Reweight evaluations for any distribution."""

    evaluations: Evaluations
    log_mixture: FloatArray

    def weights(self, at: Distribution) -> FloatArray:
        """Compute self-normalised importance weights: (n,), summing to one."""
        log_weights = at.log_prob(self.evaluations.x) - self.log_mixture
        return np.exp(log_weights - logsumexp(log_weights))

    def project(self, at: Distribution, rng: np.random.Generator) -> Surrogate:
        """Solve weighted least squares with the importance weights."""
        return project(self.evaluations.x, self.evaluations.risk, self.weights(at), at)

    def mean_risk(self, at: Distribution) -> tuple[float, float, float]:
        """Estimate at[R]; return it with its standard error and the effective sample size."""
        weights, risk = self.weights(at), self.evaluations.risk
        mean = float(weights @ risk)
        error = float(np.sqrt(((weights * (risk - mean)) ** 2).sum()))
        return mean, error, 1.0 / float(weights @ weights)


def tempered_weights(
    runs: Evaluations, at: Distribution, temper: float
) -> tuple[FloatArray, float]:
    """Compute importance weights to the power `temper`, and the effective size without it.

    The weights sum to one; runs that were not drawn at random have weight zero.
    """
    log_weights = np.full(len(runs), -np.inf)
    drawn = runs.select(runs.drawn)
    if not len(drawn):
        return np.full(len(runs), 1.0 / len(runs)), np.nan
    log_weights[runs.drawn] = at.log_prob(drawn.x) - log_mixture(drawn)
    weights = np.exp(log_weights - logsumexp(log_weights))
    tempered = np.exp(temper * log_weights - logsumexp(temper * log_weights))
    return tempered, 1.0 / float(weights @ weights)


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
    excess = excess[excess > 0.0]
    if len(excess) < 5:
        return float("-inf")
    n, points = len(excess), 30 + int(np.sqrt(len(excess)))
    quartile = excess[int(n / 4 + 0.5) - 1]
    grid = 1.0 - np.sqrt(points / (np.arange(1, points + 1) - 0.5))
    rates = grid / (3.0 * quartile) + 1.0 / excess[-1]
    shapes = np.log1p(-rates[:, None] * excess).mean(axis=1)
    fit = n * (np.log(-rates / shapes) - shapes - 1.0)
    rate = float(np.exp(fit - logsumexp(fit)) @ rates)
    shape = float(np.log1p(-rate * excess).mean())
    return (n * shape + 5.0) / (n + 10.0)  # a weak prior around 1/2 steadies small samples


def log_mixture(evaluations: Evaluations) -> FloatArray:
    """Compute log Σ_k (n_k/n)·π_k(x), the density of all proposals together: (n,)."""
    counts = np.bincount(evaluations.iteration, minlength=len(evaluations.proposals))
    total = np.full(len(evaluations), -np.inf)
    for count, proposal in zip(counts, evaluations.proposals, strict=True):
        if count:
            log_density = np.log(count / len(evaluations)) + proposal.log_prob(evaluations.x)
            total = np.logaddexp(total, log_density)
    return total


@register(name="Uniform")  # its name in stores of version 0.1
@dataclass(frozen=True)
class FreshDraws:
    """Weight the last draws equally and reuse no earlier ones: unbiased, and wasteful."""

    reuses: ClassVar[bool] = False

    def fit(
        self, evaluations: Evaluations, current: Distribution, context: Context | None = None
    ) -> EqualWeights:
        """Return the evaluations of the last iteration."""
        runs = evaluations.usable((context or Context()).failure_risk)
        last = runs.iteration == len(runs.proposals) - 1
        return EqualWeights(runs.x[last], runs.risk[last])


@dataclass(frozen=True, eq=False)
class EqualWeights:
    """Weight draws equally at any distribution; meant for the one that they were drawn from."""

    x: FloatArray
    risk: FloatArray

    def project(self, at: Distribution, rng: np.random.Generator) -> Surrogate:
        """Solve least squares with equal weights."""
        return project(self.x, self.risk, np.ones(len(self.x)), at)
