"""State of meta-learning: tasks, prior and history."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from supac.arrays import FloatArray
from supac.families import Distribution
from supac.meta.step import Lesson
from supac.meta.task import Environment
from supac.problem import Problem
from supac.problem.bounds import fixed_temperature, slopes
from supac.search.algorithm import Info, State


@dataclass(frozen=True, eq=False)
class TaskState:
    """Runs and posterior of one task, and its requests during the current visit."""

    state: State
    info: Info
    asked: FloatArray | None = None
    """Points to evaluate next; None once the visit is over."""
    spent: int = 0
    """Queries of the current visit."""
    rounds: int = 0
    """Steps of the current visit."""
    objective: float = np.nan
    """Predicted bound of the posterior under the prior that it was optimised for."""
    weight: float = np.nan
    """λ, the slope of the bound in KL at the posterior."""
    prior: FloatArray | None = None
    """θ of that prior; None before the first visit is over."""

    @property
    def known(self) -> bool:
        """True if the task has a posterior; False if too many of its runs failed."""
        return bool(np.isfinite(self.objective))

    def settled(self, problem: Problem) -> TaskState:
        """End the visit: set objective, weight and prior."""
        posterior = self.state.posterior
        assert isinstance(problem.prior, Distribution)
        kl = posterior.kl(problem.prior)
        weight = fixed_temperature(problem.bound)
        if weight is None:
            # An approximation: `info` holds the mean risk before the last step.
            weight = slopes(problem.bound, self.info.mean_risk, kl)[1]
        objective = self.info.predicted
        return replace(
            self, asked=None, objective=objective, weight=weight, prior=problem.prior.theta
        )


@dataclass(frozen=True)
class MetaInfo:
    """Diagnostics of one meta-step."""

    passes: float
    """Passes over all tasks so far, in part."""
    objective: float
    """Mean bound of the tasks of the visit under the prior that they were optimised for."""
    kl: float
    """Mean KL between their posteriors and that prior."""
    step_kl: float
    """Mean over their features of KL(new prior, old prior)."""
    queries: int
    """Number of runs of all tasks so far."""
    asked: int
    """Number of tasks of the visit that requested new runs."""
    left_out: int = 0
    """Number of tasks of the visit without a posterior, because too many runs failed."""


@dataclass(frozen=True, eq=False)
class MetaState:
    """State between the pure functions `begin`, `ask`, `tell` and `finish`."""

    seed: int
    prior: FloatArray
    """A: (size, k)."""
    tasks: tuple[TaskState | None, ...]
    """None before the first visit."""
    visit: int = 0
    """Meta-steps made so far."""
    passes: int = 0
    """Complete passes over all tasks."""
    active: tuple[int, ...] = ()
    """Tasks of the current visit."""
    left: tuple[int, ...] = ()
    """Tasks that this pass visits later."""
    history: tuple[MetaInfo, ...] = ()
    priors: tuple[FloatArray, ...] = ()
    """Prior after each meta-step."""

    @property
    def visited(self) -> dict[int, TaskState]:
        """Tasks of the current visit by index, once it has begun."""
        tasks = {i: self.tasks[i] for i in self.active}
        return {i: each for i, each in tasks.items() if each is not None}

    @property
    def queries(self) -> int:
        """Number of runs of all tasks."""
        return sum(len(each.state.evaluations) for each in self.tasks if each is not None)

    def lesson(self, environment: Environment) -> Lesson | None:
        """Return the posteriors of all visited tasks; None if no active task has one.

        ValueError if no task has one after a whole pass.
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
