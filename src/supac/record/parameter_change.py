"""Change of each parameter from prior to posterior, in the user's units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from supac.arrays import FloatArray
from supac.families import Distribution
from supac.problem import Parameters, names_of
from supac.problem.marginals import Marginal, Normal
from supac.shape.ranges import CLEARLY, RangeCheck

_DRAWS = 20_000  # behind the quantiles of families without closed ones
Ends = tuple[float, float, float]
Curve = tuple[FloatArray, FloatArray]
UNINFORMED = "hardly informed"
"""Verdict on a parameter of which the data say next to nothing."""
LOCAL = "local range"
"""Verdict on a parameter of which the data leave more open than the range says."""
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
    """Shift of the mean in prior standard deviations, latent like the width."""
    kl: float
    """KL of the marginal posterior to the prior in nats; NaN for families other than Gaussians."""
    before: Curve
    """x and density of the prior."""
    after: Curve
    wider: float = 1.0
    """Times that the posterior should be wider to cover what the data leave open."""

    def to_dict(self) -> dict[str, Any]:
        """Return name, unit, quantiles and width for JSON."""
        ends = ("p05", "median", "p95")
        return {
            "name": self.name,
            "unit": self.unit,
            "prior": dict(zip(ends, self.prior, strict=True)),
            "posterior": dict(zip(ends, self.posterior, strict=True)),
            "width": self.width,
            "wider": self.wider,
            "change": self.words,
        }

    @property
    def words(self) -> str:
        """Verdict on the change in a word or two."""
        if self.wider >= CLEARLY:
            return LOCAL
        width = self.width * self.wider
        if width < 0.33:
            return "pinned down"
        if width < 0.8:
            return "narrowed"
        return "moved only" if abs(self.shift) > 0.5 else UNINFORMED


def uninformed(rows: Sequence[ParameterChange], most: int = 8) -> str:
    """Name the parameters that the data hardly inform, at most so many; "" if there are none."""
    names = [row.name for row in rows if row.words == UNINFORMED]
    left = len(names) - most
    names = [*names[:most], f"{left} more"] if left > 0 else names
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def parameter_changes(
    prior: Distribution | None,
    posterior: Distribution | None,
    parameters: Parameters | None,
    check: RangeCheck | None = None,
) -> list[ParameterChange]:
    """Compare prior and posterior of every parameter; empty if one of them is unknown.

    The `check` of the ranges says which of them are local.
    """
    if prior is None or posterior is None:
        return []
    both = (prior, posterior)
    ends = [_ends(each, parameters) for each in both]
    if prior.family.is_gaussian and posterior.family.is_gaussian:
        compare, known = _normal, [_moments(each) for each in both]
    else:
        compare, known = _drawn, [each.sample(_DRAWS, np.random.default_rng(0)).T for each in both]
    changes = []
    for i, name in enumerate(names_of(parameters, prior.dim)):
        marginal = Normal(0.0, 1.0) if parameters is None else parameters.transforms[name]
        told = compare(marginal, known[0][i], known[1][i])
        wider = 1.0 if check is None else float(check.wider[i])
        changes.append(ParameterChange(name, marginal.unit, ends[0][i], ends[1][i], *told, wider))
    return changes


def quantiles(distribution: Distribution, parameters: Parameters | None) -> FloatArray:
    """Return 5 %, median and 95 % of every parameter, in the user's units: (3, dim)."""
    if distribution.family.is_gaussian:
        # Exact: a parameter is an increasing function of one coordinate of a Gaussian.
        mean, spread = _moments(distribution).T
        latent = mean + ndtri(_SHARES)[:, None] * spread
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


_Comparison = tuple[float, float, float, Curve, Curve]
"""Width, shift, KL, and the densities before and after."""


def _moments(distribution: Distribution) -> FloatArray:
    """Return mean and standard deviation of every coordinate: (dim, 2)."""
    spread = np.sqrt(np.diag(distribution.covariance))
    return np.column_stack([distribution.mean, spread])


def _normal(marginal: Marginal, before: FloatArray, after: FloatArray) -> _Comparison:
    """Compare two Gaussians, (mean, standard deviation) each, in closed form."""
    (old, scale), (new, spread) = before.tolist(), after.tolist()
    shift, width = (new - old) / scale, spread / scale
    kl = 0.5 * (width**2 + shift**2 - 1.0) - math.log(width)
    low, high = new - 3.5 * spread, new + 3.5 * spread
    span = np.linspace(min(old - 2.6 * scale, low), max(old + 2.6 * scale, high), 161)
    fine = np.linspace(low, high, 121)
    curves = _density(marginal, span, old, scale), _density(marginal, fine, new, spread)
    return width, shift, kl, *curves


def _drawn(marginal: Marginal, before: FloatArray, after: FloatArray) -> _Comparison:
    """Compare draws, (n,) each."""
    curves = [_histogram(marginal.from_latent(each)) for each in (before, after)]
    scale = before.std()
    width, shift = float(after.std() / scale), float((after.mean() - before.mean()) / scale)
    return width, shift, math.nan, curves[0], curves[1]


def _density(marginal: Marginal, u: FloatArray, mean: float, sd: float) -> Curve:
    """Return x(u) and the density of x if u is N(mean, sd²)."""
    log_normal = -0.5 * ((u - mean) / sd) ** 2 - math.log(sd * math.sqrt(2.0 * math.pi))
    return marginal.from_latent(u), np.exp(log_normal - marginal.log_slope(u))


def _histogram(draws: FloatArray) -> Curve:
    """Return a histogram as a step curve, which suits integer families too."""
    low, high = np.quantile(draws, [0.002, 0.998])
    height, edges = np.histogram(draws, bins=40, range=(low, max(high, low + 1e-12)), density=True)
    return np.repeat(edges, 2)[1:-1], np.repeat(height, 2)
