"""Open the pool of workers that `Execution.workers` describes."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import cloudpickle
import numpy as np

from supac.record.timeline import Span
from supac.running.child import ChildSupervisor, Job
from supac.running.dask_cluster import connect, open_dask_pool
from supac.running.execution import Execution
from supac.running.futures import FuturesPool
from supac.running.jobs import BatchSystem, open_jobs_pool
from supac.running.simulator import Answer, InProcessPool, Request, Simulator, WorkerPool
from supac.running.submitit_jobs import SubmititJobs, is_submitit
from supac.running.worker import forget, perform

_ASSUMED = 8  # runs at the same time of an executor that does not tell


def open_pool(execution: Execution, simulators: Sequence[Simulator]) -> WorkerPool:
    """Open a pool of workers; the task of a request is the index of its simulator.

    Wherever there is a timeout, runs are made in children, which can be killed.
    """
    workers, timeout = execution.workers, execution.timeout
    if workers is None and timeout is None and execution.cluster is None:
        return InProcessPool(simulators, one_by_one=execution.on_failure != "raise")
    in_child = timeout is not None
    job = Job(
        _pickled(simulators), timeout, execution.retries, stop=execution.stop, in_child=in_child
    )
    if isinstance(execution.cluster, BatchSystem):
        return open_jobs_pool(execution.cluster, workers, job)
    workers = workers if execution.cluster is None else execution.cluster
    if workers is None or (isinstance(workers, int | np.integer) and workers is not True):
        return _local(1 if workers is None else int(workers), job)
    address = workers if isinstance(workers, str) else getattr(workers, "scheduler_address", None)
    if address is not None:
        client = connect(address)
        return open_dask_pool(client, job, client.close)
    client = workers if hasattr(workers, "nthreads") else getattr(workers, "_client", None)
    if client is not None and not isinstance(workers, type):
        return open_dask_pool(client, job, lambda: None)
    if isinstance(workers, Executor) or is_submitit(workers):
        return _on(workers, job, execution.capacity)
    raise TypeError(
        "workers must be None, a number of processes, an Executor (of submitit too), or a Dask "
        f"client, cluster or address of a scheduler, not {workers!r}"
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
        answer = own.supervisor.run(request)
        return replace(answer, span=replace(span, ended=time.time()))

    def close() -> None:
        for each in supervisors:
            each.close()
        threads.shutdown(wait=True, cancel_futures=True)
        for each in supervisors:
            each.discard()

    threads = ThreadPoolExecutor(workers, "supac", begin)
    return FuturesPool(lambda each: threads.submit(run, each), lambda: workers, close, begun=begun)


def _on(executor: Any, job: Job, capacity: int | None) -> FuturesPool:
    """Open a pool on any executor of the standard library's kind, or of submitit."""
    if is_submitit(executor):
        jobs = SubmititJobs(executor, job)
        return FuturesPool(jobs.start, _size_of(executor, capacity), jobs.close)
    parent = os.getpid() if isinstance(executor, ProcessPoolExecutor) else None

    def start(request: Request) -> Future[Answer]:
        return executor.submit(perform, job, request, parent)

    return FuturesPool(start, _size_of(executor, capacity), lambda: forget(job), job.retries)


def _size_of(executor: object, capacity: int | None) -> Callable[[], int]:
    """Return what tells the number of runs that an executor makes at the same time."""
    if capacity is not None:
        return lambda: capacity
    for name in ("num_workers", "_max_workers"):
        if isinstance(getattr(executor, name, None), int):
            return lambda: int(getattr(executor, name))
    warnings.warn(
        f"{type(executor).__name__} does not say how many runs it makes at the same time: "
        f"{_ASSUMED} are assumed; pass Execution(executor, capacity=N)",
        RuntimeWarning,
        stacklevel=2,
    )
    return lambda: _ASSUMED
