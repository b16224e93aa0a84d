"""Inner solvers: optimise the posterior of one task for a given prior."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

import numpy as np

from supac.arrays import FloatArray, positive, whole
from supac.codec import register
from supac.meta.state import TaskState
from supac.problem import Problem
from supac.problem.bounds import worth_of_a_nat
from supac.search.algorithm import Info
from supac.search.supac import SuPAC
from supac.search.trust import FixedStep
from supac.surrogate.voronoi import Voronoi

_NOTHING = Info(np.nan, np.nan, np.nan)


class Inner(Protocol):
    """Protocol of inner solvers: pure functions of the task's state and the prior."""

    def begin(self, problem: Problem, task: TaskState | None, seed: int) -> TaskState:
        """Begin a visit, the first one if `task` is None."""

    def tell(
        self, problem: Problem, task: TaskState, risk: FloatArray, outputs: FloatArray | None = None
    ) -> TaskState:
        """Update the task with the risks of its requested points."""


class _Visits(ABC):
    """Base class: optimise a task with steps of an algorithm."""

    algorithm: SuPAC
    _plans: ClassVar[bool] = True
    """True if batches are those that the algorithm plans with its steps."""

    def __post_init__(self) -> None:
        algorithm = self.algorithm
        if not isinstance(algorithm, SuPAC):
            raise TypeError(
                f"algorithm must be SuPAC(…), which can revise a posterior without queries, not "
                f"{algorithm!r}"
            )
        if not algorithm.reuses:
            words = f"algorithm must learn from earlier runs, which {algorithm!r} does not"
            raise ValueError(words)

    @abstractmethod
    def _go_on(self, problem: Problem, task: TaskState) -> TaskState:
        """Request further points, or end the visit."""

    def tell(
        self, problem: Problem, task: TaskState, risk: FloatArray, outputs: FloatArray | None = None
    ) -> TaskState:
        """Make one step with the risks of the requested points, and continue."""
        assert task.asked is not None
        state, info = self.algorithm.tell(
            problem, task.state, task.asked, risk, outputs, plans=self._plans
        )
        spent, rounds = task.spent + len(risk), task.rounds + 1
        return self._go_on(
            problem, replace(task, state=state, info=info, spent=spent, rounds=rounds)
        )

    def _settled(self, problem: Problem, task: TaskState) -> TaskState:
        """End the visit; if its last batch failed, make a step with the runs before it."""
        if not np.isfinite(task.info.predicted):
            state, info = self.algorithm.revise(problem, task.state)
            task = replace(task, state=state, info=info)
        return task.settled(problem)


@register
@dataclass(frozen=True)
class Reuse(_Visits):
    """Reuse all earlier runs; request new ones only if the surrogate is unreliable.

    The surrogate of the risk does not depend on the prior, so a visit begins with that of all runs
    so far, without a query. It requests a batch around the new posterior if

    - the step ended at the edge of the trust region, or went further than `kl` nats; or
    - the runs are worth fewer than `effective_size` draws of the posterior, or do not cover it
      (k̂ above 0.7); or
    - the last batch was worse than predicted by more than `error` nats, in units of the task's λ.

    At most `first` queries on the first visit and `most` on later ones; `algorithm` makes the
    steps and sets the batch size.
    """

    algorithm: SuPAC = field(default_factory=lambda: SuPAC(first=20, batch=10))
    first: int = 100
    most: int = 30
    effective_size: float = 20.0
    error: float = 0.3
    kl: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(self.first, "first", least=3)  # fewer runs teach nothing
        whole(self.most, "most", least=0)
        for name in ("effective_size", "error", "kl"):
            positive(getattr(self, name), name)

    def begin(self, problem: Problem, task: TaskState | None, seed: int) -> TaskState:
        """Begin a visit with a step on all earlier runs, if there are any."""
        if task is None:
            state = self.algorithm.init(problem, seed)
            if len(self.algorithm.ask(problem, state)) > self.first:
                state = self.algorithm.plan(problem, state, self.first)
            return TaskState(state, _NOTHING, asked=self.algorithm.ask(problem, state))
        state, info = self.algorithm.revise(problem, task.state)
        return self._go_on(problem, replace(task, state=state, info=info, spent=0, rounds=0))

    def _go_on(self, problem: Problem, task: TaskState) -> TaskState:
        x = self.algorithm.ask(problem, task.state)
        most = self.first if task.spent == len(task.state.evaluations) else self.most
        if task.spent + len(x) > most or not self._in_doubt(problem, task.info):
            return self._settled(problem, task)
        return replace(task, asked=x)

    def _in_doubt(self, problem: Problem, info: Info) -> bool:
        if not np.isfinite(info.predicted):
            return True
        nat = worth_of_a_nat(problem.bound, info.mean_risk, max(info.kl, 0.0)) or np.inf
        return bool(
            info.step_kl > min(0.9 * info.radius, self.kl)
            or info.effective_size < self.effective_size
            or info.k_hat > 0.7
            or info.shortfall > self.error * nat
        )


@register
@dataclass(frozen=True)
class Plan(_Visits):
    """Make a fixed number of queries at each step; 0 is a step with the existing runs.

    This is the paper's schedule, with SuPAC-CE as its algorithm.
    """

    algorithm: SuPAC
    queries: tuple[int, ...]
    _plans: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "queries", tuple(self.queries))
        for each in self.queries:
            whole(each, "queries", least=0)
        if not self.queries:
            raise ValueError("queries must name at least one step")

    @classmethod
    def paper(cls, *, first: bool, draws: int = 10_000) -> Plan:
        """Return the plan of the first, or of each later, visit in the paper's experiment.

        `draws` is the number of draws for the Voronoi weights.
        """
        queries = (100,) * 5 + (50,) * 10 if first else (20, 0, 20, 0)
        step = FixedStep(alpha_max=0.3 if first else 0.7, kl_max=0.5)
        return cls(SuPAC(Voronoi(draws=draws), step), queries)

    def begin(self, problem: Problem, task: TaskState | None, seed: int) -> TaskState:
        """Begin a visit at the last posterior; the first visit at the prior."""
        if task is None:
            task = TaskState(self.algorithm.init(problem, seed), _NOTHING)
        return self._go_on(problem, replace(task, spent=0, rounds=0))

    def _go_on(self, problem: Problem, task: TaskState) -> TaskState:
        while task.rounds < len(self.queries):
            n = self.queries[task.rounds]
            if n:
                state = self.algorithm.plan(problem, task.state, n)
                return replace(task, state=state, asked=self.algorithm.ask(problem, state))
            state, info = self.algorithm.revise(problem, task.state, plans=False)
            task = replace(task, state=state, info=info, rounds=task.rounds + 1)
        return self._settled(problem, task)
