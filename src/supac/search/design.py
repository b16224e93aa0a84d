"""Placement of the next runs: around the posterior, where they tell most, or into its tails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from supac.arrays import FloatArray
from supac.families import Distribution, NormalWhitening, gaussian
from supac.families.gaussian import Gaussian, latin_hypercube
from supac.problem import Evaluations, Problem
from supac.search.algorithm import DRAW, MOVING, Batch, State
from supac.surrogate.estimator import MANY_PARAMETERS, NOISY, BatchPlan, RiskModel

Choose = Callable[[int, FloatArray, FloatArray, FloatArray], FloatArray]
"""Number, pool, points to know more about, points run in any case → points of the pool."""

# Widths of a small batch: these, times a share of the mean's shift per parameter, within limits.
_SIDES = (1.0, 2.0)
_OF_SHIFT, _NARROWEST, _WIDEST = 0.5, 0.5, 1.5
_STRETCH = 1.5  # times its usual size that a batch may have, to end at a linear model
_LOOKING = 2  # points of a small batch of which one may be ahead
_POOL, _WIDE = 300, 1.3  # points among which informative ones are chosen, and their width
_SURROUNDING = 2.0  # standard deviations of a posterior
_EXPLAINED = 0.4  # share of the variance of runs that a model must predict to choose others
_SAME_DIRECTION = 1e-8  # share of the largest square below which runs differ by rounding
_OBSERVED_MOVING, _FEW_RUNS = 0.1, 3  # nats, and runs a simulated parameter


def is_moving(plan: BatchPlan, state: State) -> bool:
    """Return True if a large batch would soon be out of place: the next one is small."""
    last = state.last_step
    return plan.few > 0 and last is not None and last.gains_more_than(least_gain(plan, state))


def least_gain(plan: BatchPlan, state: State) -> float:
    """Return the nats that a step must gain while the posterior has not settled.

    Noise levels make up for what an emulator does not know yet: with observation parameters a step
    gains little long before its end, as long as there are few runs.
    """
    few = len(state.evaluations) < _FEW_RUNS * (state.posterior.dim - plan.observed)
    return _OBSERVED_MOVING if plan.observed and few else MOVING


def batch_size(plan: BatchPlan, state: State) -> int:
    """Return the size of the next batch.

    One of many parameters ends where the runs first determine a linear model and confirm it.
    """
    size = plan.few if is_moving(plan, state) else plan.batch
    if state.posterior.dim <= MANY_PARAMETERS or not plan.few:
        return size
    left = _runs_to_linear(plan, state)
    return left if 0 < left < _STRETCH * size else size


def _runs_to_linear(plan: BatchPlan, state: State) -> int:
    """Return the number of runs until they determine a linear model and one more confirms it."""
    return state.posterior.dim - plan.observed + 2 - int(state.evaluations.ok.sum())


def is_first(problem: Problem, plan: BatchPlan, state: State) -> bool:
    """Return True if no batch was run yet, nor do runs that were made elsewhere replace one."""
    if _has_batch(problem, plan, state.evaluations):
        return False
    return not begins_elsewhere(problem, plan, state)


def begins_elsewhere(problem: Problem, plan: BatchPlan, state: State) -> bool:
    """Return True if all runs were made elsewhere, and an emulator has as many as at first."""
    runs = state.evaluations
    enough = plan.few > 0 and int(runs.ok.sum()) >= plan.first
    return enough and not _has_batch(problem, plan, runs)


def surrounds(posterior: Distribution, runs: Evaluations, n: int) -> bool:
    """Return True if n good runs lie where a somewhat wider posterior would draw them."""
    z = posterior.whiten().points(runs.x[runs.ok])
    return int((np.einsum("ij,ij->i", z, z) < _SURROUNDING**2 * posterior.dim).sum()) >= n


def _has_batch(problem: Problem, plan: BatchPlan, runs: Evaluations) -> bool:
    """Return True if some of the runs were made for a batch of this search."""
    if runs.drawn.any() or not plan.opening:
        return bool(runs.drawn.any())
    narrow = _widened(problem.start, plan.opening)
    return any(_same(each, narrow) for each in runs.proposals)


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
    problem: Problem,
    plan: BatchPlan,
    state: State,
    n: int,
    model: RiskModel | None = None,
    *,
    probing: bool = False,
    ahead: FloatArray | None = None,
) -> Batch:
    """Draw points around the posterior, and place a share of the n where `model` says.

    Some of these tell most about the risk of the posterior, if the model knows the runs well;
    the others, if `probing`, look into its tails. While the posterior moves one is `ahead`, if
    given.
    """
    posterior = state.posterior
    whitening = posterior.whiten()
    if not (plan.latin and isinstance(whitening, NormalWhitening)):
        return Batch.plain(state.draw(n), posterior)
    rng = state.rng(DRAW)
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
        if posterior.dim > MANY_PARAMETERS:
            return _independent(state, whitening, n)
        batch = _around_the_mean(state, whitening, n, plan.observed, _chooser(model, state))
        return batch if ahead is None or n < _LOOKING else _with_one_ahead(batch, ahead)
    choose = _chooser(model, state)
    probing = probing and (state.posterior.dim <= MANY_PARAMETERS or _may_probe(model, plan, state))
    probes = getattr(model, "probes", None) if probing else None
    count = max(round(plan.probes * n), 1) if n > 3 and (choose or probes) else 0
    z = latin_hypercube(n - count, posterior.dim, rng)
    if posterior.dim > MANY_PARAMETERS:
        z = _towards_new_directions(z, whitening, state.evaluations)
    x = whitening.spread(plan.width * z)
    # Half of these tell most: a cliff that no run has met is only found by looking for it. Of an
    # odd number one more tells or looks, by turns.
    turn = len(state.evaluations.proposals) % 2
    told = 0 if choose is None else count if probes is None else (count + turn) // 2
    if told and choose is not None:
        x = np.concatenate([x, _informative(choose, told, whitening, x, rng)])
    if count > told and probes is not None:
        x = np.concatenate([x, probes(count - told, posterior, rng)])
    return Batch(x, _widened(posterior, plan.width), np.arange(n) < n - count)


def _chooser(model: RiskModel | None, state: State) -> Choose | None:
    """Return how a model chooses points that tell most, if it knows enough of the runs.

    A noisy simulator is better run where the posterior is: all runs say little, and of the noise.
    Once runs have gone wrong, probes say where others will.
    """
    choose: Choose | None = getattr(model, "informative", None)
    if choose is None or state.posterior.dim > MANY_PARAMETERS:
        return None
    explained, noise, severity = (
        getattr(model, name, 0.0) for name in ("explained", "noise", "severity")
    )
    return choose if explained > _EXPLAINED and not (noise > NOISY or severity > 0.0) else None


def _may_probe(model: RiskModel | None, plan: BatchPlan, state: State) -> bool:
    """Return True if runs of many parameters may look into tails instead of new directions.

    They may once all directions are taken, or if runs have gone wrong.
    """
    went_wrong = getattr(model, "severity", 0.0) > 0.0
    return went_wrong or _runs_to_linear(plan, state) <= 0


def _informative(
    choose: Choose,
    n: int,
    whitening: NormalWhitening,
    given: FloatArray,
    rng: np.random.Generator,
    wide: float = _WIDE,
) -> FloatArray:
    """Choose n points that tell most about the posterior, beside those that are given: (n, dim)."""
    about, pool = (
        whitening.spread(width * latin_hypercube(size, len(whitening.mean), rng))
        for width, size in ((1.0, _POOL), (wide, max(_POOL, 4 * n)))
    )
    return choose(n, pool, about, given)


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


def _around_the_mean(
    state: State, whitening: NormalWhitening, n: int, observed: int, choose: Choose | None
) -> Batch:
    """Return the mean, and draws about as far from it as the mean has just moved.

    The last `observed` parameters need no run: they have their means, given the others. On the way
    posteriors with them are wide, so that draws say little of the end: where a model can choose,
    those that tell most are taken.

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
    if observed and choose is not None and n > 1:
        x[1:] = _informative(choose, n - 1, whitening, x[:1], state.rng(DRAW), usual)
    if observed:
        known, others = np.split(whitening.covariance[:simulated], [simulated], axis=1)
        away = x[:, :simulated] - whitening.mean[:simulated]
        x[:, simulated:] = whitening.mean[simulated:] + away @ np.linalg.solve(known, others)
    return Batch.plain(x, _widened(posterior, usual))


def _with_one_ahead(batch: Batch, ahead: FloatArray) -> Batch:
    """Return the batch with its last point replaced, which is no draw."""
    x, last = batch.x.copy(), np.arange(len(batch.x)) == len(batch.x) - 1
    x[last] = ahead
    return replace(batch, x=x, drawn=~last)


def _independent(state: State, whitening: NormalWhitening, n: int) -> Batch:
    """Return independent draws of a posterior of many parameters, about as wide as it is.

    A run says something of its own direction alone, and there are more directions than runs: the
    mean would say nothing new, and points of a small Latin hypercube are each other's opposites.
    """
    shift = 0.0 if state.last_step is None else state.last_step.shift
    width = float(np.clip(_OF_SHIFT * shift / np.sqrt(state.posterior.dim), 1.0, _WIDEST))
    z = state.rng(DRAW).standard_normal((n, state.posterior.dim))
    z = width * _towards_new_directions(z, whitening, state.evaluations)
    return Batch.plain(whitening.spread(z), _widened(state.posterior, width))


def _towards_new_directions(
    z: FloatArray, whitening: NormalWhitening, runs: Evaluations
) -> FloatArray:
    """Turn draws z (n, dim) of many parameters towards directions that no run has taken yet.

    With k directions taken, dim/(dim + k) of each, by its square, lies in a new direction, at right
    angles to those of the others; its length is the usual one of a draw. The more directions are
    known, the shorter is what independent draws have in the others, so that the last ones would
    hardly be seen in twice as many runs as parameters. The points count as drawn: the trial of a
    step needs them.
    """
    n, dim = z.shape
    known = whitening.points(runs.x[runs.ok])
    if not 1 < len(known) <= dim:
        return z
    known = known - known.mean(axis=0)
    squares, vectors = np.linalg.eigh(known @ known.T)
    kept = squares > _SAME_DIRECTION * squares[-1]
    taken = (known.T @ vectors[:, kept]) / np.sqrt(squares[kept])
    new = min(n, dim - taken.shape[1])
    along = (z[:new] @ taken) @ taken.T
    across, triangle = np.linalg.qr((z[:new] - along).T)
    across *= np.sign(np.diagonal(triangle))  # as the draws have them
    turned = along + np.sqrt(dim) * across.T
    turned *= np.sqrt(dim) / np.linalg.norm(turned, axis=1, keepdims=True)
    return np.concatenate([turned, z[new:]])


def _widened(posterior: Distribution, factor: float) -> Distribution:
    """Return a Gaussian with a wider covariance, of the same family if that contains it."""
    if factor == 1.0:
        return posterior
    if isinstance(posterior.family, Gaussian):
        return posterior.at(posterior.theta / factor**2)  # which is Pμ and P, but for signs
    mean, covariance = posterior.family.moments(posterior.theta)
    wide = posterior.at(posterior.exponential.from_moments(mean, factor**2 * covariance))
    if np.allclose(wide.covariance, factor**2 * covariance, rtol=1e-9, atol=0.0):
        return wide
    return gaussian(mean, factor**2 * covariance)
