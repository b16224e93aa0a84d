"""State of meta-learning: tasks, prior and history; as JSON and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from supac.arrays import FloatArray
from supac.codec import Spec
from supac.families import Distribution, as_distribution
from supac.meta.step import Lesson
from supac.meta.task import Environment
from supac.problem import Batch, Evaluations, Problem
from supac.problem.bounds import fixed_temperature, slopes
from supac.record import encoding
from supac.search.algorithm import Info, State


@dataclass(frozen=True, eq=False)
class TaskState:
    """Runs and posterior of one task, and its requests during the current visit."""

    state: State
    info: Info
    asked: Batch | None = None
    """Runs to make next; None once the visit is over."""
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
        prior = as_distribution(problem.prior)
        assert prior is not None
        kl = posterior.kl(prior)
        weight = fixed_temperature(problem.bound)
        if weight is None:
            # An approximation: `info` holds the mean risk before the last step.
            weight = slopes(problem.bound, self.info.mean_risk, kl)[1]
        objective = self.info.predicted
        return replace(self, asked=None, objective=objective, weight=weight, prior=prior.theta)


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


def meta_state_to_spec(state: MetaState) -> Spec:
    """Return a state between two visits as JSON, without its evaluations."""
    return {
        "prior": encoding.pack(state.prior),
        "visit": state.visit,
        "passes": state.passes,
        "left": list(state.left),
        "history": [asdict(each) for each in state.history],
        "priors": [encoding.pack(each) for each in state.priors],
        "tasks": [None if each is None else _task_to_spec(each) for each in state.tasks],
    }


def _task_to_spec(task: TaskState) -> Spec:
    return {
        "seed": task.state.seed,
        "state": encoding.state_to_spec(task.state),
        "info": encoding.info_to_spec(task.info),
        "spent": task.spent,
        "rounds": task.rounds,
        "objective": task.objective,
        "weight": task.weight,
        "prior": None if task.prior is None else encoding.pack(task.prior),
    }


def meta_state_from_spec(
    spec: Spec, seed: int, prior: Distribution, told: Sequence[Evaluations]
) -> MetaState:
    """Invert `meta_state_to_spec`; `told` are the evaluations of each task."""
    tasks = [
        None if each is None else _task_from_spec(each, prior, evaluations)
        for each, evaluations in zip(spec["tasks"], told, strict=True)
    ]
    return MetaState(
        seed=seed,
        prior=encoding.unpack(spec["prior"]),
        tasks=tuple(tasks),
        visit=int(spec["visit"]),
        passes=int(spec["passes"]),
        left=tuple(int(each) for each in spec["left"]),
        history=tuple(MetaInfo(**each) for each in spec["history"]),
        priors=tuple(encoding.unpack(each) for each in spec["priors"]),
    )


def _task_from_spec(spec: Spec, prior: Distribution, evaluations: Evaluations) -> TaskState:
    start = State(int(spec["seed"]), prior, Evaluations.none(prior.dim))
    return TaskState(
        state=encoding.state_from_spec(spec["state"], start, evaluations),
        info=encoding.info_from_spec(spec["info"]),
        spent=int(spec["spent"]),
        rounds=int(spec["rounds"]),
        objective=float(spec["objective"]),
        weight=float(spec["weight"]),
        prior=None if spec["prior"] is None else encoding.unpack(spec["prior"]),
    )
