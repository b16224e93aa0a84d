"""Handling of Ctrl-C: the first stops after the current runs, the second at once."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType
from typing import Self


class Interrupted(Exception):  # noqa: N818 - not an error
    """A stop was requested, and the runs in progress have ended."""


class Interrupt:
    """Handle Ctrl-C inside a `with` block: the first requests a stop, the second raises.

    A nested one follows the outer one.
    """

    def __init__(self) -> None:
        self._asked = False
        self._installed = False
        self._outer: Interrupt | None = None

    @property
    def requested(self) -> bool:
        """True if a stop was requested."""
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
