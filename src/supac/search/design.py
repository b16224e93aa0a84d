"""Placement of the next runs: around the posterior, wider, or into its tails."""

from __future__ import annotations

import numpy as np

from supac.arrays import FloatArray
from supac.families import Distribution, NormalWhitening, gaussian
from supac.families.gaussian import latin_hypercube
from supac.problem import Evaluations, Problem
from supac.search.algorithm import DRAW, Batch, State
from supac.surrogate.estimator import BatchPlan, RiskModel

# Widths of a small batch: these, times a share of the mean's shift per parameter, within limits.
_SIDES = (1.0, 2.0)
_OF_SHIFT, _NARROWEST, _WIDEST = 0.5, 0.5, 1.5


def is_moving(plan: BatchPlan, state: State) -> bool:
    """Return True if a large batch would soon be out of place: the next one is small."""
    return plan.few > 0 and state.last_step is not None and state.last_step.moving


def is_first(problem: Problem, plan: BatchPlan, state: State) -> bool:
    """Return True if no batch was run yet; runs that were made elsewhere are none."""
    runs = state.evaluations
    if runs.drawn.any() or not plan.opening:
        return not runs.drawn.any()
    narrow = _widened(problem.start, plan.opening)
    return not any(_same(each, narrow) for each in runs.proposals)


def look_is_due(problem: Problem, plan: BatchPlan, state: State) -> bool:
    """Return True if a search that began narrowly has settled, and is to look around the start.

    Once for each beginning.
    """
    if not plan.look or state.last_step is None or not state.last_step.settled:
        return False
    beginnings = 1 if state.abandoned is None else 1 + len(state.abandoned.thetas)
    wide = _widened(problem.start, plan.widest)
    return sum(_same(each, wide) for each in state.evaluations.proposals) < beginnings


def was_look(problem: Problem, plan: BatchPlan, runs: Evaluations) -> bool:
    """Return True if the last batch was a look around the start."""
    if not plan.look or not runs.proposals:
        return False
    return _same(runs.proposals[-1], _widened(problem.start, plan.widest))


def plan_batch(
    problem: Problem, plan: BatchPlan, state: State, n: int, model: RiskModel | None = None
) -> Batch:
    """Draw n points around the posterior, a share of them probes if `model` chooses any."""
    posterior, rng = state.posterior, state.rng(DRAW)
    whitening = posterior.whiten()
    if not (plan.latin and isinstance(whitening, NormalWhitening)):
        return Batch.plain(state.draw(n), posterior)
    if plan.opening and is_first(problem, plan, state):
        z = _opening(problem, plan, n, rng)
        narrow = _widened(posterior, plan.opening)
        return Batch(whitening.spread(z), narrow, np.zeros(n, dtype=bool))
    if look_is_due(problem, plan, state):
        wide = _widened(problem.start, plan.widest)
        around = wide.whiten()
        assert isinstance(around, NormalWhitening)
        return Batch.plain(around.spread(latin_hypercube(n, wide.dim, rng)), wide)
    if is_moving(plan, state) and state.last_step is not None:
        return _around_the_mean(state, whitening, n, plan.observed)
    probes = getattr(model, "probes", None)
    count = max(round(plan.probes * n), 1) if probes is not None and n > 3 else 0
    x = whitening.spread(plan.width * latin_hypercube(n - count, posterior.dim, rng))
    if probes is not None and count:
        x = np.concatenate([x, probes(count, posterior, rng)])
    return Batch(x, _widened(posterior, plan.width), np.arange(n) < n - count)


def _opening(problem: Problem, plan: BatchPlan, n: int, rng: np.random.Generator) -> FloatArray:
    """Return whitened points along orthogonal directions of the simulated parameters: (n, dim).

    They are as far away as draws of that width usually are, but no draws. Both ways along each
    direction at most: further points fill a wide Latin hypercube.
    """
    dim = problem.start.dim
    simulated = dim - plan.observed
    basis = np.linalg.qr(rng.standard_normal((simulated, simulated)))[0]
    directions = np.concatenate([basis, -basis])[:n]
    z = plan.widest * latin_hypercube(n, dim, rng)
    z[: len(directions)] = 0.0
    z[: len(directions), :simulated] = plan.opening * np.sqrt(simulated) * directions
    return z


def _same(one: Distribution, other: Distribution) -> bool:
    return one.family == other.family and np.array_equal(one.theta, other.theta)


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
