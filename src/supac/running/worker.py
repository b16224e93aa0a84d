"""What happens on a worker of somebody's executor: the simulator is loaded once, then run."""

from __future__ import annotations

import os
import threading

import cloudpickle

from supac.arrays import FloatArray
from supac.running.answer import Answer, Simulator
from supac.running.child import Nest
from supac.simulators.lifeline import die_with

_KEPT = 4  # simulators that a worker keeps loaded
_loaded: dict[bytes, Simulator] = {}
_lock = threading.Lock()
_own = threading.local()
_nests: dict[bytes, list[Nest]] = {}
_tied: set[int] = set()


def perform(
    blob: bytes, x: FloatArray, timeout: float | None, retries: int, parent: int | None = None
) -> Answer:
    """One run on a worker; in a child of it, given a timeout.

    A worker that is a child of `parent` dies with it.
    """
    if parent is not None and parent == os.getppid() and parent not in _tied:
        _tied.add(parent)
        die_with(parent)()
    if timeout is not None:
        return _nest(blob, timeout, retries).run(x)
    try:
        simulator = _load(blob)
    except (Exception, SystemExit) as error:
        return Answer.not_loaded(error)
    return simulator.answer(x).without_error()


def forget(blob: bytes) -> None:
    """End the children that threads of this process keep for a simulator."""
    with _lock:
        nests = _nests.pop(blob, [])
    for nest in nests:
        nest.close()
        nest.bury()


def _nest(blob: bytes, timeout: float, retries: int) -> Nest:
    """That of this thread."""
    known: dict[tuple[bytes, float, int], Nest] = _own.__dict__.setdefault("known", {})
    key = blob, timeout, retries
    if key not in known or known[key].closed:
        for forgotten in list(known)[: 1 - _KEPT]:
            known.pop(forgotten).bury()
        known[key] = Nest(blob, timeout, retries)
        with _lock:
            _nests.setdefault(blob, []).append(known[key])
    return known[key]


def _load(blob: bytes) -> Simulator:
    """The simulator, loaded once however many threads there are."""
    with _lock:
        if blob not in _loaded:
            simulator: Simulator = cloudpickle.loads(blob)
            simulator.set_up()
            for forgotten in list(_loaded)[: 1 - _KEPT]:
                del _loaded[forgotten]
            _loaded[blob] = simulator
        return _loaded[blob]
