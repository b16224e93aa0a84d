"""From what a user calls an executor to runs in flight on it."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import (
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from typing import Any

import cloudpickle
import numpy as np

from supac.arrays import FloatArray
from supac.running.answer import Answer, Simulator, Simulators
from supac.running.child import Nest
from supac.running.flight import ExecutionError, Flight
from supac.running.lookout import Lookout
from supac.running.worker import forget, perform

_ANSWERS = 5  # seconds in which a scheduler must answer


def open_flight(
    executor: Any,
    simulator: Simulator | Simulators,
    timeout: float | None,
    retries: int,
) -> Flight | None:
    """Where runs are made: None for this process itself.

    A number means as many children of this process, a text the address of a Dask scheduler, whose
    client and cluster will do as well. Wherever there is a timeout, runs are made in children,
    which can be killed.
    """
    if executor is None and timeout is None:
        return None
    blob = _packed(simulator)
    if executor is None or (isinstance(executor, int | np.integer) and executor is not True):
        return _local(1 if executor is None else int(executor), blob, timeout, retries)
    if isinstance(executor, str):
        client = _dask_client(executor)
        return _on_dask(client, blob, timeout, retries, client.close)
    if hasattr(executor, "scheduler_address"):
        client = _dask_client(executor.scheduler_address)
        return _on_dask(client, blob, timeout, retries, client.close)
    client = executor if hasattr(executor, "nthreads") else getattr(executor, "_client", None)
    if client is not None and not isinstance(executor, type):
        return _on_dask(client, blob, timeout, retries, lambda: None)
    if isinstance(executor, Executor):
        return _on(executor, blob, timeout, retries)
    raise TypeError(
        "executor must be None, a number of processes, an Executor, or a Dask client, cluster or "
        f"address of a scheduler, not {executor!r}"
    )


def _packed(simulator: Simulator | Simulators) -> bytes:
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
    own, nests, closing = threading.local(), [], threading.Event()
    threads = ThreadPoolExecutor(workers, thread_name_prefix="supac")

    def run(x: FloatArray) -> Answer:
        if not hasattr(own, "nest"):
            own.nest = Nest(blob, timeout, retries)
            nests.append(own.nest)
        if closing.is_set():
            own.nest.close()
        return own.nest.run(x)

    def close() -> None:
        closing.set()
        for nest in nests:
            nest.close()
        threads.shutdown(wait=True, cancel_futures=True)
        for nest in nests:
            nest.bury()

    return Flight(lambda x: threads.submit(run, x), workers, close)


def _on(executor: Executor, blob: bytes, timeout: float | None, retries: int) -> Flight:
    """Any executor of the standard library's kind."""
    parent = os.getpid() if isinstance(executor, ProcessPoolExecutor) else None
    workers = next(
        (
            int(getattr(executor, name))
            for name in ("num_workers", "_max_workers")
            if isinstance(getattr(executor, name, None), int)
        ),
        8,
    )

    def launch(x: FloatArray) -> Future[Answer]:
        return executor.submit(perform, blob, x, timeout, retries, parent)

    return Flight(launch, workers, lambda: forget(blob), retries)


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
            f"no Dask scheduler answers at executor = {address!r} ({error}); an address looks like "
            '"tcp://127.0.0.1:8786", and a number of processes like executor=4'
        ) from error


def _on_dask(
    client: Any, blob: bytes, timeout: float | None, retries: int, close: Callable[[], None]
) -> Flight:
    """Dask's own futures: those of its executor lose some of the ways in which a run can end."""

    def launch(x: FloatArray) -> Future[Answer]:
        # Not pure: a run that is tried again is not the one that is known to have failed.
        theirs = client.submit(perform, blob, x, timeout, retries, pure=False)
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
            f"({type(error).__name__}: {error}): look at the cluster, or pass executor=N, a number "
            "of processes"
        ) from error
    return Flight(launch, capacity, close, retries, Lookout(threads))


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
