"""Ctrl-C, once and twice."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType
from typing import Self


class Interrupted(Exception):  # noqa: N818 - no error, but a wish
    """A stop was asked for, and what was in flight has landed."""


class Interrupt:
    """While it is open, the first Ctrl-C asks to stop and the second stops at once.

    One that is opened within another hears what the outer one hears.
    """

    def __init__(self) -> None:
        self._asked = False
        self._installed = False
        self._outer: Interrupt | None = None

    @property
    def requested(self) -> bool:
        """Whether a stop was asked for."""
        return self._asked or (self._outer is not None and self._outer.requested)

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(signal.SIGINT)
            outer = getattr(handler, "__self__", None)
            if handler is signal.default_int_handler:
                signal.signal(signal.SIGINT, self._handle)
                self._installed = True
            elif isinstance(outer, Interrupt):
                self._outer = outer
        return self

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
        message = "Stopping when the runs in progress have ended; Ctrl-C again stops at once."
        print(f"\n{message}", file=sys.stderr, flush=True)

    def __exit__(self, *exception: object) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)
