"""Many tasks and one prior, as values."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from supac.arrays import FloatArray
from supac.families import Distribution
from supac.meta.step import Lesson, prior_of
from supac.problem import Loss, Problem
from supac.problem.bounds import Bound, fixed_temperature, slopes
from supac.search.algorithm import Info, State


@dataclass(frozen=True, eq=False)
class Environment:
    """What the tasks are, apart from their risks: all that the pure part knows of them."""

    prior: Distribution
    """Where the search for a prior begins, and the scales on which parameters vary."""
    bounds: tuple[Bound, ...]
    features: FloatArray
    """φ_i: (n, k), all of them 1 where tasks have none."""
    losses: tuple[Loss | None, ...]
    failure_risks: tuple[float | None, ...]

    def __len__(self) -> int:
        return len(self.bounds)

    @classmethod
    def of(
        cls,
        prior: Distribution,
        bounds: tuple[Bound, ...],
        *,
        features: FloatArray | None = None,
        losses: tuple[Loss | None, ...] | None = None,
        failure_risks: tuple[float | None, ...] | None = None,
    ) -> Environment:
        """Tasks whose risks are plain numbers, unless it is said otherwise."""
        n = len(bounds)
        return cls(
            prior,
            bounds,
            np.ones((n, 1)) if features is None else features,
            losses or (None,) * n,
            failure_risks or (None,) * n,
        )

    @property
    def plain(self) -> bool:
        """Whether tasks have no features, and one prior."""
        return self.features.shape[1] == 1 and bool((self.features == 1.0).all())

    def first_prior(self) -> FloatArray:
        """A (size, k) with which every task has the first prior: that is best in least squares."""
        ones = np.linalg.lstsq(self.features, np.ones(len(self)), rcond=None)[0]
        if not np.allclose(self.features @ ones, 1.0):
            raise ValueError(
                "features must be able to say the same for all tasks: give each a constant one, "
                "such as features=[1.0, …]"
            )
        return np.outer(self.prior.theta, ones)

    def problem(self, task: int, prior: FloatArray) -> Problem:
        """One task under a prior A (size, k)."""
        own = self.prior.at(prior_of(prior, self.features[task]))
        return Problem(
            own,
            self.bounds[task],
            own,
            failure_risk=self.failure_risks[task],
            loss=self.losses[task],
            scale=self.prior,
        )


@dataclass(frozen=True, eq=False)
class TaskState:
    """One task: all its runs, its posterior, and what it asks for during the present visit."""

    state: State
    info: Info
    asked: FloatArray | None = None
    """Points to evaluate before anything else happens; None once the visit is over."""
    spent: int = 0
    """Queries of the present visit."""
    rounds: int = 0
    """Steps of the present visit."""
    objective: float = np.nan
    """The bound of the posterior under the prior it was optimised for, as the model sees it."""
    weight: float = np.nan
    """λ, the slope of the bound in KL there."""
    prior: FloatArray | None = None
    """θ of that prior; None before the first visit is over."""

    @property
    def known(self) -> bool:
        """Whether anything was learnt of it; else its runs have failed."""
        return bool(np.isfinite(self.objective))

    def settled(self, problem: Problem) -> TaskState:
        """The visit is over: what it says of the prior."""
        posterior = self.state.posterior
        assert isinstance(problem.prior, Distribution)
        kl = posterior.kl(problem.prior)
        weight = fixed_temperature(problem.bound)
        if weight is None:
            # About there: the mean risk is the one before the last step, as `info` has it.
            weight = slopes(problem.bound, self.info.mean_risk, kl)[1]
        objective = self.info.predicted
        return replace(
            self, asked=None, objective=objective, weight=weight, prior=problem.prior.theta
        )


@dataclass(frozen=True)
class MetaInfo:
    """What one meta-step saw and did."""

    passes: float
    """Passes over all tasks, when it was made."""
    objective: float
    """Mean bound of the tasks of the visit, under the prior that they were optimised for."""
    kl: float
    """Mean KL between their posteriors and that prior."""
    step_kl: float
    """Mean over their features of KL(new prior, old prior)."""
    queries: int
    """Of all tasks so far."""
    asked: int
    """How many of the visit's tasks asked for new queries."""
    left_out: int = 0
    """Of how many nothing is known, since too many of their runs fail."""


@dataclass(frozen=True, eq=False)
class MetaState:
    """Where meta-learning stands: all that the next `begin`, `ask`, `tell` and `finish` need."""

    seed: int
    prior: FloatArray
    """A: (size, k)."""
    tasks: tuple[TaskState | None, ...]
    """None before the first visit."""
    visit: int = 0
    """Meta-steps made so far."""
    passes: int = 0
    """Passes over all tasks that are complete."""
    active: tuple[int, ...] = ()
    """The tasks of the present visit."""
    left: tuple[int, ...] = ()
    """Those that this pass has still to visit afterwards."""
    history: tuple[MetaInfo, ...] = ()
    priors: tuple[FloatArray, ...] = ()
    """The prior after each meta-step."""

    @property
    def queries(self) -> int:
        """Of all tasks."""
        return sum(len(each.state.evaluations) for each in self.tasks if each is not None)

    def lesson(self, environment: Environment) -> Lesson | None:
        """What all tasks that have been visited say of the prior; None where the last say nothing.

        ValueError where a whole pass has taught nothing.
        """
        seen = [(i, each) for i, each in enumerate(self.tasks) if each is not None and each.known]
        active = set(self.active)
        if not seen and not self.left:
            raise ValueError(
                "nothing was learnt of any task in a whole pass: too many of their runs fail. Look "
                "at the simulator, or narrow the prior to where it works"
            )
        if not any(i in active for i, _ in seen):
            return None
        return Lesson(
            family=environment.prior.exponential,
            features=np.array([environment.features[i] for i, _ in seen]),
            posteriors=np.array([each.state.posterior.theta for _, each in seen]),
            priors=np.array([each.prior for _, each in seen]),
            weights=np.array([each.weight for _, each in seen]),
            recent=np.array([i in active for i, _ in seen]),
            origin=environment.prior.theta,
        )
