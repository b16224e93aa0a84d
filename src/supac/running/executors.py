"""Open the pool of workers that `Execution.workers` describes."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import (
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from dataclasses import replace
from typing import Any

import cloudpickle
import numpy as np

from supac.record.timeline import Span
from supac.running.child import ChildSupervisor, Job
from supac.running.execution import Execution
from supac.running.futures import ExecutionError, FuturesPool, Watchdog
from supac.running.simulator import (
    Answer,
    InProcessPool,
    Request,
    Simulator,
    SimulatorSet,
    WorkerPool,
)
from supac.simulators.process_guard import die_with

_ANSWERS = 5  # seconds in which a scheduler must answer

# Of a worker
_KEPT = 4  # sets of simulators that it keeps loaded
_loaded: dict[bytes, SimulatorSet] = {}
_lock = threading.Lock()
_own = threading.local()
_supervisors: dict[Job, list[ChildSupervisor]] = {}
_tied: set[int] = set()


def open_pool(execution: Execution, simulators: Sequence[Simulator]) -> WorkerPool:
    """Open a pool of workers; the task of a request is the index of its simulator.

    Wherever there is a timeout, runs are made in children, which can be killed.
    """
    workers, timeout = execution.workers, execution.timeout
    if workers is None and timeout is None:
        return InProcessPool(simulators, one_by_one=execution.on_failure != "raise")
    job = Job(_pickled(simulators), timeout, execution.retries)
    if workers is None or (isinstance(workers, int | np.integer) and workers is not True):
        return _local(1 if workers is None else int(workers), job)
    address = workers if isinstance(workers, str) else getattr(workers, "scheduler_address", None)
    if address is not None:
        client = _dask_client(address)
        return _on_dask(client, job, client.close)
    client = workers if hasattr(workers, "nthreads") else getattr(workers, "_client", None)
    if client is not None and not isinstance(workers, type):
        return _on_dask(client, job, lambda: None)
    if isinstance(workers, Executor):
        return _on(workers, job)
    raise TypeError(
        "workers must be None, a number of processes, an Executor, or a Dask client, cluster or "
        f"address of a scheduler, not {workers!r}"
    )


def _pickled(simulators: Sequence[Simulator]) -> bytes:
    try:
        return cloudpickle.dumps(tuple(simulators))
    except Exception as error:
        raise TypeError(
            f"{simulators[0].name} cannot be sent to another process "
            f"({type(error).__name__}: {error}); pass PerWorker(load), where load() makes there "
            "what cannot be sent"
        ) from error


def _local(workers: int, job: Job) -> FuturesPool:
    """Open a pool of threads of this process, each with a child of its own."""
    if workers < 1:
        raise ValueError(f"workers must be at least one process, not {workers}")
    supervisors = [ChildSupervisor(job) for _ in range(workers)]
    own, free = threading.local(), list(enumerate(supervisors, start=1))[::-1]
    begun: dict[int, Span] = {}

    def begin() -> None:
        own.number, own.supervisor = free.pop()

    def run(request: Request) -> Answer:
        span = begun[request.id] = Span(time.time(), worker=str(own.number))
        try:
            answer = own.supervisor.run(request)
        finally:
            del begun[request.id]
        return replace(answer, span=replace(span, ended=time.time()))

    def close() -> None:
        for each in supervisors:
            each.close()
        threads.shutdown(wait=True, cancel_futures=True)
        for each in supervisors:
            each.discard()

    threads = ThreadPoolExecutor(workers, "supac", begin)
    return FuturesPool(lambda request: threads.submit(run, request), workers, close, begun=begun)


def _on(executor: Executor, job: Job) -> FuturesPool:
    """Open a pool on any executor of the standard library's kind."""
    parent = os.getpid() if isinstance(executor, ProcessPoolExecutor) else None
    sizes = (getattr(executor, name, None) for name in ("num_workers", "_max_workers"))
    workers = next((size for size in sizes if isinstance(size, int)), 8)

    def start(request: Request) -> Future[Answer]:
        return executor.submit(perform, job, request, parent)

    return FuturesPool(start, workers, lambda: _forget(job), job.retries)


def _dask_client(address: str) -> Any:
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
        return Client(address, timeout=_ANSWERS, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise ExecutionError(
            f"no Dask scheduler answers at workers = {address!r} ({error}); an address looks like "
            '"tcp://127.0.0.1:8786", and a number of processes like execution=4'
        ) from error


def _on_dask(client: Any, job: Job, close: Callable[[], None]) -> FuturesPool:
    """Open a pool on Dask's own futures: its executor loses some ways in which a run can end."""

    def start(request: Request) -> Future[Answer]:
        # Not pure: a run that is tried again is not the one that is known to have failed.
        theirs = client.submit(perform, job, request, pure=False)
        ours: Future[Answer] = Future()
        ours.set_running_or_notify_cancel()  # nobody can tell whether it has begun
        theirs.add_done_callback(lambda done: _hand_over(done, ours))
        return ours

    def threads() -> int:
        return sum(client.nthreads(callback_timeout=_ANSWERS).values())

    try:
        capacity = threads()
    except Exception as error:
        close()
        raise ExecutionError(
            f"the Dask scheduler of {client!r} does not say which workers it has "
            f"({type(error).__name__}: {error}): look at the cluster, or pass execution=N, a "
            "number of processes"
        ) from error
    watchdog = Watchdog(threads, lambda: str(client.status))
    return FuturesPool(start, capacity, close, job.retries, watchdog)


def _hand_over(theirs: Any, ours: Future[Answer]) -> None:
    try:
        if theirs.status == "finished":
            ours.set_result(theirs.result())
        elif theirs.status == "error":
            ours.set_exception(theirs.exception())
        else:
            ours.set_exception(CancelledError(f"the run is {theirs.status}"))
    except Exception as error:
        ours.set_exception(error)


def perform(job: Job, request: Request, parent: int | None = None) -> Answer:
    """Make one run on this worker, in a child of it if there is a timeout.

    A worker that is a child of `parent` dies with it.
    """
    if parent is not None and parent == os.getppid() and parent not in _tied:
        _tied.add(parent)
        die_with(parent)
    # By the clock of this machine.
    span = Span(time.time(), worker=f"{socket.gethostname()} {threading.get_native_id()}")
    answer = _perform(job, request)
    return replace(answer, span=replace(span, ended=time.time()))


def _perform(job: Job, request: Request) -> Answer:
    if job.timeout is not None:
        return _supervisor(job).run(request)
    blob = job.simulators
    with _lock:
        for forgotten in list(_loaded)[: 1 - _KEPT] if blob not in _loaded else ():
            del _loaded[forgotten]
        simulators = _loaded.setdefault(blob, SimulatorSet(blob))
    return simulators.answer(request).without_error()


def _forget(job: Job) -> None:
    """End the children that threads of this process keep for a job."""
    with _lock:
        supervisors = _supervisors.pop(job, [])
    for each in supervisors:
        each.close()
        each.discard()


def _supervisor(job: Job) -> ChildSupervisor:
    """Return the supervisor of this thread."""
    known: dict[Job, ChildSupervisor] = _own.__dict__.setdefault("known", {})
    if job not in known or known[job].closed:
        for forgotten in list(known)[: 1 - _KEPT]:
            known.pop(forgotten).discard()
        known[job] = ChildSupervisor(job)
        with _lock:
            _supervisors.setdefault(job, []).append(known[job])
    return known[job]
