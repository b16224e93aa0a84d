"""Make each run in a job of its own, through an executor of submitit."""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from supac.record.status import Status
from supac.running.child import Job
from supac.running.simulator import Answer, Request
from supac.running.worker import perform

_LOOK = 0.1  # seconds between looks at the jobs


def is_submitit(workers: object) -> bool:
    """Return True for an executor of submitit, whose jobs are no futures of Python's own."""
    core = sys.modules.get("submitit.core.core")
    return core is not None and isinstance(workers, core.Executor)


class SubmititJobs:
    """Submit runs as jobs, and look after them in a thread of this process."""

    def __init__(self, executor: Any, job: Job):
        self._executor, self._job = executor, job
        self._jobs: dict[Future[Answer], tuple[Any, Request]] = {}
        self._lock, self._closed = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._watch, name="supac submitit", daemon=True)
        self._thread.start()

    def start(self, request: Request) -> Future[Answer]:
        """Submit a run."""
        theirs, ours = self._executor.submit(perform, self._job, request), Future[Answer]()
        with self._lock:
            self._jobs[ours] = theirs, request
        return ours

    def close(self) -> None:
        """Cancel the jobs that have not ended."""
        self._closed.set()
        self._thread.join()
        for theirs, _ in self._jobs.values():
            with suppress(Exception):  # it may have ended by itself
                theirs.cancel(check=False)

    def _watch(self) -> None:
        while not self._closed.wait(_LOOK):
            with self._lock:
                jobs = dict(self._jobs)
            for ours, (theirs, request) in jobs.items():
                if ours.cancelled():
                    theirs.cancel(check=False)
                elif theirs.done():
                    if ours.running() or ours.set_running_or_notify_cancel():
                        ours.set_result(_answer(theirs, request))
                else:
                    if theirs.state == "RUNNING" and not ours.running():
                        ours.set_running_or_notify_cancel()
                    continue
                with self._lock:
                    del self._jobs[ours]


def _answer(theirs: Any, request: Request) -> Answer:
    """Return the answer of a job that has ended: its run is lost if it has none."""
    begun = time.time()
    try:
        answer: Answer = theirs.result()
    except Exception as error:
        words = " ".join(str(error).split())[-200:]
        message = (
            f"its job {theirs.job_id} ended without an answer ({type(error).__name__}: …{words})"
        )
        return Answer(Status.LOST, None, time.time() - begun, message, id=request.id)
    return answer
