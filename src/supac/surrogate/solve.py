"""The minimiser of a bound on a surrogate."""

from __future__ import annotations

import numpy as np

from supac.arrays import FloatArray
from supac.families import Family
from supac.problem.bounds import Bound, fixed_temperature, slopes
from supac.surrogate.prior_view import LocalPrior
from supac.surrogate.surrogate import Surrogate


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
