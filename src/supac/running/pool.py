"""Pools of workers: runs are submitted, and collected in any order as they end."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Future
from contextlib import suppress
from dataclasses import replace
from queue import Empty, SimpleQueue

import numpy as np

from supac.record.run import Status
from supac.running.answer import Answer, Request, Simulator, SimulatorSet
from supac.running.watchdog import ExecutionError, Watchdog, no_more_runs

_INTERVAL = 1.0  # seconds between looks at a cluster that is silent


class WorkerPool(ABC):
    """Makes runs. Every answer carries the id of the request that it answers."""

    capacity: int
    """Number of runs that are made at the same time."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of requests submitted and neither collected nor cancelled."""

    @abstractmethod
    def submit(self, request: Request) -> None:
        """Start a run, or queue it if all workers are busy."""

    @abstractmethod
    def collect(self, timeout: float) -> list[Answer]:
        """Return the runs that have ended, by id; wait at most `timeout` seconds for the first."""

    @abstractmethod
    def cancel(self) -> None:
        """Take back the runs that have not begun; those that have go on."""

    @abstractmethod
    def close(self) -> None:
        """Kill what still runs, where it can be killed, and release the workers."""


class InProcessPool(WorkerPool):
    """Makes runs in this process, when they are collected.

    A vectorized simulator is called for all queued points of a task at once; if that raises and
    `one_by_one` is set, it is called again for each of them.
    """

    capacity = 1

    def __init__(self, simulators: Sequence[Simulator], *, one_by_one: bool = False):
        self._simulators, self._one_by_one = SimulatorSet(simulators), one_by_one
        self._queue: deque[Request] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def submit(self, request: Request) -> None:
        """Queue a run."""
        self._queue.append(request)

    def collect(self, timeout: float) -> list[Answer]:
        """Make the next run, or all queued runs of its task if the simulator is vectorized."""
        if not self._queue:
            return []
        first = self._queue.popleft()
        trouble = self._simulators.load(first.task)
        simulator = self._simulators[first.task]
        if trouble is not None or not simulator.vectorized:
            return [replace(trouble or simulator.answer(first.x), id=first.id)]
        batch = [first, *(each for each in self._queue if each.task == first.task)]
        self._queue = deque(each for each in self._queue if each.task != first.task)
        x = np.stack([each.x for each in batch])
        answers = simulator.all_at_once(x, again=self._one_by_one)
        return [replace(answer, id=each.id) for each, answer in zip(batch, answers, strict=True)]

    def cancel(self) -> None:
        """Empty the queue."""
        self._queue.clear()

    def close(self) -> None:
        """Empty the queue."""
        self._queue.clear()


class FuturesPool(WorkerPool):
    """Makes runs wherever `start` does, which returns a future each.

    A run whose worker was lost is tried again up to `retries` times. `close` releases the workers.
    """

    def __init__(
        self,
        start: Callable[[Request], Future[Answer]],
        capacity: int,
        close: Callable[[], None],
        retries: int = 0,
        watchdog: Watchdog | None = None,
    ):
        self._start, self.capacity, self._close = start, max(capacity, 1), close
        self._retries, self._watchdog = retries, watchdog
        self._futures: dict[Future[Answer], tuple[Request, int]] = {}
        self._ended: SimpleQueue[Future[Answer]] = SimpleQueue()  # however many are under way
        self._suspects: list[tuple[Request, int]] = []  # tried again when alone

    def __len__(self) -> int:
        return len(self._futures) + len(self._suspects)

    def submit(self, request: Request, attempt: int = 1) -> None:
        """Start a run, or queue it if all workers are busy."""
        try:
            future = self._start(request)
        except Exception as error:
            raise no_more_runs(error if str(error) else type(error).__name__) from error
        self._futures[future] = request, attempt
        if self._watchdog is not None:
            self._watchdog.reset()
        future.add_done_callback(self._ended.put)

    def collect(self, timeout: float) -> list[Answer]:
        """Return the runs that have ended, by id; wait at most `timeout` seconds for the first."""
        if self._suspects and not self._futures:
            self.submit(*self._suspects.pop())
        answers, broken = [], None
        ended = [future for future in self._wait(timeout) if future in self._futures]
        for future in sorted(ended, key=lambda each: self._futures[each][0].id):
            request, attempt = self._futures[future]
            try:
                answer = self._answer(future, request, attempt)
                if answer is None and _blamed(future):
                    self._suspects.append((request, attempt + 1))
                elif answer is None:
                    self.submit(request, attempt + 1)
            except ExecutionError as error:  # raised when all that ended well are collected
                broken = error
                self._ended.put(future)
                continue
            del self._futures[future]
            if answer is not None:
                answers.append(answer)
        if broken is not None and not answers:
            raise broken
        return answers

    def _wait(self, timeout: float) -> list[Future[Answer]]:
        """Wait for a future that ends, with an eye on the cluster; return all that have ended."""
        end = time.monotonic() + timeout
        ended: list[Future[Answer]] = []
        while True:
            left = max(end - time.monotonic(), 0.0)
            with suppress(Empty):
                ended.append(self._ended.get(timeout=min(left, _INTERVAL)))
                while True:
                    ended.append(self._ended.get_nowait())
            if self._watchdog is not None and self._futures:
                (self._watchdog.reset if ended else self._watchdog.check)()
            if ended or time.monotonic() >= end:
                return ended

    def _answer(self, future: Future[Answer], request: Request, attempt: int) -> Answer | None:
        """Return None if the worker was lost and the run shall be tried again."""
        try:
            answer = future.result()
            if answer.id != request.id:
                raise RuntimeError(f"it answered run {answer.id} instead")
            # Another worker may have what this one lacks, a licence for instance.
            return None if answer.unloaded and attempt <= self._retries else answer
        except BrokenExecutor as error:
            raise no_more_runs(error) from error
        except BaseException as error:  # whatever was raised over there
            if attempt <= (min(self._retries, 1) if _blamed(future) else self._retries):
                return None
            if isinstance(error, CancelledError):  # by others: no fault of the run
                raise no_more_runs("it cancels them") from error
            message = f"the worker was lost: {type(error).__name__}: {error}"
            return Answer(Status.CRASHED, None, 0.0, message, attempt, id=request.id)

    def cancel(self) -> None:
        """Take back the runs that have not begun; those that have go on."""
        for future in list(self._futures):
            if future.cancel():
                del self._futures[future]
        self._suspects.clear()

    def close(self) -> None:
        """Kill what still runs, where it can be killed, and release the workers."""
        self.cancel()
        self._close()


def _blamed(future: Future[Answer]) -> bool:
    """Return True if workers of Dask died with a run, perhaps by the fault of a neighbour."""
    return not future.cancelled() and hasattr(future.exception(), "allowed_failures")
