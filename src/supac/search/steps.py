"""How far to move towards the minimiser of the surrogate bound, and whether to stand by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from supac.arrays import FloatArray, positive
from supac.codec import register
from supac.families import Distribution, Family


@dataclass(frozen=True)
class Step:
    """Where a step led: θ + α(target − θ)."""

    posterior: Distribution
    alpha: float
    kl: float
    """KL(new, anchor)."""


@dataclass(frozen=True, eq=False)
class Trial:
    """What a fresh batch says of the step that led to the posterior that drew it."""

    gain: float
    """By how much the bound was predicted to fall, more than nothing."""
    residual: FloatArray
    """Risk minus prediction of each run that went as expected."""

    @property
    def shortfall(self) -> float:
        """By how much the mean risk exceeds its prediction.

        The prediction is a control variate: its own spread over the batch cancels.
        """
        return float(self.residual.mean())

    @property
    def error(self) -> float:
        """Standard error of the shortfall."""
        return float(self.residual.std() / np.sqrt(len(self.residual)))

    @property
    def ratio(self) -> float:
        """Realised over predicted decrease."""
        return (self.gain - self.shortfall) / self.gain


@dataclass(frozen=True)
class Verdict:
    """How far the next step may go, and whether the last one is taken back."""

    radius: float
    rejected: bool = False


class StepRule(Protocol):
    """Says how far to move from `current` towards `target`."""

    def judge(self, radius: float | None, trial: Trial | None) -> Verdict:
        """The radius that follows `radius` after a trial; both None before there was any."""

    def move(
        self, current: Distribution, target: FloatArray, anchor: Distribution, radius: float
    ) -> Step:
        """The step made, with KL(new, anchor) ≤ radius."""


@register
@dataclass(frozen=True)
class FixedStep:
    """The largest α ≤ alpha_max with KL(θ + αδ, anchor) ≤ kl_max, δ = target − θ.

    The paper's rule, whose anchor is θ itself; KL then grows along the way. Around another anchor
    the α found is allowed, but a larger one may be as well.
    """

    alpha_max: float = 0.5
    kl_max: float = 1.0

    def __post_init__(self) -> None:
        _check_alpha(self.alpha_max, "alpha_max")
        if self.kl_max != np.inf:
            positive(self.kl_max, "kl_max")

    def judge(self, radius: float | None, trial: Trial | None) -> Verdict:
        """The same radius always, whatever the last step brought."""
        return Verdict(self.kl_max)

    def move(
        self,
        current: Distribution,
        target: FloatArray,
        anchor: Distribution,
        radius: float | None = None,
    ) -> Step:
        """Never leaves Θ: outside, KL is infinite."""
        kl_max = self.kl_max if radius is None else radius
        return _largest_step(current, target, anchor, self.alpha_max, kl_max)


@register
@dataclass(frozen=True)
class TrustRegion:
    """A radius in KL that follows how well the surrogate predicts.

    How far the surrogate is valid need not be guessed: after each step a fresh batch is drawn from
    the new posterior anyway. Where its risks bear out more than `enough` of the predicted decrease
    the radius doubles, where they bear out less than `too_little`, and not by chance, it halves. A
    step is taken back when the bound rose by more than its standard error and the risks exceed
    their predictions by more than two.
    """

    alpha: float = 0.5
    start: float = 2.0
    least: float = 0.25
    most: float = 8.0
    too_little: float = 0.3
    enough: float = 0.7

    def __post_init__(self) -> None:
        _check_alpha(self.alpha, "alpha")
        if not 0.0 < self.least <= self.start <= self.most < np.inf:
            raise ValueError(
                "least, start and most must be positive and in this order, not "
                f"{self.least!r}, {self.start!r}, {self.most!r}"
            )
        if not 0.0 <= self.too_little < self.enough <= 1.0:
            raise ValueError(
                "too_little and enough must be shares of the predicted decrease, the first the "
                f"smaller, not {self.too_little!r} and {self.enough!r}"
            )

    def judge(self, radius: float | None, trial: Trial | None) -> Verdict:
        """Double, halve or keep the radius; take back a step that made things worse."""
        radius = self.start if radius is None else radius
        if trial is None:
            return Verdict(radius)
        shortfall, error = trial.shortfall, trial.error
        if trial.ratio > self.enough:
            radius = min(2.0 * radius, self.most)
        elif trial.ratio < self.too_little and shortfall > error:
            radius = max(0.5 * radius, self.least)
        rise = shortfall - trial.gain
        return Verdict(radius, rejected=rise > error and shortfall > 2.0 * error)

    def move(
        self, current: Distribution, target: FloatArray, anchor: Distribution, radius: float
    ) -> Step:
        """At most the share `alpha` of the way, within the radius around the anchor."""
        return _largest_step(current, target, anchor, self.alpha, radius)


def _check_alpha(alpha: float, name: str) -> None:
    if not 0.0 < alpha <= 1.0:
        raise ValueError(f"{name} must be in (0, 1], not {alpha!r}")


def _largest_step(
    current: Distribution,
    target: FloatArray,
    anchor: Distribution,
    alpha_max: float,
    kl_max: float,
) -> Step:
    theta, delta = current.theta, target - current.theta

    if not np.isfinite(delta).all():
        return Step(current, 0.0, current.kl(anchor))

    def kl(alpha: float) -> float:
        with np.errstate(all="ignore"):  # far outside Θ numbers overflow, and that is an answer
            value = current.family.kl(theta + alpha * delta, anchor.theta)
        return value if value >= 0.0 else np.inf

    limit = min(kl_max, np.finfo(float).max)
    alpha = alpha_max
    if not kl(alpha) <= limit:
        # α ↦ KL(θ + αδ, θ) is increasing; x/(x + limit) keeps it so, and finite outside Θ. The
        # halving finds the scale, however far the target is.
        while alpha > 0.0 and not kl(alpha) <= limit:
            alpha *= 0.5
        from scipy.optimize import brentq  # noqa: PLC0415 - slow to import

        # To the last digit where KL is exact, roughly where it is estimated.
        precision = 1e-15 if isinstance(current.family, Family) else 1e-3
        root = brentq(
            lambda a: _share(kl(a), limit) - 0.5,
            alpha,
            2.0 * alpha,
            xtol=1e-300,
            rtol=max(precision, 4.0 * np.finfo(float).eps),
        )
        slack = precision
        while not kl(root) <= limit and root > alpha:  # the root is only known to rounding
            root, slack = root * (1.0 - slack), 2.0 * slack
        alpha = max(float(root), alpha)
    return Step(current.at(theta + alpha * delta), alpha, kl(alpha))


def _share(kl: float, limit: float) -> float:
    return kl / (kl + limit) if np.isfinite(kl) else 1.0
