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

    The paper's rule, whose anchor is θ itself.
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

        def kl(alpha: float) -> float:
            return current.family.kl(theta + alpha * delta, anchor.theta)

        limit = min(self.kl_max, np.finfo(float).max)
        alpha = self.alpha_max
        if not kl(alpha) <= limit:
            # α ↦ KL(θ + αδ, θ) is increasing; x/(x + limit) keeps it so, and finite outside Θ.
            alpha = float(brentq(lambda a: _share(kl(a), limit) - 0.5, 0.0, alpha, xtol=1e-14))
            slack = 1e-12
            while kl(alpha) > limit and alpha > 0.0:  # the root is only known to rounding
                alpha, slack = alpha * (1.0 - slack), min(2.0 * slack, 0.5)
        return Step(current.at(theta + alpha * delta), alpha, kl(alpha))


def _share(kl: float, limit: float) -> float:
    return kl / (kl + limit) if np.isfinite(kl) else 1.0
