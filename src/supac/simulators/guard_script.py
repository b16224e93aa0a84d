"""Guard a command: end it and all of its descendants when it ends, or when the driver is gone.

`process_guard` runs this file as a script, with standard modules that are fast to import only:

    guard_script.py keep|remove FOLDER SIGNAL SECONDS COMMAND...

Standard input is a socket to the driver. The driver sends a byte to start the command and hangs up
to end it: by SIGNAL, so that `srun`, `mpirun` and containers take along what they have started
elsewhere, and by SIGKILL if that has not helped after SECONDS. The guard reports `started PID`,
`failed REASON` and `ended CODE`, one a line. On Linux the guard is the subreaper of its
descendants: one whose parent has died becomes a child of the guard, whatever session it is in, so
that all have been found when the guard has no child left.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time
from contextlib import suppress

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_LOOK = 0.5  # seconds between looks at whether the driver lives: others may hold its socket open
_PATIENCE = 5.0  # seconds in which all descendants must be dead
_GUARDS = 3.0  # of them, for guards of descendants to end what they guard


def main() -> None:
    """Run the command of the arguments, from start to end."""
    keep, folder, number, grace, *command = sys.argv[1:]
    driver = os.getppid()
    for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGCHLD):
        signal.signal(each, lambda *_: None)  # unlike one that is ignored, not passed on
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if _hears(driver):
        _guard(driver, folder, command, (int(number), float(grace)))
    if folder and keep == "remove" and os.path.exists(folder):
        import shutil  # noqa: PLC0415

        shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def _guard(driver: int, folder: str, command: list[str], stop: tuple[int, float]) -> None:
    """Start the command, report its end, and wait until the driver has hung up."""
    program, error = _start(folder, command)
    for name in os.listdir("/dev/fd"):  # what was meant for the command, not for its guard
        with suppress(OSError):
            os.close(int(name) or -1)
    ended: dict[int, int] = {}
    awake, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    _report(f"failed {error}" if error else f"started {program}")
    while _reap(ended) and program not in ended:
        ready, _, _ = select.select([0, awake], [], [], _LOOK)
        if awake in ready:
            os.read(awake, 4096)
        if os.getppid() != driver or (0 in ready and not _read()):
            break
    if program not in ended:
        _ask_to_end(program, ended, *stop)
    _end_all(program, ended, stop[1])
    if not error:
        _report(f"ended {ended.get(program, -signal.SIGKILL)}")
    while _hears(driver):
        pass


def _start(folder: str, command: list[str]) -> tuple[int, str]:
    """Fork the command: its process id, and the error if it could not be started."""
    guard = os.getpid()
    errors, theirs = os.pipe()
    pid = os.fork()
    if pid:
        os.close(theirs)
        return pid, os.read(errors, 4096).decode(errors="replace").replace("\n", " ")
    try:
        os.setsid()
        if _LIBC is not None:
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != guard:
            os._exit(1)
        for each in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores, and exec would keep
            signal.signal(each, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        if folder:
            os.chdir(folder)
            for name, number in (("stdout.txt", 1), ("stderr.txt", 2)):
                os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), number)
        os.execvp(command[0], command)
    except OSError as error:
        os.write(theirs, str(error).encode(errors="replace"))
    finally:
        os._exit(127)


def _ask_to_end(program: int, ended: dict[int, int], number: int, grace: float) -> None:
    """Send a signal to the program and all its descendants, once each; wait until they have ended.

    Guards among them are left alone: they end what they guard when their own driver has ended.
    """
    asked = set[int]()
    end = time.monotonic() + grace
    while number != signal.SIGKILL and _reap(ended) and time.monotonic() < end:
        if program not in asked and program not in ended:
            asked |= {program, *_descendants(program)}
            with suppress(OSError):
                os.killpg(program, number)
                os.killpg(program, signal.SIGCONT)  # one that is stopped would not hear it
            outside = {each for each in asked if _group_of(each) not in (program, None)}
        else:
            outside = {each for each in _children() if each not in asked and not _is_guard(each)}
            asked |= outside
        for each in outside:
            with suppress(OSError):
                os.kill(each, number)
        time.sleep(0.002)


def _end_all(program: int, ended: dict[int, int], grace: float) -> None:
    """Kill the program and its descendants until none is left."""
    with suppress(OSError):
        if program not in ended or _LIBC is None:
            os.killpg(program, signal.SIGKILL)
    start = time.monotonic()
    while _reap(ended) and time.monotonic() < start + grace + _PATIENCE:
        for child in _children():
            if time.monotonic() > start + grace + _GUARDS or not _is_guard(child):
                with suppress(OSError):
                    os.kill(child, signal.SIGKILL)
        time.sleep(0.002)


def _reap(ended: dict[int, int]) -> bool:
    """Collect the exit codes of children that have ended; return False if none is left."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if not pid:
            return True
        ended[pid] = os.waitstatus_to_exitcode(status)


def _children() -> list[int]:
    """Return the processes whose parent is this one (Linux)."""
    return [process for process, (parent, _) in _processes().items() if parent == os.getpid()]


def _descendants(program: int) -> set[int]:
    """Return the processes that a program has started, but for guards and what they guard."""
    known, found, new = _processes(), set[int](), {program}
    while new:
        new = {
            process
            for process, (parent, _) in known.items()
            if parent in new and process not in found and not _is_guard(process)
        }
        found |= new
    return found


def _group_of(process: int) -> int | None:
    """Return the process group of a process; None if it has ended."""
    try:
        return os.getpgid(process)
    except OSError:
        return None


def _processes() -> dict[int, tuple[int, int]]:
    """Return the parent and the group of each process (Linux)."""
    found = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit():
            status = _contents(f"/proc/{name}/stat").rpartition(b")")[2].split()
            if len(status) > 2:
                found[int(name)] = int(status[1]), int(status[2])
    return found


def _is_guard(process: int) -> bool:
    """Return True if a process runs this script: it ends what it guards by itself."""
    return os.fsencode(sys.argv[0]) in _contents(f"/proc/{process}/cmdline").split(b"\0")


def _contents(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:  # the process has ended meanwhile
        return b""


def _hears(driver: int) -> bool:
    """Wait for a byte of the driver: False if it has hung up, or is dead."""
    while not select.select([0], [], [], _LOOK)[0]:
        if os.getppid() != driver:
            return False
    return bool(_read())


def _read() -> bytes:
    try:
        return os.read(0, 1)
    except OSError:
        return b""


def _report(line: str) -> None:
    with suppress(OSError):  # the driver may be gone
        os.write(0, f"{line}\n".encode())


if __name__ == "__main__":
    main()
