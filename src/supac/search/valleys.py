"""A second beginning where the residuals of a settled posterior are not like noise.

The search may have settled in a wrong valley, as of the phase of an oscillation: neighbours in time
are then off together. It leaves that posterior and begins again with the first part of each series,
whose valleys are wider, then with more of it, then with all data. The runs are the same: only the
loss sees less of them. The better of all posteriors is returned (`restart.conclude`). An imperfect
model is doubted as well; there the runs of a second beginning are spent for nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from supac.arrays import FloatArray
from supac.problem import Evaluations, Problem
from supac.problem.course import compared, shortened
from supac.search.algorithm import Info, State
from supac.search.note import Note
from supac.search.restart import leave
from supac.search.stages import Stage

LONGER = Note("longer", "the search went on with more of the data")
WHOLE = 1.0
"""Share of the data that a search sees, but for a second beginning."""


def seen(problem: Problem, state: State) -> tuple[Problem, State]:
    """Return the problem and the runs as a loss of the first part of the data sees them."""
    assert problem.course is not None
    kept = problem.course.first(state.horizon)
    short = replace(problem, loss=shortened(problem.loss, kept))
    return short, replace(state, evaluations=_shortened(short, state.evaluations, kept))


def _shortened(short: Problem, runs: Evaluations, kept: FloatArray) -> Evaluations:
    """Return the runs with later residuals 0 and the risks of the others."""
    if runs.outputs is None:
        return runs
    assert short.loss is not None
    factors = np.ones(runs.outputs.shape[1])
    factors[: len(kept)] = kept  # observation parameters follow
    outputs, risk = runs.outputs * factors, np.full(len(runs), np.nan)
    if runs.ok.any():
        risk[runs.ok] = short.loss(outputs[runs.ok])
    return replace(runs, outputs=outputs, risk=risk)


def hidden(info: Info) -> Info:
    """Return a report without what is known of a part of the data alone."""
    return replace(info, mean_risk=np.nan, objective=np.nan, predicted=np.nan, shortfall=np.nan)


def is_doubted(problem: Problem, state: State) -> bool:
    """Return True if the residuals of the best run are not like noise."""
    runs, tuning = state.evaluations, state.tuning.valleys
    if problem.course is None or runs.outputs is None or not runs.ok.any():
        return False
    best = int(np.argmin(np.where(runs.ok, runs.risk, np.inf)))
    residuals = compared(problem.loss, runs.outputs[best][None])[0]
    return problem.course.likeness(residuals) > tuning.doubted


def may_begin(problem: Problem, before: State, state: State) -> bool:
    """Return True if a search has settled on all data, and has not begun too often."""
    tuning, family = state.tuning.valleys, problem.start.family
    last, earlier = state.last_step, before.last_step
    if not tuning.wanted or problem.course is None:
        return False
    if family.exponential is None or not family.is_gaussian:
        return False
    if last is None or earlier is None or state.coarse is not None:
        return False
    left = 0 if state.abandoned is None else len(state.abandoned.thetas)
    return left < tuning.most and max(last.nats, earlier.nats) <= tuning.quiet


def begun(problem: Problem, state: State) -> State:
    """Return the state that sees the first part of the data, at the start, with all runs."""
    assert state.last_step is not None
    left = leave(state, state.last_step.objective)
    at_start = replace(left, posterior=problem.start, stage=Stage.KNOWN)
    return _looking(at_start, state.tuning.valleys.horizons[0])


def longer(state: State) -> State:
    """Return the state that sees the next part of the data, or all of them."""
    later = [each for each in state.tuning.valleys.horizons if each > state.horizon]
    return _looking(state, min([*later, WHOLE]))


def is_due(before: State, state: State) -> bool:
    """Return True if a search has settled on a part of the data, or has had many runs there."""
    last, tuning = state.last_step, state.tuning.valleys
    if last is None or before.last_step is None:
        return False
    made = len(state.evaluations) - state.horizon_since
    return last.nats <= tuning.rests or made >= tuning.patience


def _looking(state: State, horizon: float) -> State:
    """Return the state with another horizon: what was predicted for the last one says nothing."""
    new = replace(state, horizon=horizon, horizon_since=len(state.evaluations))
    return replace(new, last_step=None, untested=(), emulator=None, batch=None)
