"""The pool that makes runs by futures, and a watchdog for a cluster that falls silent."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Future
from contextlib import suppress
from queue import Empty, SimpleQueue

from supac.record.status import Status
from supac.record.timeline import Span
from supac.running.simulator import Answer, Request, WorkerPool

_LOOK = 1.0  # seconds between looks at a cluster that is silent
_INTERVAL = 10.0  # seconds between questions to it
_PATIENCE = 120.0  # seconds without any worker after which the user should know
_RECONNECT = 5.0  # seconds in which a lost connection must be back


class ExecutionError(RuntimeError):
    """The workers can make no more runs."""


def no_more_runs(reason: object) -> ExecutionError:
    """Return the error for workers that have failed, with advice on how to continue."""
    advice = (
        ". A pool of the standard library breaks when one of its processes dies: pass execution=N, "
        "a number of processes, which are replaced"
    )
    return ExecutionError(
        f"the workers can make no more runs ({reason}). Those that have ended are in the store, "
        f"if there is one: go on with supac.resume{advice * isinstance(reason, BrokenExecutor)}"
    )


class Watchdog:
    """Warn once if a cluster has no worker for two minutes, and raise if its scheduler is gone.

    More workers may come, so that the runs wait for them.

    Parameters
    ----------
    workers
        Asks for the number of workers, and gives up after a while of its own.
    connection
        Returns the state of the connection to the scheduler: "running" if it stands, "closed" if
        it is given up, anything else while it is being made again.

    """

    def __init__(self, workers: Callable[[], int], connection: Callable[[], str]):
        self._workers, self._connection = workers, connection
        self._warned = False
        self._connected = time.monotonic()
        self.reset()

    @property
    def connected(self) -> bool:
        """True while the connection to the scheduler stands."""
        return self._connection() == "running"

    def reset(self) -> None:
        """Begin to wait: a run has been submitted, or one has ended and somebody is there."""
        self._seen = self._asked = time.monotonic()

    def check(self) -> None:
        """Look at the cluster if that is due: no run has ended since the last call."""
        now = time.monotonic()
        state = self._connection()
        if state == "running":
            self._connected = now
        elif state == "closed" or now - self._connected >= _RECONNECT:
            raise no_more_runs("the connection to the Dask scheduler is lost: it may be dead")
        if self._warned or now - self._asked < _INTERVAL:
            return
        self._asked = now
        lacks = "had no worker"
        try:
            if self._workers():
                self._seen = now
                return
        except Exception as error:  # of the network: whether the runs are lost, they say themselves
            lacks = f"not said whether it has workers ({type(error).__name__}: {error})"
        if now - self._seen >= _PATIENCE:
            self._warned = True
            warnings.warn(
                f"the cluster has {lacks} for {now - self._seen:.0f} s; the runs wait until one "
                "comes: look at the cluster, or stop with Ctrl-C",
                RuntimeWarning,
                stacklevel=2,
            )


class FuturesPool(WorkerPool):
    """Makes runs wherever `start` does, which returns a future each.

    A run whose worker was lost is tried again up to `retries` times. `close` releases the workers.
    `begun` is kept by them; without it, a run counts as begun when it is submitted. `size` returns
    the number of runs that are made at the same time; it is asked again and again, and must be
    quick.
    """

    def __init__(
        self,
        start: Callable[[Request], Future[Answer]],
        size: Callable[[], int],
        close: Callable[[], None],
        retries: int = 0,
        watchdog: Watchdog | None = None,
        begun: dict[int, Span] | None = None,
    ):
        self._start, self._size, self._close = start, size, close
        self._retries, self._watchdog, self._begun = retries, watchdog, begun
        self._submitted: dict[int, Span] = {}
        self._futures: dict[Future[Answer], tuple[Request, int]] = {}
        self._ended: SimpleQueue[Future[Answer]] = SimpleQueue()  # however many are under way

    def __len__(self) -> int:
        return len(self._futures)

    @property
    def capacity(self) -> int:
        """Number of runs that are made at the same time, at least one: a worker may come."""
        return max(self._size(), 1)

    @property
    def begun(self) -> dict[int, Span]:
        """When and where the runs in progress began, as far as this is known."""
        if self._begun is None:
            return dict(self._submitted)
        return {n: span for n, span in self._begun.copy().items() if n in self._submitted}

    def submit(self, request: Request, attempt: int = 1) -> None:
        """Start a run, or queue it if all workers are busy."""
        try:
            future = self._start(request)
        except Exception as error:
            raise no_more_runs(error if str(error) else type(error).__name__) from error
        self._futures[future] = request, attempt
        self._submitted[request.id] = Span(time.time())
        if self._watchdog is not None:
            self._watchdog.reset()
        future.add_done_callback(self._ended.put)

    def collect(self, timeout: float) -> list[Answer]:
        """Return the runs that have ended, by id; wait at most `timeout` seconds for the first."""
        answers, broken = [], None
        ended = [future for future in self._wait(timeout) if future in self._futures]
        for future in sorted(ended, key=lambda each: self._futures[each][0].id):
            request, attempt = self._futures[future]
            try:
                answer = self._answer(future, request, attempt)
                if answer is None:
                    self.submit(request, attempt + 1)
            except ExecutionError as error:  # raised when all that ended well are collected
                broken = error
                self._ended.put(future)
                continue
            del self._futures[future]
            if answer is not None:
                self._forget(request)
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
                ended.append(self._ended.get(timeout=min(left, _LOOK)))
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
            if self._watchdog is not None and not isinstance(error, CancelledError):
                # The answer of a run is never an error: children of the workers make them.
                if not self._watchdog.connected:
                    raise no_more_runs(f"{type(error).__name__}: {error}") from error
                return self._lost(request, error)
            if attempt <= self._retries:
                return None
            if isinstance(error, CancelledError):  # by others: no fault of the run
                raise no_more_runs("it cancels them") from error
            message = f"the worker was lost: {type(error).__name__}: {error}"
            return Answer(Status.CRASHED, None, 0.0, message, attempt, id=request.id)

    def _lost(self, request: Request, error: BaseException) -> Answer:
        """Return the answer to a run whose worker has died; one that waited there had no start."""
        span = None if self._begun is None else self._begun.get(request.id)
        other = "" if _worker_died(error) else f": {type(error).__name__}: {error}"
        if span is None:
            return Answer(Status.LOST, None, 0.0, f"its worker was lost{other}", 0, id=request.id)
        seconds = max(time.time() - span.started, 0.0)
        where = f"{span.worker.partition(' ')[0]}, after {seconds:.0f} s"
        words = f"its worker was lost ({where}){other}"
        return Answer(Status.LOST, None, seconds, words, id=request.id)

    def _forget(self, request: Request) -> None:
        """Forget when a run that has ended, or is taken back, had begun."""
        self._submitted.pop(request.id, None)
        if self._begun is not None:
            self._begun.pop(request.id, None)

    def cancel(self) -> None:
        """Take back the runs that have not begun; those that have go on."""
        for future in list(self._futures):
            if future.cancel():
                self._forget(self._futures.pop(future)[0])

    def close(self) -> None:
        """Kill what still runs, where it can be killed, and release the workers."""
        self.cancel()
        self._close()


def _worker_died(error: BaseException) -> bool:
    """Return True if workers of Dask have died with a run: it is made in children of theirs."""
    return hasattr(error, "allowed_failures")
