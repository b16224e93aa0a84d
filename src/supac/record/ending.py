"""The end of a search: stop reason, returned posterior, estimates and warnings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from supac.families import Distribution
from supac.guarantee.certificate import Certificate
from supac.shape.evidence import Evidence
from supac.shape.ranges import RangeCheck


class StopReason(StrEnum):
    """Reason why a search ended."""

    BUDGET = "budget"
    CONVERGED = "converged"
    USER = "user"
    FAILURES = "too many failures"
    INTERRUPTED = "interrupted"

    @property
    def sentence(self) -> str:
        """Explanation for the user, with advice."""
        return {
            "budget": "The budget is spent, or too little is left for another batch.",
            "converged": "The search has settled: further runs would gain nothing.",
            "user": "The callback asked to stop.",
            "too many failures": "More of the runs failed than max_failures allows: look at the "
            "simulator, or narrow the prior to where it works.",
            "interrupted": "It was asked to stop, by Ctrl-C or a signal: what had been learnt "
            "until then is returned.",
        }[self.value]


@dataclass(frozen=True, eq=False, kw_only=True)
class Estimate:
    """Objective, mean risk and KL of a posterior.

    `mean_risk` is the mean of `validated` fresh runs. Where there are none it is estimated from the
    runs already made, reweighted for the posterior; that was fitted to the same runs, so the
    estimate is optimistic, strongly so where `effective_size` is small.
    """

    objective: float = np.nan
    mean_risk: float = np.nan
    mean_risk_error: float = np.nan
    """Standard error of `mean_risk`; NaN if it rests on fewer than two effective runs."""
    effective_size: float = np.nan
    """Number of independent runs that the estimate of `mean_risk` is worth."""
    validated: int = 0
    """Number of fresh runs of the posterior itself that `mean_risk` rests on."""
    kl: float = np.nan
    kl_error: float = np.nan
    """Standard error of `kl`; 0 where it is exact."""


@dataclass(frozen=True, eq=False)
class ValidationBatch:
    """Fresh runs of one posterior."""

    ids: tuple[int, ...]
    posterior: Distribution


@dataclass(frozen=True, eq=False, kw_only=True)
class Ending(Estimate):
    """Estimate of the returned posterior, and why and how the search ended."""

    posterior: Distribution
    stop_reason: StopReason
    notes: tuple[str, ...] = ()
    """Warnings to read before the result is used."""
    advice: tuple[str, ...] = ()
    """Choices that would have saved runs or time; the result is no worse for it."""
    validation: tuple[ValidationBatch, ...] = ()
    """Batches of fresh runs in order; of two posteriors if the first was rejected."""
    failure_loss: float = np.nan
    """Loss of a failed run, where the loss has a value for it."""
    certificate: Certificate | None = None
    """Certificate of the ensemble of fresh runs, or of the posterior where one was added."""
    held_out: Certificate | None = None
    """Certificate of the same ensemble on held-out data, if there are any; then each of the two has
    half of δ, so that both hold together."""
    uncertified: str = ""
    """Reason why there is no certificate."""
    evidence: Evidence | None = None
    """The evidence, of a bound with a temperature; None where the posterior has the shape that was
    searched for."""

    range_check: RangeCheck | None = None
    """Comparison of the posterior with what the data leave open, as the model of the risk has it;
    None where none was made."""

    @property
    def fresh(self) -> tuple[int, ...]:
        """Ids of the validation runs of the returned posterior, failed ones included."""
        own = (each for each in self.validation if each.posterior == self.posterior)
        return tuple(run for each in own for run in each.ids)
