"""Placement of the next runs: around the posterior, wider, or into its tails."""

from __future__ import annotations

import numpy as np

from supac.families import Distribution, NormalWhitening, gaussian
from supac.families.gaussian import latin_hypercube
from supac.search.algorithm import DRAW, Batch, State
from supac.surrogate.estimator import BatchPlan, RiskModel

# Widths of a small batch: these, times a share of the mean's shift per parameter, within limits.
_SIDES = (1.0, 2.0)
_OF_SHIFT, _NARROWEST, _WIDEST = 0.5, 0.5, 1.5


def is_moving(plan: BatchPlan, state: State) -> bool:
    """Return True if a large batch would soon be out of place: the next one is small."""
    return plan.few > 0 and state.last_step is not None and state.last_step.moving


def plan_batch(plan: BatchPlan, state: State, n: int, model: RiskModel | None = None) -> Batch:
    """Draw n points around the posterior, a share of them probes if `model` chooses any."""
    posterior = state.posterior
    whitening = posterior.whiten()
    if not (plan.latin and isinstance(whitening, NormalWhitening)):
        return Batch.plain(state.draw(n), posterior)
    if is_moving(plan, state) and state.last_step is not None:
        return _around_the_mean(state, whitening, n, plan.observed)
    rng, probes = state.rng(DRAW), getattr(model, "probes", None)
    count = max(round(plan.probes * n), 1) if probes is not None and n > 3 else 0
    x = whitening.spread(plan.width * latin_hypercube(n - count, posterior.dim, rng))
    if probes is not None and count:
        x = np.concatenate([x, probes(count, posterior, rng)])
    return Batch(x, _widened(posterior, plan.width), np.arange(n) < n - count)


def _around_the_mean(state: State, whitening: NormalWhitening, n: int, observed: int) -> Batch:
    """Return the mean, and draws about as far from it as the mean has just moved.

    The last `observed` parameters need no run: they have their means, given the others.

    The mean counts as drawn: the trial of a step needs it.
    `Importance`, which estimates mean risks, leaves it out.
    """
    posterior, simulated = state.posterior, state.posterior.dim - observed
    shift = 0.0 if state.last_step is None else state.last_step.shift
    middle = np.clip(_OF_SHIFT * shift / np.sqrt(simulated), _NARROWEST, _WIDEST)
    widths = middle * np.resize(_SIDES, n - 1)
    z = np.zeros((n, posterior.dim))
    z[1:] = widths[:, None] * latin_hypercube(n - 1, posterior.dim, state.rng(DRAW))
    usual = float(np.sqrt(np.mean(widths**2))) if n > 1 else 1.0
    x = whitening.spread(z)
    if observed:
        known, others = np.split(whitening.covariance[:simulated], [simulated], axis=1)
        away = x[:, :simulated] - whitening.mean[:simulated]
        x[:, simulated:] = whitening.mean[simulated:] + away @ np.linalg.solve(known, others)
    return Batch.plain(x, _widened(posterior, usual))


def _widened(posterior: Distribution, factor: float) -> Distribution:
    """Return a Gaussian with a wider covariance, of the same family if that contains it."""
    if factor == 1.0:
        return posterior
    mean, covariance = posterior.family.moments(posterior.theta)
    wide = posterior.at(posterior.exponential.from_moments(mean, factor**2 * covariance))
    if np.allclose(wide.covariance, factor**2 * covariance, rtol=1e-9, atol=0.0):
        return wide
    return gaussian(mean, factor**2 * covariance)
