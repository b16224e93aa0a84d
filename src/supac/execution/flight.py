"""Runs in flight on an executor: launched, landed in any order, and none lost without a word."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)  # fmt: skip
from typing import Any

import cloudpickle
import numpy as np

from supac.arrays import FloatArray
from supac.execution.answer import Answer, Simulator
from supac.execution.child import Nest
from supac.runs import Status

Launch = Callable[[FloatArray], "Future[Answer]"]


class ExecutionError(RuntimeError):
    """The executor can make no more runs."""


class Flight:
    """The runs that are in flight, by their ids."""

    def __init__(self, launch: Launch, capacity: int, close: Callable[[], None], retries: int = 0):
        self._launch, self.capacity, self._close = launch, capacity, close
        self._retries = retries
        self._futures: dict[Future[Answer], tuple[int, FloatArray, int]] = {}

    def __len__(self) -> int:
        return len(self._futures)

    def launch(self, run: int, x: FloatArray, attempt: int = 1) -> None:
        """Start a run, or queue it where all workers are busy."""
        try:
            future = self._launch(x)
        except (BrokenExecutor, RuntimeError) as error:
            raise ExecutionError(_BROKEN.format(error=error or type(error).__name__)) from error
        self._futures[future] = run, x, attempt

    def land(self, patience: float) -> list[tuple[int, Answer]]:
        """The runs that have ended, in the order of their ids; wait for one at most so long."""
        done, _ = wait(self._futures, timeout=patience, return_when=FIRST_COMPLETED)
        landed = []
        for future in sorted(done, key=lambda each: self._futures[each][0]):
            run, x, attempt = self._futures.pop(future)
            answer = self._result(future, attempt)
            if answer is None:
                self.launch(run, x, attempt + 1)
            else:
                landed.append((run, answer))
        return landed

    def _result(self, future: Future[Answer], attempt: int) -> Answer | None:
        """None where the worker was lost, and the run shall be tried again."""
        try:
            return future.result()
        except BrokenExecutor as error:
            raise ExecutionError(_BROKEN.format(error=error)) from error
        except (Exception, CancelledError) as error:
            if attempt <= self._retries:
                return None
            message = f"the worker was lost: {type(error).__name__}: {error}"
            return Answer(Status.CRASHED, None, 0.0, message, attempt)

    def recall(self) -> None:
        """Take back the runs that have not begun; those that have go on."""
        for future in list(self._futures):
            if future.cancel():
                del self._futures[future]

    def close(self) -> None:
        """Kill what still runs."""
        self.recall()
        self._close()


_BROKEN = (
    "the executor can make no more runs ({error}). A pool of the standard library breaks when one "
    "of its processes dies: pass executor=N, a number of processes, which are replaced"
)


def open_flight(
    executor: Executor | int | str | None,
    simulator: Simulator,
    timeout: float | None,
    retries: int,
) -> Flight | None:
    """Where runs are made: None for this process itself.

    A number means as many children of this process, a text the address of a Dask scheduler.
    Wherever there is a timeout, runs are made in children, which can be killed.
    """
    if executor is None and timeout is None:
        return None
    if executor is None or isinstance(executor, int | np.integer):
        return _local(int(executor or 1), cloudpickle.dumps(simulator), timeout, retries)
    blob = cloudpickle.dumps(simulator)
    if isinstance(executor, str):
        return _dask(executor, blob, timeout, retries)
    if not hasattr(executor, "submit"):
        raise TypeError(
            "executor must be None, a number of processes, an Executor, or the address of a Dask "
            f"scheduler, not {executor!r}"
        )
    return _on(executor, blob, timeout, retries, _workers(executor), close=lambda: None)


def _local(workers: int, blob: bytes, timeout: float | None, retries: int) -> Flight:
    """Threads of this process, each with a child of its own."""
    if workers < 1:
        raise ValueError(f"executor must be at least one process, not {workers}")
    own, nests = threading.local(), []
    threads = ThreadPoolExecutor(workers, thread_name_prefix="supac")

    def run(x: FloatArray) -> Answer:
        if not hasattr(own, "nest"):
            own.nest = Nest(blob, timeout, retries)
            nests.append(own.nest)
        return own.nest.run(x)

    def close() -> None:
        for nest in nests:
            nest.close()
        threads.shutdown(wait=True, cancel_futures=True)

    return Flight(lambda x: threads.submit(run, x), workers, close)


def _dask(address: str, blob: bytes, timeout: float | None, retries: int) -> Flight:
    try:
        from distributed import Client  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(
            "the address of a Dask scheduler needs distributed: pip install 'supac[dask]'"
        ) from error
    client: Any = Client(address)  # type: ignore[no-untyped-call]
    executor = client.get_executor()
    workers = sum(client.nthreads().values())
    return _on(executor, blob, timeout, retries, max(workers, 1), close=client.close)


def _on(
    executor: Executor,
    blob: bytes,
    timeout: float | None,
    retries: int,
    workers: int,
    close: Callable[[], None],
) -> Flight:
    def launch(x: FloatArray) -> Future[Answer]:
        return executor.submit(perform, blob, x, timeout, retries)

    return Flight(launch, workers, close, retries)


def _workers(executor: Any) -> int:
    """How many runs an executor can make at a time, as far as it can be known."""
    client = getattr(executor, "_client", None)
    if client is not None and hasattr(client, "nthreads"):
        return max(sum(client.nthreads().values()), 1)
    for name in ("num_workers", "_max_workers"):
        if isinstance(getattr(executor, name, None), int):
            return int(getattr(executor, name))
    return 8


_loaded: dict[bytes, Simulator] = {}
_nests = threading.local()


def perform(blob: bytes, x: FloatArray, timeout: float | None, retries: int) -> Answer:
    """One run on a worker, which loads the simulator once; in a child of it, given a timeout."""
    if timeout is not None:
        known: dict[bytes, Nest] = _nests.__dict__.setdefault("known", {})
        if blob not in known:
            known[blob] = Nest(blob, timeout, retries)
        return known[blob].run(x)
    if blob not in _loaded:
        start = time.perf_counter()
        simulator: Simulator = cloudpickle.loads(blob)
        try:
            simulator.set_up()
        except Exception as error:
            message = f"the simulator could not be loaded: {type(error).__name__}: {error}"
            return Answer(Status.RAISED, None, time.perf_counter() - start, message)
        _loaded[blob] = simulator
    return _loaded[blob].answer(x).without_error()
