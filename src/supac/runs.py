"""One run of the simulator, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from supac.arrays import FloatArray


class Status(StrEnum):
    """How a run ended."""

    OK = "ok"
    RAISED = "raised"
    INVALID = "invalid"
    TIMED_OUT = "timed out"
    CRASHED = "crashed"

    @property
    def sentence(self) -> str:
        """What it means."""
        return {
            "ok": "The run gave a risk.",
            "raised": "The simulator raised an exception.",
            "invalid": "The simulator's answer was not a finite number, or of another shape.",
            "timed out": "The run took longer than the timeout, and was killed.",
            "crashed": "The process that made the run died.",
        }[self.value]


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
