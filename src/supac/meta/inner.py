"""How one task is optimised for a prior during a visit: from its runs, and from as few new ones."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from supac.arrays import FloatArray, positive, whole
from supac.codec import register
from supac.meta.state import TaskState
from supac.problem import Problem
from supac.problem.bounds import worth_of_a_nat
from supac.search.algorithm import Info
from supac.search.steps import FixedStep
from supac.search.supac import SuPAC
from supac.surrogate import Voronoi

_NOTHING = Info(np.nan, np.nan, np.nan)


class Inner(Protocol):
    """Pure: the same task and prior give the same points and the same posterior."""

    def begin(self, problem: Problem, task: TaskState | None, seed: int) -> TaskState:
        """A visit begins, the task's first where it is None."""

    def tell(
        self,
        problem: Problem,
        task: TaskState,
        risk: FloatArray,
        outputs: FloatArray | None = None,
    ) -> TaskState:
        """The risks of the points that the task had asked for."""


@register
@dataclass(frozen=True)
class Reuse:
    """Every run ever made is learnt from; new ones are asked for when the model is in doubt.

    What was learnt of the risk does not depend on the prior. So a visit begins on the model of all
    runs so far, without a query. It asks for a batch around the new posterior where

    - the step ended at the rim of the trust region, or went further than `kl` nats; or
    - the runs are worth less than `effective_size` draws of the posterior, or do not cover it
      (k̂ above 0.7); or
    - the last batch was worse than predicted by more than `error` nats, in units of the task's λ.

    At most `first` queries on the first visit and `most` on later ones. `algorithm` makes the
    steps and decides on the size of batches.
    """

    algorithm: SuPAC = field(default_factory=lambda: SuPAC(first=20, batch=10))
    first: int = 100
    most: int = 30
    effective_size: float = 20.0
    error: float = 0.3
    kl: float = 1.0

    def __post_init__(self) -> None:
        _check_algorithm(self.algorithm)
        whole(self.first, "first", least=3)  # fewer runs teach nothing
        whole(self.most, "most", least=0)
        for name in ("effective_size", "error", "kl"):
            positive(getattr(self, name), name)

    def begin(self, problem: Problem, task: TaskState | None, seed: int) -> TaskState:
        """On the model of all runs, where there are any."""
        if task is None:
            state = self.algorithm.init(problem, seed)
            if len(self.algorithm.ask(problem, state)) > self.first:
                state = self.algorithm.plan(problem, state, self.first)
            return TaskState(state, _NOTHING, asked=self.algorithm.ask(problem, state))
        state, info = self.algorithm.revise(problem, task.state)
        return self._go_on(problem, replace(task, state=state, info=info, spent=0, rounds=0))

    def tell(
        self,
        problem: Problem,
        task: TaskState,
        risk: FloatArray,
        outputs: FloatArray | None = None,
    ) -> TaskState:
        """Learn, and ask again where the doubt remains and queries are left."""
        return self._go_on(problem, _told(self.algorithm, problem, task, risk, outputs))

    def _go_on(self, problem: Problem, task: TaskState) -> TaskState:
        x = self.algorithm.ask(problem, task.state)
        most = self.first if task.spent == len(task.state.evaluations) else self.most
        if task.spent + len(x) > most or not self._in_doubt(problem, task.info):
            return _settled(self.algorithm, problem, task)
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
class Plan:
    """So many queries at each step, whatever comes of them; 0 is a step on the runs there are.

    The paper's way, with `algorithm` its SuPAC-CE.
    """

    algorithm: SuPAC
    queries: tuple[int, ...]

    def __post_init__(self) -> None:
        _check_algorithm(self.algorithm)
        object.__setattr__(self, "queries", tuple(self.queries))
        for each in self.queries:
            whole(each, "queries", least=0)
        if not self.queries:
            raise ValueError("queries must name at least one step")

    @classmethod
    def paper(cls, *, first: bool, draws: int = 10_000) -> Plan:
        """The first visit of a task in the paper's experiment, or each later one.

        `draws` are behind the Voronoi weights.
        """
        queries = (100,) * 5 + (50,) * 10 if first else (20, 0, 20, 0)
        step = FixedStep(alpha_max=0.3 if first else 0.7, kl_max=0.5)
        return cls(SuPAC(Voronoi(draws=draws), step), queries)

    def begin(self, problem: Problem, task: TaskState | None, seed: int) -> TaskState:
        """From the last posterior on, or from the prior."""
        if task is None:
            task = TaskState(self.algorithm.init(problem, seed), _NOTHING)
        return self._go_on(problem, replace(task, spent=0, rounds=0))

    def tell(
        self,
        problem: Problem,
        task: TaskState,
        risk: FloatArray,
        outputs: FloatArray | None = None,
    ) -> TaskState:
        """One step with these queries, and all that follow without any."""
        return self._go_on(problem, _told(self.algorithm, problem, task, risk, outputs))

    def _go_on(self, problem: Problem, task: TaskState) -> TaskState:
        while task.rounds < len(self.queries):
            n = self.queries[task.rounds]
            if n:
                return self._ask(problem, task, n)
            state, info = self.algorithm.revise(problem, task.state)
            task = replace(task, state=state, info=info, rounds=task.rounds + 1)
        return _settled(self.algorithm, problem, task)

    def _ask(self, problem: Problem, task: TaskState, n: int) -> TaskState:
        # Anew: the one that was planned may be of another size.
        state = self.algorithm.plan(problem, task.state, n)
        return replace(task, state=state, asked=self.algorithm.ask(problem, state))


def _told(
    algorithm: SuPAC,
    problem: Problem,
    task: TaskState,
    risk: FloatArray,
    outputs: FloatArray | None,
) -> TaskState:
    """The task after one step more, with the risks that it had asked for."""
    assert task.asked is not None
    state, info = algorithm.tell(problem, task.state, task.asked, risk, outputs)
    spent, rounds = task.spent + len(risk), task.rounds + 1
    return replace(task, state=state, info=info, spent=spent, rounds=rounds)


def _settled(algorithm: SuPAC, problem: Problem, task: TaskState) -> TaskState:
    """The visit is over; where its last batch failed, the runs before it still say something."""
    if not np.isfinite(task.info.predicted):
        state, info = algorithm.revise(problem, task.state)
        task = replace(task, state=state, info=info)
    return task.settled(problem)


def _check_algorithm(algorithm: SuPAC) -> None:
    if isinstance(algorithm, type) or not hasattr(algorithm, "revise"):
        raise TypeError(
            f"algorithm must be SuPAC(…), which can revise a posterior without queries, not "
            f"{algorithm!r}"
        )
    if not getattr(algorithm, "reuses", True):
        raise ValueError(f"algorithm must learn from earlier runs, which {algorithm!r} does not")
