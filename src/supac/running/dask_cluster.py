"""Make runs on a Dask cluster, whose workers come and go."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import replace
from typing import Any

from supac.record.timeline import Span
from supac.running.child import Job
from supac.running.futures import ExecutionError, FuturesPool, Watchdog
from supac.running.simulator import Answer, Request
from supac.running.worker import begin_here, perform, this_process

_ANSWERS = 5  # seconds in which a scheduler must answer
_ASK = 0.5  # seconds between questions for the number of workers
_TOPIC = "supac runs"
_draining = False  # of a worker: its job has too little time left for another run


def connect(address: str) -> Any:
    """Return a client of the scheduler at an address; ExecutionError if none answers there."""
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


class ClusterSize:
    """Ask for the number of threads of a cluster now and then, without waiting for the answer."""

    def __init__(self, client: Any):
        self._client = client
        self._known = self.ask()
        self._asked = time.monotonic()
        self._question: Any = None

    def ask(self) -> int:
        """Ask, and wait for the answer."""
        return sum(self._client.nthreads(callback_timeout=_ANSWERS).values())

    def __call__(self) -> int:
        """Return the latest number that the scheduler has told."""
        now = time.monotonic()
        if self._question is not None and self._question.done():
            with suppress(Exception):  # of the network: the watchdog says so if that lasts
                self._known = sum(self._question.result().values())
            self._question = None
        if self._question is not None and now - self._asked > _ANSWERS:
            self._question.cancel()
            self._question = None
        if self._question is None and now - self._asked >= _ASK and self._client.scheduler:
            self._asked = now
            with suppress(RuntimeError):  # the loop is closed: so is the connection
                self._question = asyncio.run_coroutine_threadsafe(
                    self._client.scheduler.ncores(), self._client.loop.asyncio_loop
                )
        return self._known


def open_dask_pool(client: Any, job: Job, close: Callable[[], None]) -> FuturesPool:
    """Open a pool on Dask's own futures: its executor loses some ways in which a run can end.

    Runs are made in children of the workers, so that the death of a run is none of its worker.
    """
    job = replace(job, in_child=True, driver=this_process())
    begun: dict[int, Span] = {}

    def note(event: Any) -> None:
        _, (token, number, started, worker) = event
        if token == job.token:
            begun[number] = Span(started, worker=worker)

    def start(request: Request) -> Future[Answer]:
        # Not pure: a run that is tried again is not the one that is known to have failed.
        theirs = client.submit(perform_on_worker, job, request, pure=False)
        ours: Future[Answer] = Future()
        ours.set_running_or_notify_cancel()  # nobody can tell whether it has begun
        theirs.add_done_callback(lambda done: _hand_over(done, ours))
        return ours

    def end() -> None:
        with suppress(Exception):  # the scheduler may be gone
            client.unsubscribe_topic(_TOPIC)
        close()

    try:
        size = ClusterSize(client)
    except Exception as error:
        close()
        raise ExecutionError(
            f"the Dask scheduler of {client!r} does not say which workers it has "
            f"({type(error).__name__}: {error}): look at the cluster, or pass execution=N, a "
            "number of processes"
        ) from error
    client.subscribe_topic(_TOPIC, note)
    watchdog = Watchdog(size.ask, lambda: str(client.status))
    return FuturesPool(start, size, end, job.retries, watchdog, begun)


def perform_on_worker(job: Job, request: Request) -> Answer:
    """Make one run on a worker of Dask, and tell the driver when it begins."""
    from distributed import get_worker  # noqa: PLC0415

    worker, span = get_worker(), begin_here()
    worker.log_event(_TOPIC, (job.token, request.id, span.started, span.worker))
    answer = perform(job, request)
    if answer.late:
        _retire(worker)
    return answer


def _retire(worker: Any) -> None:
    """Take no more runs on a worker whose job is about to end, and leave when those here end."""
    global _draining  # noqa: PLW0603 - there is one worker in a process
    if _draining:
        return
    _draining = True

    async def refuse() -> None:
        from distributed.core import Status  # noqa: PLC0415

        worker.status = Status.closing_gracefully

    async def leave() -> None:
        while worker.state.executing_count > 0:
            await asyncio.sleep(0.1)
        await asyncio.sleep(0.5)  # the answer that says so is on its way
        await worker.close(nanny=True, reason="the time of its job is over")

    # Before the answer: otherwise the scheduler would send the run here again.
    asyncio.run_coroutine_threadsafe(refuse(), worker.loop.asyncio_loop).result(_ANSWERS)
    worker.loop.add_callback(leave)


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
