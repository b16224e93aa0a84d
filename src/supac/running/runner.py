"""The scheduler of all runs: batches, single runs and many tasks, for any purpose."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from supac.arrays import FloatArray, frozen
from supac.exchange import KnownRuns
from supac.problem import Composite, Parameters
from supac.record.index import RunIndex
from supac.record.record import Record
from supac.record.risk_function import LossError, RiskFunction
from supac.record.run import Purpose, Run, Status
from supac.running.execution import Execution
from supac.running.executors import open_pool
from supac.running.simulator import Answer, Request, Simulator
from supac.running.terminal import Interrupt, Interrupted

Risk = Callable[[FloatArray], Any]

_GO_ON = 'pass Execution(on_failure="penalise") or "drop" to continue despite such runs'
_ALL_AT_ONCE = (
    "pass Execution(vectorized=True) if {name} takes an (n, dim) array and answers for all points"
)
_ONE = "leave out vectorized=True if it takes one point"
_SHAPE_ERRORS = ("TypeError", "ValueError", "IndexError", "AttributeError", "AxisError")
_PATIENCE = 0.2  # seconds between checks for a requested stop
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
    x: FloatArray
    purpose: Purpose


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
        many = vectorized or [execution.vectorized] * len(risks)
        self._simulators = [_simulator(*each, parameters) for each in zip(risks, many, strict=True)]
        self._raising, self._parameters = execution.on_failure == "raise", parameters
        self._record, self._watch, self._interrupt = record, watch, interrupt or Interrupt()
        self.functions = [RiskFunction(r, ceiling=c) for r, c in zip(risks, ceilings, strict=True)]
        self._indexes = [RunIndex(record, task) for task in range(len(risks))]
        for task, function in enumerate(self.functions):
            function.width = record.told_width(task)
            function.note_failed_width(record.any_width(task))
        self._worked: set[int] = set()  # tasks with a successful run in this process
        self._tickets: dict[int, _Ticket] = {}
        self._next_ticket = 0
        self.pool = open_pool(  # last: nothing that fails above may leave workers behind
            execution.workers,
            self._simulators,
            timeout=execution.timeout,
            retries=execution.retries,
            one_by_one=not self._raising,
        )

    def close(self) -> None:
        """Kill the runs in progress."""
        self.pool.close()

    def look(self) -> None:
        """Raise Interrupted if a stop was requested."""
        if self._interrupt.requested:
            raise Interrupted

    def run(self, x: FloatArray, purpose: Purpose = "search", task: int = 0) -> list[Run]:
        """Make runs at all rows of x (n, dim); return them in the same order."""
        return self.run_tasks({task: x}, purpose)[task]

    def run_tasks(
        self, asked: Mapping[int, FloatArray], purpose: Purpose = "search"
    ) -> dict[int, list[Run]]:
        """Make the runs of several tasks, (n, dim) each, on the same workers.

        Runs of an earlier process are not repeated. Few more runs than workers are submitted at a
        time; the others are not started after a requested stop (Interrupted).
        """
        self.look()
        rows: dict[tuple[int, int], int] = {}
        waiting: deque[_Ticket] = deque()
        found: dict[tuple[int, int], Run] = {}
        for task, x in asked.items():
            index = self._indexes[task]
            for row, point in enumerate(x):
                known = index.find(point, purpose)
                if known is not None:
                    found[task, row] = known
                    continue
                ticket = _Ticket(task, index.reserve(row), point, purpose)
                rows[task, ticket.id] = row
                waiting.append(ticket)
            index.advance(len(x))
        whole = zip(found, self._record.iterate(found.values()), strict=True)
        runs = {place: self.again(run) for place, run in whole}
        while waiting or len(self.pool):
            if self._interrupt.requested:
                waiting.clear()
                self.cancel()
                if not len(self.pool):
                    raise Interrupted
            while waiting and len(self.pool) < self.pool.backlog:
                self._submit(waiting.popleft())
            for run in self.collect():
                runs[run.task, rows[run.task, run.id]] = run
        self.look()
        return {
            task: self.settle([runs[task, row] for row in range(len(x))], task)
            for task, x in asked.items()
        }

    def submit(self, x: FloatArray) -> int:
        """Start a run of a search at x (dim,) without waiting for it; return its id."""
        index = self._indexes[0]
        number = index.reserve()
        index.advance(1)
        self._submit(_Ticket(0, number, x, "search"))
        return number

    def _submit(self, ticket: _Ticket) -> None:
        self._tickets[self._next_ticket] = ticket
        units = self._in_units(ticket.x[None])[0]
        self.pool.submit(Request(self._next_ticket, units, ticket.task))
        self._next_ticket += 1

    def collect(self, timeout: float = _PATIENCE) -> list[Run]:
        """Record and return completed runs; return none after `timeout` seconds."""
        answers = self.pool.collect(timeout)
        return self._keep([(self._tickets.pop(answer.id), answer) for answer in answers])

    def cancel(self) -> None:
        """Cancel the runs that have not started."""
        self.pool.cancel()

    def take_untold(self) -> list[Run]:
        """Take search runs of an earlier process that no round has used."""
        untold = self._record.iterate(self._indexes[0].take_searches())
        return [self.again(run) for run in untold]

    def adopt(self, known: KnownRuns | None) -> list[Run]:
        """Record imported runs, and return those that no round has used."""
        function, imported = self.functions[0], []
        if known is not None:
            if (function.composite is None) != (known.outputs is None):
                has, wants = ("no ", "") if known.outputs is None else ("", "not ")
                raise ValueError(f"known has {has}outputs, but the risk is {wants}a Composite")
            if known.outputs is not None:
                function.note_failed_width(known.outputs.shape[1])
            imported = known.to_runs(self._parameters, self._simulators[0].needed)
        runs = [self._evaluated(run) for run in self._indexes[0].adopt(imported)]
        if known is not None:
            known.check_risks(runs)
        self._record.add(runs)
        return self.settle(runs)

    def settle(self, runs: Sequence[Run], task: int = 0) -> list[Run]:
        """Mark runs as failed whose number of outputs differs from the first successful run's."""
        settled = self.functions[task].reject_other_widths(runs)
        odd = [new for new, old in zip(settled, runs, strict=True) if new is not old]
        self._file(odd)
        for run in filter(self._ends, odd):
            raise self._error(self._complaint(run))
        return settled

    def again(self, run: Run) -> Run:
        """Return an earlier run, with its loss computed again if it had no value."""
        evaluated = self._evaluated(run)
        if evaluated is not run:
            self._file([evaluated])
        if self._ends(evaluated):
            raise self._error(self._complaint(evaluated))
        return evaluated

    def _in_units(self, x: FloatArray) -> FloatArray:
        return x if self._parameters is None else self._parameters.from_latent(x)

    def _keep(self, ended: Sequence[tuple[_Ticket, Answer]]) -> list[Run]:
        """Record runs, then show them, then raise if one is an error."""
        raw = [self._run(ticket, answer) for ticket, answer in ended]
        try:
            runs = [self.functions[run.task].evaluate(run) for run in raw]
        except LossError as error:
            self._file(raw)
            raise self._error(str(error)) from error
        self._worked |= {run.task for run in runs if run.ok}
        unloaded = [a.unloaded and ticket.task not in self._worked for ticket, a in ended]
        self._file([run for run, lost in zip(runs, unloaded, strict=True) if not lost])
        self._watch(runs)
        for run, (_, answer), lost in zip(runs, ended, unloaded, strict=True):
            if lost:
                raise self._error(f"{answer.message}; no run can be made", run.task)
            if self._ends(run):
                raise self._error(self._complaint(run), run.task) from answer.error
        return runs

    def _run(self, ticket: _Ticket, answer: Answer) -> Run:
        """Convert an answer to a run, without the risk of its outputs."""
        good, risk, outputs = answer.status is Status.OK, np.nan, None
        function = self.functions[ticket.task]
        if function.composite is not None and answer.values is not None:
            if good:
                outputs = answer.values
            else:
                function.note_failed_width(len(answer.values))
        elif good:
            risk = float(np.asarray(answer.values))
        if ticket.purpose == "check":  # the user wants to see the line of the error
            answer = answer.without_error()
        return Run(
            ticket.id, frozen(np.array(ticket.x)), answer.status, risk, outputs, answer.seconds,
            answer.message[:_MESSAGE], answer.attempts, purpose=ticket.purpose, task=ticket.task,
        )  # fmt: skip

    def _evaluated(self, run: Run) -> Run:
        if run.outputs is None or (run.ok and np.isfinite(run.risk)):
            return run
        try:
            return self.functions[run.task].evaluate(run)
        except LossError as error:
            raise self._error(str(error)) from error

    def _file(self, runs: Sequence[Run]) -> None:
        # Not recorded, so that a resume repeats it: a failure that raises and has no outputs.
        self._record.add([r for r in runs if r.outputs is not None or not self._ends(r)])

    def _ends(self, run: Run) -> bool:
        """Return True if a failure raises: not if the loss has a value for invalid outputs."""
        if not self._raising or run.ok or run.source:
            return False
        valued = run.status is Status.INVALID and run.outputs is None
        return not (valued and np.isfinite(self.functions[run.task].failure_loss))

    def _error(self, message: str, task: int = 0) -> EvaluationError:
        error = EvaluationError(message)
        error.record = self._record
        if len(self.functions) > 1:
            error.add_note(f"in task {task}")
        return error

    def _complaint(self, run: Run) -> str:
        simulator = self._simulators[run.task]
        name, vectorized = simulator.name, simulator.vectorized
        hint = _ONE if vectorized else _ALL_AT_ONCE.format(name=name)
        place = f"at {self._place(run.x)}"
        if run.status is Status.RAISED:
            called = f"{name}, called with vectorized=True," if vectorized else name
            # Only what an array of another shape may raise.
            shape = run.message.split(":")[0] in _SHAPE_ERRORS
            advice = f"{hint}; {_GO_ON}" if shape else _GO_ON
            return f"{called} raised {run.message} {place}; {advice}"
        if run.status is Status.TIMED_OUT:
            return f"a run took {run.message} and was killed {place}; {_GO_ON}"
        if run.status is Status.CRASHED:
            return f"a run crashed {place}: {run.message}; {_GO_ON}"
        if "outputs, but" in run.message:
            return f"{run.message} {place}; it must always return as many, or {_GO_ON}"
        if "returned" in run.message:
            return f"{run.message} {place}; make it finite, or {_GO_ON}"
        return f"{run.message}; {hint}"

    def _place(self, x: FloatArray) -> str:
        if self._parameters is None:
            return f"x = {x}"
        values = self._parameters.from_latent(x[None])[0]
        parts = zip(self._parameters.names, values, self._parameters.units, strict=True)
        return ", ".join(f"{name} = {value:.6g} {unit}".strip() for name, value, unit in parts)


def _simulator(risk: Risk, vectorized: bool, parameters: Parameters | None) -> Simulator:
    """Return the simulator of a risk, with the parameters' names if it has a method `named`."""
    composite = isinstance(risk, Composite)
    function = risk.simulate if isinstance(risk, Composite) else risk
    if parameters is not None and hasattr(function, "named"):
        function = function.named(parameters.names)
    name, needed = "simulate" if composite else "risk", getattr(risk, "data", None)
    needed = getattr(needed, "needed", None) if composite else None
    return Simulator(function, name, int(composite), vectorized, needed)
