"""The loop of a search, ask, run, tell, in batch or asynchronous mode."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from supac.arrays import FloatArray
from supac.exchange.known import KnownRuns
from supac.families import Distribution
from supac.problem import Problem
from supac.record.diagnostics import advice_on_workers
from supac.record.encoding import state_from_spec, state_to_spec
from supac.record.ending import StopReason
from supac.record.record import Record
from supac.record.run import Round, Run
from supac.running.execution import Execution
from supac.running.runner import Runner
from supac.running.terminal import Interrupted, ProgressBar
from supac.search.algorithm import Algorithm, Batch, Info, State, widened
from supac.search.note import is_among
from supac.search.restart import BEGAN_AGAIN

_LATELY = 10  # runs of which too many must have failed as well
_ENOUGH_TO_TELL = 30  # runs before the share of failures is judged
_ENOUGH_IN_ANY_CASE = 100  # and if steps still promise much
_ROUNDS_TO_SETTLE, _RUNS_TO_SETTLE = 3, 15  # without change, after which a search ends
_UNCHANGED = 0.005  # nats between successive posteriors: far below the error of an objective
_HANDOVER = 0.03  # seconds from a result to the next run
_MOST_AHEAD = 8  # queued runs per worker during a `tell`


@dataclass(frozen=True)
class Iteration:
    """Argument of a callback after each round."""

    queries: int
    posterior: Distribution
    """Posterior that drew the batch; `objective` is its bound."""
    objective: float
    info: Info
    next_posterior: Distribution
    """Posterior after the step, not yet evaluated."""

    @property
    def mean_risk(self) -> float:
        """Estimated mean risk of `posterior`."""
        return self.info.mean_risk

    @property
    def kl(self) -> float:
        """KL(posterior, prior)."""
        return self.info.kl


@dataclass(eq=False)
class Loop:
    """State of one search, and its loop."""

    problem: Problem
    algorithm: Algorithm
    runner: Runner
    state: State
    budget: int
    """Number of runs, without those reserved for validation."""
    tolerance: float
    execution: Execution
    bar: ProgressBar
    callback: Callable[[Iteration], object] | None = None
    imported: int = 0
    """Number of imported evaluations, which do not count."""
    seconds: float = 0.0
    """Total simulator time."""
    advice: tuple[str, ...] = ()
    """Choices that would have saved runs or time."""
    _idle: bool = False
    """Idle workers were noticed."""
    _ended: list[Run] = field(default_factory=list)
    """Completed runs that were not told, in asynchronous mode."""
    _origins: dict[int, tuple[Batch, int]] = field(default_factory=dict)
    """Batch and row of each run that was not told, by id."""

    @property
    def record(self) -> Record:
        """Record of the search."""
        return self.runner.record

    @property
    def predicted(self) -> float:
        """Objective of the posterior to return, by the model that found it."""
        step, left = self.state.last_step, self.state.abandoned
        if step is not None and np.isfinite(step.objective):
            return step.objective
        if left is not None:
            return float(left.objectives.min())
        return self.record.rounds[-1].info.predicted

    @property
    def queries(self) -> int:
        """Number of runs told to the algorithm."""
        return len(self.state.evaluations) - self.imported

    def restore(self) -> None:
        """Restore the state from the record."""
        record = self.record
        if record.rounds and record.state is not None:
            told = record.told(self.runner.functions[0].columns)
            self.state = record.read_state(lambda spec: state_from_spec(spec, self.state, told))
            ids = record.told_ids(())
            made = [run for run in record.light_runs if run.id in ids]
            self.imported = sum(bool(run.source) for run in made)
            self.seconds = sum(run.seconds for run in made if not run.source)

    def adopt(self, known: KnownRuns | None) -> None:
        """Tell the algorithm imported runs."""
        adopted = self.runner.adopt(known)
        if adopted:
            x = np.array([run.x for run in adopted])
            nowhere = np.zeros(len(x), dtype=bool)
            self.imported += len(x)
            self.state = replace(self.state, batch=Batch(x, self.state.posterior, nowhere))
            self._learn(x, adopted)

    def run(self) -> StopReason:
        """Ask, run and tell until there is a reason to stop."""
        stop = self._reason() if self.record.rounds else None
        if stop is None:
            stop = self._asynchronous() if self.execution.mode == "async" else self._batches()
        conclude = getattr(self.algorithm, "conclude", None)
        if conclude is not None:
            self.state = conclude(self.state)
        return stop

    def _batches(self) -> StopReason:
        """Tell each batch as a whole, so that the result does not depend on the workers."""
        stop = None
        while stop is None:
            x = self.algorithm.ask(self.problem, self.state)
            self._notice_idle_workers(len(x))
            try:
                stop = self._tell(x, self.runner.run(x))
            except Interrupted:
                return StopReason.INTERRUPTED
        return stop

    def _notice_idle_workers(self, batch: int) -> None:
        """Advise a larger batch if workers are idle in each one after the first."""
        workers, rounds = self.runner.capacity, self.record.rounds
        if rounds and batch < workers and not self._idle:
            self._idle = True
            self._advise(advice_on_workers(workers, batch, len(rounds[0].ids)))

    def _advise(self, *sentences: str) -> None:
        """Add what was not said before, and show it."""
        for each in sentences:
            if each not in self.advice:
                self.advice += (each,)
                self.bar.say(each)

    def _asynchronous(self) -> StopReason:
        """Tell results as they arrive, and ask for new points before workers are idle."""
        stop: StopReason | None = None
        self._take_up()
        made, thinking = self.queries + len(self._ended) + self.runner.under_way, 0.0
        asked_for = self.state.iteration if self.runner.waiting else -1
        while stop is None or self.runner.under_way:
            if stop is None and not self.runner.waiting and self._worth_telling(asked_for):
                start = time.perf_counter()
                stop = self._tell_ended()
                if stop is None:
                    batch, asked_for = self._next_batch(), self.state.iteration
                    added = range(min(len(batch.x), self.budget - made))
                    self._queue(batch, added)
                    made += len(added)
                    stop = None if added else StopReason.BUDGET
                thinking = time.perf_counter() - start
            if self.runner.interrupt.requested:
                stop = StopReason.INTERRUPTED
            if stop not in (None, StopReason.BUDGET):
                self.runner.cancel()
            self._ended += self.runner.collect(self._wanted(thinking))
        if stop is StopReason.FAILURES and not self.record.rounds:  # nothing to learn from
            self._remember(*self._take_ended())
            return stop
        last = self._tell_ended()
        return last if last is not None and stop is StopReason.BUDGET else stop

    def _take_up(self) -> None:
        """Take completed runs of an earlier process, and queue the rest of their batch."""
        self._ended, batch = self.runner.take_untold(), self._next_batch()
        rows = {point.tobytes(): row for row, point in enumerate(batch.x)}
        for run in self._ended:
            row = rows.pop(run.x.tobytes(), None)
            if row is not None:
                self._origins[run.id] = batch, row
        if self._origins:
            self._queue(batch, rows.values())

    def _queue(self, batch: Batch, rows: Iterable[int]) -> None:
        for row in rows:
            self._origins[self.runner.queue(batch.x[row])] = batch, row

    def _worth_telling(self, asked_for: int) -> bool:
        """Return True if there are results to tell, or if a first batch is needed.

        The first `tell` needs three quarters of the first batch: the first runs to end are often
        failures, and few runs make a poor surrogate.
        """
        ended = len(self._ended)
        if self.state.iteration > asked_for and not ended:
            return True
        if self.state.evaluations.drawn.any():
            return bool(ended)
        return 4 * ended >= 3 * (ended + self.runner.under_way)

    def _next_batch(self) -> Batch:
        return self.state.planned(self._algorithm().ask(self.problem, self.state))

    def _wanted(self, thinking: float) -> int:
        """Compute the number of submitted runs that keeps workers busy during the next `tell`."""
        capacity = self.runner.capacity
        usual = max(self.seconds / max(self.queries, 1), 1e-3)
        ahead = math.ceil(capacity * (thinking + _HANDOVER) / usual)
        return capacity + min(ahead, _MOST_AHEAD * capacity)

    def _tell_ended(self) -> StopReason | None:
        if not self._ended:
            return None
        runs, batch = self._take_ended()
        self.state = replace(self.state, batch=batch)
        return self._tell(batch.x, self.runner.settle(runs))

    def _take_ended(self) -> tuple[list[Run], Batch]:
        """Take completed runs as a batch, those of the most common batch as its draws.

        Runs of other batches count as designed points. Their expected risks are kept only if most
        runs come from the last step.
        """
        runs, self._ended = sorted(self._ended, key=lambda run: run.id), []
        known = {
            i: self._origins.pop(run.id) for i, run in enumerate(runs) if run.id in self._origins
        }
        common = Counter(batch for batch, _ in known.values()).most_common(1)
        main = common[0][0] if common else None
        drawn = np.zeros(len(runs), dtype=bool)
        expected = np.full(len(runs), np.nan)
        for i, (batch, row) in known.items():
            drawn[i] = batch is main and batch.drawn[row]
            if batch.expected is not None:
                expected[i] = batch.expected[row]
        latest = main is not None and self.state.batch is not None and main.x is self.state.batch.x
        return runs, Batch(
            np.array([run.x for run in runs]),
            self.state.posterior if main is None else main.proposal,
            drawn,
            expected if latest and bool(np.isfinite(expected).all()) else None,
        )

    def _tell(self, x: FloatArray, runs: Sequence[Run]) -> StopReason | None:
        """Tell runs to the algorithm unless all have failed; return a reason to stop, if any."""
        self.seconds += sum(run.seconds for run in runs)
        if not self.state.evaluations.ok.any() and not any(run.ok for run in runs):
            self._remember(runs, Batch.plain(x, self.state.posterior))
            return StopReason.FAILURES
        return self._learn(x, runs)

    def _remember(self, runs: Sequence[Run], batch: Batch) -> None:
        """Add runs to the evaluations without learning from them."""
        if runs:
            settled = self.runner.settle(runs)
            told = self.state.told(batch.x, *self.runner.functions[0].columns(settled))
            self.state = replace(self.state, evaluations=told, batch=None)

    def _learn(self, x: FloatArray, runs: Sequence[Run]) -> StopReason | None:
        before, (risk, outputs) = self.state, self.runner.functions[0].columns(runs)
        planned = before.planned(x)
        self.state, info = self._restarted(
            before, *self._algorithm().tell(self.problem, before, x, risk, outputs)
        )
        told = Round(tuple(run.id for run in runs), planned.drawn, planned.proposal, info)
        after = self.state
        self.record.add_rounds([told], lambda: state_to_spec(after), after.posterior)
        self.bar.update(self.queries, info)
        advice = getattr(self.algorithm, "advice", None)
        if advice is not None:
            self._advise(*advice(self.problem, after))
        event = Iteration(self.queries, before.posterior, info.objective, info, after.posterior)
        if self.callback is not None and self.callback(event):
            return StopReason.USER
        return self._reason()

    def _restarted(self, before: State, state: State, info: Info) -> tuple[State, Info]:
        """Return the state after a round, elsewhere if the algorithm begins again, and its info."""
        restart = getattr(self._algorithm(), "restart", None)
        again = None if restart is None else restart(self.problem, before, state, info)
        return (state, info) if again is None else again

    def _algorithm(self) -> Algorithm:
        """Return the algorithm, with larger batches if asynchronous workers need them."""
        workers = self.runner.capacity if self.execution.mode == "async" else 0
        return widened(self.algorithm, workers, self.budget, len(self.state.evaluations))

    def _reason(self) -> StopReason | None:
        info, made = self.record.rounds[-1].info, self.queries
        last = made + len(self._algorithm().ask(self.problem, self.state)) > self.budget
        step = self.state.last_step
        enough = _ENOUGH_IN_ANY_CASE if step is not None and step.moving else _ENOUGH_TO_TELL
        if (made >= enough or last) and self._failing(info):
            return StopReason.FAILURES
        unchanged = info.alpha > 0.0 and info.step_kl < self.tolerance
        if (unchanged and not self.record.spend_all) or self._settled():
            return StopReason.CONVERGED
        return StopReason.BUDGET if last else None

    def _settled(self) -> bool:
        """Return True if nothing is to be gained: the last runs have changed nothing.

        Algorithms that do not look for bad runs in the tails cannot tell, nor can mixtures: where
        no step promises a gain they may lie between modes, and another batch shows the way.
        """
        if self.record.spend_all or not self.state.posterior.family.is_gaussian:
            return False
        runs, wrong = 0, self.record.rounds[-1].info.wrong
        for count, each in enumerate(reversed(self.record.rounds), start=1):
            info, runs = each.info, runs + len(each.ids)
            if any(is_among(note, BEGAN_AGAIN) for note in info.notes) or not (
                info.step_kl < _UNCHANGED and wrong <= info.wrong
            ):
                return False
            if count >= _ROUNDS_TO_SETTLE and runs >= _RUNS_TO_SETTLE:
                return True
        return False

    def _failing(self, info: Info) -> bool:
        """Return True if too many runs have failed, and too many of the posterior's will.

        Runs are drawn more widely than the posterior, and the first ones far from it: that they
        failed says little of where the search has come to. Nor does it fail where the latest runs
        mostly do not, or where none was made since it began again elsewhere.
        """
        if self.state.abandoned is not None and self.state.last_step is None:
            return False
        evaluations, most = self.state.evaluations, self.execution.max_failures
        if evaluations.failed <= most * len(evaluations):
            return False  # nor are they too many without the refused ones, which take long to count
        refused = len(self.record.refused)
        failed, made = evaluations.failed - refused, len(evaluations) - refused
        lately = evaluations.select(np.arange(made + refused) >= made + refused - _LATELY)
        if not lately.failed > most * len(lately):
            return False
        return failed > most * made and not info.failure_chance <= most
