"""A search that has settled without having learnt anything, or that fails, begins again.

Where the risk has many valleys, such as the phase of an oscillation, a first design sees none of
them clearly, and a search may settle in a shallow one, or on a slightly shrunk prior. If its
posterior is hardly better than the start, it begins again, narrowly, around the best run that is
out of the reach of the posteriors found so far. If that comes to nothing too, the runs so far may
be a poor choice: the next beginning is a batch of fresh draws of the start. So it goes on by turns,
and the best of all posteriors is returned. Where most runs fail, it begins again around the best of
those that did not. `valleys.py` begins again where residuals are not like noise.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from supac.arrays import BoolArray, FloatArray
from supac.families import Distribution
from supac.problem import Evaluations, Problem, Role
from supac.search.algorithm import Abandoned, LastStep, State
from supac.search.note import Note
from supac.search.stages import Stage
from supac.search.tuning import RestartTuning

SETTLED = Note(
    "settled",
    "the search had settled on a posterior that is hardly better than the start, and began again",
)
FAILED = Note(
    "failed",
    "most of the first runs failed, and the search began again around the best of the others; "
    "result.failures tells why, and a prior that is narrower, or elsewhere, saves such runs",
)
DOUBTED = Note(
    "doubted",
    "the search had settled where the residuals are not like noise, and began again with the first "
    "part of the data",
)
BEGAN_AGAIN = SETTLED, FAILED, DOUBTED
"""Notes of rounds after which a search began again."""


def has_learnt_nothing(
    problem: Problem, state: State, objective: float, nat: float, error: float
) -> bool:
    """Return True if a posterior is hardly better than the start, and the risk is not understood.

    `nat` is the risk that is worth one nat, `error` that of predicting a run from the others. The
    risk of the start is at least that of the batches around it less two standard errors: of their
    mean or, where risks differ by orders of magnitude and the mean says nothing, of their median,
    which a mean of such risks exceeds.
    """
    runs, tuning = state.evaluations.usable(problem.failure_risk), state.tuning.restart
    runs = runs.select(runs.drawn)
    if not len(runs) or not nat > 0.0 or not error > tuning.explained * float(runs.risk.std()):
        return False
    around = np.array([np.allclose(each.mean, problem.start.mean) for each in runs.proposals])
    first = runs.risk[around[runs.step]]
    if not len(first):  # it began with runs made elsewhere, or narrowly
        return False
    kl = problem.start.divergence(problem.prior).value
    return problem.bound(_least_mean(first), kl) - objective < tuning.learnt * nat


def _least_mean(risk: FloatArray) -> float:
    """Estimate the mean of skewed risks cautiously, by their mean or median less two errors."""
    middle = float(np.median(risk))
    deviation = 1.4826 * float(np.median(np.abs(risk - middle)))
    by_mean = risk.mean() - 2.0 * risk.std() / np.sqrt(len(risk))
    by_median = middle - 2.0 * np.sqrt(0.5 * np.pi / len(risk)) * deviation
    return float(max(by_mean, by_median, risk.min()))


def begin_again(
    problem: Problem,
    before: State,
    state: State,
    nat: float,
    error: float,
    *,
    first: int,
) -> tuple[State, Note] | None:
    """Return the state of a new beginning, and why; None if the search is to go on.

    `before` is the state before the last round, `first` the size of a first batch.
    """
    last, family = state.last_step, problem.start.family
    if family.exponential is None or not family.is_gaussian:
        return None
    if is_failing(state):
        return _begin_at_best(problem, state, nat), FAILED
    if last is None:
        return None
    left = leave(state, last.objective)
    drew = before.stage is Stage.AFRESH and state.evaluations.told_last(Role.OPENING)
    stuck = drew or _is_stuck(state, before.last_step, first)
    if stuck and has_learnt_nothing(problem, state, last.objective, nat, error):
        by_turns = state.abandoned is not None and len(state.abandoned.thetas) % 2 == 1
        other = None if by_turns else _begin_elsewhere(problem, left, nat)
        return other or _begin_from(problem.start, left, Stage.AFRESH), SETTLED
    return None


def _is_stuck(state: State, before: LastStep | None, first: int) -> bool:
    """Return True if two steps gained little, or a beginning has had many draws.

    Each may have as many as a first batch: asynchronous runs of the posterior before end later.
    """
    since = 0 if state.abandoned is None else state.abandoned.runs
    draws, last = int(state.evaluations.drawn[since:].sum()), state.last_step
    if before is None or last is None or draws < first:
        return False
    tuning = state.tuning.restart
    return max(before.nats, last.nats) <= tuning.quiet or draws >= first + tuning.patience


def is_failing(state: State) -> bool:
    """Return True if most of the latest draws have failed, not all, and no posterior was left.

    A narrow first batch that fails says nothing of the prior around it: its points are no draws.
    """
    runs, tuning = state.evaluations.select(state.evaluations.drawn), state.tuning.restart
    lately = runs.select(np.arange(len(runs)) >= len(runs) - tuning.lately)
    failing = len(lately) >= tuning.lately and lately.failed > tuning.failing * len(lately)
    return failing and state.abandoned is None and bool(runs.ok.any())


def _begin_at_best(problem: Problem, state: State, nat: float) -> State:
    """Begin around the best run by prior·exp(−R/λ)."""
    left = state if state.last_step is None else leave(state, state.last_step.objective)
    runs = state.evaluations.select(state.evaluations.ok)
    quality = _quality(problem, runs, nat) if nat > 0.0 else -runs.risk
    return _begin(problem, left, runs.x[int(np.argmax(quality))])


def _begin_from(posterior: Distribution, state: State, stage: Stage) -> State:
    """Return the state with a posterior to begin from, and no model."""
    new = replace(state, posterior=posterior, stage=stage)
    return replace(new, last_step=None, untested=(), emulator=None, batch=None)


def _begin_elsewhere(problem: Problem, state: State, nat: float) -> State | None:
    """Begin around the best run by prior·exp(−R/λ) out of the reach of what was abandoned."""
    runs = state.evaluations.select(state.evaluations.ok)
    quality = _quality(problem, runs, nat)
    assert state.abandoned is not None
    for theta in state.abandoned.thetas:
        known = _reached(problem.start, state.posterior.at(theta), runs.x, state.tuning.restart)
        quality = np.where(known, -np.inf, quality)
    if not np.isfinite(quality).any():
        return None
    return _begin(problem, state, runs.x[int(np.argmax(quality))])


def _begin(problem: Problem, state: State, at: FloatArray) -> State:
    """Return the state with a narrow posterior around a point, and no model."""
    start = problem.start
    _, covariance = start.family.moments(start.theta)
    narrow = state.tuning.restart.narrow
    posterior = start.at(start.exponential.from_moments(at, narrow**2 * covariance))
    return _begin_from(posterior, state, Stage.AGAIN if state.abandoned else Stage.BEGUN)


def conclude(state: State) -> State:
    """Return the state with the best of the present posterior and those that were abandoned.

    The present one may be a promise that few runs have tested: it must be better by some nats.
    """
    if state.abandoned is None:
        return state
    objectives = state.abandoned.objectives
    best = int(np.argmin(objectives))
    last = state.last_step if state.horizon == 1.0 else None
    if last is not None:
        nat = last.gain / last.nats if last.nats > 0.0 else 0.0
        if last.objective + state.tuning.restart.learnt * nat < objectives[best]:
            return state
    posterior = state.posterior.at(state.abandoned.thetas[best])
    step = None if last is None else replace(last, objective=float(objectives[best]))
    on_part = state.horizon < 1.0
    return replace(
        state,
        posterior=posterior,
        batch=None,
        last_step=step,
        horizon=1.0,
        stage=Stage.SETTLED if on_part else state.stage,
        emulator=None if on_part else state.emulator,
    )


def leave(state: State, objective: float) -> State:
    """Return the state with its posterior among those that were abandoned."""
    theta, value = state.posterior.theta[None], np.array([objective])
    before = state.abandoned
    if before is not None:
        theta = np.concatenate([before.thetas, theta])
        value = np.concatenate([before.objectives, value])
    return replace(state, abandoned=Abandoned(theta, value, len(state.evaluations)))


def _quality(problem: Problem, runs: Evaluations, nat: float) -> FloatArray:
    """Compute log(prior·exp(−R/λ)) of each run."""
    return np.asarray(problem.prior.log_prob(runs.x) - runs.risk / nat)


def _reached(
    start: Distribution, posterior: Distribution, x: FloatArray, tuning: RestartTuning
) -> BoolArray:
    """Mark points that a posterior has explored: near to its mean, also on the start's scale."""
    z, u = posterior.whiten().points(x), start.whiten().points(x)
    u = u - start.whiten().points(posterior.mean[None])
    own, scale = np.einsum("ij,ij->i", z, z), np.einsum("ij,ij->i", u, u)
    return (own < tuning.reach**2 * posterior.dim) & (scale < tuning.near**2 * posterior.dim)
