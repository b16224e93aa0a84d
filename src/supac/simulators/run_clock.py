"""The clock of a run: what it waits for the step of an allocation is no time of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class _Waited(threading.local):
    seconds = 0.0


_waited = _Waited()
_listeners: list[Callable[[bool], None]] = []


def listen(listener: Callable[[bool], None]) -> None:
    """Have a function told when a run of this process begins to wait, True, and goes on, False."""
    _listeners.append(listener)


def reset() -> None:
    """Begin a run in this thread."""
    _waited.seconds = 0.0


def waited() -> float:
    """Return the seconds that the run of this thread has waited."""
    return _waited.seconds


@contextmanager
def waiting() -> Iterator[None]:
    """Stop the clock of the run that this thread makes."""
    start = time.perf_counter()
    for each in _listeners:
        each(True)
    try:
        yield
    finally:
        _waited.seconds += time.perf_counter() - start
        for each in _listeners:
            each(False)
