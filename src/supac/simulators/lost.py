"""Tell runs that the machine took, for want of memory or time, from those that failed."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_FOR_ALL = Path("/proc/vmstat")
OUT_OF_MEMORY = "out of memory"
_WORDS = ("oom_kill", "oom-kill", "oom kill", "out-of-memory handler", "out_of_memory")


class RunLostError(RuntimeError):
    """The machine took the run: no memory, no time left, or its node has gone.

    A simulator may raise it. The run is made again, and never counts as a failure.
    """


class MemoryWatch:
    """Notice whether the system has killed a process for want of memory since this was made."""

    def __init__(self) -> None:
        self._before = _kills()

    @property
    def has_killed(self) -> bool:
        """True if more were killed since in this control group, or else on this machine."""
        return _kills() != self._before


def loss_by(code: int, watch: MemoryWatch, said: str = "") -> str:
    """Return why a process with this exit code was taken by the machine; "" if it failed itself.

    `said` are its last words: batch systems write there that a step was out of memory.
    """
    number = -code if code < 0 else code - 128  # a shell reports 128 + signal
    by_batch_system = any(word in said.lower() for word in _WORDS)
    if code and (by_batch_system or (number == signal.SIGKILL and watch.has_killed)):
        return f"{OUT_OF_MEMORY}: the system has killed it"
    if number == signal.SIGTERM:
        return "ended from outside by SIGTERM, as at the end of a job's time, or by preemption"
    return ""


def _kills() -> tuple[str, ...]:
    """Return the lines that count processes killed for want of memory, where there are any.

    The kills on the whole machine are others' too: they count where no group of its own does.
    """
    return _lines(*_own_files()) or _lines(_FOR_ALL)


def _lines(*files: Path) -> tuple[str, ...]:
    found: list[str] = []
    for file in files:
        with suppress(OSError):
            lines = file.read_text().splitlines()
            found += [line for line in lines if line.startswith("oom_kill ")]
    return tuple(found)


def _own_files() -> list[Path]:
    """Return the files of this process's control groups that count such kills."""
    found = []
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, kinds, place = line.split(":", 2)
            if "memory" in kinds.split(","):
                found.append(_CGROUPS / "memory" / place.lstrip("/") / "memory.oom_control")
            elif not kinds:
                found.append(_CGROUPS / place.lstrip("/") / "memory.events")
    return found
