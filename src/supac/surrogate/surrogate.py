"""What stands in for the risk: its projection on the family's statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from supac.arrays import FloatArray
from supac.evaluations import Evaluations
from supac.families import Distribution


@dataclass(frozen=True, eq=False)
class Surrogate:
    """f(x) = η·T(x) + intercept, the projection of a function in L²(at), and how good it is."""

    eta: FloatArray
    mean: float
    """at[f], which is at[R] for the exact projection of R (Theorem 1)."""
    at: Distribution
    deviation: float
    """Standard deviation of f under `at`."""
    r_squared: float = np.nan
    """Share of the weighted variance explained."""
    effective_size: float = np.nan
    """(Σw)²/Σw² of the points behind the projection."""
    loo_error: float = np.nan
    """Weighted root mean square error of predicting each point from the others."""
    ridge: float = 0.0
    """Regularisation of a rank-deficient fit; 0 where there was none."""

    @property
    def intercept(self) -> float:
        """The constant that goes with η."""
        return self.mean - float(self.eta @ self.at.mean_statistics)

    def mean_under(self, theta: FloatArray) -> float:
        """π_θ[f]."""
        family = self.at.family
        moved = family.mean_statistics(theta) - self.at.mean_statistics
        return self.mean + float(self.eta @ moved)


class RiskModel(Protocol):
    """A model of the risk that can be projected as often as it is asked."""

    def project(self, at: Distribution, rng: np.random.Generator) -> Surrogate:
        """The projection of the modelled risk on the statistics, in L²(at)."""


class Estimator(Protocol):
    """Turns evaluations into a model of the risk."""

    def fit(self, evaluations: Evaluations, current: Distribution) -> RiskModel:
        """A model of the risk, meant to be good around `current`."""
