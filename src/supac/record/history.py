"""What happens on the way of a run, iteration by iteration, and why it ends."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum

import numpy as np

from supac.arrays import FloatArray
from supac.families import Distribution
from supac.record.run import Run
from supac.search.algorithm import Info


class StopReason(StrEnum):
    """Why a run ended."""

    BUDGET = "budget"
    CONVERGED = "converged"
    USER = "user"
    FAILURES = "too many failures"
    INTERRUPTED = "interrupted"

    @property
    def sentence(self) -> str:
        """What it means, and what one might do."""
        return {
            "budget": "The budget is spent, or too little is left for another batch.",
            "converged": "Successive posteriors differ by less than the tolerance.",
            "user": "The callback asked to stop.",
            "too many failures": "More of the runs failed than max_failures allows: look at the "
            "simulator, or narrow the prior to where it works.",
            "interrupted": "Ctrl-C: what had been learnt until then is returned.",
        }[self.value]


@dataclass(eq=False)
class Journal:
    """What happened on the way, iteration by iteration."""

    infos: list[Info] = field(default_factory=list)
    queries: list[int] = field(default_factory=list)
    """How many there had been after each."""
    failures: list[Run] = field(default_factory=list)
    seconds: float = 0.0
    """That the simulator took."""

    def columns(self) -> dict[str, FloatArray]:
        """One array a quantity."""
        names = [each.name for each in fields(Info) if each.name != "notes"]
        columns = {name: np.array([getattr(info, name) for info in self.infos]) for name in names}
        return {"queries": np.array(self.queries, dtype=np.float64), **columns}


@dataclass(frozen=True)
class Iteration:
    """What a callback is given after each iteration."""

    queries: int
    posterior: Distribution
    """The posterior that drew the batch, which `objective` is about."""
    objective: float
    info: Info
    next_posterior: Distribution
    """Where the step led, before any run has been made there."""

    @property
    def mean_risk(self) -> float:
        """Of `posterior`, as far as its runs tell."""
        return self.info.mean_risk

    @property
    def kl(self) -> float:
        """KL(posterior, prior)."""
        return self.info.kl
