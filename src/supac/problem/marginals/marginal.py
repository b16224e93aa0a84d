"""The base class of priors of single parameters, and arithmetic that they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np
from scipy import special

from supac.arrays import FloatArray, finite
from supac.problem.selectable import Selectable

_LOG_ROOT_2PI = 0.5 * float(np.log(2.0 * np.pi))


def log_phi(u: FloatArray) -> FloatArray:
    """Compute the log-density of the standard normal."""
    return -0.5 * u**2 - _LOG_ROOT_2PI


def share_to_latent(low: FloatArray, high: FloatArray) -> FloatArray:
    """Compute Φ⁻¹(low / (low + high)), accurate in both tails."""
    total = low + high
    from_below, from_above = special.ndtri(low / total), -special.ndtri(high / total)
    return np.where(low < high, from_below, from_above)


def between(lower: float, upper: float, rising: FloatArray, falling: FloatArray) -> FloatArray:
    """Return the point at the share `rising` = 1 − `falling` of an interval.

    It is computed from the nearer end, so that no digits are lost there.
    """
    width = upper - lower
    x = np.where(rising < falling, lower + width * rising, upper - width * falling)
    return clip_inside(x, lower, upper)


def check_interval(lower: float, upper: float) -> None:
    """Raise ValueError unless both ends are finite and in order."""
    if not finite(lower, "lower") < finite(upper, "upper"):
        raise ValueError(f"lower must be below upper, not {lower!r} and {upper!r}")


def clip_inside(x: FloatArray, lower: float, upper: float) -> FloatArray:
    """Clip x to the open interval (lower, upper), whose ends it may reach by rounding."""
    return np.clip(x, np.nextafter(lower, upper), np.nextafter(upper, lower))


@dataclass(frozen=True)
class Marginal(Selectable, ABC):
    """Prior of one parameter: x = x(u), an increasing function of a standard normal u."""

    unit: str = field(default="", kw_only=True)

    @abstractmethod
    def from_latent(self, u: FloatArray) -> FloatArray:
        """Compute x(u), in the user's units."""

    @abstractmethod
    def to_latent(self, x: FloatArray) -> FloatArray:
        """Compute u(x), NaN or infinite on and outside the bounds."""

    @abstractmethod
    def log_slope(self, u: FloatArray) -> FloatArray:
        """Compute log dx/du."""

    @property
    def bounds(self) -> tuple[float, float]:
        """Return the ends of the open interval of possible values, `lower` and `upper`."""
        return self.lower, self.upper  # type: ignore[attr-defined]

    @property
    def is_normal(self) -> bool:
        """Return True if x is normal, or log x if `is_logarithmic`."""
        return False

    @property
    def is_logarithmic(self) -> bool:
        """Return True if the prior is one of log x."""
        return False

    @property
    def growth(self) -> float:
        """Return g if x grows like exp(g u²/2) in a tail, else about 0.

        A latent standard deviation s leaves x without a moment of order 1/(g s²) and more.
        """
        return 0.0

    def log_prob(self, x: FloatArray) -> FloatArray:
        """Compute the log-density of the prior at x, in the user's units."""
        with np.errstate(invalid="ignore", divide="ignore"):
            u = self.to_latent(x)
            inside = np.isfinite(u)
            u = np.where(inside, u, 0.0)
            return np.where(inside, log_phi(u) - self.log_slope(u), -np.inf)
