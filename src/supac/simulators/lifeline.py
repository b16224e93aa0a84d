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


# Waits at the other end of a pipe, and outlives even a SIGKILL of whoever holds this end.
_GUARD = 'read group; read end; kill -9 "-$group"; rm -rf -- "$@"'


def run_guarded(
    command: Sequence[str],
    *,
    folder: Path,
    output: IO[bytes],
    errors: IO[bytes],
    rubbish: Sequence[Path] = (),
) -> int:
    """A program's exit code.

    Where this process is killed or interrupted meanwhile, the program is killed with all that it
    has started, and `rubbish` is removed. Its group is its own: a Ctrl-C is the driver's to answer.
    """
    with subprocess.Popen(
        ["sh", "-c", _GUARD, "supac", *map(str, rubbish)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        process_group=0,
    ) as guard:
        try:
            return _run_watched(command, guard.stdin, folder, output, errors)
        finally:
            guard.kill()
            guard.wait()


def _run_watched(
    command: Sequence[str],
    guard: IO[bytes] | None,
    folder: Path,
    output: IO[bytes],
    errors: IO[bytes],
) -> int:
    assert guard is not None
    with subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=errors,
        process_group=0,
    ) as process:
        try:
            guard.write(b"%d\n" % process.pid)
            guard.flush()
            return process.wait()
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
