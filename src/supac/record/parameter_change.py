"""Change of each parameter from prior to posterior, in the user's units."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from supac.arrays import FloatArray
from supac.families import Distribution
from supac.problem.marginals import Marginal, Normal
from supac.problem.parameters import Parameters, names_of

_DRAWS = 20_000  # behind the quantiles of families without closed ones
Ends = tuple[float, float, float]
_SHARES = np.array([0.05, 0.5, 0.95])


@dataclass(frozen=True, eq=False)
class ParameterChange:
    """One parameter under the prior and under the posterior."""

    name: str
    unit: str
    prior: Ends
    """5 %, median and 95 %, in the user's unit."""
    posterior: Ends
    width: float
    """Posterior over prior standard deviation, latent if there are `Parameters`: in the user's
    unit, a log-normal parameter would seem better known just because it is smaller."""
    shift: float
    """Shift of the mean in prior standard deviations; NaN for families other than Gaussians."""
    kl: float
    """KL of the marginal posterior to the prior in nats; NaN for families other than Gaussians."""
    before: tuple[FloatArray, FloatArray]
    """x and density of the prior."""
    after: tuple[FloatArray, FloatArray]

    def to_dict(self) -> dict[str, Any]:
        """Return name, unit, quantiles and width for JSON."""
        ends = ("p05", "median", "p95")
        return {
            "name": self.name,
            "unit": self.unit,
            "prior": dict(zip(ends, self.prior, strict=True)),
            "posterior": dict(zip(ends, self.posterior, strict=True)),
            "width": self.width,
        }

    @property
    def words(self) -> str:
        """Verdict on the change in a word or two."""
        if self.width < 0.33:
            return "pinned down"
        if self.width < 0.8:
            return "narrowed"
        return "moved only" if abs(self.shift) > 0.5 else "hardly informed"


def parameter_changes(
    prior: Distribution | None, posterior: Distribution | None, parameters: Parameters | None
) -> list[ParameterChange]:
    """Compare prior and posterior of every parameter; empty if one of them is unknown."""
    if prior is None or posterior is None:
        return []
    ends = list(zip(_ends(prior, parameters), _ends(posterior, parameters), strict=True))
    if prior.family.is_gaussian and posterior.family.is_gaussian:
        return [_normal(prior, posterior, parameters, i, ends[i]) for i in range(prior.dim)]
    draws = [each.sample(_DRAWS, np.random.default_rng(0)) for each in (prior, posterior)]
    return [
        _drawn(draws[0][:, i], draws[1][:, i], parameters, i, ends[i]) for i in range(prior.dim)
    ]


def quantiles(distribution: Distribution, parameters: Parameters | None) -> FloatArray:
    """Return 5 %, median and 95 % of every parameter, in the user's units: (3, dim)."""
    if distribution.family.is_gaussian:
        # Exact: a parameter is an increasing function of one coordinate of a Gaussian.
        spread = np.sqrt(np.diag(distribution.covariance))
        latent = distribution.mean + ndtri(_SHARES)[:, None] * spread
    else:
        draws = distribution.sample(_DRAWS, np.random.default_rng(0))
        latent = np.quantile(draws, _SHARES, axis=0)
    return latent if parameters is None else parameters.from_latent(latent)


def _ends(distribution: Distribution, parameters: Parameters | None) -> list[Ends]:
    return [(low, mid, high) for low, mid, high in quantiles(distribution, parameters).T.tolist()]


def correlations(distribution: Distribution) -> FloatArray:
    """Compute the correlation matrix of the coordinates: (dim, dim)."""
    deviations = np.sqrt(np.diag(distribution.covariance))
    return distribution.covariance / np.outer(deviations, deviations)


def joint_kl(rows: list[ParameterChange], total: float) -> float:
    """Compute the KL due to correlations: total minus the sum over parameters, at least 0."""
    return max(total - math.fsum(row.kl for row in rows), 0.0)


def _normal(
    prior: Distribution,
    posterior: Distribution,
    known: Parameters | None,
    i: int,
    ends: tuple[Ends, Ends],
) -> ParameterChange:
    """Compute the change of coordinate i between Gaussians, in closed form."""
    before = (float(prior.mean[i]), math.sqrt(prior.covariance[i, i]))
    after = (float(posterior.mean[i]), math.sqrt(posterior.covariance[i, i]))
    shift, width = (after[0] - before[0]) / before[1], after[1] / before[1]
    marginal = _marginal(known, i)
    span = np.linspace(
        min(before[0] - 2.6 * before[1], after[0] - 3.5 * after[1]),
        max(before[0] + 2.6 * before[1], after[0] + 3.5 * after[1]),
        161,
    )
    fine = np.linspace(after[0] - 3.5 * after[1], after[0] + 3.5 * after[1], 121)
    return ParameterChange(
        name=names_of(known, prior.dim)[i],
        unit=marginal.unit,
        prior=ends[0],
        posterior=ends[1],
        width=width,
        shift=shift,
        kl=0.5 * (width**2 + shift**2 - 1.0) - math.log(width),
        before=_density(marginal, span, *before),
        after=_density(marginal, fine, *after),
    )


def _marginal(known: Parameters | None, i: int) -> Marginal:
    """Return the marginal that converts coordinate i to the user's unit."""
    return Normal(0.0, 1.0) if known is None else known.marginals[known.names[i]]


def _density(
    marginal: Marginal, u: FloatArray, mean: float, sd: float
) -> tuple[FloatArray, FloatArray]:
    """Return x(u) and the density of x if u is N(mean, sd²)."""
    log_normal = -0.5 * ((u - mean) / sd) ** 2 - math.log(sd * math.sqrt(2.0 * math.pi))
    return marginal.from_latent(u), np.exp(log_normal - marginal.log_slope(u))


def _drawn(
    before: FloatArray, after: FloatArray, known: Parameters | None, i: int, ends: tuple[Ends, Ends]
) -> ParameterChange:
    marginal = _marginal(known, i)
    x = [marginal.from_latent(each) for each in (before, after)]
    return ParameterChange(
        name=f"x{i}" if known is None else known.names[i],
        unit=marginal.unit,
        prior=ends[0],
        posterior=ends[1],
        width=float(after.std() / before.std()),
        shift=math.nan,
        kl=math.nan,
        before=_histogram(x[0]),
        after=_histogram(x[1]),
    )


def _histogram(draws: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a histogram as a step curve, which suits integer families too."""
    low, high = np.quantile(draws, [0.002, 0.998])
    height, edges = np.histogram(draws, bins=40, range=(low, max(high, low + 1e-12)), density=True)
    return np.repeat(edges, 2)[1:-1], np.repeat(height, 2)
