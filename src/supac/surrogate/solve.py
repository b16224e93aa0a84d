"""The minimiser of a bound on a surrogate, and the prior as it is seen from there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from supac.arrays import FloatArray
from supac.families import Density, Distribution, Family
from supac.problem import Function
from supac.problem.bounds import Bound, fixed_temperature, slopes
from supac.surrogate.estimator import Surrogate
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


def ray_minimiser(bound: Bound, surrogate: Surrogate, prior: LocalPrior) -> FloatArray:
    """Compute the θ that minimises bound(π_θ[f], KL(π_θ, prior)) for a surrogate f = η·T + C.

    ∇π_θ[f] = I(θ)η and ∇KL = I(θ)(θ − θ_p) are both multiples of I(θ): whatever the bound, its
    minimiser lies on the ray θ_p − β·η, and Catoni's at β = 1/λ. That one may lie outside Θ, where
    the surrogate has no minimum; it is still the direction to step in.

    A family that is not exponential has no such ray; there it is one step of natural gradient
    descent, −I(θ)⁻¹∇bound, as long as to reach that minimiser if the family were exponential.
    """
    temperature = fixed_temperature(bound)
    if temperature is not None:
        return prior.theta - surrogate.eta / temperature
    if not surrogate.eta.any():
        return prior.theta
    if not isinstance(surrogate.at.family, Family):
        return _natural_step(bound, surrogate, prior)

    def objective(log_beta: float) -> float:
        theta = prior.theta - np.exp(log_beta) * surrogate.eta
        kl = prior.kl(theta)
        return bound(surrogate.mean_under(theta), kl) if np.isfinite(kl) else float("inf")

    # The ray can hold several local minima: scan seventeen decades before refining, around the β
    # that tilts the current posterior by one standard deviation of the surrogate.
    grid = np.linspace(-20.0, 20.0, 161) - np.log(surrogate.deviation)
    values = np.array([objective(point) for point in grid])
    if not np.isfinite(values).any():
        # A prior outside the family may look like no member from here; then the local trade-off
        # between risk and KL says which way to go.
        return _natural_step(bound, surrogate, prior)
    best = int(np.argmin(values))
    bad = float(values[np.isfinite(values)].max()) + 1.0  # outside Θ: worse than all, yet finite
    from scipy.optimize import minimize_scalar  # noqa: PLC0415 - slow to import

    refined = minimize_scalar(
        lambda point: min(objective(point), bad),
        bounds=(grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]),
        method="bounded",
        options={"xatol": 1e-10},
    )
    better = refined.x if refined.fun < values[best] else grid[best]
    return np.asarray(prior.theta - np.exp(better) * surrogate.eta)


def _natural_step(bound: Bound, surrogate: Surrogate, prior: LocalPrior) -> FloatArray:
    """Compute θ_p − β·η with β from the local trade-off between risk and KL."""
    by_risk, by_kl = slopes(bound, surrogate.mean, prior.kl(surrogate.at.theta))
    return np.asarray(prior.theta - by_risk / by_kl * surrogate.eta)
