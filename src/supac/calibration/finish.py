"""Make the ending of a search from its last state."""

from __future__ import annotations

import numpy as np

from supac.calibration.validation import Validated
from supac.problem import Problem
from supac.record.diagnostics import (
    hardly_begun,
    note_on_the_budget,
    notes_on_failures,
    notes_on_modes,
    notes_on_the_estimate,
    notes_on_the_way,
)
from supac.record.ending import Ending, StopReason
from supac.record.record import Record
from supac.search.algorithm import PRIOR
from supac.surrogate.importance import Importance

_RECENT = 20_000  # latest runs that estimate the mean risk if there are no fresh ones


def make_ending(
    problem: Problem, validated: Validated, record: Record, stop: StopReason, failure_loss: float
) -> Ending:
    """Estimate the objective of the returned posterior, and collect warnings."""
    state, fresh = validated.state, validated.fresh
    posterior = state.posterior if fresh is None else fresh.posterior
    divergence = posterior.divergence(problem.prior, [state.seed, state.iteration, PRIOR, 1])
    runs = state.evaluations.usable(problem.failure_risk)
    mean_risk = error = size = np.nan
    if fresh is not None:
        mean_risk, error, size = fresh.mean_risk, fresh.error, float(len(fresh.risk))
    elif runs.drawn.any():
        recent = runs.select(runs.drawn).latest(_RECENT)
        mean_risk, error, size = Importance().fit(recent, posterior).mean_risk(posterior)
    history = record.history
    notes = notes_on_the_estimate(problem, state, size, fresh=fresh is not None) + validated.notes
    if stop is StopReason.BUDGET:
        notes += note_on_the_budget(history)
    if not hardly_begun(history):
        notes += notes_on_modes(problem, runs, posterior, mean_risk)
    queries = history["queries"].astype(int).tolist()
    notes += notes_on_the_way(queries, [each.info for each in record.rounds])
    left_out = problem.failure_risk is None and bool(np.isnan(state.evaluations.risk).any())
    told = record.told_ids(validated.batches)
    failures = [run for run in record.failures if run.id in told or not told]
    notes += notes_on_failures(failures, left_out=left_out)
    return Ending(
        posterior=posterior,
        stop_reason=stop,
        objective=problem.bound(mean_risk, divergence.value),
        mean_risk=mean_risk,
        mean_risk_error=error,
        effective_size=size,
        validated=0 if fresh is None else len(fresh.risk),
        kl=divergence.value,
        kl_error=divergence.error,
        notes=notes,
        validation=validated.batches,
        failure_loss=failure_loss,
    )
