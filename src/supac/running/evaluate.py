"""The one owner of all runs: makes them, records each as it ends, and loses none."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from supac.arrays import FloatArray, frozen
from supac.exchange import KnownRuns
from supac.problem.composite import Composite
from supac.problem.parameters import Parameters
from supac.record.run import Purpose, Run, Status
from supac.running import Answer, Request, Simulator, WorkerPool
from supac.running.interrupt import Interrupt, Interrupted
from supac.running.judge import Judge, LossError
from supac.running.ledger import Ledger

Risk = Callable[[FloatArray], Any]

_GO_ON = 'pass on_failure="penalise" or on_failure="drop" to go on in spite of such runs'
_ALL_AT_ONCE = "pass vectorized=True if {name} takes an (n, dim) array and answers for all points"
_ONE = "leave out vectorized=True if it takes one point"
_SHAPE_ERRORS = ("TypeError", "ValueError", "IndexError", "AttributeError", "AxisError")
_PATIENCE = 0.2  # seconds between looks at whether a stop was asked for


class EvaluationError(RuntimeError):
    """The risk failed, or answered something that is not a risk."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What became of a batch."""

    risk: FloatArray
    """(n,), NaN for a failed run, unless its loss has a value for failures."""
    outputs: FloatArray | None
    """(n, m) where the risk is a `Composite`, NaN for a failed run."""
    seconds: FloatArray
    failures: tuple[Run, ...]
    ids: tuple[int, ...]


def simulator_of(
    risk: Risk, *, vectorized: bool, parameters: Parameters | None = None
) -> Simulator:
    """The part of a risk that takes time, told the parameters' names where it asks for them."""
    composite = isinstance(risk, Composite)
    function = risk.simulate if isinstance(risk, Composite) else risk
    if parameters is not None and hasattr(function, "named"):
        function = function.named(parameters.names)
    return Simulator(function, "simulate" if composite else "risk", int(composite), vectorized)


class Evaluator:
    """Makes the runs of one `minimize`, wherever they are made.

    Where `raising`, the first failure ends the run with an error; otherwise a failure is recorded
    like any other end of a run. Points are latent here and in the user's units in the simulator.
    """

    def __init__(
        self,
        risk: Risk,
        simulator: Simulator,
        *,
        parameters: Parameters | None = None,
        raising: bool = True,
        ceiling: float | None = None,
        flight: WorkerPool | None = None,
        ledger: Ledger | None = None,
        interrupt: Interrupt | None = None,
        watch: Callable[[Sequence[Run]], None] = lambda runs: None,
    ):
        self.ledger = ledger or Ledger()
        self.judge = Judge(risk, self.ledger.width, ceiling)
        self._simulator, self._parameters, self._raising = simulator, parameters, raising
        self.flight, self._interrupt, self._watch = flight, interrupt or Interrupt(), watch
        self._flying: dict[int, FloatArray] = {}
        self._worked = self.ledger.any_good

    def batch(self, x: FloatArray, purpose: Purpose = "search") -> Outcome:
        """The risks of all rows of x (n, dim); Interrupted where a stop was asked for."""
        if self._interrupt.requested:
            raise Interrupted
        units = self._in_units(x)
        runs: dict[int, Run] = {}
        for row, point in enumerate(x):
            known = self.ledger.find(point)
            if known is not None:
                runs[row] = self.again(known)
        ids = {row: self.ledger.number(row) for row in range(len(x)) if row not in runs}
        self.ledger.advance(len(x))
        rows = {number: row for row, number in ids.items()}
        for landed in self._answers(ids, units):
            points = {number: x[rows[number]] for number, _ in landed}
            runs |= {rows[run.id]: run for run in self._keep(landed, points, purpose)}
        return self.outcome([runs[row] for row in range(len(x))])

    def launch(self, x: FloatArray) -> int:
        """Start a run at x (dim,) without waiting for it: its id."""
        assert self.flight is not None
        number = self.ledger.number()
        self.ledger.advance(1)
        self._flying[number] = x
        self.flight.submit(Request(number, self._in_units(x[None])[0]))
        return number

    def land(self, patience: float = _PATIENCE) -> list[Run]:
        """Runs that have ended since, recorded; after a short while none."""
        assert self.flight is not None
        landed = [(answer.id, answer) for answer in self.flight.collect(patience)]
        points = {number: self._flying.pop(number) for number, _ in landed}
        return self._keep(landed, points, "search")

    def adopt(self, known: KnownRuns | None) -> list[Run]:
        """Runs that were made elsewhere and are not yet learnt from, recorded with their source."""
        if known is not None and self.judge.composite != (known.outputs is not None):
            has, wants = ("no ", "") if known.outputs is None else ("", "not ")
            raise ValueError(f"known has {has}outputs, but the risk is {wants}a Composite")
        if known is not None and known.outputs is not None:
            self.judge.saw_nan(known.outputs.shape[1])
        runs = [self._judged(run) for run in self.ledger.adopt(known, self._parameters)]
        if known is not None:
            known.check_risks(runs)
        self.ledger.record(runs)
        return runs

    def outcome(self, runs: Sequence[Run]) -> Outcome:
        """Runs as columns; those of another number of outputs than the first have failed."""
        settled = self.judge.settle(runs)
        odd = [new for new, old in zip(settled, runs, strict=True) if new is not old]
        self._file(odd)
        for run in filter(self._ends, odd):
            raise EvaluationError(self._complaint(run))
        risk, outputs = self.judge.columns(settled)
        return Outcome(
            risk,
            outputs,
            np.array([run.seconds for run in settled]),
            tuple(run for run in settled if run.status is not Status.OK),
            tuple(run.id for run in settled),
        )

    def _in_units(self, x: FloatArray) -> FloatArray:
        return x if self._parameters is None else self._parameters.from_latent(x)

    def _answers(
        self, ids: dict[int, int], units: FloatArray
    ) -> Iterator[list[tuple[int, Answer]]]:
        """Answers with the ids of their runs, as they come; `ids` by row."""
        if self.flight is not None:
            yield from self._from_flight(self.flight, ids, units)
            return
        self._set_up()
        if self._simulator.vectorized and ids:
            answers = self._simulator.all_at_once(units[list(ids)], again=not self._raising)
            yield list(zip(ids.values(), answers, strict=True))
            return
        for row, number in ids.items():
            if self._interrupt.requested:
                raise Interrupted
            yield [(number, self._simulator.answer(units[row]))]

    def _set_up(self) -> None:
        try:
            self._simulator.set_up()
        except Exception as error:
            message = Answer.not_loaded(error).message
            raise EvaluationError(f"{message}; no run can be made") from error

    def _from_flight(
        self, flight: WorkerPool, ids: dict[int, int], units: FloatArray
    ) -> Iterator[list[tuple[int, Answer]]]:
        """Not many more than the workers at a time: what waits here can be left undone."""
        waiting = deque(ids.items())
        while waiting or len(flight):
            if self._interrupt.requested:
                flight.cancel()
                if not len(flight):
                    raise Interrupted
                waiting.clear()
            while waiting and len(flight) < 2 * flight.capacity:
                row, number = waiting.popleft()
                flight.submit(Request(number, units[row]))
            landed = [(answer.id, answer) for answer in flight.collect(_PATIENCE)]
            if landed:
                yield landed
        if self._interrupt.requested:
            raise Interrupted

    def _keep(
        self,
        landed: Sequence[tuple[int, Answer]],
        points: dict[int, FloatArray],
        purpose: Purpose,
    ) -> list[Run]:
        """On the disk first, then everything else."""
        raw = [self._run(number, points[number], answer, purpose) for number, answer in landed]
        try:
            runs = [self.judge.risk(run) for run in raw]
        except LossError as error:
            self._file(raw)
            raise EvaluationError(str(error)) from error
        self._file(runs)
        self._watch(runs)
        for run, (_, answer) in zip(runs, landed, strict=True):
            if answer.unloaded and not self._worked:
                raise EvaluationError(f"{answer.message}; no run can be made")
            if self._ends(run):
                raise EvaluationError(self._complaint(run)) from answer.error
            self._worked = self._worked or run.status is Status.OK
        return runs

    def _run(self, number: int, x: FloatArray, answer: Answer, purpose: Purpose) -> Run:
        """What is recorded of an answer, before its outputs are judged."""
        good, risk, outputs = answer.status is Status.OK, np.nan, None
        if self.judge.composite and answer.values is not None:
            if good:
                outputs = answer.values
            else:
                self.judge.saw_nan(len(answer.values))
        elif good:
            risk = float(np.asarray(answer.values))
        return Run(
            number, frozen(np.array(x)), answer.status, risk, outputs, answer.seconds,
            answer.message, answer.attempts, purpose=purpose,
        )  # fmt: skip

    def again(self, run: Run) -> Run:
        """A run of before, judged anew where its loss had no value then."""
        judged = self._judged(run)
        if judged is not run:
            self._file([judged])
        if self._ends(judged):
            raise EvaluationError(self._complaint(judged))
        return judged

    def _judged(self, run: Run) -> Run:
        if run.outputs is None or (run.status is Status.OK and np.isfinite(run.risk)):
            return run
        try:
            return self.judge.risk(run)
        except LossError as error:
            raise EvaluationError(str(error)) from error

    def _file(self, runs: Sequence[Run]) -> None:
        # A failure that ends the run is made again by a resume, unless its outputs are known.
        self.ledger.record([r for r in runs if r.outputs is not None or not self._ends(r)])

    def _ends(self, run: Run) -> bool:
        """Whether a failure is an error: not where the loss says what bad outputs cost."""
        if not self._raising or run.status is Status.OK or run.source:
            return False
        valued = run.status is Status.INVALID and run.outputs is None
        return not (valued and np.isfinite(self.judge.failure_loss))

    def _complaint(self, run: Run) -> str:
        name, vectorized = self._simulator.name, self._simulator.vectorized
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
