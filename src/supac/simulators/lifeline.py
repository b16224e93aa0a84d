"""Processes that do not outlive whoever started them."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

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


# Waits at the other end of a pipe, and outlives even a SIGKILL of whoever holds this end. It is in
# the group that it kills, which so exists before the program does and as long as it may be killed.
_GUARD = 'trap "" TERM; read end; kill -TERM 0; rm -rf -- "$@"; kill -KILL 0'


def run_guarded(
    command: Sequence[str],
    *,
    folder: Path,
    output: IO[bytes],
    errors: IO[bytes],
    rubbish: Sequence[Path] = (),
) -> int:
    """A program's exit code; whatever it has started and left behind is killed.

    So it is where this process is killed or interrupted meanwhile, and `rubbish` is removed then.
    The program has a group of its own: a Ctrl-C is the driver's to answer.
    """
    with subprocess.Popen(
        ["sh", "-c", _GUARD, "supac", *map(str, rubbish)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        process_group=0,
    ) as guard:
        process = None
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                process_group=guard.pid,
            )
            return process.wait()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(guard.pid, signal.SIGKILL)
            guard.wait()
            if process is not None:
                process.wait()
