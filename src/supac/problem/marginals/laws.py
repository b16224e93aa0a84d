"""Priors that are distributions of `scipy.stats`: any continuous one, and four by name."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from supac.arrays import FloatArray, finite, positive
from supac.codec import register
from supac.problem.marginals.marginal import (
    Marginal,
    check_interval,
    clip_inside,
    log_phi,
    share_to_latent,
)

_LEAST = 1e-300  # probability of a tail beyond which no quantile is asked for
_TAILS = (_LEAST, 1e-200, 1e-100, 1e-50, 1e-30, 1e-15)
_CHECKED = np.array([0.01, 0.3, 0.7, 0.99])  # shares at which a law has to be invertible
_EXAMPLES = '"weibull_min" or "gamma"'


class LawMarginal(Marginal):
    """Prior with the distribution function of a frozen distribution of `scipy.stats`."""

    @property
    @abstractmethod
    def law(self) -> Any:
        """Return the frozen distribution."""

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """Return the support of the distribution."""
        lower, upper = self.law.support()
        return float(lower), float(upper)

    @cached_property
    def _reach(self) -> tuple[float, float]:
        """Return the farthest finite quantiles of both tails."""
        low, high = self.law.ppf(_TAILS), self.law.isf(_TAILS)
        return float(low[np.isfinite(low)][0]), float(high[np.isfinite(high)][0])

    @cached_property
    def growth(self) -> float:
        """Return g if x grows like exp(g u²/2) in a tail, from the distribution's far quantiles."""
        heaviest = 0.0
        for tail in (self.law.ppf, self.law.isf):
            near, far = np.abs(tail([1e-200, 1e-250]))
            if np.isfinite(far) and far > near > 0.0:
                heaviest = max(heaviest, float(np.log(far / near) / np.log(1e50)))
        return heaviest

    def from_latent(self, u: FloatArray) -> FloatArray:
        # The quantile is taken from the nearer tail, whose probability has all its digits.
        u = np.asarray(u, dtype=np.float64)
        share = np.maximum(special.ndtr(-np.abs(u)), _LEAST)
        x = np.where(u < 0.0, self.law.ppf(share), self.law.isf(share))
        x = np.where(np.isnan(u), np.nan, np.clip(x, *self._reach))
        return clip_inside(x, *self.bounds)

    def to_latent(self, x: FloatArray) -> FloatArray:
        x = np.asarray(x, dtype=np.float64)
        lower, upper = self.bounds
        u = share_to_latent(self.law.cdf(x), self.law.sf(x))
        return np.where((x > lower) & (x < upper), u, np.nan)

    def log_slope(self, u: FloatArray) -> FloatArray:
        return np.asarray(log_phi(u) - self.law.logpdf(self.from_latent(u)))


@register(name="marginals.Of")
@dataclass(frozen=True)
class Of(LawMarginal, kind="scipy"):
    """Any continuous distribution of SciPy.

    `Of(stats.weibull_min(1.5, scale=2.0))` or, by name, `Of("weibull_min", (1.5,), scale=2.0)`.
    """

    distribution: str | Any
    """Name in `scipy.stats`; a frozen distribution in its place brings the other three along."""
    shapes: tuple[float, ...] = ()
    """Its shape parameters, in SciPy's order."""
    loc: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.distribution, str):
            for name, value in _parts(self.distribution).items():
                object.__setattr__(self, name, value)
        shapes = np.atleast_1d(np.asarray(self.shapes, dtype=np.float64))
        object.__setattr__(self, "shapes", tuple(shapes.tolist()))
        finite(self.loc, "loc")
        positive(self.scale, "scale")
        made = _continuous(self.distribution)
        wanted = _shape_names(made)
        if len(self.shapes) != len(wanted):
            takes = f"takes shapes {', '.join(wanted)}" if wanted else "takes no shapes"
            raise ValueError(f"{self.distribution} {takes}, not {list(self.shapes)}")
        with np.errstate(all="ignore"):
            ends = np.array([self.law.ppf(_CHECKED), self.law.isf(_CHECKED)])
        if not np.isfinite(ends).all() or not (np.diff(ends[0]) > 0.0).all():
            given = ", ".join(f"{n} = {v:g}" for n, v in zip(wanted, self.shapes, strict=True))
            words = f"with {given}, loc = {self.loc:g} and scale = {self.scale:g},"
            raise ValueError(
                f"{self.distribution} {words} has no quantiles: see SciPy for its limits"
            )

    @cached_property
    def law(self) -> Any:
        """Return the frozen distribution."""
        return _continuous(self.distribution)(*self.shapes, loc=self.loc, scale=self.scale)


@register(name="marginals.HalfCauchy")
@dataclass(frozen=True)
class HalfCauchy(LawMarginal, kind="halfcauchy"):
    """Half-Cauchy prior: |z|, z Cauchy with median 0; its own median is the scale, no mean."""

    scale: float

    def __post_init__(self) -> None:
        positive(self.scale, "scale")

    @cached_property
    def law(self) -> Any:
        """Return the frozen distribution."""
        return _continuous("halfcauchy")(scale=self.scale)


@register(name="marginals.Gamma")
@dataclass(frozen=True)
class Gamma(LawMarginal, kind="gamma"):
    """Gamma prior, with mean shape · scale and standard deviation √shape · scale."""

    shape: float
    scale: float

    def __post_init__(self) -> None:
        positive(self.shape, "shape")
        positive(self.scale, "scale")

    @cached_property
    def law(self) -> Any:
        """Return the frozen distribution."""
        return _continuous("gamma")(self.shape, scale=self.scale)


@register(name="marginals.Beta")
@dataclass(frozen=True)
class Beta(LawMarginal, kind="beta"):
    """Beta prior on (lower, upper), with mean lower + (upper − lower) · a/(a + b)."""

    a: float
    b: float
    lower: float = 0.0
    upper: float = 1.0

    def __post_init__(self) -> None:
        positive(self.a, "a")
        positive(self.b, "b")
        check_interval(self.lower, self.upper)

    @cached_property
    def law(self) -> Any:
        """Return the frozen distribution."""
        return _continuous("beta")(self.a, self.b, loc=self.lower, scale=self.upper - self.lower)


@register(name="marginals.Triangular")
@dataclass(frozen=True)
class Triangular(LawMarginal, kind="triangular"):
    """Triangular prior on (lower, upper), highest at the mode."""

    lower: float
    mode: float
    upper: float

    def __post_init__(self) -> None:
        check_interval(self.lower, self.upper)
        if not self.lower <= self.mode <= self.upper:
            raise ValueError(f"mode must be from lower to upper, not {self.mode!r}")

    @cached_property
    def law(self) -> Any:
        """Return the frozen distribution."""
        width = self.upper - self.lower
        return _continuous("triang")((self.mode - self.lower) / width, loc=self.lower, scale=width)


def _continuous(name: str) -> Any:
    """Return the continuous distribution of `scipy.stats` with a name."""
    from scipy import stats  # noqa: PLC0415 - slow to import, and few priors need it

    found = getattr(stats, name, None) if name.isidentifier() else None
    if isinstance(found, stats.rv_discrete):
        raise ValueError(
            f"{name} is discrete, and a prior is continuous: take a continuous one, such as "
            "uniform, and round the parameter in the simulator"
        )
    if not isinstance(found, stats.rv_continuous):
        raise ValueError(
            f"distribution must be a continuous one of scipy.stats, such as {_EXAMPLES}, "
            f"not {name!r}"
        )
    return found


def _shape_names(distribution: Any) -> list[str]:
    """Return the names of the shape parameters of a distribution, in SciPy's order."""
    return [each.strip() for each in (distribution.shapes or "").split(",") if each.strip()]


def _parts(frozen: Any) -> dict[str, Any]:
    """Return name, shapes, loc and scale of a frozen distribution."""
    made = getattr(frozen, "dist", None)
    if made is None:
        raise TypeError(
            "Of takes a frozen distribution, such as stats.gamma(2.0), or the name of one, such "
            f"as {_EXAMPLES}, not {frozen!r}"
        )
    if type(made) is not type(_continuous(str(made.name))):
        raise ValueError(
            f"{made.name} is a distribution of your own: only those of scipy.stats have a name "
            "by which a store can hold them. Write a subclass of Marginal"
        )
    names = [*_shape_names(made), "loc", "scale"]
    given = {**dict(zip(names, frozen.args, strict=False)), **frozen.kwds}
    missing = [each for each in names[:-2] if each not in given]
    if missing:
        raise ValueError(f"{made.name} needs {', '.join(missing)}: give numbers")
    return {
        "distribution": made.name,
        "shapes": tuple(float(np.asarray(given[each]).item()) for each in names[:-2]),
        "loc": float(np.asarray(given.get("loc", 0.0)).item()),
        "scale": float(np.asarray(given.get("scale", 1.0)).item()),
    }
