"""One run on a worker of somebody's executor: the simulators are loaded once, then run."""

from __future__ import annotations

import os
import threading

from supac.running.answer import Answer, Request, SimulatorSet
from supac.running.child import ChildSupervisor
from supac.simulators.process_guard import die_with

_KEPT = 4  # sets of simulators that a worker keeps loaded
_loaded: dict[bytes, SimulatorSet] = {}
_lock = threading.Lock()
_own = threading.local()
_supervisors: dict[bytes, list[ChildSupervisor]] = {}
_tied: set[int] = set()


def perform(
    blob: bytes, request: Request, timeout: float | None, retries: int, parent: int | None = None
) -> Answer:
    """Make one run on this worker, in a child of it if there is a timeout.

    A worker that is a child of `parent` dies with it.
    """
    if parent is not None and parent == os.getppid() and parent not in _tied:
        _tied.add(parent)
        die_with(parent)
    if timeout is not None:
        return _supervisor(blob, timeout, retries).run(request)
    with _lock:
        for forgotten in list(_loaded)[: 1 - _KEPT] if blob not in _loaded else ():
            del _loaded[forgotten]
        simulators = _loaded.setdefault(blob, SimulatorSet(blob))
    return simulators.answer(request).without_error()


def forget(blob: bytes) -> None:
    """End the children that threads of this process keep for simulators."""
    with _lock:
        supervisors = _supervisors.pop(blob, [])
    for each in supervisors:
        each.close()
        each.discard()


def _supervisor(blob: bytes, timeout: float, retries: int) -> ChildSupervisor:
    """Return the supervisor of this thread."""
    known: dict[tuple[bytes, float, int], ChildSupervisor] = _own.__dict__.setdefault("known", {})
    key = blob, timeout, retries
    if key not in known or known[key].closed:
        for forgotten in list(known)[: 1 - _KEPT]:
            known.pop(forgotten).discard()
        known[key] = ChildSupervisor(blob, timeout, retries)
        with _lock:
            _supervisors.setdefault(blob, []).append(known[key])
    return known[key]
