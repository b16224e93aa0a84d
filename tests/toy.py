"""A deterministic toy simulator with faults, and a ledger of what was executed.

The ledger is a file: one line an execution, with the process that made it and the point. A fault
belongs to a point, and with it to the id that the run has in an unbroken run of the same seed.
Processes that make runs import this file, so it imports little.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from supac.arrays import FloatArray
from waiting import until

HANGS = 600.0  # seconds


def name_of(x: FloatArray) -> str:
    """A point as a word."""
    return np.ascontiguousarray(x).tobytes().hex()


def value(x: FloatArray) -> float:
    """The risk itself, in [0, 1]."""
    return float(np.tanh(0.3 * (x - 0.4) @ (x - 0.4) + 0.1 * np.sin(3.0 * x[0])) ** 2)


@dataclass
class Toy:
    """The risk, slowly, with a fault at some points: "once" faults happen the first time only."""

    ledger: Path
    seconds: float = 0.0
    faults: dict[str, str] = field(default_factory=dict)

    def __call__(self, x: FloatArray) -> float:
        before = self.executions().get(name_of(x), [])
        with self.ledger.open("a") as file:
            file.write(f"{os.getpid()} {name_of(x)}\n")
        time.sleep(self.seconds)
        fault = self.faults.get(name_of(x), "")
        if fault and not (fault.endswith("once") and before):
            _happen(fault)
            if fault == "nan":
                return float("nan")
        return value(x)

    def executions(self) -> dict[str, list[int]]:
        """Who executed each point."""
        made: dict[str, list[int]] = {}
        for line in self.ledger.read_text().splitlines() if self.ledger.exists() else ():
            process, _, point = line.partition(" ")
            made.setdefault(point, []).append(int(process))
        return made


def _happen(fault: str) -> None:
    match fault.removesuffix(" once"):
        case "raise":
            raise RuntimeError("the reactor has frozen")
        case "segfault":
            ctypes.string_at(0)
        case "exit":
            os._exit(3)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            time.sleep(HANGS)
        case "hang in compiled code":
            # A C function that is called with the interpreter's lock held: no thread and no
            # signal handler of this process gets a turn before it returns.
            ctypes.PyDLL(None).sleep(int(HANGS))


@dataclass
class Pair:
    """Two outputs: the risk, and the first coordinate."""

    toy: Toy

    def __call__(self, x: FloatArray) -> list[float]:
        return [self.toy(x), float(x[0])]


def alive(process: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until_gone(processes: set[int]) -> None:
    """Wait until all of them have ended."""
    until(lambda: not any(alive(process) for process in processes))


def children_of(process: int) -> set[int]:
    """The processes that a process has started, also those that have done nothing yet."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent == process:
            found.add(int(status.parent.name))
    return found
