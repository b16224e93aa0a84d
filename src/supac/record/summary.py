"""Every parameter before and after, in the user's units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from supac.families import Distribution
from supac.problem.parameters import Parameters
from supac.record.calibrated import Calibrated
from supac.record.learnt import learnt


@dataclass(frozen=True)
class ParameterSummary:
    """One parameter before and after: quantiles in the user's units."""

    name: str
    unit: str
    prior: tuple[float, float, float]
    """5 %, median and 95 %."""
    posterior: tuple[float, float, float]
    width: float
    """Posterior over prior standard deviation, latent: 1 where nothing was learnt.

    In the user's unit a log-normal parameter would seem better known for being smaller.
    """

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        ends = ("p05", "median", "p95")
        return {
            "name": self.name,
            "unit": self.unit,
            "prior": dict(zip(ends, self.prior, strict=True)),
            "posterior": dict(zip(ends, self.posterior, strict=True)),
            "width": self.width,
        }


def summarise(run: Calibrated) -> list[ParameterSummary]:
    """Every parameter before and after; empty where there are no names or no posterior yet."""
    if run.parameters is None or run.posterior is None:
        return []
    return compare(run.parameters, run.posterior)


def compare(parameters: Parameters, posterior: Distribution) -> list[ParameterSummary]:
    """Every parameter under the prior and under a latent posterior."""
    rows = learnt(parameters.prior, posterior, parameters)
    return [ParameterSummary(r.name, r.unit, r.prior, r.posterior, r.width) for r in rows]
