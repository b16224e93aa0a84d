"""The ray on which every bound is minimised, and the prior that it begins at.

The prior is seen from the current posterior, also if it lies outside the family.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.linalg import cho_solve
from scipy.linalg.lapack import dtrtrs

from supac.arrays import FloatArray
from supac.families import Density, Distribution, Family, as_distribution
from supac.families.gaussian import GaussianFamily
from supac.problem import Function
from supac.problem.bounds import Bound, fixed_temperature, trade_off
from supac.surrogate.estimator import Surrogate
from supac.surrogate.least_squares import project_known
from supac.surrogate.regime import Regime

_GRID = np.linspace(-20.0, 20.0, 161)
"""log β relative to the β that tilts the current posterior by one standard deviation of the
surrogate: seventeen decades, because the ray can hold several local minima."""
_FINER, _ZOOMS = 33, 5
"""Points of the finer grids, whose middle is the best point until then: to 5e-7 of β in the end."""
_HALVINGS = 50


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


def view_prior(prior: Density, at: Distribution, rng: np.random.Generator | int) -> LocalPrior:
    """Return the prior as seen from the member `at`; `rng` may be a seed."""
    family, known = at.family.exponential, as_distribution(prior)
    if family is None:

        def divergence(theta: FloatArray) -> float:
            return max(at.family.divergence(theta, prior).value, 0.0)

        exact = _exact_ratio(prior, at)
        if exact is not None:
            return LocalPrior(exact, divergence)
        log_ratio = project_known(_relative_density(prior, at.log_prob), at, rng)
        return LocalPrior(at.theta + log_ratio.eta, divergence)
    if known is not None and known.family == family:
        return LocalPrior(known.theta, lambda theta: family.kl(theta, known.theta))
    h = project_known(_relative_density(prior, family.log_base), at, rng)

    def kl(theta: FloatArray) -> float:
        """Compute π_θ[θ·T − g(θ) − h]."""
        if not family.contains(theta):
            return float("inf")
        mean_log_density = theta @ family.mean_statistics(theta) - family.log_partition(theta)
        return float(mean_log_density) - h.mean_under(theta)

    return LocalPrior(h.eta, kl)


def _exact_ratio(prior: Density, at: Distribution) -> FloatArray | None:
    """Return θ plus the η of log dπ_p/dπ_θ, for Gaussians of many parameters; None for others."""
    family = at.family
    known = as_distribution(prior)
    if known is None or not known.family.is_gaussian:
        return None
    if not (family.is_gaussian and Regime.of(at.dim).is_many):
        return None
    wide, own = (
        np.asarray(cho_solve((np.linalg.cholesky(each.covariance), True), np.eye(at.dim)))
        for each in (known, at)
    )
    gradient = family.mean_gradient(at.theta, wide @ (known.mean - at.mean), own - wide)
    return None if gradient is None else at.theta + family.natural(at.theta, gradient)


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
    ray = _ray(surrogate, prior)
    beta = None if ray is None else _best_beta(bound, ray, _GRID - np.log(surrogate.deviation))
    if beta is None:
        # A prior outside the family may look like no member from here; then the local trade-off
        # between risk and KL says which way to go.
        beta = trade_off(bound, surrogate.mean, prior.kl(surrogate.at.theta))
    return np.asarray(prior.theta - beta * surrogate.eta)


def _best_beta(bound: Bound, ray: Ray, grid: FloatArray) -> float | None:
    """Scan a grid of log u, then refine its lowest points; None if all are outside Θ.

    u = s/(1 − s/length), s = β − low, goes to infinity at the far end of the ray in Θ: the risk of
    a surrogate without a minimum falls steeply just before.
    """
    low, high = ray.ends

    def beta(log_u: FloatArray) -> FloatArray:
        u = np.exp(log_u)
        return np.asarray(low + u / (1.0 + u / (high - low)))

    def values(log_u: FloatArray) -> FloatArray:
        means, kls = ray(beta(log_u))
        found = np.full(len(kls), np.inf)
        inside = np.isfinite(kls)
        found[inside] = bound.values(means[inside], kls[inside])
        return found

    means, kls = ray(beta(grid))
    inside = np.isfinite(kls)
    if not inside.any():
        return None
    grid, means, kls = grid[inside], means[inside], kls[inside]
    best, lowest = np.nan, np.inf
    for start, least in _wells(bound, means, kls):
        if least < lowest:
            ends = grid[max(start - 1, 0)], grid[min(start + 1, len(grid) - 1)]
            lowest, best = min((lowest, best), _lowest(values, *ends))
    return float(beta(np.array([best]))[0])


def _wells(bound: Bound, means: FloatArray, kls: FloatArray) -> list[tuple[int, float]]:
    """Find the local minima on a grid, the lowest first, and what they may fall to between points.

    The mean falls along the ray and KL grows. So between two points no value is below that with the
    mean of the second and KL of the first.
    """
    padded = np.pad(bound.values(means, kls), 1, constant_values=np.inf)
    values = padded[1:-1]
    (starts,) = np.nonzero((values <= padded[:-2]) & (values < padded[2:]))
    if len(starts) < 2:
        return [(int(start), -np.inf) for start in starts]
    starts = starts[np.argsort(values[starts])]
    after, before = np.minimum(starts + 1, len(values) - 1), np.maximum(starts - 1, 0)
    least = np.minimum(
        bound.values(means[after], kls[starts]), bound.values(means[starts], kls[before])
    )
    return list(zip(starts.tolist(), least.tolist(), strict=True))


def _lowest(
    values: Callable[[FloatArray], FloatArray], low: float, high: float
) -> tuple[float, float]:
    """Return the lowest value between two points of a grid, and where it is, by finer grids."""
    for _ in range(_ZOOMS):
        grid = np.linspace(low, high, _FINER)
        found = values(grid)
        best = int(np.argmin(found))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, _FINER - 1)]
    return float(found[best]), float(grid[best])


class Ray(Protocol):
    """Mean of the surrogate and KL to the prior along θ_p − β·η."""

    @property
    def ends(self) -> tuple[float, float]:
        """Return the interval of β ≥ 0 in Θ."""

    def __call__(self, beta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute both for each β (k,), with KL = inf outside Θ."""


def _ray(surrogate: Surrogate, prior: LocalPrior) -> Ray | None:
    """Return the fastest way along the ray; None if it does not meet Θ, or there is none."""
    family = surrogate.at.family.exponential
    if family is None:
        return None
    betas = np.append(0.0, np.exp(_GRID) / surrogate.deviation)
    first = next(
        (i for i, b in enumerate(betas) if family.contains(prior.theta - b * surrogate.eta)), None
    )
    if first is None:
        return None
    if isinstance(family, GaussianFamily):
        return GaussianRay.of(family, surrogate, prior, float(betas[first]))
    return AnyRay(surrogate, prior, family, float(betas[max(first - 1, 0)]), float(betas[first]))


@dataclass(frozen=True, eq=False)
class AnyRay:
    """The ray in any exponential family: one member after the other."""

    surrogate: Surrogate
    prior: LocalPrior
    family: Family
    before: float
    """β below `inside` that may be outside Θ."""
    inside: float

    @cached_property
    def ends(self) -> tuple[float, float]:
        """Find the interval, which is convex like Θ, by halving."""
        far = float(np.exp(_GRID[-1])) / self.surrogate.deviation
        low = self._border(self.before)
        return low, np.inf if self._contains(far) else self._border(far)

    def _contains(self, beta: float) -> bool:
        return self.family.contains(self.prior.theta - beta * self.surrogate.eta)

    def _border(self, outside: float) -> float:
        inside = self.inside
        for _ in range(_HALVINGS if outside != inside else 0):
            middle = 0.5 * (inside + outside)
            inside, outside = (middle, outside) if self._contains(middle) else (inside, middle)
        return inside

    def __call__(self, beta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute means and KL."""
        thetas = [self.prior.theta - each * self.surrogate.eta for each in beta]
        kls = np.array([self.prior.kl(theta) for theta in thetas])
        means = [
            self.surrogate.mean_under(theta) if np.isfinite(kl) else np.nan
            for theta, kl in zip(thetas, kls, strict=True)
        ]
        return np.array(means), kls


@dataclass(frozen=True, eq=False)
class GaussianRay:
    """The ray in coordinates in which one member of it is N(0, I) and the surrogate separates.

    There f = m₀ + Σ a_i z_i + ½λ_i(z_i² − 1), and with s = β − β₀ the member at β has independent
    z_i with precision 1 + sλ_i and mean −s·a_i/(1 + sλ_i). Each β then takes O(dim).
    """

    beta: float
    """β₀ of the member that is N(0, I): 0, unless θ_p is outside Θ."""
    mean: float
    """m₀, the mean of the surrogate at β₀."""
    kl: float
    """KL(π, prior) at β₀."""
    slope: FloatArray
    """a: (dim,)."""
    curvature: FloatArray
    """λ: (dim,)."""

    @classmethod
    def of(
        cls, family: GaussianFamily, surrogate: Surrogate, prior: LocalPrior, beta: float
    ) -> GaussianRay:
        """Diagonalise the surrogate in coordinates in which the member at β is standard."""
        theta = prior.theta - beta * surrogate.eta
        at = family.whiten(theta)
        linear, hessian = family.quadratic_form(surrogate.eta)
        bent = hessian @ at.mean
        mean = surrogate.intercept + float(linear @ at.mean + 0.5 * (at.mean @ bent))
        slope = linear + bent
        if family.coupled.sum() == family.dim:
            root = np.diag(at.root)
            slope, curvature = slope / root, np.diag(hessian) / root**2
        else:
            half, _ = dtrtrs(at.root, hessian, lower=1)
            curvature, axes = np.linalg.eigh(dtrtrs(at.root, half.T, lower=1)[0])
            slope = axes.T @ dtrtrs(at.root, slope, lower=1)[0]
        mean += 0.5 * float(curvature.sum())
        return cls(beta, mean, prior.kl(theta), slope, curvature)

    @property
    def ends(self) -> tuple[float, float]:
        """Return the interval in which every precision 1 + sλ is positive."""
        least, most = float(self.curvature.min()), float(self.curvature.max())
        low = self.beta - 1.0 / most if most > 0.0 else 0.0
        return max(low, 0.0), self.beta - 1.0 / least if least < 0.0 else np.inf

    def __call__(self, beta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute means and KL: ½Σ(var − 1 − log var + mean²) to the member at β₀, and the rest."""
        step = (beta - self.beta)[:, None]
        excess = step * self.curvature
        inside = (excess > -1.0).all(axis=1)
        excess[~inside] = 0.0
        centre = -step * self.slope / (1.0 + excess)
        narrowed = -excess / (1.0 + excess)  # variance − 1
        square = narrowed + centre**2
        means = self.mean + centre @ self.slope + 0.5 * (square @ self.curvature)
        kls = 0.5 * (square + np.log1p(excess)).sum(axis=1)
        # From KL to the member at β₀ to KL to the member at 0: the log density ratio of these two
        # is a multiple of the surrogate.
        kls += self.kl - self.beta * (means - self.mean)
        return means, np.where(inside, kls, np.inf)
