"""Make one run on a worker: a process of a pool or a cluster, or a thread of this process."""

from __future__ import annotations

import os
import socket
import threading
import time
from dataclasses import replace

from supac.record.status import Status
from supac.record.timeline import Span
from supac.running.child import ChildSupervisor, Job
from supac.running.simulator import Answer, Request, SimulatorSet
from supac.simulators.process_guard import die_with

_KEPT = 4  # sets of simulators that it keeps loaded
_BEGAN = time.time()
_ENDS = ("SUPAC_WALLTIME_ENDS", "SLURM_JOB_END_TIME")
"""Variables of a job that hold the end of its time, in seconds since 1970."""
_loaded: dict[bytes, SimulatorSet] = {}
_lock = threading.Lock()
_own = threading.local()
_supervisors: dict[Job, list[ChildSupervisor]] = {}
_tied: set[int] = set()


def this_process() -> str:
    """Identify this process among those of all machines."""
    return f"{socket.gethostname()} {os.getpid()}"


def perform(job: Job, request: Request, parent: int | None = None) -> Answer:
    """Make one run on this worker, in a child of it if the job says so.

    A worker that is a child of `parent` dies with it.
    """
    if parent is not None and parent == os.getppid() and parent not in _tied:
        _tied.add(parent)
        die_with(parent)
    span = begin_here()
    answer = too_late(request) or _perform(job, request)
    return replace(answer, span=replace(span, ended=time.time()))


def begin_here() -> Span:
    """Return the span of a run that begins now, by the clock of this machine."""
    return Span(time.time(), worker=f"{socket.gethostname()} {threading.get_native_id()}")


def time_left() -> float | None:
    """Return the seconds that the job of this worker still has; None if it has no known end."""
    for name in _ENDS:
        if os.environ.get(name, "").isdecimal():
            return float(os.environ[name]) - time.time()
    return None


def too_late(request: Request) -> Answer | None:
    """Return an answer for a run that cannot end before the time of this worker's job does.

    It counts as lost only if a whole job would be too short for it.
    """
    left = time_left()
    if left is None or not request.usual or request.usual <= left:
        return None
    whole = left + time.time() - _BEGAN
    hopeless = whole < request.usual
    words = (
        f"a run takes about {request.usual:.0f} s, and the whole job of its worker "
        f"({socket.gethostname()}) is {whole:.0f} s long: raise the walltime"
        if hopeless
        else f"the job of its worker ({socket.gethostname()}) has only {max(left, 0.0):.0f} s left"
    )
    return Answer(Status.LOST, None, 0.0, words, attempts=int(hopeless), id=request.id, late=True)


def _perform(job: Job, request: Request) -> Answer:
    if job.in_child and job.driver != this_process():
        return _supervisor(job).run(request)
    blob = job.simulators
    with _lock:
        for forgotten in list(_loaded)[: 1 - _KEPT] if blob not in _loaded else ():
            del _loaded[forgotten]
        simulators = _loaded.setdefault(blob, SimulatorSet(blob))
    return simulators.answer(request).without_error()


def forget(job: Job) -> None:
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
