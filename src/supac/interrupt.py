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
    """While it is open, the first Ctrl-C asks to stop and the second stops at once."""

    def __init__(self) -> None:
        self.requested = False
        self._installed = False

    def __enter__(self) -> Self:
        in_main_thread = threading.current_thread() is threading.main_thread()
        if in_main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._handle)
            self._installed = True
        return self

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        message = "Stopping when the runs in progress have ended; Ctrl-C again stops at once."
        print(f"\n{message}", file=sys.stderr, flush=True)

    def __exit__(self, *exception: object) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)
