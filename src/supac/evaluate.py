"""The one owner of all runs: makes them, records each as it ends, and loses none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from supac.arrays import FloatArray, frozen
from supac.composite import Composite
from supac.exchange import KnownRuns
from supac.execution import Answer, Flight, Simulator
from supac.execution.answer import as_floats
from supac.interrupt import Interrupt, Interrupted
from supac.parameters import Parameters
from supac.runs import Run, Status
from supac.store import Store, columns

Risk = Callable[[FloatArray], Any]

_GO_ON = 'pass on_failure="penalise" or on_failure="drop" to go on without such runs'
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


def simulator_of(risk: Risk, *, vectorized: bool) -> Simulator:
    """The part of a risk that takes time."""
    if isinstance(risk, Composite):
        return Simulator(risk.simulate, "simulate", 1, vectorized)
    return Simulator(risk, "risk", 0, vectorized)


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
        flight: Flight | None = None,
        store: Store | None = None,
        interrupt: Interrupt | None = None,
        watch: Callable[[Sequence[Run]], None] = lambda runs: None,
    ):
        self._loss = risk.loss if isinstance(risk, Composite) else None
        self._simulator, self.parameters, self._raising = simulator, parameters, raising
        self.flight, self._store = flight, store
        self._interrupt, self._watch = interrupt or Interrupt(), watch
        kept = {} if store is None else store.runs
        self.width = next((len(r.outputs) for r in kept.values() if r.outputs is not None), None)
        told = {run for each in (() if store is None else store.rounds) for run in each.ids}
        self.waiting = {
            run.x.tobytes(): run for run in kept.values() if run.id not in told and not run.source
        }
        """Runs that were made before, but not learnt from: not made again."""
        self._adopted = [run for run in kept.values() if run.id not in told and run.source]
        self._imported = {(run.source, run.x.tobytes()) for run in kept.values() if run.source}
        self._used = set(kept)
        self._next = len(told)
        self._flying: dict[int, FloatArray] = {}
        self._broken_loss = ""
        self._worked = any(run.status is Status.OK for run in kept.values())
        self._cause: BaseException | None = None

    def batch(self, x: FloatArray) -> Outcome:
        """The risks of all rows of x (n, dim); Interrupted where a stop was asked for."""
        units = self._in_units(x)
        if self.flight is None and self._simulator.vectorized and self._store is None:
            return self._at_once(x, units)
        runs: dict[int, Run] = {}
        todo = []
        for row, point in enumerate(x):
            known = self.waiting.pop(point.tobytes(), None)
            if known is None:
                todo.append(row)
            else:
                runs[row] = self._again(known)
        ids = {row: self._number(row) for row in todo}
        self._next += len(x)
        rows = {number: row for row, number in ids.items()}
        for answers in self._answers(ids, units):
            new = [self._run(number, x[rows[number]], answer) for number, answer in answers]
            self._keep(new)
            runs |= {rows[run.id]: run for run in new}
        return self._outcome([runs[row] for row in range(len(x))])

    def adopt(self, known: KnownRuns | None) -> list[Run]:
        """Runs that were made elsewhere and are not yet learnt from, recorded with their source."""
        before, self._adopted = self._adopted, []
        if known is None:
            return before
        if (self._loss is None) != (known.outputs is None):
            raise ValueError(
                f"{known.source} holds {'no ' if known.outputs is None else ''}outputs, but the "
                f"risk is {'not ' if self._loss is None else ''}a Composite"
            )
        runs = []
        for row, point in enumerate(known.latent(self.parameters)):
            if (known.source, point.tobytes()) in self._imported:
                continue
            values = known.risk[row] if known.outputs is None else known.outputs[row]
            answer = self._simulator.judge(np.asarray(values), values, float(known.seconds[row]))
            runs.append(replace(self._run(self._number(0), point, answer), source=known.source))
            self._next += 1
        self._record(runs)
        return before + runs

    def launch(self, x: FloatArray) -> list[int]:
        """Start runs without waiting for them: their ids."""
        assert self.flight is not None
        numbers = []
        for point, unit in zip(x, self._in_units(x), strict=True):
            numbers.append(self._number(0))
            self._next += 1
            self._flying[numbers[-1]] = point
            self.flight.launch(numbers[-1], unit)
        return numbers

    def land(self) -> list[Run]:
        """Runs that have ended since, recorded; after a short while none."""
        assert self.flight is not None
        landed = self.flight.land(_PATIENCE)
        runs = [self._run(number, self._flying.pop(number), answer) for number, answer in landed]
        self._keep(runs)
        return runs

    def outcome(self, runs: Sequence[Run]) -> Outcome:
        """Runs as columns."""
        return self._outcome(list(runs))

    @property
    def failure_loss(self) -> float:
        """What the loss makes of a failed run: NaN where it has no value for them."""
        if self._loss is None or self.width is None:
            return np.nan
        try:
            value = float(np.asarray(self._loss(np.full((1, self.width), np.nan)))[0])
        except Exception:
            return np.nan
        return value if np.isfinite(value) else np.nan

    def _in_units(self, x: FloatArray) -> FloatArray:
        units = x.view() if self.parameters is None else self.parameters.from_latent(x)
        units.flags.writeable = False
        return units

    def _number(self, ahead: int) -> int:
        """The id of the run that is asked for after so many others."""
        number = self._next + ahead
        if number in self._used:  # by a run of the same file under another budget
            number = max(self._used) + 1
        self._used.add(number)
        return number

    def _answers(
        self, ids: dict[int, int], units: FloatArray
    ) -> Iterator[list[tuple[int, Answer]]]:
        """Answers with the ids of their runs, as they come; `ids` by row."""
        if self.flight is not None:
            yield from self._from_flight(self.flight, ids, units)
        elif self._simulator.vectorized and ids:
            answers = self._simulator.all_at_once(units[list(ids)], again=not self._raising)
            yield list(zip(ids.values(), answers, strict=True))
        else:
            self._set_up()
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
        self, flight: Flight, ids: dict[int, int], units: FloatArray
    ) -> Iterator[list[tuple[int, Answer]]]:
        for row, number in ids.items():
            flight.launch(number, units[row])
        stopping = False
        while len(flight):
            if self._interrupt.requested and not stopping:
                flight.recall()
                stopping = True
            landed = flight.land(_PATIENCE)
            if landed:
                yield landed
        if stopping:
            raise Interrupted

    def _run(self, number: int, x: FloatArray, answer: Answer) -> Run:
        """What is recorded of an answer."""
        run = Run(
            number,
            frozen(np.array(x)),
            answer.status,
            np.nan,
            seconds=answer.seconds,
            message=answer.message,
            attempts=answer.attempts,
        )
        if answer.unloaded and not self._worked:
            raise EvaluationError(f"{answer.message}; no run can be made")
        self._cause = self._cause or answer.error
        if answer.values is None or self._loss is None:
            failed = answer.status is not Status.OK
            return run if failed else replace(run, risk=float(np.asarray(answer.values)))
        if answer.status is not Status.OK:
            self.width = self.width or len(answer.values)
            return run
        return self._judged(replace(run, outputs=answer.values))

    def _again(self, run: Run) -> Run:
        """A run of before, judged anew where its loss could not be computed then."""
        if run.status is Status.INVALID and run.outputs is not None:
            return self._judged(replace(run, status=Status.OK, message=""))
        return run

    def _judged(self, run: Run) -> Run:
        """A run of a composite with its risk."""
        assert self._loss is not None
        assert run.outputs is not None
        count = len(run.outputs)
        self.width = self.width or count
        if count != self.width:
            message = f"simulate returned {count} outputs, but {self.width} before"
            return replace(run, status=Status.INVALID, message=message, outputs=None)
        try:
            # Twice the same row: a loss that can take but one is met before it is needed.
            risk = as_floats(self._loss(np.stack([run.outputs, run.outputs])))
            trouble = "returned no numbers" if risk is None else f"returned shape {risk.shape}"
        except Exception as error:
            risk, trouble, self._cause = None, f"raised {type(error).__name__}: {error}", error
        if risk is None or risk.shape != (2,):
            message = (
                f"loss must take outputs (n, m) and return n risks; for (2, {count}) it {trouble}"
            )
            self._broken_loss = message
            return replace(run, status=Status.INVALID, message=message)
        if not np.isfinite(risk[0]):
            return replace(run, status=Status.INVALID, message=f"loss returned {risk[0]}")
        return replace(run, risk=float(risk[0]))

    def _record(self, runs: list[Run]) -> None:
        if self._store is not None:
            self._store.keep(runs)

    def _keep(self, runs: list[Run]) -> None:
        """On the disk first, then everything else."""
        failures = [run for run in runs if run.status is not Status.OK]
        self._worked = self._worked or len(failures) < len(runs)
        if self._store is not None:
            # A failure that ends the run is made again by a resume, unless its outputs are known.
            self._store.keep(
                run
                for run in runs
                if run.status is Status.OK or run.outputs is not None or not self._ends(run)
            )
        self._watch(runs)
        if self._broken_loss:  # no fault of the simulator: going on would waste its runs
            raise EvaluationError(self._broken_loss) from self._cause
        ending = [run for run in failures if self._ends(run)]
        if ending:
            raise EvaluationError(self._complaint(ending[0])) from self._cause

    def _ends(self, run: Run) -> bool:
        """Whether a failure is an error: not where the loss says what bad outputs cost."""
        valued = run.status is Status.INVALID and np.isfinite(self.failure_loss)
        return self._raising and not (valued and run.outputs is None)

    def _complaint(self, run: Run) -> str:
        name, vectorized = self._simulator.name, self._simulator.vectorized
        hint = _ONE if vectorized else _ALL_AT_ONCE.format(name=name)
        place = f"at {self._place(run.x)}"
        if run.status is Status.RAISED:
            called = f"{name}, called with vectorized=True," if vectorized else name
            # Only what an array of another shape may raise, and only where nothing has worked yet.
            shape = not self._worked and run.message.split(":")[0] in _SHAPE_ERRORS
            advice = f"{hint}; {_GO_ON}" if shape else _GO_ON
            return f"{called} raised {run.message} {place}; {advice}"
        if run.status is Status.TIMED_OUT:
            return f"a run took {run.message} and was killed {place}; {_GO_ON}"
        if run.status is Status.CRASHED:
            return f"a run crashed {place}: {run.message}; {_GO_ON}"
        if "returned" in run.message:
            return f"{run.message} {place}; make it finite, or {_GO_ON}"
        return f"{run.message}; {hint}"

    def _place(self, x: FloatArray) -> str:
        if self.parameters is None:
            return f"x = {x}"
        values = self.parameters.from_latent(x[None])[0]
        parts = zip(self.parameters.names, values, self.parameters.units, strict=True)
        return ", ".join(f"{name} = {value:.6g} {unit}".strip() for name, value, unit in parts)

    def _outcome(self, runs: list[Run]) -> Outcome:
        risk, outputs = columns(runs, self.width, self.failure_loss)
        return Outcome(
            risk,
            outputs,
            np.array([run.seconds for run in runs]),
            tuple(run for run in runs if run.status is not Status.OK),
            tuple(run.id for run in runs),
        )

    def _at_once(self, x: FloatArray, units: FloatArray) -> Outcome:
        """A vectorised risk in this process, of which nothing is recorded one by one."""
        answers = self._simulator.all_at_once(units, again=not self._raising)
        if self._loss is None and all(answer.status is Status.OK for answer in answers):
            first, self._next = self._next, self._next + len(x)
            return Outcome(
                np.array([answer.values for answer in answers]),
                None,
                np.array([answer.seconds for answer in answers]),
                (),
                tuple(range(first, self._next)),
            )
        numbers = [self._number(row) for row in range(len(x))]
        self._next += len(x)
        runs = [self._run(*each) for each in zip(numbers, x, answers, strict=True)]
        self._keep(runs)
        return self._outcome(runs)
