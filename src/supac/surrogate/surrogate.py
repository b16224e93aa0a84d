"""What stands in for the risk: its projection on the family's statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from supac.arrays import FloatArray
from supac.families import Distribution, Family
from supac.problem import Evaluations, Loss


@dataclass(frozen=True, eq=False)
class Surrogate:
    """f(x) = η·score(x) + mean, the projection of a function in L²(at), and how good it is.

    In an exponential family the score is T(x) − ∇g(θ), and f(x) = η·T(x) + intercept.
    """

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
        """The constant that goes with η·T."""
        return self.mean - float(self.eta @ self.at.mean_statistics)

    def __call__(self, x: FloatArray) -> FloatArray:
        """f: (n, dim) → (n,)."""
        return self.mean + self.at.family.score(self.at.theta, x) @ self.eta

    def mean_under(self, theta: FloatArray) -> float:
        """π_θ[f], from draws where the family is not exponential."""
        family = self.at.family
        if not isinstance(family, Family):
            return float(self(family.draws(theta)).mean())
        moved = family.mean_statistics(theta) - self.at.mean_statistics
        return self.mean + float(self.eta @ moved)


@dataclass(frozen=True, eq=False)
class Context:
    """What an estimator may know besides the runs."""

    prior: Distribution | None = None
    """The scales on which parameters vary; by default the current posterior's."""
    resolution: float = 0.0
    """The difference of risk that is worth one nat of KL: λ for Catoni's bound."""
    failure_risk: float | None = None
    """What a run without a risk counts as; None leaves it out."""
    loss: Loss | None = None
    """From outputs to risks, where the risk is a `Composite`."""
    memory: Mapping[str, FloatArray] = field(default_factory=dict)
    """What the estimator's last model wanted to be remembered."""
    expected: FloatArray | None = None
    """What that model predicted for the latest runs."""
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))


class RiskModel(Protocol):
    """A model of the risk that can be projected as often as it is asked."""

    def project(self, at: Distribution, rng: np.random.Generator) -> Surrogate:
        """The projection of the modelled risk on the statistics, in L²(at)."""


class Estimator(Protocol):
    """Turns evaluations into a model of the risk."""

    def fit(
        self, evaluations: Evaluations, current: Distribution, context: Context | None = None
    ) -> RiskModel:
        """A model of the risk, meant to be good around `current`."""
