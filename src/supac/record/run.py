"""One run of the simulator, and what became of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from supac.arrays import FloatArray

Purpose = Literal["search", "validation"]

_FOLDER = re.compile(r" \(in [^)]*\)")
_NUMBER = re.compile(  # which is no part of a name, as in k1
    r"\s*(?<!\w)[-+]?(0x[0-9a-f]+|(\d+\.?\d*|\.\d+)(e[-+]?\d+)?|(nan|inf)\b)\s*", re.IGNORECASE
)
_WORDS = 60  # letters of a message that tell its kind from others


class Status(StrEnum):
    """How a run ended."""

    OK = "ok"
    RAISED = "raised"
    INVALID = "invalid"
    TIMED_OUT = "timed out"
    CRASHED = "crashed"


@dataclass(frozen=True, eq=False)
class Run:
    """A run: where, how it ended, and what came of it."""

    id: int
    """Its place in the order in which runs were asked for."""
    x: FloatArray
    """(dim,), latent where there are `Parameters`."""
    status: Status
    risk: float
    """NaN for a failed run."""
    outputs: FloatArray | None = None
    """(m,) where the risk is a `Composite`; None for a failed run."""
    seconds: float = 0.0
    message: str = ""
    """Why it failed."""
    attempts: int = 1
    """How often it was started."""
    source: str = ""
    """Where it was made, if not here."""
    purpose: Purpose = "search"
    """What it was made for: runs that validate are never learnt from as if they had searched."""


def by_kind(failures: Sequence[Run]) -> list[list[Run]]:
    """Failed runs, those that failed alike together: the commonest kind first.

    Alike are those of one status whose messages begin alike but for their numbers: a message may
    name a point, a time or a folder of its own.
    """
    kinds: dict[tuple[Status, str], list[Run]] = {}
    for run in failures:
        words = _NUMBER.sub("#", _FOLDER.sub("", run.message))[:_WORDS]
        kinds.setdefault((run.status, words), []).append(run)
    return sorted(kinds.values(), key=len, reverse=True)
