"""Validate the final posterior with fresh runs; if they are bad, learn from them once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from supac.arrays import FloatArray
from supac.families import Distribution
from supac.problem import Evaluations, Problem
from supac.record.ending import ValidationBatch
from supac.running.runner import Runner
from supac.search.algorithm import PRIOR, VALIDATE, Algorithm, Batch, State


@dataclass(frozen=True, eq=False)
class FreshRisks:
    """Risks of independent runs of a posterior that were not used to find it."""

    posterior: Distribution
    kl: float
    risk: FloatArray
    """With the risk of failed runs, if they count."""

    @property
    def mean_risk(self) -> float:
        """Mean risk; NaN without runs."""
        return float(self.risk.mean()) if len(self.risk) else np.nan

    @property
    def error(self) -> float:
        """Standard error of the mean; NaN for fewer than two runs."""
        n = len(self.risk)
        return float(self.risk.std(ddof=1) / np.sqrt(n)) if n > 1 else np.nan

    def objective(self, problem: Problem) -> float:
        """Compute the bound of the mean risk; infinite without runs."""
        return problem.bound(self.mean_risk, self.kl) if len(self.risk) else np.inf


@dataclass(frozen=True, eq=False)
class Validated:
    """Last state, and the fresh risks of the posterior to return, if any."""

    state: State
    fresh: FreshRisks | None = None
    batches: tuple[ValidationBatch, ...] = ()
    notes: tuple[str, ...] = ()


def validate(
    problem: Problem,
    algorithm: Algorithm,
    state: State,
    runner: Runner,
    reserve: int,
    predicted: float,
) -> Validated:
    """Make half of `reserve` fresh runs; if they are bad, learn from them and try again.

    Otherwise use the other half for a more precise estimate.
    """
    half = (reserve + 1) // 2
    first = _Batch.run(problem, state, runner, half)
    fresh, error = first.fresh, np.nan_to_num(first.fresh.error)
    passed = len(fresh.risk) and problem.bound(fresh.mean_risk - 2.0 * error, fresh.kl) <= predicted
    if passed or np.isnan(predicted):
        known = first.remembered(state)
        second = _Batch.run(problem, known, runner, reserve - half)
        both = replace(fresh, risk=np.concatenate([fresh.risk, second.fresh.risk]))
        return Validated(second.remembered(known), both, (first.batch, second.batch))
    asked = replace(state, batch=Batch.plain(first.x, state.posterior))
    learnt, _ = algorithm.tell(problem, asked, first.x, first.risk, first.outputs)
    second = _Batch.run(problem, learnt, runner, reserve - half)
    batches, last = (first.batch, second.batch), second.remembered(learnt)
    if not len(fresh.risk) + len(second.fresh.risk):
        words = "all fresh runs of the last posterior failed: it could not be checked"
        return Validated(last, None, batches, (words,))
    values = [each.objective(problem) for each in (fresh, second.fresh)]
    note = (
        f"fresh runs of the last posterior gave an objective of {values[0]:.4g} where "
        f"{predicted:.4g} was predicted; after learning from them, {values[1]:.4g}. The "
        "better of the two posteriors is returned"
    )
    better = fresh if values[0] <= values[1] else second.fresh
    return Validated(last, better, batches, (note,))


@dataclass(frozen=True, eq=False)
class _Batch:
    """Fresh runs of the posterior of a state."""

    x: FloatArray
    risk: FloatArray
    outputs: FloatArray | None
    fresh: FreshRisks
    batch: ValidationBatch

    @classmethod
    def run(cls, problem: Problem, state: State, runner: Runner, n: int) -> _Batch:
        posterior, x = state.posterior, state.draw(n, VALIDATE)
        runs = runner.run(x, "validation")
        risk, outputs = runner.functions[0].columns(runs)
        new = Evaluations.none(posterior.dim).append(x, risk, posterior)
        # A failed run counts as no less than the worst of all runs, not only of these.
        before = state.evaluations.risk
        worst = float(before[np.isfinite(before)].max(initial=-np.inf))
        failure_risk = None if problem.failure_risk is None else max(problem.failure_risk, worst)
        kl = posterior.divergence(problem.prior, [state.seed, state.iteration, PRIOR, 1]).value
        fresh = FreshRisks(posterior, kl, new.usable(failure_risk).risk)
        batch = ValidationBatch(tuple(run.id for run in runs), posterior)
        return cls(x, risk, outputs, fresh, batch)

    def remembered(self, state: State) -> State:
        """Return the state with these runs added, without a step."""
        known = replace(state, batch=Batch.plain(self.x, state.posterior))
        return replace(known, evaluations=known.told(self.x, self.risk, self.outputs), batch=None)
