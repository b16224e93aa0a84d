"""Tasks of meta-learning: several related problems, and their environment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from supac.arrays import FloatArray, frozen, vector
from supac.codec import describe
from supac.families import Distribution
from supac.guarantee.seen import SeenData
from supac.meta.step import prior_of
from supac.problem import Bound, Problem
from supac.problem.composite import loss_and_data
from supac.running.execution import Execution


@dataclass(frozen=True, eq=False)
class Task:
    """A risk and the bound to minimise, with the same parameters as other tasks.

    Parameters
    ----------
    risk
        As in `minimize`: x (dim,) → float, or (n, dim) → (n,) with `vectorized=True`, or a
        `Composite`.
    bound
        Bound of this task: tasks may have different n and λ.
    vectorized
        True if `risk` takes many points at a time.
    features
        φ, known properties of the task, for a prior θ_p = A·φ that depends on them; include a
        constant, such as `[1.0, size]`.
    name
        Identifies the task in a store; by default the name of the risk function.

    """

    risk: Callable[[FloatArray], Any]
    bound: Bound
    vectorized: bool = False
    features: Sequence[float] | FloatArray | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if not callable(self.risk):
            raise TypeError(f"risk must be a function of x, not {self.risk!r}")
        if not isinstance(self.bound, Bound):
            raise TypeError(
                f"bound must be a bound such as Catoni(temperature=0.01), not {self.bound!r}"
            )
        if self.name is not None and not isinstance(self.name, str):
            raise TypeError(f"name must be a text, not {self.name!r}")
        if self.features is not None:
            object.__setattr__(self, "features", frozen(vector(self.features, "features")))

    @property
    def label(self) -> str:
        """Name of the task in a store."""
        return describe(self.risk) if self.name is None else self.name

    def shares_data(self, other: Task) -> bool:
        """Return True if both are known to be about the same data.

        That is so for the same risk, the same name, and where measurements are the same up to
        rounding; of the data behind other risks nothing is known.
        """
        if self.risk is other.risk or (self.name is not None and self.name == other.name):
            return True
        seen = SeenData.of(self.risk), SeenData.of(other.risk)
        if seen[0] is not None and seen[1] is not None:
            return seen[1].changes_until(seen[0]).shared
        mine, its = (loss_and_data(each.risk)["data"] for each in (self, other))
        return mine is not None and mine is its

    def execution(self, given: Execution) -> Execution:
        """Return the execution of this task's runs."""
        return replace(given, vectorized=self.vectorized)


@dataclass(frozen=True, eq=False)
class Environment:
    """Tasks, the first prior, and what failed runs count as; errors name what does not fit."""

    prior: Distribution
    """First prior, which also sets the scales of the parameters."""
    tasks: Sequence[Task]
    execution: Execution = Execution()

    def __post_init__(self) -> None:
        check_tasks(self.tasks)
        if not isinstance(self.prior, Distribution):
            raise TypeError(
                "prior must be a Distribution, such as gaussian(mean, covariance), or Parameters, "
                f"not {self.prior!r}"
            )
        if self.prior.family.exponential is None:
            raise TypeError(
                "prior must be a member of an exponential family, such as gaussian(mean, "
                f"covariance), not of {self.prior.family}: only there is the best prior of several "
                "tasks known"
            )
        widths = {None if each.features is None else len(each.features) for each in self.tasks}
        if len(widths) > 1:
            raise ValueError(f"all tasks must have as many features, or none, not {widths}")

    def __len__(self) -> int:
        return len(self.tasks)

    @cached_property
    def features(self) -> FloatArray:
        """φ_i: (n, k), all 1 if tasks have none."""
        return np.array([[1.0] if each.features is None else each.features for each in self.tasks])

    @property
    def plain(self) -> bool:
        """True if tasks have no features, and so share one prior."""
        return self.features.shape[1] == 1 and bool((self.features == 1.0).all())

    @cached_property
    def failure_risks(self) -> list[float | None]:
        """Risk of a failed run of each task; None if it is left out or an error."""
        return [self.execution.failure_risk(each.bound) for each in self.tasks]

    def first_prior(self) -> FloatArray:
        """Compute A (size, k) that gives every task the first prior, by least squares."""
        ones = np.linalg.lstsq(self.features, np.ones(len(self)), rcond=None)[0]
        if not np.allclose(self.features @ ones, 1.0):
            raise ValueError(
                "features must be able to say the same for all tasks: give each a constant one, "
                "such as features=[1.0, …]"
            )
        return np.outer(self.prior.theta, ones)

    def problem(self, task: int, prior: FloatArray) -> Problem:
        """Return the problem of one task under a prior A (size, k)."""
        own, about = self.prior.at(prior_of(prior, self.features[task])), self.tasks[task]
        loss, failure_risk = loss_and_data(about.risk)["loss"], self.failure_risks[task]
        return Problem(
            own, about.bound, own, failure_risk=failure_risk, loss=loss, scale=self.prior
        )


def check_tasks(tasks: Sequence[Any]) -> None:
    """Raise TypeError unless there are tasks, and nothing else."""
    if any(getattr(getattr(each, "risk", None), "observation", 0) for each in tasks):
        raise ValueError(
            "meta-learning does not know observation parameters: let simulate take all parameters, "
            "and return all that the loss needs"
        )
    if any(getattr(getattr(each, "risk", None), "jacobian", False) for each in tasks):
        raise ValueError(
            "meta-learning does not know Jacobians: leave out jacobian= of the Composite of a task"
        )
    if not tasks or not all(isinstance(each, Task) for each in tasks):
        raise TypeError(f"tasks must be one Task or more, not {tasks!r:.80}")
