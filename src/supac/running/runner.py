"""The scheduler of all runs: batches, single runs and many tasks, for any purpose."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from supac.arrays import FloatArray, frozen
from supac.exchange.known import KnownRuns
from supac.problem import Parameters, Planned, Role, joined
from supac.problem.composite import as_composite, coarse_ones
from supac.record.record import Record
from supac.record.run import LossError, Purpose, RiskFunction, Run, RunIndex, Status
from supac.record.timeline import Spans
from supac.running.busy import BusyShare
from supac.running.execution import Execution
from supac.running.executors import open_pool
from supac.running.interrupt import Interrupt, Interrupted
from supac.running.losses import Losses
from supac.running.simulator import Answer, Request, Simulator
from supac.running.terminal import Bar

Risk = Callable[[FloatArray], Any]

_GO_ON = 'pass Execution(on_failure="penalise") or "drop" to continue despite such runs'
_ALL_AT_ONCE = (
    "pass Execution(vectorized=True) if {name} takes an (n, dim) array and answers for all points"
)
_ONE = "leave out vectorized=True if it takes one point"
_AS_MANY = f"it must always return as many, or {_GO_ON}"
_FINITE = f"make it finite, or {_GO_ON}"
_SHAPE_ERRORS = ("TypeError", "ValueError", "IndexError", "AttributeError", "AxisError")
_OWN = "ValueError: the simulator returned "  # names, rows: see `Observations.flat`
_COMPLAINTS = {
    Status.RAISED: "{called} raised {message}; the point was {place}",
    Status.TIMED_OUT: "a run took {message} and was killed at {place}",
    Status.CRASHED: "a run crashed at {place}: {message}",
    Status.INVALID: "{message} at {place}",
    Status.REFUSED: "a run was refused at {place}: {message}",
}
_PATIENCE = 0.2  # seconds between checks for a requested stop
_HANGING = 1.0  # seconds from which on a run among quick ones is noted, and between such notes
_MESSAGE = 2_000  # characters of a failure message that are kept


class EvaluationError(RuntimeError):
    """The risk failed, or returned something that is not a risk.

    `record` holds the runs made so far: `supac.KnownRuns.of_record(error.record)` makes them known
    to another search.
    """

    record: Record | None = None

    @property
    def runs(self) -> tuple[Run, ...]:
        """Runs made before the error."""
        return () if self.record is None else self.record.runs


@dataclass(frozen=True, eq=False)
class _Ticket:
    """A requested run."""

    task: int
    id: int
    planned: Planned
    purpose: Purpose
    jacobian: bool = False


class Runner:
    """Make the runs of one call, and store each in the record before it is returned.

    There is one risk per task; `ceilings` are the risks of failed runs of each task, if they count.
    Points are latent here and in the user's units in the simulator. With `on_failure="raise"` the
    first failure raises EvaluationError; otherwise failures are recorded like other runs.
    """

    def __init__(
        self,
        risks: Sequence[Risk],
        execution: Execution,
        record: Record,
        *,
        parameters: Parameters | None = None,
        ceilings: Sequence[float | None] = (None,),
        vectorized: Sequence[bool] | None = None,
        interrupt: Interrupt | None = None,
        watch: Callable[[Sequence[Run]], None] = lambda runs: None,
    ):
        risks = [record.risk_as_stored(each) for each in risks]
        many = vectorized or [execution.vectorized] * len(risks)
        self._simulators = [
            simulator_of_risk(*each, parameters) for each in zip(risks, many, strict=True)
        ]
        self._coarse: dict[int, int] = {}
        """Places of the coarse models of tasks among the simulators."""
        for task, own in enumerate(coarse_ones(risks)):
            if own is not None:
                self._coarse[task] = len(self._simulators)
                self._simulators.append(simulator_of_risk(own, many[task], parameters))
        self._raising, self._parameters = execution.on_failure == "raise", parameters
        self.record, self._watch, self.interrupt = record, watch, interrupt or Interrupt()
        self.functions = [
            RiskFunction(r, ceiling=c, parameters=parameters)
            for r, c in zip(risks, ceilings, strict=True)
        ]
        self._index()
        for task, function in enumerate(self.functions):
            function.width = record.told_width(task)
            function.note_failed_width(record.any_width(task))
        self._losses, self.busy = Losses(record, execution.retries), BusyShare()
        self._worked: set[int] = set()  # tasks with a successful run in this process
        self._waiting: deque[_Ticket] = deque()
        self._submitted: dict[int, _Ticket] = {}
        self._numbers = itertools.count()
        self._noted: set[int] = set()
        self._slow = True  # runs take long enough to be noted in the file when they begin
        self._looked = -np.inf  # when quick runs were last searched for one that hangs
        # Last: nothing that fails above may leave workers behind.
        self._pool = open_pool(execution, self._simulators)

    @classmethod
    @contextmanager
    def opened(
        cls,
        risks: Sequence[Risk],
        execution: Execution,
        open_record: Callable[[], Record],
        bar: Bar,
        *,
        ceilings: Sequence[float | None],
        parameters: Parameters | None = None,
        vectorized: Sequence[bool] | None = None,
        watch: Callable[[Sequence[Run]], None] = lambda runs: None,
    ) -> Iterator[Runner]:
        """Make a runner with handling of Ctrl-C; at the end close it, the record and the bar.

        The record is opened under that handling: a store takes time to read, and has a lock.
        `watch` is called with runs that have ended, once they are recorded; it may raise.
        """

        def watch_both(runs: Sequence[Run]) -> None:
            bar.watch(runs)
            watch(runs)

        with Interrupt() as interrupt, open_record() as record, bar:
            runner = cls(
                risks,
                execution,
                record,
                parameters=parameters,
                ceilings=ceilings,
                vectorized=vectorized,
                interrupt=interrupt,
                watch=watch_both,
            )
            with closing(runner):
                yield runner

    def _index(self) -> None:
        """Index the runs that the record has."""
        self._indexes = [
            RunIndex(self.record.light_runs, self.record.rounds, task)
            for task in range(len(self.functions))
        ]

    def remake(self, ended: Collection[Status]) -> None:
        """Make the search runs of the record again that ended so, each under its own id."""
        for run in self.record.light_runs:
            if run.status in ended and run.purpose == "search" and not run.source:
                self._waiting.append(_Ticket(run.task, run.id, run.planned, run.purpose))
        while self.under_way:
            if self.interrupt.requested:
                self.cancel()
            self.collect()
        self._index()

    def forget(self, purpose: Purpose) -> None:
        """Make runs of a purpose anew that an earlier process has made, if they were not told."""
        for index in self._indexes:
            index.forget(purpose)

    @property
    def capacity(self) -> int:
        """Number of runs that are made at the same time, as it is now."""
        return self._pool.capacity

    def close(self) -> None:
        """Kill the runs in progress."""
        self._pool.close()

    def look(self) -> None:
        """Raise Interrupted if a stop was requested."""
        if self.interrupt.requested:
            raise Interrupted

    def run(self, x: FloatArray, purpose: Purpose = "search", task: int = 0) -> list[Run]:
        """Make runs at draws x (n, dim); return them in the same order."""
        return self.run_planned([Planned(point) for point in x], purpose, task)

    def run_planned(
        self,
        planned: Sequence[Planned],
        purpose: Purpose = "search",
        task: int = 0,
        *,
        jacobians: bool = False,
    ) -> list[Run]:
        """Make planned runs; return them in the same order."""
        return self.run_tasks({task: planned}, purpose, jacobians=jacobians)[task]

    def run_tasks(
        self,
        asked: Mapping[int, Sequence[Planned]],
        purpose: Purpose = "search",
        *,
        jacobians: bool = False,
    ) -> dict[int, list[Run]]:
        """Make the runs of several tasks on the same workers, with their `jacobians` if asked.

        Runs of an earlier process are not repeated. Few more runs than workers are submitted at a
        time; the others are not started after a requested stop (Interrupted).
        """
        self.look()
        rows: dict[tuple[int, int], int] = {}
        found: dict[tuple[int, int], Run] = {}
        for task, planned in asked.items():
            for row, each in enumerate(planned):
                known = self._indexes[task].find(each.x, _purpose_of(each, purpose))
                if known is None:
                    rows[task, self.queue(each, purpose, task, jacobian=jacobians)] = row
                else:
                    found[task, row] = known.as_planned(each)
        whole = zip(found, self.record.iterate(found.values()), strict=True)
        runs = {place: self._again(run) for place, run in whole}
        while self.under_way:
            if self.interrupt.requested:
                self.cancel()
            for run in self.collect():
                runs[run.task, rows[run.task, run.id]] = run
        self.look()
        return {
            task: self.settle([runs[task, row] for row in range(len(planned))], task)
            for task, planned in asked.items()
        }

    @property
    def waiting(self) -> int:
        """Number of queued runs that no worker has been given."""
        return len(self._waiting)

    @property
    def under_way(self) -> int:
        """Number of runs that are queued or in progress."""
        return len(self._waiting) + len(self._pool)

    def queue(
        self,
        planned: Planned,
        purpose: Purpose = "search",
        task: int = 0,
        *,
        jacobian: bool = False,
    ) -> int:
        """Queue a run, which `collect` starts; return its id."""
        own = _purpose_of(planned, purpose)
        ticket = _Ticket(task, self._indexes[task].reserve(), planned, own, jacobian)
        self._waiting.append(ticket)
        return ticket.id

    def collect(self, most: int | None = None) -> list[Run]:
        """Submit queued runs until `most` are in progress; record and return completed ones.

        Return none if none ends within a moment.
        """
        most = self._pool.backlog if most is None else most
        while self._waiting and len(self._pool) < most:
            ticket, number = self._waiting.popleft(), next(self._numbers)
            self._submitted[number] = ticket
            units = self._in_units(ticket.planned.x[None])[0]
            level, wanted = ticket.planned.level, ticket.jacobian
            usual = self._losses.usual(level)
            place = self._coarse[ticket.task] if level else ticket.task
            self._pool.submit(Request(number, units, place, usual, wanted))
        self._note_begun()
        start = time.monotonic()
        answers = self._pool.collect(_PATIENCE)
        self.busy.add(answers, self._pool)
        self._slow = time.monotonic() - start > 0.9 * _PATIENCE
        ended = [(self._submitted.pop(answer.id), answer) for answer in answers]
        kept = self._keep([each for each in ended if each[1].status is not Status.LOST])
        self._losses.time_runs(kept)
        self._begin_again([each for each in ended if each[1].status is Status.LOST])
        return kept

    def _begin_again(self, lost: Sequence[tuple[_Ticket, Answer]]) -> None:
        """Queue runs that the machine took, before all others."""
        self._waiting.extendleft(ticket for ticket, _ in reversed(lost))
        for ticket, answer in lost:
            self._losses.note(ticket.task, ticket.id, self._place(ticket.planned.x), answer)

    def _note_begun(self) -> None:
        """Record which runs are in progress since when, for those who watch the file.

        A note waits for the disk: of quick runs only those are noted that hang.
        """
        latest = np.inf
        if not self._slow:
            if time.monotonic() < self._looked + _HANGING:
                return
            self._looked, latest = time.monotonic(), time.time() - _HANGING
        begun = self._pool.begun.items()
        new = {n: span for n, span in begun if n not in self._noted and span.started <= latest}
        tickets = {n: self._submitted[n] for n in new if n in self._submitted}
        if tickets:
            self._noted |= set(new)
            spans = {(t.task, t.id): replace(new[n], x=t.planned.x) for n, t in tickets.items()}
            self.record.note_begun(spans)

    def cancel(self) -> None:
        """Cancel the runs that have not started."""
        self._waiting.clear()
        self._pool.cancel()

    def take_untold(self) -> list[Run]:
        """Take search runs of an earlier process that no round has used."""
        untold = self.record.iterate(self._indexes[0].take_searches())
        return [self._again(run) for run in untold]

    def adopt(self, known: KnownRuns | None, step: int = 0) -> list[Run]:
        """Record imported runs for round `step`, and return those that no round has used."""
        function, imported = self.functions[0], []
        if known is not None:
            if (function.composite is None) != (known.outputs is None):
                has, wants = ("no ", "") if known.outputs is None else ("", "not ")
                raise ValueError(f"known has {has}outputs, but the risk is {wants}a Composite")
            if known.outputs is not None:
                function.note_failed_width(known.outputs.shape[1])
            imported = known.to_runs(self._parameters, self._simulators[0].needed)
            imported = self._refused_here(imported)
        adopted = self._indexes[0].adopt(imported)
        adopted = [
            run.as_planned(Planned(run.x, Role.KNOWN, step, level=run.level)) for run in adopted
        ]
        runs = [self._evaluated(run) for run in adopted]
        if known is not None:
            known.check_risks(runs)
        self.record.add(runs)
        return self.settle(runs)

    def _refused_here(self, runs: Sequence[Run]) -> list[Run]:
        """Return imported runs as the present constraints have them.

        A point that was refused elsewhere and is not refused here has never been simulated.
        """
        kept = []
        for run in runs:
            refusal = self._simulators[0].refusal(self._in_units(run.x[None])[0])
            if refusal is not None:
                empty = replace(run, risk=np.nan, outputs=None)
                kept.append(replace(empty, status=Status.REFUSED, message=refusal.message))
            elif run.status is not Status.REFUSED:
                kept.append(run)
        return kept

    def settle(self, runs: Sequence[Run], task: int = 0) -> list[Run]:
        """Mark runs as failed whose number of outputs differs from the first successful run's."""
        settled = self.functions[task].reject_other_widths(runs)
        odd = [new for new, old in zip(settled, runs, strict=True) if new is not old]
        self._file(odd)
        for run in filter(self._ends, odd):
            raise self._failure(run, _AS_MANY)
        return settled

    def _again(self, run: Run) -> Run:
        """Return an earlier run, with its loss computed again if it had no value."""
        evaluated = self._evaluated(run)
        if evaluated is not run:
            self._file([evaluated])
        if self._ends(evaluated):
            raise self._failure(evaluated, _FINITE)
        return evaluated

    def _in_units(self, x: FloatArray) -> FloatArray:
        return x if self._parameters is None else self._parameters.from_latent(x)

    def _keep(self, ended: Sequence[tuple[_Ticket, Answer]]) -> list[Run]:
        """Record runs, then show them, then raise if one is an error."""
        raw = [self._run(ticket, answer) for ticket, answer in ended]
        spans = {(t.task, t.id): answer.span for t, answer in ended if answer.span is not None}
        try:
            runs = [self._evaluated(run) for run in raw]
        except EvaluationError:
            self._file(raw, spans)
            raise
        self._worked |= {run.task for run in runs if run.ok}
        unloaded = [a.unloaded and ticket.task not in self._worked for ticket, a in ended]
        self._file([run for run, lost in zip(runs, unloaded, strict=True) if not lost], spans)
        self._watch(runs)
        for run, (_, answer), lost in zip(runs, ended, unloaded, strict=True):
            if lost:
                raise self._error(f"{answer.message}; no run can be made", run.task)
            if answer.wrong_jacobian and run.purpose == "search":
                raise self._error(f"{answer.wrong_jacobian}, at {self._place(run.x)}", run.task)
            if self._ends(run):
                formless = answer.status is Status.INVALID and answer.values is None
                raise self._failure(run, "" if formless else _FINITE) from answer.error
        return runs

    def _run(self, ticket: _Ticket, answer: Answer) -> Run:
        """Convert an answer to a run, without the risk of its outputs."""
        good, risk, outputs = answer.status is Status.OK, np.nan, None
        function = self.functions[ticket.task]
        if function.composite is not None and answer.values is not None:
            if good:
                outputs = answer.values
            elif not ticket.planned.level:
                function.note_failed_width(len(answer.values))
        elif good:
            risk = float(np.asarray(answer.values))
        if ticket.purpose == "check":  # the user wants to see the line of the error
            answer = answer.without_error()
        learns = function.composite is not None and ticket.purpose == "search"
        made = Run(
            ticket.id,
            frozen(ticket.planned.x),
            answer.status,
            risk,
            outputs,
            seconds=answer.seconds,
            message=answer.message[:_MESSAGE],
            attempts=answer.attempts,
            purpose=ticket.purpose,
            task=ticket.task,
            jacobian=answer.jacobian if learns else None,
        )
        return made.as_planned(ticket.planned)

    def _evaluated(self, run: Run) -> Run:
        if run.outputs is None or (run.ok and np.isfinite(run.risk)):
            return run
        try:
            return self.functions[run.task].evaluate(run)
        except LossError as error:
            raise self._error(str(error), run.task) from error

    def _file(self, runs: Sequence[Run], spans: Spans = MappingProxyType({})) -> None:
        # Not recorded, so that a resume repeats it: a failure that raises and has no outputs.
        kept = [run for run in runs if run.outputs is not None or not self._ends(run)]
        ids = {(run.task, run.id) for run in kept}
        self.record.add(kept, {key: span for key, span in spans.items() if key in ids})

    def _ends(self, run: Run) -> bool:
        """Return True if a failure raises: not if the loss has a value for invalid outputs."""
        if not self._raising or run.ok or run.source or run.level:
            return False
        valued = run.status is Status.INVALID and run.outputs is None
        return not (valued and np.isfinite(self.functions[run.task].failure_loss))

    def _error(self, message: str, task: int = 0) -> EvaluationError:
        error = EvaluationError(message)
        error.record = self.record
        if len(self.functions) > 1:
            error.add_note(f"in task {task}")
        return error

    def _failure(self, run: Run, advice: str) -> EvaluationError:
        """Return the error of a failed run; `advice` on invalid values, "" if they have no form."""
        simulator = self._simulators[run.task]
        hint = _ONE if simulator.vectorized else _ALL_AT_ONCE.format(name=simulator.name)
        called = simulator.name + ", called with vectorized=True," * simulator.vectorized
        if run.status is Status.INVALID and not advice:
            return self._error(f"{run.message}; {hint}", run.task)
        if run.status is not Status.INVALID:
            # Only what an array of another shape may raise.
            shape = run.status is Status.RAISED and run.message.split(":")[0] in _SHAPE_ERRORS
            shape = shape and not run.message.startswith(_OWN)
            advice = f"{hint}; {_GO_ON}" if shape else _GO_ON
        complaint, place = _COMPLAINTS[run.status], self._place(run.x)
        words = complaint.format(called=called, message=run.message, place=place)
        return self._error(f"{words}; {advice}", run.task)

    def _place(self, x: FloatArray) -> str:
        if self._parameters is None:
            return f"x = {x}"
        values = self._parameters.from_latent(x[None])[0]
        parts = zip(self._parameters.names, values, self._parameters.units, strict=True)
        return joined([f"{name} = {value:.6g} {unit}".strip() for name, value, unit in parts])


def _purpose_of(planned: Planned, purpose: Purpose) -> Purpose:
    """Return the purpose of a planned run: one of its own for those of a coarse model."""
    return "coarse" if planned.level else purpose


def simulator_of_risk(risk: Risk, vectorized: bool, parameters: Parameters | None) -> Simulator:
    """Return the simulator of a risk, with the parameters' names if it has a method `named`."""
    composite = as_composite(risk)
    function = risk if composite is None else composite.simulate
    if parameters is not None and hasattr(function, "named"):
        function = function.named(parameters.names)
        if parameters.fields and hasattr(function, "with_fields"):
            points = {name: each.names(name) for name, each in parameters.fields.items()}
            function = function.with_fields({name: each.tolist() for name, each in points.items()})
    if composite is None:
        return Simulator(function, "risk", 0, vectorized)
    jacobian = composite.jacobian if callable(composite.jacobian) else None
    needed = getattr(composite.data, "needed", None)
    if needed is not None and composite.observation:
        needed = np.append(needed, np.ones(composite.observation, dtype=bool))
    flat = getattr(composite.data, "flat", None)
    own = composite.observation
    return Simulator(function, "simulate", 1, vectorized, needed, flat, jacobian, own)
