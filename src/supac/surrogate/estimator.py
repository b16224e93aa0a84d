"""The interfaces between runs, models of the risk, and the search: what is fitted, and to what."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from supac.arrays import BoolArray, FloatArray
from supac.families import Distribution, Family
from supac.problem import Evaluations, Loss, Problem

DEAREST = 30.0
"""Nats that a bad run costs at most, if the ceiling of the risk is less."""
MANY_PARAMETERS = 40
"""Number above which there are fewer runs than directions: models have fewer freedoms, steps are
longer, and nothing is computed for each statistic."""


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


@dataclass(frozen=True)
class BatchPlan:
    """Describe the batches that an estimator needs, and how its model is used."""

    first: int
    """Number of points of the first batch."""
    batch: int
    """Number of points of each later batch."""
    latin: bool = False
    """Fill Gaussian posteriors with a Latin hypercube; False draws independent points."""
    width: float = 1.0
    """Factor on the standard deviations of the Latin hypercube."""
    probes: float = 0.0
    """Share of a batch, at least one point, that a model with `probes` chooses."""
    few: int = 0
    """Number of points of a batch while the posterior still moves far; 0 for `batch`."""
    opening: float = 0.0
    """Width of a first batch along orthogonal directions; 0 for a Latin hypercube of `width`."""
    look: int = 0
    """Number of points around the start, once a search that began narrowly has settled."""
    widest: float = 1.0
    """Width of these, in standard deviations of the start."""
    inner: int = 1
    """Number of closed-form updates on one model."""
    uses_known: bool = False
    """Accept runs that were not drawn from a known distribution."""
    observed: int = 0
    """Number of parameters, the last ones, that enter after the simulator."""
    regresses: bool = True
    """Solve for a coefficient of each statistic, which limits their number."""

    @classmethod
    def determining(cls, problem: Problem) -> BatchPlan:
        """Return batches that determine a weighted least-squares fit on the statistics."""
        return cls.determining_size(problem.start.family.size)

    @classmethod
    def determining_size(cls, size: int) -> BatchPlan:
        """Return batches that determine such a fit on `size` statistics."""
        unknowns = size + 1
        return cls(first=2 * unknowns, batch=(unknowns + 1) // 2)


@dataclass(frozen=True, eq=False)
class EmulatorState:
    """Hold what an emulator carries from one fit to the next."""

    hyperparameters: FloatArray
    outliers: BoolArray
    """Labels of all runs: (n,)."""
    inflation: FloatArray
    """Factors on the noise variance of all runs: (n,)."""
    threshold: float
    """Excess risk above which a run may be an outlier."""
    restarted: int
    """Number of runs when the hyperparameters were last fitted from their defaults."""
    fitted: int
    """Number of runs when they were last fitted."""


@dataclass(frozen=True, eq=False)
class Context:
    """Pass an estimator what it may know besides the runs."""

    prior: Distribution | None = None
    """Scales on which the parameters vary; by default the current posterior's."""
    resolution: float = 0.0
    """Difference of risk that is worth one nat of KL: λ for Catoni's bound."""
    failure_risk: float | None = None
    """Risk of a run without a risk; None leaves it out."""
    ceiling: float = np.inf
    """Largest risk by the bound, or of a run that fails."""
    loss: Loss | None = None
    """Function from outputs to risks, if the risk is a `Composite`."""
    state: EmulatorState | None = None
    """State of the last model."""
    anew: bool = False
    """Fit hyperparameters from their defaults too: the last step was taken back, or the latest runs
    are far from the others."""
    expected: FloatArray | None = None
    """Predictions of the last model for the latest runs."""
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))


NOISY = 0.1
"""Noise of a simulator in standard deviations of its outputs; a smooth one's is below 0.01."""


class RiskModel(Protocol):
    """Model the risk, so that it can be projected at any distribution.

    These members are optional, and used if a model has them:

    - `predict(x)`, the risk of successful runs, (n, dim) → (n,); by default the last projection's;
    - `probes(n, at, rng)`, points in the tails of `at` where success is least certain, (n, dim);
    - `informative(n, pool, about, given)`, points of a pool that tell most about others, (n, dim);
    - `explained`, the share of the variance of runs that is predicted from others;
    - `failure_chance(at)`, the share of the runs of `at` that will fail or be outliers;
    - `outliers`, the number of runs that failed or are outliers;
    - `noise`, the standard deviation of the simulator's noise in those of its outputs;
    - `state`, an `EmulatorState` that the next fit finds in its context.
    """

    def project(self, at: Distribution, rng: np.random.Generator) -> Surrogate:
        """Return the projection of the modelled risk on the statistics, in L²(at)."""


class Estimator(Protocol):
    """Turn evaluations into a model of the risk.

    Optional: `plan(problem, n)` returns the `BatchPlan` after n runs, by default
    `BatchPlan.determining(problem)`; `reuses = False` says that only the last batch counts.
    """

    def fit(
        self, evaluations: Evaluations, current: Distribution, context: Context | None = None
    ) -> RiskModel:
        """Return a model of the risk that is accurate around `current`."""


def batch_plan(estimator: Estimator, problem: Problem, n: int) -> BatchPlan:
    """Return the estimator's plan after n runs, or the default one if it has none."""
    own = getattr(estimator, "plan", None)
    return BatchPlan.determining(problem) if own is None else own(problem, n)
