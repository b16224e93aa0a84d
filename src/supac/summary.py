"""Every parameter before and after, in the user's units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from supac.exchange import Calibrated
from supac.families import Distribution
from supac.learnt import learnt
from supac.parameters import Parameters


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


_Z = 1.6448536269514722  # the 95 % quantile of the standard normal


def summarise(run: Calibrated) -> list[ParameterSummary]:
    """Every parameter before and after; empty where there are no names or no posterior yet."""
    if run.parameters is None or run.posterior is None:
        return []
    return compare(run.parameters, run.posterior)


def compare(parameters: Parameters, posterior: Distribution) -> list[ParameterSummary]:
    """Every parameter under the prior and under a latent posterior.

    Exact where that is a Gaussian, of which each parameter is an increasing function of one
    coordinate; from draws where it is not.
    """
    if not posterior.family.is_gaussian:
        rows = learnt(parameters.prior, posterior, parameters)
        return [ParameterSummary(r.name, r.unit, r.prior, r.posterior, r.width) for r in rows]
    steps = np.array([-_Z, 0.0, _Z])[:, None]
    before = parameters.from_latent(np.repeat(steps, len(parameters), axis=1))
    deviations = np.sqrt(np.diag(posterior.covariance))
    after = parameters.from_latent(posterior.mean + steps * deviations)
    columns = zip(
        parameters.names, parameters.units, before.T, after.T, deviations.tolist(), strict=True
    )
    return [
        ParameterSummary(name, unit, tuple(prior.tolist()), tuple(post.tolist()), width)
        for name, unit, prior, post, width in columns
    ]
