"""Meta-learning as pure functions: begin a visit, ask, tell, and finish it with a meta-step."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from supac.arrays import FloatArray, positive, whole
from supac.codec import register
from supac.meta.inner import Inner, Plan, Reuse
from supac.meta.state import MetaInfo, MetaState, TaskState
from supac.meta.step import ClosedForm, GradientStep, MetaStep, prior_of
from supac.meta.task import Environment
from supac.problem import Batch

_ORDER, _TASK = 0, 1
"""Streams of random numbers."""

Answers = Mapping[int, tuple[FloatArray, FloatArray | None]]
"""Risks, and outputs if there are any, by task."""


@register
@dataclass(frozen=True)
class Stage:
    """Passes over the tasks with one meta-step rule and one inner solver.

    A meta-step follows each visit of `batch` tasks, drawn without replacement; by default all.
    """

    step: MetaStep = field(default_factory=ClosedForm)
    inner: Inner = field(default_factory=Reuse)
    batch: int | None = None
    passes: int | None = None
    """None for all remaining passes."""

    def __post_init__(self) -> None:
        for name in ("batch", "passes"):
            if getattr(self, name) is not None:
                whole(getattr(self, name), name, least=1)
        steps = _takes(self.step, "move", 2)  # a TrustRegion has a `move` too, of other arguments
        if not (steps and _takes(self.inner, "begin", 3) and _takes(self.inner, "tell", 3)):
            raise TypeError(
                "a stage takes a meta-step, such as ClosedForm(), and an inner solver, such as "
                f"Reuse(), not {self.step!r} and {self.inner!r}"
            )


def _takes(part: object, name: str, count: int) -> bool:
    """Return True if an instance has a method `name` that takes `count` arguments."""
    method = getattr(part, name, None)
    if isinstance(part, type) or not callable(method):
        return False
    try:
        inspect.signature(method).bind(*range(count))
    except TypeError:
        return False
    return True


@register
@dataclass(frozen=True)
class MetaSuPAC:
    """Meta-learning in stages; by default one, with closed-form steps and reused runs.

    A visit is `begin`, then `tell` while `ask` returns points, then `finish`; all of them are pure
    functions of a state.
    """

    stages: tuple[Stage, ...] = (Stage(),)

    def __post_init__(self) -> None:
        object.__setattr__(self, "stages", tuple(self.stages))
        if not self.stages or not all(isinstance(each, Stage) for each in self.stages):
            raise TypeError(f"stages must be one Stage or more, not {self.stages!r}")

    @classmethod
    def paper(cls, temperature: float, *, tasks: int, draws: int = 10_000) -> MetaSuPAC:
        """Return stochastic gradient descent with the schedule of the paper's appendix.

        One epoch with mini-batches of 10 tasks, then of 20; after 19 more and after another 30
        epochs the steps become smaller. As in the authors' code, the gradients of a mini-batch are
        summed and divided by the number of all `tasks`; the paper has 100. `draws` is the number of
        draws for the Voronoi weights.
        """
        scale = 1.0 / positive(temperature, "temperature") / whole(tasks, "tasks", least=1)
        first, later = (Plan.paper(first=each, draws=draws) for each in (True, False))
        return cls(
            (
                Stage(GradientStep(10 * scale, 0.2), first, 10, 1),
                Stage(GradientStep(20 * scale, 0.2), later, 20, 19),
                Stage(GradientStep(20 * 0.5 * scale, 0.1), later, 20, 30),
                Stage(GradientStep(20 * 0.4 * scale, 0.1), later, 20, None),
            )
        )

    def init(self, environment: Environment, seed: int) -> MetaState:
        """Return the state before the first visit."""
        return MetaState(
            seed=whole(seed, "seed", least=0),
            prior=environment.first_prior(),
            tasks=(None,) * len(environment),
        )

    def stage(self, passes: int) -> Stage:
        """Return the stage after `passes` passes; the last one does not end."""
        left = passes
        for each in self.stages:
            if each.passes is None or left < each.passes:
                return each
            left -= each.passes
        return self.stages[-1]

    def begin(
        self,
        environment: Environment,
        state: MetaState,
        *,
        look: Callable[[], object] = lambda: None,
    ) -> MetaState:
        """Optimise the next tasks for the current prior as far as their existing runs allow.

        `look` is called before each task, and may raise to stop there.
        """
        stage, left = self.stage(state.passes), state.left
        if not left:
            order = np.random.default_rng([state.seed, state.passes, _ORDER])
            left = tuple(order.permutation(len(environment)).tolist())
        size = len(environment) if stage.batch is None else stage.batch
        active = tuple(sorted(left[:size]))
        tasks: list[TaskState | None] = list(state.tasks)
        for i in active:
            look()
            seed = int(np.random.default_rng([state.seed, i, _TASK]).integers(2**31))
            problem = environment.problem(i, state.prior)
            tasks[i] = stage.inner.begin(problem, tasks[i], seed)
        return replace(state, tasks=tuple(tasks), active=active, left=left[size:])

    def ask(self, state: MetaState) -> dict[int, Batch]:
        """Return the runs to make next by task; empty at the end of the visit."""
        tasks = state.visited.items()
        return {i: each.asked for i, each in tasks if each.asked is not None}

    def tell(self, environment: Environment, state: MetaState, answers: Answers) -> MetaState:
        """Update the state with the risks of the requested points of some tasks."""
        inner, tasks = self.stage(state.passes).inner, list(state.tasks)
        for i, (risk, outputs) in answers.items():
            task = tasks[i]
            if task is None or task.asked is None:
                raise ValueError(f"task {i} has not asked for anything")
            tasks[i] = inner.tell(environment.problem(i, state.prior), task, risk, outputs)
        return replace(state, tasks=tuple(tasks))

    def finish(self, environment: Environment, state: MetaState) -> MetaState:
        """Make the meta-step; keep the prior if no task of the visit has a posterior."""
        waiting = self.ask(state)
        if waiting or not state.active:
            raise ValueError(f"tasks {sorted(waiting)} still wait for the risks they asked for")
        stage, lesson = self.stage(state.passes), state.lesson(environment)
        prior = state.prior if lesson is None else stage.step.move(state.prior, lesson)
        done = not state.left
        return replace(
            state,
            prior=prior,
            visit=state.visit + 1,
            passes=state.passes + done,
            active=(),
            history=(*state.history, _report(environment, state, prior)),
            priors=(*state.priors, prior),
        )


def _report(environment: Environment, state: MetaState, prior: FloatArray) -> MetaInfo:
    """Return the diagnostics of a meta-step to `prior`."""
    family = environment.prior.family
    tasks, features = state.visited.values(), environment.features[list(state.visited)]
    posteriors = [each.state.posterior.theta for each in tasks]
    old = [prior_of(state.prior, phi) for phi in features]
    new = [prior_of(prior, phi) for phi in features]
    known = [each.objective for each in tasks if each.known]
    share = 1.0 - len(state.left) / len(environment)
    return MetaInfo(
        passes=state.passes + share,
        objective=float(np.mean(known)) if known else np.nan,
        kl=float(np.mean([family.kl(a, b) for a, b in zip(posteriors, old, strict=True)])),
        step_kl=float(np.mean([family.kl(a, b) for a, b in zip(new, old, strict=True)])),
        queries=state.queries,
        asked=sum(each.spent > 0 for each in tasks),
        left_out=len(tasks) - len(known),
    )
