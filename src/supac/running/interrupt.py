"""Signals that ask a call to stop: Ctrl-C, and what batch systems send."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from types import FrameType
from typing import Any, Self

from supac.early_signals import NAMES, leave


class Interrupted(Exception):  # noqa: N818 - not an error
    """A stop was requested, and the runs in progress have ended."""


class Interrupt:
    """Handle signals inside a `with` block: the first requests a stop, the second raises.

    These are Ctrl-C, SIGTERM and SIGUSR1, each unless the user has given it another meaning. Ctrl-C
    is also heard where it was inherited as ignored, as by a job in the background of a script,
    unless there is a terminal, on which it may be meant for others. A nested one follows the outer
    one.
    """

    def __init__(self) -> None:
        self._asked = False
        self._before: dict[int, Any] = {}
        self._outer: Interrupt | None = None

    @property
    def requested(self) -> bool:
        """True if a stop was requested."""
        return self._asked or (self._outer is not None and self._outer.requested)

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, *NAMES):
                handler = signal.getsignal(number)
                outer = getattr(handler, "__self__", None)
                if isinstance(outer, Interrupt):
                    self._outer = outer
                elif _is_free(number, handler):
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
        what = NAMES.get(signal.Signals(number), "")
        again = "another one stops at once" if what else "Ctrl-C again stops at once"
        words = f"{what}: stopping" if what else "Stopping"
        with suppress(OSError, ValueError):  # nobody reads it any more
            message = f"{words} when the runs in progress have ended; {again}."
            print(f"\n{message}", file=sys.stderr, flush=True)

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _is_free(number: int, handler: Any) -> bool:
    """Return True if a signal has no meaning of the user's own."""
    if number != signal.SIGINT:
        return handler is signal.SIG_DFL or handler is leave
    return handler is signal.default_int_handler or (
        handler is signal.SIG_IGN and not _has_terminal()
    )


def _has_terminal() -> bool:
    """Return True if this process belongs to a terminal, from which a Ctrl-C may come."""
    with suppress(OSError):
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
        return True
    return False
