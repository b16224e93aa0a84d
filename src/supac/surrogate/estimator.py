"""The interfaces between runs, models of the risk, and the search: what is fitted, and to what."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from supac.arrays import FloatArray
from supac.families import Distribution
from supac.problem import Evaluations, Loss, Problem
from supac.problem.scales import UserScales
from supac.surrogate.memory import Memory

DEAREST = 30.0
"""Nats that a bad run costs at most, if the ceiling of the risk is less."""


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
        family = self.at.family.exponential
        if family is None:
            return float(self(self.at.family.draws(theta)).mean())
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
class Context:
    """Pass an estimator what it may know besides the runs."""

    prior: Distribution | None = None
    """Scales on which the parameters vary; by default the current posterior's."""
    user_scales: UserScales | None = None
    """The user's scales of parameters, where the latent one is another."""
    resolution: float = 0.0
    """Difference of risk that is worth one nat of KL: λ for Catoni's bound."""
    failure_risk: float | None = None
    """Risk of a run without a risk; None leaves it out."""
    ceiling: float = np.inf
    """Largest risk by the bound, or of a run that fails."""
    loss: Loss | None = None
    """Function from outputs to risks, if the risk is a `Composite`."""
    memory: Memory | None = None
    """Memory of the last model."""
    anew: bool = False
    """Fit hyperparameters from their defaults too: the last step was taken back, or the latest runs
    are far from the others."""
    expected: FloatArray | None = None
    """Predictions of the last model for the latest runs."""
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))


NOISY = 0.1
"""Noise of a simulator in standard deviations of its outputs; a smooth one's is below 0.01."""


class RiskModel(ABC):
    """Model the risk, so that it can be projected at any distribution.

    Only `project` must be written. The other members have defaults, which say that the model does
    not know; what it does know it says by overriding them, the numbers as properties.
    """

    @abstractmethod
    def project(self, at: Distribution, rng: np.random.Generator) -> Surrogate:
        """Return the projection of the modelled risk on the statistics, in L²(at)."""

    def predict(self, x: FloatArray) -> FloatArray | None:
        """Predict the risk of successful runs, (n, dim) → (n,).

        None if the model weighs the runs, and predicts nothing between them: the last projection
        takes its place.
        """
        return None

    def expected_risk(self, x: FloatArray) -> FloatArray | None:
        """Predict the mean risk of all runs, failed ones included: (n, dim) → (n,).

        None if the model predicts nothing between the runs.
        """
        return self.predict(x)

    def doubt(self, x: FloatArray) -> FloatArray | None:
        """Return the part of `expected_risk` that is the model's own uncertainty: (n,).

        None if that has no part in it.
        """
        return None

    @property
    def explained(self) -> float:
        """Return the share of the variance of runs that is predicted from others."""
        return 0.0

    @property
    def noise(self) -> float:
        """Return the standard deviation of the simulator's noise in those of its outputs.

        NaN if it is not known.
        """
        return np.nan

    @property
    def severity(self) -> float:
        """Return the mean excess risk of runs that failed or are outliers; 0 if there are none."""
        return 0.0

    @property
    def outliers(self) -> float:
        """Return the number of runs that failed or are outliers; NaN if it is not known."""
        return np.nan

    @property
    def memory(self) -> Memory | None:
        """Return what the next fit finds in its context."""
        return None

    def failure_chance(self, at: Distribution) -> float:
        """Return the share of the runs of `at` that will fail or be outliers.

        NaN if the model does not know where runs fail: then it is asked for no `probes`.
        """
        return np.nan

    def probes(self, n: int, at: Distribution, rng: np.random.Generator) -> FloatArray:
        """Return n points in the tails of `at` where success is least certain: (n, dim)."""
        raise NotImplementedError(f"{type(self).__name__} has failure_chance, but no probes")

    def informative(
        self, n: int, pool: FloatArray, about: FloatArray, given: FloatArray
    ) -> FloatArray:
        """Return n points of a pool that tell most about others: (n, dim).

        Points that are `given` are run as well. It is asked where `explained` is large.
        """
        raise NotImplementedError(f"{type(self).__name__} has explained, but not informative")


@dataclass(frozen=True, eq=False)
class WrappedModel(RiskModel):
    """Forward every member to another model; subclasses override what they change."""

    inner: RiskModel

    def project(self, at: Distribution, rng: np.random.Generator) -> Surrogate:
        """Return the inner model's projection."""
        return self.inner.project(at, rng)

    def predict(self, x: FloatArray) -> FloatArray | None:
        """Return the inner model's predictions."""
        return self.inner.predict(x)

    def expected_risk(self, x: FloatArray) -> FloatArray | None:
        """Return the inner model's risks of all runs."""
        return self.inner.expected_risk(x)

    def doubt(self, x: FloatArray) -> FloatArray | None:
        """Return the inner model's doubt."""
        return self.inner.doubt(x)

    @property
    def explained(self) -> float:
        """Return what the inner model explains."""
        return self.inner.explained

    @property
    def noise(self) -> float:
        """Return the inner model's noise."""
        return self.inner.noise

    @property
    def severity(self) -> float:
        """Return the inner model's severity."""
        return self.inner.severity

    @property
    def outliers(self) -> float:
        """Return the inner model's number of outliers."""
        return self.inner.outliers

    @property
    def memory(self) -> Memory | None:
        """Return the inner model's memory."""
        return self.inner.memory

    def failure_chance(self, at: Distribution) -> float:
        """Return the inner model's chance of failures."""
        return self.inner.failure_chance(at)

    def probes(self, n: int, at: Distribution, rng: np.random.Generator) -> FloatArray:
        """Return the inner model's probes."""
        return self.inner.probes(n, at, rng)

    def informative(
        self, n: int, pool: FloatArray, about: FloatArray, given: FloatArray
    ) -> FloatArray:
        """Return the points that the inner model chooses."""
        return self.inner.informative(n, pool, about, given)


class Estimator(ABC):
    """Turn evaluations into a model of the risk."""

    helped_by_outputs = False
    """True if it emulates the risk alone, where the simulator's outputs would tell more."""

    @property
    def reuses(self) -> bool:
        """Return False if only the last batch counts."""
        return True

    @abstractmethod
    def fit(
        self, evaluations: Evaluations, current: Distribution, context: Context | None = None
    ) -> RiskModel:
        """Return a model of the risk that is accurate around `current`."""

    def plan(self, problem: Problem, n: int) -> BatchPlan:
        """Return the batches that it needs after n runs: those of weighted least squares."""
        return BatchPlan.determining(problem)
