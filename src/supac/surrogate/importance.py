"""Weights from densities: mixture importance sampling, and fresh draws alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from supac.arrays import FloatArray
from supac.evaluations import Evaluations
from supac.families import Distribution
from supac.surrogate.least_squares import project
from supac.surrogate.surrogate import Surrogate


@dataclass(frozen=True)
class Importance:
    """Weights π(x)/mixture(x), the mixture being that of all distributions drawn from so far.

    The balance heuristic, self-normalised: every evaluation counts, and no weight explodes as
    long as one proposal covers the point.
    """

    def fit(self, evaluations: Evaluations, current: Distribution) -> ImportanceWeighted:
        """The evaluations with the log-density of their mixture."""
        return ImportanceWeighted(evaluations, log_mixture(evaluations))


@dataclass(frozen=True, eq=False)
class ImportanceWeighted:
    """Evaluations that can be reweighted for any distribution."""

    evaluations: Evaluations
    log_mixture: FloatArray

    def weights(self, at: Distribution) -> FloatArray:
        """Self-normalised importance weights: (n,), summing to one."""
        log_weights = at.log_prob(self.evaluations.x) - self.log_mixture
        return np.exp(log_weights - logsumexp(log_weights))

    def project(self, at: Distribution, rng: np.random.Generator) -> Surrogate:
        """Weighted least squares with the importance weights."""
        return project(self.evaluations.x, self.evaluations.risk, self.weights(at), at)

    def mean_risk(self, at: Distribution) -> tuple[float, float, float]:
        """Estimate of at[R], its standard error, and the effective sample size."""
        weights, risk = self.weights(at), self.evaluations.risk
        mean = float(weights @ risk)
        error = float(np.sqrt(((weights * (risk - mean)) ** 2).sum()))
        return mean, error, 1.0 / float(weights @ weights)


def log_mixture(evaluations: Evaluations) -> FloatArray:
    """Log Σ_k (n_k/n)·π_k(x): the density behind the evaluations taken together, (n,)."""
    counts = np.bincount(evaluations.iteration, minlength=len(evaluations.proposals))
    total = np.full(len(evaluations), -np.inf)
    for count, proposal in zip(counts, evaluations.proposals, strict=True):
        if count:
            log_density = np.log(count / len(evaluations)) + proposal.log_prob(evaluations.x)
            total = np.logaddexp(total, log_density)
    return total


@dataclass(frozen=True)
class Uniform:
    """Equal weights on the last iteration's draws, nothing reused: unbiased, and wasteful."""

    def fit(self, evaluations: Evaluations, current: Distribution) -> Fresh:
        """The last iteration's evaluations."""
        last = evaluations.iteration == len(evaluations.proposals) - 1
        return Fresh(evaluations.x[last], evaluations.risk[last])


@dataclass(frozen=True, eq=False)
class Fresh:
    """Draws taken at face value, whatever distribution asks: meant for the one they came from."""

    x: FloatArray
    risk: FloatArray

    def project(self, at: Distribution, rng: np.random.Generator) -> Surrogate:
        """Least squares with equal weights."""
        return project(self.x, self.risk, np.ones(len(self.x)), at)
