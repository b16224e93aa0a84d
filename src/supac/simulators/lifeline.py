"""Processes that do not outlive whoever started them."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def die_with(parent: int) -> Callable[[], None]:
    """What a new process calls first, to be killed by the kernel when `parent` dies (Linux)."""

    def tie() -> None:
        if _LIBC is not None:
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:  # it died before it was tied to
                os.kill(os.getpid(), signal.SIGKILL)

    return tie
