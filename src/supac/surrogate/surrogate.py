"""The projection of the risk on the family's statistics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supac.arrays import FloatArray
from supac.families import Distribution, Family


@dataclass(frozen=True, eq=False)
class Surrogate:
    """Represent f(x) = η·score(x) + mean, the projection of a function in L²(at).

    In an exponential family the score is T(x) − ∇g(θ), and f(x) = η·T(x) + intercept.
    """

    eta: FloatArray
    mean: float
    """at[f], which is at[R] for the exact projection of R (Theorem 1)."""
    at: Distribution
    deviation: float
    """Standard deviation of f under `at`."""
    r_squared: float = np.nan
    """Share of the weighted variance that f explains."""
    effective_size: float = np.nan
    """(Σw)²/Σw² of the points behind the projection."""
    loo_error: float = np.nan
    """Weighted root mean square error of predicting each point from the others."""
    ridge: float = 0.0
    """Regularisation of a rank-deficient fit; 0 if there was none."""

    @property
    def intercept(self) -> float:
        """Return the constant that goes with η·T."""
        return self.mean - float(self.eta @ self.at.mean_statistics)

    def __call__(self, x: FloatArray) -> FloatArray:
        """Evaluate f: (n, dim) → (n,)."""
        return self.mean + self.at.family.score(self.at.theta, x) @ self.eta

    def mean_under(self, theta: FloatArray) -> float:
        """Compute π_θ[f], from draws if the family is not exponential."""
        family = self.at.family
        if not isinstance(family, Family):
            return float(self(family.draws(theta)).mean())
        moved = family.mean_statistics(theta) - self.at.mean_statistics
        return self.mean + float(self.eta @ moved)
