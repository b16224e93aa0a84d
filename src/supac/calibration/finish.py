"""From the last state of a search to its result."""

from __future__ import annotations

import numpy as np

from supac.calibration.validation import Checked
from supac.problem import Parameters, Problem
from supac.record.diagnostics import (
    hardly_begun,
    note_on_the_budget,
    notes_on_failures,
    notes_on_the_estimate,
    notes_on_the_way,
)
from supac.record.history import Journal, StopReason
from supac.record.multimodality import notes_on_modes
from supac.record.result import Result
from supac.search.algorithm import PRIOR
from supac.surrogate import Importance

_RECENT = 20_000  # runs that the estimate of the mean risk rests on, where no fresh ones do


def make_result(
    problem: Problem,
    checked: Checked,
    journal: Journal,
    known: int,
    stop: StopReason,
    parameters: Parameters | None,
    on_failure: str,
) -> Result:
    """The posterior with what is known of it."""
    state, fresh = checked.state, checked.runs
    posterior = state.posterior if fresh is None else fresh.posterior
    divergence = posterior.divergence(problem.prior, [state.seed, state.iteration, PRIOR, 1])
    kl = divergence.value
    runs = state.evaluations.usable(problem.failure_risk)
    mean_risk = error = size = np.nan
    if fresh is not None:
        mean_risk, error, size = fresh.mean_risk, fresh.error, float(len(fresh.risk))
    elif runs.drawn.any():
        recent = runs.select(runs.drawn).latest(_RECENT)
        mean_risk, error, size = Importance().fit(recent, posterior).mean_risk(posterior)
    history = journal.columns()
    notes = notes_on_the_estimate(problem, state, size, fresh=fresh is not None) + checked.notes
    if stop is StopReason.BUDGET:
        notes += note_on_the_budget(history)
    if not hardly_begun(history):
        notes += notes_on_modes(problem, runs, posterior, mean_risk)
    notes += notes_on_the_way(journal.queries, journal.infos)
    left_out = problem.failure_risk is None and bool(np.isnan(state.evaluations.risk).any())
    notes += notes_on_failures(journal.failures, left_out=left_out)
    return Result(
        posterior=posterior,
        start=problem.start,
        objective=problem.bound(mean_risk, kl),
        mean_risk=mean_risk,
        mean_risk_error=error,
        effective_size=size,
        validated=0 if fresh is None else len(fresh.risk),
        kl=kl,
        kl_error=divergence.error,
        stop_reason=stop,
        evaluations=state.evaluations,
        history=history,
        notes=notes,
        parameters=parameters,
        failures=tuple(journal.failures),
        on_failure=on_failure,
        seconds=journal.seconds,
        known=known,
        prior=problem.prior,
        bound=problem.bound,
    )
