"""One run of the simulator."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from supac.arrays import FloatArray

Purpose = Literal["search", "validation", "certificate", "prediction", "check"]

_FOLDER = re.compile(r" \(in [^)]*\)")
_NUMBER = re.compile(  # not part of a name such as k1
    r"\s*(?<!\w)[-+]?(0x[0-9a-f]+|(\d+\.?\d*|\.\d+)(e[-+]?\d+)?|(nan|inf)\b)\s*", re.IGNORECASE
)
_WORDS = 60  # characters of a message that identify its kind


class Status(StrEnum):
    """Outcome of a run."""

    OK = "ok"
    RAISED = "raised"
    INVALID = "invalid"
    TIMED_OUT = "timed out"
    CRASHED = "crashed"


@dataclass(frozen=True, eq=False)
class Run:
    """One run of the simulator: its point, its status, and its risk or outputs."""

    id: int
    """Position among the requested runs of its task."""
    x: FloatArray
    """(dim,), latent if there are `Parameters`."""
    status: Status
    risk: float
    """NaN for a failed run."""
    outputs: FloatArray | None = None
    """(m,), of the simulator of a `Composite`; None for a failed run or a plain risk."""
    seconds: float = 0.0
    message: str = ""
    """Reason of a failure."""
    attempts: int = 1
    """Number of starts."""
    source: str = ""
    """Name of the table that the run was imported from; empty for runs made here."""
    purpose: Purpose = "search"
    """Only search runs, and in part validation runs, are used for fitting."""
    task: int = 0
    """Index of the task in meta-learning."""

    @property
    def ok(self) -> bool:
        """True if the run succeeded."""
        return self.status is Status.OK


def by_kind(failures: Sequence[Run]) -> list[list[Run]]:
    """Group failed runs by kind, the most common kind first.

    A kind is a status and the beginning of the message without its numbers, since a message may
    name a point, a time or a folder.
    """
    kinds: dict[tuple[Status, str], list[Run]] = {}
    for run in failures:
        words = _NUMBER.sub("#", _FOLDER.sub("", run.message))[:_WORDS]
        kinds.setdefault((run.status, words), []).append(run)
    return sorted(kinds.values(), key=len, reverse=True)
