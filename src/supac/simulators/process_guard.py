"""Run a command that neither outlives this process nor leaves anything behind."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import wait
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
_LONGEST_GRACE = 3600.0
_SCRIPT = str(Path(__file__).with_name("guard_script.py"))
_PATIENCE = 8.0  # seconds in which a guard must end what it guards, after its grace
STOP = "TERM 10"
"""Signal that a command is asked to end by, and the seconds after which it is killed."""
STOP_VARIABLE = "SUPAC_STOP"
"""Environment variable that holds another one, for the programs that a simulator starts."""


def parse_stop(text: str) -> tuple[signal.Signals, float]:
    """Return the signal and the seconds of a text such as "TERM 10" or "KILL"."""
    name, _, seconds = text.strip().partition(" ")
    try:
        number = signal.Signals[f"SIG{name.upper().removeprefix('SIG')}"]
        grace = float(seconds or 0.0)
    except (KeyError, ValueError):
        grace = -1.0
    if not 0.0 <= grace < _LONGEST_GRACE:
        raise ValueError(
            f'stop must be a signal and a number of seconds, such as "TERM 10", not {text!r}'
        )
    return number, grace


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its `parent` dies (Linux)."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before it was tied to
            os.kill(os.getpid(), signal.SIGKILL)


class ProcessGuard:
    """Start a command under a guard process, which ends it together with all that it has started.

    The guard acts when the command ends, when `stop` or `close` is called, and when this process
    dies, however it dies. On Linux it finds every descendant, also those with a session of their
    own; elsewhere only those in the command's process group.

    Parameters
    ----------
    command
        The program and its arguments.
    folder
        Where it is started, with its output in stdout.txt and stderr.txt; by default here. The
        folder may be made after the guard: one that is not to be kept is removed in any case.
    keep
        Leave the folder behind when this process dies.
    pass_fds, env
        As for `subprocess.Popen`.
    stop
        Signal, and seconds until SIGKILL, by which the command is ended; by default what the
        environment says, or "TERM 10".

    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: Path | None = None,
        keep: bool = True,
        pass_fds: Sequence[int] = (),
        env: Mapping[str, str] | None = None,
        stop: str | None = None,
    ):
        self.control, theirs = socket.socketpair()
        """Readable when the command has ended."""
        self._code: int | None = None
        number, self._grace = parse_stop(stop or os.environ.get(STOP_VARIABLE) or STOP)
        place = ["keep" if keep else "remove", "" if folder is None else str(folder)]
        place += [str(int(number)), str(self._grace)]
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", _SCRIPT, *place, *command],
                stdin=theirs.fileno(),
                pass_fds=pass_fds,
                env=env,
                start_new_session=True,  # a Ctrl-C is the driver's to answer
            )
        self._reports = self.control.makefile("rb", buffering=0)

    def start(self) -> int:
        """Start the command and return its process id; OSError if it cannot be started."""
        with suppress(BrokenPipeError):
            self.control.sendall(b"\n")
        word, _, rest = self._report()
        if word != b"started":
            raise OSError(rest.decode(errors="replace") or "its guard was killed")
        return int(rest)

    def wait(self, timeout: float | None = None) -> int | None:
        """Return the exit code, negative for a signal; None if the command has not ended by then.

        By then nothing that it had started runs any more.
        """
        if self._code is None and wait([self.control], timeout):
            word, _, rest = self._report()
            self._code = int(rest) if word == b"ended" else -signal.SIGKILL
        return self._code

    def _report(self) -> tuple[bytes, bytes, bytes]:
        try:
            return self._reports.readline().rstrip(b"\n").partition(b" ")
        except ConnectionError:
            return b"", b"", b""

    def stop(self) -> None:
        """End the command and all that it has started, from any thread; do not wait for it."""
        with suppress(OSError):
            self.control.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """End what still runs, and wait for the guard itself."""
        self._reports.close()
        self.control.close()
        try:
            self._process.wait(self._grace + _PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
