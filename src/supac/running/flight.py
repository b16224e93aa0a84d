"""Runs in flight on an executor: launched, landed in any order, and none lost without a word."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Future
from contextlib import suppress
from queue import Empty, SimpleQueue

import numpy as np

from supac.arrays import FloatArray
from supac.record.run import Status
from supac.running.answer import Answer
from supac.running.lookout import Lookout

Launch = Callable[[FloatArray], "Future[Answer]"]


class ExecutionError(RuntimeError):
    """The executor can make no more runs."""


class Flight:
    """The runs that are in flight, by their ids."""

    def __init__(
        self,
        launch: Launch,
        capacity: int,
        close: Callable[[], None],
        retries: int = 0,
        lookout: Lookout | None = None,
    ):
        self._launch, self.capacity, self._close = launch, max(capacity, 1), close
        self._retries, self._lookout = retries, lookout
        self._futures: dict[Future[Answer], tuple[int, FloatArray, int]] = {}
        self._ended: SimpleQueue[Future[Answer]] = SimpleQueue()  # however many are in flight
        self._suspects: list[tuple[int, FloatArray, int]] = []  # tried again when alone

    def lane(self, task: int) -> Flight:
        """Runs of one of several simulators on the same workers; closing it closes nothing."""

        def launch(x: FloatArray) -> Future[Answer]:
            return self._launch(np.concatenate([[float(task)], x]))

        return Flight(launch, self.capacity, lambda: None, self._retries, self._lookout)

    def __len__(self) -> int:
        return len(self._futures) + len(self._suspects)

    def launch(self, run: int, x: FloatArray, attempt: int = 1) -> None:
        """Start a run, or queue it where all workers are busy."""
        try:
            future = self._launch(x)
        except Exception as error:
            raise ExecutionError(_BROKEN.format(error=error or type(error).__name__)) from error
        self._futures[future] = run, x, attempt
        if self._lookout is not None:
            self._lookout.launched()
        future.add_done_callback(self._ended.put)

    def land(self, patience: float) -> list[tuple[int, Answer]]:
        """The runs that have ended, in the order of their ids; wait for one at most so long."""
        if self._suspects and not self._futures:
            self.launch(*self._suspects.pop())
        done = []
        with suppress(Empty):
            done.append(self._ended.get(timeout=patience))
            while True:
                done.append(self._ended.get_nowait())
        if self._lookout is not None and self._futures:
            (self._lookout.landed if done else self._lookout.nothing)()
        landed, broken = [], None
        known = [future for future in done if future in self._futures]
        for future in sorted(known, key=lambda each: self._futures[each][0]):
            run, x, attempt = self._futures[future]
            try:
                answer = self._result(future, attempt)
                if answer is None and _blamed(future):
                    self._suspects.append((run, x, attempt + 1))
                elif answer is None:
                    self.launch(run, x, attempt + 1)
            except ExecutionError as error:  # raised when all that have ended well have landed
                broken = error
                self._ended.put(future)
                continue
            del self._futures[future]
            if answer is not None:
                landed.append((run, answer))
        if broken is not None and not landed:
            raise broken
        return landed

    def _result(self, future: Future[Answer], attempt: int) -> Answer | None:
        """None where the worker was lost, and the run shall be tried again."""
        try:
            answer = future.result()
            # Another worker may have what this one lacks, a licence for instance.
            return None if answer.unloaded and attempt <= self._retries else answer
        except BrokenExecutor as error:
            raise ExecutionError(_BROKEN.format(error=error)) from error
        except BaseException as error:  # whatever was raised over there
            if attempt <= (min(self._retries, 1) if _blamed(future) else self._retries):
                return None
            if isinstance(error, CancelledError):  # by others: no fault of the run
                raise ExecutionError(_BROKEN.format(error="it cancels them")) from error
            message = f"the worker was lost: {type(error).__name__}: {error}"
            return Answer(Status.CRASHED, None, 0.0, message, attempt)

    def recall(self) -> None:
        """Take back the runs that have not begun; those that have go on."""
        for future in list(self._futures):
            if future.cancel():
                del self._futures[future]
        self._suspects.clear()

    def close(self) -> None:
        """Kill what still runs."""
        self.recall()
        self._close()


def _blamed(future: Future[Answer]) -> bool:
    """Whether several workers of Dask have died with a run, perhaps by the fault of a neighbour."""
    return not future.cancelled() and hasattr(future.exception(), "allowed_failures")


_BROKEN = (
    "the executor can make no more runs ({error}). A pool of the standard library breaks when one "
    "of its processes dies: pass executor=N, a number of processes, which are replaced"
)
