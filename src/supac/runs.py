"""One run of the simulator, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from supac.arrays import FloatArray

Purpose = Literal["search", "validation"]


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
