"""Priors with closed forms: normal, uniform and their transformations and truncations."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from supac.arrays import FloatArray, finite, positive
from supac.codec import register
from supac.problem.marginals.marginal import (
    Marginal,
    between,
    check_interval,
    clip_inside,
    log_phi,
    share_to_latent,
)

_FAR = 30.0  # above: the tail of the standard normal underflows, only its logarithm is known


@register(name="marginals.Normal")
@dataclass(frozen=True)
class Normal(Marginal, kind="normal"):
    """Normal prior."""

    lower, upper = -np.inf, np.inf
    mean: float
    sd: float

    def __post_init__(self) -> None:
        finite(self.mean, "mean")
        positive(self.sd, "sd")

    @property
    def is_normal(self) -> bool:
        return True

    def from_latent(self, u: FloatArray) -> FloatArray:
        return self.mean + self.sd * u

    def to_latent(self, x: FloatArray) -> FloatArray:
        return (x - self.mean) / self.sd

    def log_slope(self, u: FloatArray) -> FloatArray:
        return np.full_like(u, np.log(self.sd))


@register(name="marginals.LogNormal")
@dataclass(frozen=True)
class LogNormal(Marginal, kind="lognormal"):
    """Log-normal prior: log x is normal with mean log(median) and standard deviation log_sd."""

    lower, upper = 0.0, np.inf
    median: float
    log_sd: float

    def __post_init__(self) -> None:
        positive(self.median, "median")
        positive(self.log_sd, "log_sd")

    @property
    def is_normal(self) -> bool:
        return True

    @property
    def is_logarithmic(self) -> bool:
        return True

    def from_latent(self, u: FloatArray) -> FloatArray:
        return self.median * np.exp(self.log_sd * u)

    def to_latent(self, x: FloatArray) -> FloatArray:
        return np.log(x / self.median) / self.log_sd

    def log_slope(self, u: FloatArray) -> FloatArray:
        return np.log(self.log_sd * self.median) + self.log_sd * u


@register(name="marginals.Uniform")
@dataclass(frozen=True)
class Uniform(Marginal, kind="uniform"):
    """Uniform prior on (lower, upper)."""

    lower: float
    upper: float

    def __post_init__(self) -> None:
        check_interval(self.lower, self.upper)

    def from_latent(self, u: FloatArray) -> FloatArray:
        return between(self.lower, self.upper, special.ndtr(u), special.ndtr(-u))

    def to_latent(self, x: FloatArray) -> FloatArray:
        return share_to_latent(x - self.lower, self.upper - x)

    def log_slope(self, u: FloatArray) -> FloatArray:
        return np.log(self.upper - self.lower) + log_phi(u)


@register(name="marginals.LogitNormal")
@dataclass(frozen=True)
class LogitNormal(Marginal, kind="logitnormal"):
    """Prior on (lower, upper) for which the logit of (x − lower)/(upper − lower) is normal."""

    lower: float
    upper: float
    median: float
    logit_sd: float

    def __post_init__(self) -> None:
        check_interval(self.lower, self.upper)
        positive(self.logit_sd, "logit_sd")
        if not self.lower < self.median < self.upper:
            raise ValueError(f"median must be between lower and upper, not {self.median!r}")

    def _logit(self, u: FloatArray) -> FloatArray:
        centre = np.log((self.median - self.lower) / (self.upper - self.median))
        return np.asarray(centre + self.logit_sd * u)

    def from_latent(self, u: FloatArray) -> FloatArray:
        v = self._logit(u)
        return between(self.lower, self.upper, special.expit(v), special.expit(-v))

    def to_latent(self, x: FloatArray) -> FloatArray:
        logit = np.log(x - self.lower) - np.log(self.upper - x)
        return np.asarray((logit - self._logit(np.zeros(()))) / self.logit_sd)

    def log_slope(self, u: FloatArray) -> FloatArray:
        v = self._logit(u)
        scale = np.log((self.upper - self.lower) * self.logit_sd)
        return np.asarray(scale + special.log_expit(v) + special.log_expit(-v))


@register(name="marginals.HalfNormal")
@dataclass(frozen=True)
class HalfNormal(Marginal, kind="halfnormal"):
    """Half-normal prior: |z|, z normal with mean 0 and standard deviation scale."""

    lower, upper = 0.0, np.inf
    scale: float

    def __post_init__(self) -> None:
        positive(self.scale, "scale")

    def from_latent(self, u: FloatArray) -> FloatArray:
        # P(|Z| ≤ x/scale) = Φ(u): solved in the tail where it is accurate.
        far = -special.ndtri(0.5 * special.ndtr(-u))
        far = np.where(u < _FAR, far, -special.ndtri_exp(special.log_ndtr(-u) - np.log(2.0)))
        near = np.sqrt(2.0) * special.erfinv(special.ndtr(u))
        return self.scale * np.where(u < 0.0, near, far)

    def to_latent(self, x: FloatArray) -> FloatArray:
        z = x / self.scale
        u = share_to_latent(np.asarray(special.erf(z / np.sqrt(2.0))), 2.0 * special.ndtr(-z))
        return np.where(z < _FAR, u, -special.ndtri_exp(special.log_ndtr(-z) + np.log(2.0)))

    def log_slope(self, u: FloatArray) -> FloatArray:
        z = self.from_latent(u) / self.scale
        return np.asarray(np.log(0.5 * self.scale) + log_phi(u) - log_phi(z))


@register(name="marginals.LogUniform")
@dataclass(frozen=True)
class LogUniform(Marginal, kind="loguniform"):
    """Log-uniform prior: log x is uniform between log(lower) and log(upper)."""

    lower: float
    upper: float

    def __post_init__(self) -> None:
        positive(self.lower, "lower")
        check_interval(self.lower, self.upper)

    @cached_property
    def _log(self) -> Uniform:
        return Uniform(float(np.log(self.lower)), float(np.log(self.upper)))

    @property
    def is_logarithmic(self) -> bool:
        return True

    def from_latent(self, u: FloatArray) -> FloatArray:
        return clip_inside(np.exp(self._log.from_latent(u)), self.lower, self.upper)

    def to_latent(self, x: FloatArray) -> FloatArray:
        return self._log.to_latent(np.log(x))

    def log_slope(self, u: FloatArray) -> FloatArray:
        return self._log.log_slope(u) + self._log.from_latent(u)


@register(name="marginals.Laplace")
@dataclass(frozen=True)
class Laplace(Marginal):
    """Laplace prior: |x − centre|/scale is exponential with mean 1."""

    lower, upper = -np.inf, np.inf
    centre: float
    scale: float

    def __post_init__(self) -> None:
        finite(self.centre, "centre")
        positive(self.scale, "scale")

    def from_latent(self, u: FloatArray) -> FloatArray:
        tail = np.log(2.0) + special.log_ndtr(-np.abs(u))
        return np.asarray(self.centre - np.sign(u) * self.scale * tail)

    def to_latent(self, x: FloatArray) -> FloatArray:
        z = (x - self.centre) / self.scale
        return np.asarray(-np.sign(z) * special.ndtri_exp(-np.abs(z) - np.log(2.0)))

    def log_slope(self, u: FloatArray) -> FloatArray:
        return np.asarray(np.log(self.scale) + log_phi(u) - special.log_ndtr(-np.abs(u)))


@register(name="marginals.LogLaplace")
@dataclass(frozen=True)
class LogLaplace(Marginal):
    """Prior for which log x has a Laplace distribution around log(median)."""

    lower, upper = 0.0, np.inf
    median: float
    log_scale: float

    def __post_init__(self) -> None:
        positive(self.median, "median")
        positive(self.log_scale, "log_scale")

    @property
    def _log(self) -> Laplace:
        return Laplace(float(np.log(self.median)), self.log_scale)

    @property
    def is_logarithmic(self) -> bool:
        return True

    def from_latent(self, u: FloatArray) -> FloatArray:
        return np.exp(self._log.from_latent(u))

    def to_latent(self, x: FloatArray) -> FloatArray:
        return self._log.to_latent(np.log(x))

    def log_slope(self, u: FloatArray) -> FloatArray:
        return self._log.log_slope(u) + self._log.from_latent(u)


@register(name="marginals.Truncated")
@dataclass(frozen=True)
class Truncated(Marginal):
    """Another prior, given that x lies in (lower, upper)."""

    base: Marginal
    lower: float
    upper: float

    def __post_init__(self) -> None:
        check_interval(self.lower, self.upper)
        if not self._mass > 0.0:
            raise ValueError(f"{self.base} has no mass between {self.lower!r} and {self.upper!r}")

    @property
    def _ends(self) -> tuple[FloatArray, FloatArray]:
        """Return the latent values of the base at both ends."""
        least, most = self.base.bounds
        low = -np.inf if self.lower <= least else self.base.to_latent(np.array(self.lower))
        high = np.inf if self.upper >= most else self.base.to_latent(np.array(self.upper))
        return np.asarray(low), np.asarray(high)

    @property
    def _mass(self) -> FloatArray:
        return _normal_mass(*self._ends)

    def _of_base(self, u: FloatArray) -> FloatArray:
        low, high = self._ends
        rising = special.ndtr(low) + special.ndtr(u) * self._mass
        falling = special.ndtr(-high) + special.ndtr(-u) * self._mass
        return np.clip(share_to_latent(rising, falling), low, high)

    @property
    def is_logarithmic(self) -> bool:
        return self.base.is_logarithmic

    def from_latent(self, u: FloatArray) -> FloatArray:
        return clip_inside(self.base.from_latent(self._of_base(u)), self.lower, self.upper)

    def to_latent(self, x: FloatArray) -> FloatArray:
        low, high = self._ends
        v = self.base.to_latent(x)
        inside = (x > self.lower) & (x < self.upper)
        return np.where(
            inside, share_to_latent(_normal_mass(low, v), _normal_mass(v, high)), np.nan
        )

    def log_slope(self, u: FloatArray) -> FloatArray:
        v = self._of_base(u)
        return np.asarray(self.base.log_slope(v) + log_phi(u) + np.log(self._mass) - log_phi(v))


def _normal_mass(low: FloatArray, high: FloatArray) -> FloatArray:
    """Compute Φ(high) − Φ(low), in the tail where it is accurate."""
    left, right = special.ndtr(high) - special.ndtr(low), special.ndtr(-low) - special.ndtr(-high)
    return np.where(np.asarray(low) > 0.0, right, left)
