"""A last look before a posterior is returned: fresh runs of it, and perhaps a second try."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from supac.arrays import FloatArray
from supac.families import Distribution
from supac.problem import Problem
from supac.problem.evaluations import Evaluations
from supac.running.evaluate import Outcome
from supac.search.algorithm import PRIOR, VALIDATE, Algorithm, Batch, State

Evaluate = Callable[[FloatArray], Outcome]


@dataclass(frozen=True, eq=False)
class FreshRuns:
    """Independent runs of a posterior that were not used to find it."""

    posterior: Distribution
    kl: float
    risk: FloatArray
    """Of failed ones what they count as, where they count."""
    ids: tuple[int, ...]
    """Of all of them, failed ones included."""

    @property
    def mean_risk(self) -> float:
        """NaN where no run is left."""
        return float(self.risk.mean()) if len(self.risk) else np.nan

    @property
    def error(self) -> float:
        """Its standard error; unknown from fewer than two runs."""
        n = len(self.risk)
        return float(self.risk.std(ddof=1) / np.sqrt(n)) if n > 1 else np.nan


@dataclass(frozen=True, eq=False)
class Checked:
    """The last state, and the fresh runs of the posterior to return, if any were made."""

    state: State
    runs: FreshRuns | None = None
    notes: tuple[str, ...] = ()


def validate(
    problem: Problem,
    algorithm: Algorithm,
    state: State,
    run: Evaluate,
    reserve: int,
    predicted: float,
) -> Checked:
    """Half of `reserve` fresh runs; where they disappoint, learn from them and try again.

    Otherwise the other half makes the estimate more precise.
    """

    def objective(runs: FreshRuns) -> float:
        return problem.bound(runs.mean_risk, runs.kl) if len(runs.risk) else np.inf

    half = (reserve + 1) // 2
    first, outcome, x = _fresh(problem, state, run, half)
    asked = replace(state, batch=Batch.plain(x, state.posterior))
    error = 0.0 if np.isnan(first.error) else first.error
    passed = len(first.risk) and problem.bound(first.mean_risk - 2.0 * error, first.kl) <= predicted
    if passed or np.isnan(predicted):
        known = _remember(asked, x, outcome)
        second, outcome, x = _fresh(problem, known, run, reserve - half)
        both = replace(
            first, risk=np.concatenate([first.risk, second.risk]), ids=first.ids + second.ids
        )
        return Checked(_remember(known, x, outcome), both)
    learnt, _ = algorithm.tell(problem, asked, x, outcome.risk, outcome.outputs)
    second, outcome, x = _fresh(problem, learnt, run, reserve - half)
    if not len(first.risk) + len(second.risk):
        words = "all fresh runs of the last posterior failed: it could not be checked"
        return Checked(_remember(learnt, x, outcome), None, (words,))
    note = (
        f"fresh runs of the last posterior gave an objective of {objective(first):.4g} where "
        f"{predicted:.4g} was predicted; after learning from them, {objective(second):.4g}. The "
        "better of the two posteriors is returned"
    )
    return Checked(_remember(learnt, x, outcome), min((first, second), key=objective), (note,))


def _fresh(
    problem: Problem, state: State, run: Evaluate, n: int
) -> tuple[FreshRuns, Outcome, FloatArray]:
    """N runs of the state's posterior."""
    posterior, x = state.posterior, state.draw(n, VALIDATE)
    outcome = run(x)
    new = Evaluations.none(posterior.dim).append(x, outcome.risk, posterior)
    # A failed run counts as no less than the worst of all runs, not only of these.
    before = state.evaluations.risk
    worst = float(before[np.isfinite(before)].max(initial=-np.inf))
    failure_risk = None if problem.failure_risk is None else max(problem.failure_risk, worst)
    kl = posterior.divergence(problem.prior, [state.seed, state.iteration, PRIOR, 1]).value
    return FreshRuns(posterior, kl, new.usable(failure_risk).risk, outcome.ids), outcome, x


def _remember(state: State, x: FloatArray, outcome: Outcome) -> State:
    """The state that knows runs of its own posterior without having learnt from them."""
    known = replace(state, batch=Batch.plain(x, state.posterior))
    return replace(known, evaluations=known.told(x, outcome.risk, outcome.outputs), batch=None)
