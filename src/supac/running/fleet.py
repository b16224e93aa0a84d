"""The runs of many tasks, on the same workers."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from supac.arrays import FloatArray
from supac.problem.parameters import Parameters
from supac.record.run import Run
from supac.running import Answer, Request, WorkerPool, open_pool
from supac.running.evaluate import EvaluationError, Evaluator, Outcome, simulator_of
from supac.running.interrupt import Interrupt, Interrupted
from supac.running.ledger import Ledger, Shelf

_BREATH = 0.01  # seconds between looks at runs that have all still to end


@dataclass(frozen=True)
class Place:
    """Where runs are made, and how often and how long one is tried."""

    executor: Any = None
    timeout: float | None = None
    retries: int = 2


class _Lane(WorkerPool):
    """The runs of one task on the workers of all."""

    def __init__(
        self,
        pool: WorkerPool,
        task: int,
        asked: dict[int, tuple[int, int]],
        ended: dict[int, list[Answer]],
    ):
        self._pool, self._task, self._asked, self._answers = pool, task, asked, ended
        self.capacity = pool.capacity

    def __len__(self) -> int:
        if not len(self._pool):
            self._asked.clear()
        return sum(task == self._task for task, _ in self._asked.values()) + len(
            self._answers[self._task]
        )

    def submit(self, request: Request) -> None:
        """Number it anew, since tasks number their runs each for itself."""
        number = len(self._asked)
        while number in self._asked:
            number += 1
        self._asked[number] = self._task, request.id
        self._pool.submit(Request(number, request.x, self._task))

    def collect(self, timeout: float) -> list[Answer]:
        """Return the runs of this task, and leave the others to theirs."""
        for answer in self._pool.collect(timeout):
            task, run = self._asked.pop(answer.id)
            self._answers[task].append(replace(answer, id=run))
        answers, self._answers[self._task] = self._answers[self._task], []
        return answers

    def cancel(self) -> None:
        """Take back the runs of all tasks."""
        self._pool.cancel()

    def close(self) -> None:
        """Leave that to the pool."""


class Fleet:
    """One evaluator a task, and one executor for all of them.

    Runs are recorded as they end, in any order; what is returned is in the order of asking.
    """

    def __init__(
        self,
        risks: Sequence[tuple[Callable[[FloatArray], Any], bool]],
        place: Place,
        *,
        parameters: Parameters | None = None,
        raising: bool = True,
        ceilings: Sequence[float | None],
        shelves: Sequence[Shelf] | None = None,
        interrupt: Interrupt | None = None,
        watch: Callable[[Sequence[Run]], None] = lambda runs: None,
    ):
        """Risks come with whether they take many points at a time."""
        simulators = [simulator_of(risk, vectorized=many) for risk, many in risks]
        self._flight: WorkerPool | None = None
        if place.executor is not None or place.timeout is not None:
            self._flight = open_pool(
                place.executor, simulators, timeout=place.timeout, retries=place.retries
            )
        asked: dict[int, tuple[int, int]] = {}
        ended: dict[int, list[Answer]] = {i: [] for i in range(len(simulators))}
        self._interrupt = interrupt or Interrupt()
        self._evaluators = [
            Evaluator(
                risk,
                simulator,
                parameters=parameters,
                raising=raising,
                ceiling=ceilings[i],
                flight=None if self._flight is None else _Lane(self._flight, i, asked, ended),
                ledger=Ledger(None if shelves is None else shelves[i]),
                interrupt=self._interrupt,
                watch=watch,
            )
            for i, ((risk, _), simulator) in enumerate(zip(risks, simulators, strict=True))
        ]

    @property
    def failure_losses(self) -> list[float]:
        """What the loss of each task makes of a failed run."""
        return [each.judge.failure_loss for each in self._evaluators]

    def look(self) -> None:
        """Interrupted where a stop was asked for."""
        if self._interrupt.requested:
            raise Interrupted

    def batch(self, asked: Mapping[int, FloatArray]) -> dict[int, Outcome]:
        """All points that tasks ask for: (n, dim) each; Interrupted where a stop was asked for."""
        self.look()
        if self._flight is not None:
            return self._in_flight(self._flight, asked)
        outcomes = {}
        for i, x in asked.items():
            try:
                outcomes[i] = self._evaluators[i].batch(x)
            except EvaluationError as error:
                error.add_note(f"in task {i}")
                raise
        return outcomes

    def _in_flight(self, flight: WorkerPool, asked: Mapping[int, FloatArray]) -> dict[int, Outcome]:
        runs: dict[int, dict[int, Run]] = {i: {} for i in asked}
        rows: dict[tuple[int, int], int] = {}
        waiting: deque[tuple[int, int]] = deque()
        for i, x in asked.items():
            for row, point in enumerate(x):
                known = self._evaluators[i].ledger.find(point)
                if known is None:
                    waiting.append((i, row))
                else:
                    runs[i][row] = self._evaluators[i].again(known)
        flying = 0
        while waiting or flying:
            if self._interrupt.requested:
                waiting.clear()
                self._recall(asked)
            while waiting and flying < 2 * flight.capacity:
                i, row = waiting.popleft()
                rows[i, self._evaluators[i].launch(asked[i][row])] = row
                flying += 1
            landed = self._land(asked)
            for i, run in landed:
                runs[i][rows[i, run.id]] = run
            flying = sum(len(self._lane(i)) for i in asked)
            if not landed:
                time.sleep(_BREATH)
        self.look()
        return {
            i: self._evaluators[i].outcome([runs[i][row] for row in range(len(x))])
            for i, x in asked.items()
        }

    def _lane(self, task: int) -> WorkerPool:
        lane = self._evaluators[task].flight
        assert lane is not None
        return lane

    def _land(self, tasks: Mapping[int, FloatArray]) -> list[tuple[int, Run]]:
        """Runs that have ended, each with its task."""
        landed: list[tuple[int, Run]] = []
        for i in tasks:
            if len(self._lane(i)):
                try:
                    landed += [(i, run) for run in self._evaluators[i].land(patience=0.0)]
                except EvaluationError as error:
                    error.add_note(f"in task {i}")
                    raise
        return landed

    def _recall(self, tasks: Mapping[int, FloatArray]) -> None:
        for i in tasks:
            self._lane(i).cancel()

    def close(self) -> None:
        """Kill what still runs."""
        if self._flight is not None:
            self._flight.close()
