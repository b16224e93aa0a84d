"""Planning: the estimator of a round, and the next batch."""

from __future__ import annotations

import numpy as np

from supac.emulator import GaussianProcess, OutputEmulator
from supac.families import Distribution, NormalWhitening, gaussian
from supac.families.draws import latin_hypercube
from supac.problem import Evaluations, Problem
from supac.search.algorithm import DRAW, Batch, State
from supac.surrogate import BatchPlan, Estimator, Ridge, RiskModel

MANY = 1_500
"""Number of evaluations from which regression on them all is as good as an emulator."""


def default_estimator(
    problem: Problem, evaluations: Evaluations
) -> tuple[Estimator, tuple[str, ...]]:
    """Choose the estimator for a problem; return it with a note if it has changed."""
    enough = max(MANY, 10 * (problem.start.family.size + 1))
    if evaluations.drawn.sum() >= enough:
        note = f"from {enough:,} evaluations on, regression on them all replaces the emulator"
        return Ridge(), (note,)
    if problem.loss is not None and problem.proxy is None:
        return OutputEmulator(), ()
    return GaussianProcess(), ()


def plan_batch(plan: BatchPlan, state: State, n: int, model: RiskModel | None = None) -> Batch:
    """Draw n points around the posterior, a share of them probes if `model` chooses any."""
    posterior = state.posterior
    whitening = posterior.whiten()
    if not (plan.latin and isinstance(whitening, NormalWhitening)):
        return Batch.plain(state.draw(n), posterior)
    rng, probes = state.rng(DRAW), getattr(model, "probes", None)
    count = max(round(plan.probes * n), 1) if probes is not None and n > 3 else 0
    x = whitening.spread(plan.width * latin_hypercube(n - count, posterior.dim, rng))
    if probes is not None and count:
        x = np.concatenate([x, probes(count, posterior, rng)])
    return Batch(x, _widened(posterior, plan.width), np.arange(n) < n - count)


def _widened(posterior: Distribution, factor: float) -> Distribution:
    """Return a Gaussian with a wider covariance, of the same family if that contains it."""
    if factor == 1.0:
        return posterior
    mean, covariance = posterior.family.moments(posterior.theta)
    wide = posterior.at(posterior.exponential.from_moments(mean, factor**2 * covariance))
    if np.allclose(wide.covariance, factor**2 * covariance, rtol=1e-9, atol=0.0):
        return wide
    return gaussian(mean, factor**2 * covariance)
