"""How far to move towards the minimiser of the surrogate bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.optimize import brentq

from supac.arrays import FloatArray, positive
from supac.families import Distribution


@dataclass(frozen=True)
class Step:
    """Where a step led: θ + α(target − θ)."""

    posterior: Distribution
    alpha: float
    kl: float
    """KL(new, anchor)."""


class StepRule(Protocol):
    """Says how far to move from `current` towards `target`."""

    def move(self, current: Distribution, target: FloatArray, anchor: Distribution) -> Step:
        """The step made; `anchor` is where the trust region has its centre."""


@dataclass(frozen=True)
class FixedStep:
    """The largest α ≤ alpha_max with KL(θ + αδ, anchor) ≤ kl_max, δ = target − θ.

    The paper's rule, whose anchor is θ itself; KL then grows along the way. Around another anchor
    the α found is allowed, but a larger one may be as well.
    """

    alpha_max: float = 0.5
    kl_max: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 < self.alpha_max <= 1.0:
            raise ValueError(f"alpha_max must be in (0, 1], not {self.alpha_max!r}")
        if self.kl_max != np.inf:
            positive(self.kl_max, "kl_max")

    def move(self, current: Distribution, target: FloatArray, anchor: Distribution) -> Step:
        """Never leaves Θ: outside, KL is infinite."""
        theta, delta = current.theta, target - current.theta

        if not np.isfinite(delta).all():
            return Step(current, 0.0, current.kl(anchor))

        def kl(alpha: float) -> float:
            with np.errstate(all="ignore"):  # far outside Θ numbers overflow, and that is an answer
                value = current.family.kl(theta + alpha * delta, anchor.theta)
            return value if value >= 0.0 else np.inf

        limit = min(self.kl_max, np.finfo(float).max)
        alpha = self.alpha_max
        if not kl(alpha) <= limit:
            # α ↦ KL(θ + αδ, θ) is increasing; x/(x + limit) keeps it so, and finite outside Θ. The
            # halving finds the scale, however far the target is.
            while alpha > 0.0 and not kl(alpha) <= limit:
                alpha *= 0.5
            root = brentq(lambda a: _share(kl(a), limit) - 0.5, alpha, 2.0 * alpha, xtol=1e-300)
            slack = 1e-15
            while not kl(root) <= limit and root > alpha:  # the root is only known to rounding
                root, slack = root * (1.0 - slack), 2.0 * slack
            alpha = max(float(root), alpha)
        return Step(current.at(theta + alpha * delta), alpha, kl(alpha))


def _share(kl: float, limit: float) -> float:
    return kl / (kl + limit) if np.isfinite(kl) else 1.0
