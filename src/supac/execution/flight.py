"""Runs in flight on an executor: launched, landed in any order, and none lost without a word."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
)  # fmt: skip
from contextlib import suppress
from queue import Empty, SimpleQueue
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
        self._ended: SimpleQueue[Future[Answer]] = SimpleQueue()  # however many are in flight
        self._suspects: list[tuple[int, FloatArray, int]] = []  # tried again when alone

    def __len__(self) -> int:
        return len(self._futures) + len(self._suspects)

    def launch(self, run: int, x: FloatArray, attempt: int = 1) -> None:
        """Start a run, or queue it where all workers are busy."""
        try:
            future = self._launch(x)
        except Exception as error:
            raise ExecutionError(_BROKEN.format(error=error or type(error).__name__)) from error
        self._futures[future] = run, x, attempt
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
            return future.result()
        except BrokenExecutor as error:
            raise ExecutionError(_BROKEN.format(error=error)) from error
        except (Exception, CancelledError) as error:
            if attempt <= (min(self._retries, 1) if _blamed(future) else self._retries):
                return None
            if future.cancelled():  # by others: no fault of the run
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
    blob = _packed(simulator)
    if executor is None or isinstance(executor, int | np.integer):
        return _local(1 if executor is None else int(executor), blob, timeout, retries)
    if isinstance(executor, str):
        return _dask(executor, blob, timeout, retries)
    if not isinstance(executor, Executor):
        raise TypeError(
            "executor must be None, a number of processes, an Executor such as Dask's "
            f"client.get_executor(), or the address of a Dask scheduler, not {executor!r}"
        )
    return _on(executor, blob, timeout, retries, _workers(executor), close=lambda: None)


def _packed(simulator: Simulator) -> bytes:
    try:
        return cloudpickle.dumps(simulator)
    except Exception as error:
        raise TypeError(
            f"{simulator.name} cannot be sent to another process ({type(error).__name__}: {error});"
            " pass PerWorker(load), where load() makes there what cannot be sent"
        ) from error


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
        for nest in nests:
            nest.bury()

    return Flight(lambda x: threads.submit(run, x), workers, close)


def _dask(address: str, blob: bytes, timeout: float | None, retries: int) -> Flight:
    try:
        from distributed import Client  # noqa: PLC0415
        from distributed.comm.addressing import get_address_host_port  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(
            "the address of a Dask scheduler needs distributed: pip install 'supac[dask]'"
        ) from error
    try:
        if not address.startswith("inproc"):  # a client that cannot connect is hard to get rid of
            socket.create_connection(get_address_host_port(address), _ANSWERS).close()
        client: Any = Client(address, timeout=_ANSWERS, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise ExecutionError(
            f"no Dask scheduler answers at executor = {address!r} ({error}); an address looks like "
            '"tcp://127.0.0.1:8786"'
        ) from error
    executor = client.get_executor()
    return _on(executor, blob, timeout, retries, _workers(executor), close=client.close)


def _on(
    executor: Executor,
    blob: bytes,
    timeout: float | None,
    retries: int,
    workers: int,
    close: Callable[[], None],
) -> Flight:
    # Dask would take a run that is tried again for the one that it knows to have failed.
    options = {"pure": False} if hasattr(executor, "_client") else {}

    def launch(x: FloatArray) -> Future[Answer]:
        return executor.submit(perform, blob, x, timeout, retries, **options)

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


_ANSWERS = 5  # seconds in which a scheduler must answer
_KEPT = 4  # simulators that a worker keeps loaded
_loaded: dict[bytes, Simulator] = {}
_loading = threading.Lock()
_nests = threading.local()


def perform(blob: bytes, x: FloatArray, timeout: float | None, retries: int) -> Answer:
    """One run on a worker, which loads the simulator once; in a child of it, given a timeout."""
    if timeout is not None:
        known: dict[tuple[bytes, float, int], Nest] = _nests.__dict__.setdefault("known", {})
        key = blob, timeout, retries
        if key not in known:
            for forgotten in list(known)[: 1 - _KEPT]:
                known.pop(forgotten).bury()
            known[key] = Nest(blob, timeout, retries)
        return known[key].run(x)
    try:
        simulator = _load(blob)
    except (Exception, SystemExit) as error:
        return Answer.not_loaded(error)
    return simulator.answer(x).without_error()


def _load(blob: bytes) -> Simulator:
    """The simulator, loaded once however many threads there are."""
    with _loading:
        if blob not in _loaded:
            simulator: Simulator = cloudpickle.loads(blob)
            simulator.set_up()
            for forgotten in list(_loaded)[: 1 - _KEPT]:
                del _loaded[forgotten]
            _loaded[blob] = simulator
        return _loaded[blob]
