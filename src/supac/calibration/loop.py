"""The loop of a search, ask, run, tell, in batch or asynchronous mode."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from supac.arrays import FloatArray
from supac.calibration.diagnostics import advice_on_workers
from supac.exchange.known import KnownRuns
from supac.families import Distribution
from supac.problem import Batch, Planned, Problem, Role
from supac.record.encoding import state_from_spec, state_to_spec
from supac.record.ending import StopReason
from supac.record.record import Record
from supac.record.run import Round, Run
from supac.running.execution import Execution
from supac.running.interrupt import Interrupted
from supac.running.runner import Runner
from supac.running.terminal import ProgressBar
from supac.search.algorithm import Algorithm, Info, State
from supac.search.levels import WITHOUT_MODEL
from supac.search.note import is_among
from supac.search.restart import BEGAN_AGAIN
from supac.search.stages import Stage
from supac.search.valleys import WHOLE

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


def jacobians_cost(runs: int, algorithm: Algorithm, problem: Problem, state: State) -> float:
    """Return the cost of the Jacobians of so many runs of the next batch: 0 if it wants none."""
    cost = problem.jacobian_cost or 0.0
    return cost * runs if cost and algorithm.wants_jacobians(problem, state) else 0.0


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
    reserve: int = 0
    """Number of runs reserved for validation, of which a search on its way makes some first."""
    imported: int = 0
    """Number of imported evaluations of the model that counts, which do not."""
    seconds: float = 0.0
    """Total simulator time."""
    advice: tuple[str, ...] = ()
    """Choices that would have saved runs or time."""
    _idle: bool = False
    """Idle workers were noticed."""
    _ended: list[Run] = field(default_factory=list)
    """Completed runs that were not told, in asynchronous mode."""
    _asked: tuple[State, Batch] | None = None
    """State that a batch was asked for in, and the batch."""

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
        return self.algorithm.counted(self.state) - self.imported

    @property
    def spent(self) -> float:
        """Cost of the runs told to the algorithm, in runs of the model that counts.

        With what their Jacobians cost.
        """
        known = self.state.evaluations.jacobians or ()
        jacobians = self._cost * sum(each is not None for each in known)
        return self.algorithm.spent(self.state) - self.imported + jacobians

    @property
    def _most(self) -> int:
        """Number of runs at most: to validate a posterior that is on its way tells little."""
        tuning, rounds = self.state.tuning.stop, self.record.rounds
        on_its_way = bool(rounds) and rounds[-1].info.step_kl > tuning.on_its_way
        on_its_way = on_its_way and self.state.horizon >= WHOLE
        lent = min(int(tuning.lent * self.reserve), self.reserve - tuning.kept)
        return self.budget + max(lent, 0) * on_its_way

    @property
    def _cost(self) -> float:
        """Cost of a Jacobian in runs."""
        return self.problem.jacobian_cost or 0.0

    def _jacobians_cost(self, runs: int) -> float:
        """Return the cost of the Jacobians of so many runs of the next batch."""
        return jacobians_cost(runs, self._algorithm(), self.problem, self.state)

    def restore(self) -> None:
        """Restore the state from the record."""
        record = self.record
        if record.rounds and record.state is not None:
            known = {run.id: run.x for run in record.light_runs if run.source}
            begun = [known[i] for i in record.rounds[0].ids if i in known]
            if begun and len(begun) == len(record.rounds[0].ids):
                self.state = self.state.beginning_from(np.array(begun))
            function = self.runner.functions[0]
            told = record.told(function.columns, jacobians=function.jacobians)
            state = record.read_state(lambda spec: state_from_spec(spec, self.state, told))
            self.state = self.algorithm.restored(state)
            if self.state.horizon < WHOLE and self.problem.course is None:
                raise ValueError(
                    "the search was stopped while it saw the first part of its data, which no "
                    "jacobian= and no loss of your own can be cut to: resume it without"
                )
            ids = record.told_ids(())
            made = [run for run in record.light_runs if run.id in ids]
            self.imported = sum(bool(run.source) and not run.level for run in made)
            self.seconds = sum(run.seconds for run in made if not run.source)

    def adopt(self, known: KnownRuns | None) -> None:
        """Tell the algorithm imported runs."""
        adopted = self.runner.adopt(known, self.state.iteration)
        if adopted:
            if not self.state.iteration:
                x = np.array([run.x for run in adopted])
                self.state = self.state.beginning_from(x)
            self.imported += sum(not run.level for run in adopted)
            self._learn(adopted, self.state.posterior)

    def run(self) -> StopReason:
        """Ask, run and tell until there is a reason to stop."""
        stop = self._reason() if self.record.rounds else None
        if stop is None:
            stop = self._asynchronous() if self.execution.mode == "async" else self._batches()
        self.state = self.algorithm.conclude(self.state)
        return stop

    def _batches(self) -> StopReason:
        """Tell each batch as a whole, so that the result does not depend on the workers."""
        stop = None
        while stop is None:
            batch = self._next_batch()
            self._notice_idle_workers(len(batch))
            try:
                runs = self.runner.run_planned(batch.planned, jacobians=self._wants_jacobians())
                stop = self._tell(runs)
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
        made, thinking = self._made_so_far(), 0.0
        asked_for = self.state.iteration if self.runner.waiting else -1
        while stop is None or self.runner.under_way:
            if stop is None and not self.runner.waiting and self._worth_telling(asked_for):
                start = time.perf_counter()
                stop = self._tell_ended()
                if stop is None:
                    planned, asked_for = self._next_batch().planned, self.state.iteration
                    each = 1.0 + self._jacobians_cost(1)
                    added = planned[: max(int((self._most - made) / each), 0)]
                    self._queue(added)
                    made += each * len(added)
                    stop = None if added else StopReason.BUDGET
                thinking = time.perf_counter() - start
            if self.runner.interrupt.requested:
                stop = StopReason.INTERRUPTED
            if stop not in (None, StopReason.BUDGET):
                self.runner.cancel()
            self._ended += self.runner.collect(self._wanted(thinking))
        if stop is StopReason.FAILURES and not self.record.rounds:  # nothing to learn from
            self._remember(self._take_ended())
            return stop
        last = self._tell_ended()
        return last if last is not None and stop is StopReason.BUDGET else stop

    def _made_so_far(self) -> float:
        """Return the cost of the runs that are told, have ended, or are under way."""
        ended = self._cost * sum(run.jacobian is not None for run in self._ended)
        ahead = self.runner.under_way
        return self.spent + len(self._ended) + ended + ahead + self._jacobians_cost(ahead)

    def _take_up(self) -> None:
        """Take completed runs of an earlier process, and queue the rest of their batch."""
        ended = self.runner.take_untold()
        left = {each.x.tobytes(): each for each in self._next_batch().planned}
        due = [left.pop(run.x.tobytes(), None) for run in ended]
        step = self.state.iteration
        for run, planned in zip(ended, due, strict=True):
            late = run.planned if run.step >= 0 else Planned(run.x, Role.TELLS, step)
            self._ended.append(run.as_planned(planned or late))
        if any(due):
            self._queue(left.values())

    def _queue(self, planned: Iterable[Planned]) -> None:
        wanted = self._wants_jacobians()
        for each in planned:
            self.runner.queue(each, jacobian=wanted)

    def _wants_jacobians(self) -> bool:
        """Return True if the runs of the next batch are worth their Jacobians."""
        return self._algorithm().wants_jacobians(self.problem, self.state)

    def _worth_telling(self, asked_for: int) -> bool:
        """Return True if there are results to tell, or if a first batch is needed.

        The first `tell` needs three quarters of the first batch: the first runs to end are often
        failures, and few runs make a poor surrogate.
        """
        ended = len(self._ended)
        if self.state.iteration > asked_for and not ended:
            return True
        if (self.state.evaluations.role != Role.KNOWN).any():
            return bool(ended)
        return 4 * ended >= 3 * (ended + self.runner.under_way)

    def _next_batch(self) -> Batch:
        """Ask for a batch, once for each state."""
        if self._asked is None or self._asked[0] is not self.state:
            self._asked = self.state, self._algorithm().ask(self.problem, self.state)
        return self._asked[1]

    def _wanted(self, thinking: float) -> int:
        """Compute the number of submitted runs that keeps workers busy during the next `tell`."""
        capacity = self.runner.capacity
        usual = max(self.seconds / max(self.queries, 1), 1e-3)
        ahead = math.ceil(capacity * (thinking + _HANDOVER) / usual)
        return capacity + min(ahead, _MOST_AHEAD * capacity)

    def _tell_ended(self) -> StopReason | None:
        if not self._ended:
            return None
        return self._tell(self.runner.settle(self._take_ended()))

    def _take_ended(self) -> list[Run]:
        """Take completed runs, in the order of their ids."""
        runs, self._ended = sorted(self._ended, key=lambda run: run.id), []
        return runs

    def _tell(self, runs: Sequence[Run]) -> StopReason | None:
        """Tell runs to the algorithm unless all have failed; return a reason to stop, if any."""
        self.seconds += sum(run.seconds for run in runs)
        known_good = self.state.evaluations.ok.any() or any(run.ok for run in runs)
        if not known_good and not any(run.level for run in runs):
            self._remember(runs)
            return StopReason.FAILURES
        return self._learn(runs, self._next_batch().proposal)

    def _remember(self, runs: Sequence[Run]) -> None:
        """Add runs to the evaluations without learning from them."""
        if runs:
            settled, proposal = self.runner.settle(runs), self._next_batch().proposal
            told = self.state.told(*self._columns(settled, proposal), **self._jacobians(settled))
            self.state = replace(self.state, evaluations=told, batch=None)

    def _columns(
        self, runs: Sequence[Run], proposal: Distribution
    ) -> tuple[Batch, FloatArray, FloatArray | None]:
        """Return why runs were made, their risks and outputs."""
        batch = Batch.gathered([run.planned for run in runs], proposal, proposal.dim)
        return batch, *self.runner.functions[0].columns(runs)

    def _jacobians(self, runs: Sequence[Run]) -> dict[str, Any]:
        """Return the Jacobians of runs as an argument of `tell`; nothing if it has no use."""
        found = self.runner.functions[0].jacobians(runs)
        useful = found is not None and self.algorithm.learns_from_jacobians
        return {"jacobians": found} if useful else {}

    def _learn(self, runs: Sequence[Run], proposal: Distribution) -> StopReason | None:
        """Tell runs to the algorithm; `proposal` is that of the batch that was planned last."""
        levels, seconds = [run.level for run in runs], [run.seconds for run in runs]
        before = self._algorithm().timed(self.state, levels, seconds)
        columns = self._columns(runs, proposal)
        told = self._algorithm().tell(self.problem, before, *columns, **self._jacobians(runs))
        after, info = self._restarted(before, *told)
        self.state = after
        new = Round(tuple(run.id for run in runs), proposal, info)
        if after.coarse is not None:
            own = after.coarse
            self.record.note_coarse((own.cost, own.differs, own.useful, own.settled))
        self.record.add_rounds([new], lambda: state_to_spec(after), after.posterior)
        self.bar.update(self.queries, info, self.runner.busy.words, self.record.coarse_use)
        self._advise(*self.algorithm.advice(self.problem, after))
        event = Iteration(self.queries, before.posterior, info.objective, info, after.posterior)
        if self.callback is not None and self.callback(event):
            return StopReason.USER
        return self._reason()

    def _restarted(self, before: State, state: State, info: Info) -> tuple[State, Info]:
        """Return the state after a round, elsewhere if the algorithm begins again, and its info."""
        again = self._algorithm().restart(self.problem, before, state, info)
        return (state, info) if again is None else again

    def _algorithm(self) -> Algorithm:
        """Return the algorithm, with larger batches if asynchronous workers need them."""
        workers = self.runner.capacity if self.execution.mode == "async" else 0
        return self.algorithm.widened(workers, self.budget, len(self.state.evaluations))

    def _reason(self) -> StopReason | None:
        info, made = self.record.rounds[-1].info, self.queries
        batch = self._next_batch()  # which was planned with the step, and is run next
        price = self._algorithm().price(self.state, batch)
        last = self.spent + price + self._jacobians_cost(len(batch)) > self._most
        tuning = self.state.tuning.stop
        enough = tuning.failures_in_any_case if self.state.stage.moves else tuning.failures_from
        if (made >= enough or last) and self._failing(info):
            return StopReason.FAILURES
        whole = self.state.horizon >= WHOLE
        unchanged = whole and info.alpha > 0.0 and info.step_kl < self.tolerance
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
        if self.state.horizon < WHOLE:
            return False
        runs, wrong, tuning = 0, self.record.rounds[-1].info.wrong, self.state.tuning.stop
        coarse = set() if self.state.coarse is None else self.record.coarse_ids
        for count, each in enumerate(reversed(self.record.rounds), start=1):
            info, runs = each.info, runs + sum(i not in coarse for i in each.ids)
            if any(is_among(note, BEGAN_AGAIN) for note in info.notes) or not (
                info.step_kl < tuning.unchanged and wrong <= info.wrong
            ):
                return False
            if count >= tuning.rounds and runs >= tuning.runs:
                return True
        return False

    def _failing(self, info: Info) -> bool:
        """Return True if too many runs have failed, and too many of the posterior's will.

        Runs are drawn more widely than the posterior, and the first ones far from it: that they
        failed says little of where the search has come to. Nor does it fail where the latest runs
        mostly do not, or where none was made since it began again elsewhere.
        """
        if self.state.stage in (Stage.AGAIN, Stage.AFRESH):
            return False
        if any(is_among(note, WITHOUT_MODEL) for note in info.notes):
            return False
        evaluations, most = self.state.evaluations, self.execution.max_failures
        if evaluations.failed <= most * len(evaluations):
            return False  # nor are they too many without the refused ones, which take long to count
        refused = len(self.record.refused)
        failed, made = evaluations.failed - refused, len(evaluations) - refused
        recent = self.state.tuning.stop.failures_lately
        lately = evaluations.select(np.arange(made + refused) >= made + refused - recent)
        if not lately.failed > most * len(lately):
            return False
        return failed > most * made and not info.failure_chance <= most
