"""The interfaces between runs, models of the risk, and the search."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from supac.arrays import BoolArray, FloatArray
from supac.families import Distribution
from supac.problem import Evaluations, Loss, Problem
from supac.surrogate.surrogate import Surrogate


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
    inner: int = 1
    """Number of closed-form updates on one model."""
    uses_known: bool = False
    """Accept runs that were not drawn from a known distribution."""

    @classmethod
    def determining(cls, problem: Problem) -> BatchPlan:
        """Return batches that determine a weighted least-squares fit on the statistics."""
        unknowns = problem.start.family.size + 1
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
    loss: Loss | None = None
    """Function from outputs to risks, if the risk is a `Composite`."""
    state: EmulatorState | None = None
    """State of the last model."""
    rejected: bool = False
    """The last step was taken back."""
    expected: FloatArray | None = None
    """Predictions of the last model for the latest runs."""
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))


class RiskModel(Protocol):
    """Model the risk, so that it can be projected at any distribution.

    These members are optional, and used if a model has them:

    - `predict(x)`, the risk of successful runs, (n, dim) → (n,); by default the last projection's;
    - `probes(n, at, rng)`, points in the tails of `at` where success is least certain, (n, dim);
    - `failure_chance(at)`, the share of the runs of `at` that will fail or be outliers;
    - `outliers`, the number of runs that failed or are outliers;
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
