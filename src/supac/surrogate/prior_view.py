"""The prior seen from a member of the family, also if the prior lies outside the family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from supac.arrays import FloatArray
from supac.families import Density, Distribution, Family
from supac.problem import Function
from supac.surrogate.least_squares import project_known


@dataclass(frozen=True, eq=False)
class LocalPrior:
    """Represent the prior by θ_p and θ ↦ KL(π_θ, prior), as seen from one member of the family.

    A prior in the family is represented exactly. From a member of a family that is not exponential,
    θ_p is the θ at which KL would have its minimum if it were: θ less the projection of
    log dπ_θ/dπ_p on the score, a natural gradient step. A prior outside an exponential family
    (assumptions A6 and A7) enters through h = log dπ_p/dπ_ref, which Theorem 1 allows to be
    projected like the risk: h ≈ θ_p·T + c. For Catoni's bound that is the approximation space
    {η·T + C + λh} of the paper's appendix.
    """

    theta: FloatArray
    kl: Callable[[FloatArray], float]


def _relative_density(prior: Density, reference: Function) -> Function:
    """Return h = log dπ_p/dπ_ref, which has to exist (A6), given log π_ref."""

    def h(x: FloatArray) -> FloatArray:
        values = prior.log_prob(x) - reference(x)
        if not np.isfinite(values).all():
            bad = x[~np.isfinite(values)][0]
            raise ValueError(
                f"prior.log_prob is not finite at {bad}, a draw of the posterior: the prior must "
                "cover every point that the family of `start` can draw"
            )
        return values

    return h


def view_prior(prior: Density, at: Distribution, rng: np.random.Generator) -> LocalPrior:
    """Return the prior as seen from the member `at`."""
    family = at.family
    if not isinstance(family, Family):
        log_ratio = project_known(_relative_density(prior, at.log_prob), at, rng)
        local = at.theta + log_ratio.eta
        return LocalPrior(local, lambda theta: max(family.divergence(theta, prior).value, 0.0))
    if isinstance(prior, Distribution) and prior.family == family:
        return LocalPrior(prior.theta, lambda theta: family.kl(theta, prior.theta))
    h = project_known(_relative_density(prior, family.log_base), at, rng)

    def kl(theta: FloatArray) -> float:
        """Compute π_θ[θ·T − g(θ) − h]."""
        if not family.contains(theta):
            return float("inf")
        mean_log_density = theta @ family.mean_statistics(theta) - family.log_partition(theta)
        return float(mean_log_density) - h.mean_under(theta)

    return LocalPrior(h.eta, kl)
