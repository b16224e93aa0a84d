"""Ask, evaluate, tell, until there is a reason to stop: batch by batch, or as results come."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from supac.arrays import FloatArray
from supac.exchange import KnownRuns
from supac.problem import Problem
from supac.record.history import Iteration, Journal, StopReason
from supac.record.run import Purpose, Status
from supac.record.store import Round, Store
from supac.running.evaluate import Evaluator, Outcome
from supac.running.interrupt import Interrupt, Interrupted
from supac.running.pipeline import Pipeline
from supac.running.progress import ProgressBar
from supac.search.algorithm import Algorithm, Batch, State, widened

_ENOUGH_TO_TELL = 30  # runs from which a share of failures means something
_HANDOVER = 0.03  # seconds that a result takes to become the next run
_MOST_AHEAD = 8  # runs that wait for each worker while the driver thinks


@dataclass(eq=False)
class Loop:
    """One run of an algorithm, on its way."""

    problem: Problem
    algorithm: Algorithm
    evaluator: Evaluator
    state: State
    budget: int
    """Queries, without those that are kept for validation."""
    tolerance: float
    max_failures: float
    store: Store | None
    interrupt: Interrupt
    bar: ProgressBar
    callback: Callable[[Iteration], object] | None = None
    workers: int = 0
    """How many there are in asynchronous mode."""
    imported: int = 0
    """Evaluations that were made elsewhere, and do not count."""
    journal: Journal = field(default_factory=Journal)

    @property
    def queries(self) -> int:
        """How many runs have been learnt from."""
        return len(self.state.evaluations) - self.imported

    def remember(self) -> None:
        """Go on where the store ends."""
        if self.store is not None and self.store.rounds:
            self._remember(self.store)

    def adopt(self, known: KnownRuns | None) -> None:
        """Learn from runs that were made elsewhere."""
        adopted = self.evaluator.adopt(known)
        if adopted:
            x = np.array([run.x for run in adopted])
            nowhere = np.zeros(len(x), dtype=bool)
            self.imported += len(x)
            self.state = replace(self.state, batch=Batch(x, self.state.posterior, nowhere))
            outcome = self.evaluator.outcome(adopted)
            self.journal.failures += outcome.failures
            self._learn(x, outcome)

    def _remember(self, store: Store) -> None:
        self.state = store.state(self.state, self.evaluator.judge.failure_loss)
        told = [[store.runs[run] for run in each.ids] for each in store.rounds]
        self.imported = sum(bool(run.source) for runs in told for run in runs)
        made = np.cumsum([sum(not run.source for run in runs) for runs in told])
        self.journal = Journal(
            [each.info for each in store.rounds],
            made.tolist(),
            [run for runs in told for run in runs if run.status is not Status.OK],
            sum(run.seconds for runs in told for run in runs if not run.source),
        )
        store.runs.clear()

    def batches(self) -> StopReason:
        """Every batch as a whole: the same bits wherever and in whatever order runs are made."""
        stop = self._reason(asked=False) if self.journal.infos else None
        while stop is None:
            if self.interrupt.requested:
                return StopReason.INTERRUPTED
            x = self.algorithm.ask(self.problem, self.state)
            try:
                outcome = self.evaluate(x)
            except Interrupted:
                return StopReason.INTERRUPTED
            stop = self._tell(x, outcome)
        return stop

    def evaluate(self, x: FloatArray, purpose: Purpose = "search") -> Outcome:
        """Runs, and a line of each failure in the journal."""
        return self._noted(self.evaluator.batch(x, purpose))

    def validate(self, x: FloatArray) -> Outcome:
        """Runs that are not made to search."""
        return self.evaluate(x, "validation")

    def _noted(self, outcome: Outcome) -> Outcome:
        self.journal.failures += outcome.failures
        self.journal.seconds += float(outcome.seconds.sum())
        return outcome

    def asynchronous(self) -> StopReason:
        """Results are told as they come, and new points asked for before workers run idle."""
        flight = self.evaluator.flight
        assert flight is not None
        stop = self._reason(asked=False) if self.journal.infos else None
        if stop is not None:
            return stop
        pipeline = Pipeline(self.evaluator, flight, self._next_batch())
        made, thinking = self.queries + pipeline.under_way, 0.0
        asked_for = -1 if pipeline.idle else self.state.iteration
        while stop is None or not pipeline.empty:
            if stop is None and pipeline.idle and self._worth_telling(pipeline, asked_for):
                start = time.perf_counter()
                stop = self._tell_ended(pipeline) if pipeline.ended else None
                if stop is None:
                    asked_for = self.state.iteration
                    added = pipeline.add(self._next_batch(), self.budget - made)
                    made += added
                    stop = None if added else StopReason.BUDGET
                thinking = time.perf_counter() - start
            if self.interrupt.requested:
                stop = StopReason.INTERRUPTED
            if stop not in (None, StopReason.BUDGET):
                pipeline.cut()
            pipeline.launch(self._wanted(flight.capacity, thinking))
            pipeline.land()
        last = self._tell_ended(pipeline) if pipeline.ended else None
        return last if last is not None and stop is StopReason.BUDGET else stop

    def _worth_telling(self, pipeline: Pipeline, asked_for: int) -> bool:
        """Whether there is something to learn from, or to begin with.

        The first lesson takes three quarters of the first batch: what ends first is often what
        fails, and little is learnt from few runs.
        """
        if self.state.iteration > asked_for and not pipeline.ended:
            return True
        if self.state.evaluations.drawn.any():
            return bool(pipeline.ended)
        return 4 * len(pipeline.ended) >= 3 * pipeline.under_way

    def _next_batch(self) -> Batch:
        return self.state.planned(self._algorithm().ask(self.problem, self.state))

    def _wanted(self, capacity: int, thinking: float) -> int:
        """Runs in flight: enough for the workers to have work while the driver thinks."""
        usual = max(self.journal.seconds / max(self.queries, 1), 1e-3)
        ahead = math.ceil(capacity * (thinking + _HANDOVER) / usual)
        return capacity + min(ahead, _MOST_AHEAD * capacity)

    def _tell_ended(self, pipeline: Pipeline) -> StopReason | None:
        runs, batch = pipeline.take(self.state)
        self.state = replace(self.state, batch=batch)
        return self._tell(batch.x, self._noted(self.evaluator.outcome(runs)))

    def _tell(self, x: FloatArray, outcome: Outcome) -> StopReason | None:
        """Learn from runs, record and show what was learnt; a reason to stop, if there is one."""
        if not self.state.evaluations.ok.any() and len(outcome.failures) == len(x):
            told = self.state.told(x, outcome.risk, outcome.outputs)
            self.state = replace(self.state, evaluations=told, batch=None)
            return StopReason.FAILURES
        return self._learn(x, outcome)

    def _learn(self, x: FloatArray, outcome: Outcome) -> StopReason | None:
        before = self.state
        planned = before.planned(x)
        self.state, info = self._algorithm().tell(
            self.problem, before, x, outcome.risk, outcome.outputs
        )
        if self.store is not None:
            self.store.keep_round(
                Round(outcome.ids, planned.drawn, planned.proposal, info), self.state
            )
        queries = self.queries
        self.journal.infos.append(info)
        self.journal.queries.append(queries)
        self.bar.update(queries, info)
        asked = False
        if self.callback is not None:
            event = Iteration(queries, before.posterior, info.objective, info, self.state.posterior)
            asked = bool(self.callback(event))
        return self._reason(asked=asked)

    def _algorithm(self) -> Algorithm:
        """Return the algorithm, with batches that keep all asynchronous workers busy."""
        return widened(self.algorithm, self.workers, self.budget, len(self.state.evaluations))

    def _reason(self, *, asked: bool) -> StopReason | None:
        if asked:
            return StopReason.USER
        evaluations, info = self.state.evaluations, self.journal.infos[-1]
        made = self.queries
        last = made + len(self._algorithm().ask(self.problem, self.state)) > self.budget
        enough = made >= _ENOUGH_TO_TELL or last
        if enough and evaluations.failed > self.max_failures * len(evaluations):
            return StopReason.FAILURES
        if info.alpha > 0.0 and info.step_kl < self.tolerance:
            return StopReason.CONVERGED
        return StopReason.BUDGET if last else None
