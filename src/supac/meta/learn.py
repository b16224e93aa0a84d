"""The public loop of meta-learning: visit tasks, evaluate what they ask for, move the prior."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np

from supac.arrays import FloatArray, vector, whole
from supac.codec import Spec, describe, to_spec
from supac.families import Distribution, Family
from supac.meta import Environment, MetaInfo, MetaState, MetaSuPAC, TaskState, prior_of
from supac.meta.progress import PassBar
from supac.meta.scores import solve
from supac.meta.store import MetaStore
from supac.meta.task import Task
from supac.problem.composite import Composite
from supac.problem.evaluations import Evaluations
from supac.problem.parameters import Parameters
from supac.record.history import StopReason
from supac.record.result import Result
from supac.record.run import Run, Status
from supac.record.store import Round
from supac.running.fleet import Fleet, Place
from supac.running.interrupt import Interrupt, Interrupted
from supac.search.algorithm import Batch


@dataclass(frozen=True, eq=False)
class TaskResult:
    """What is known of one task: every run, and its posterior under the last prior but one."""

    posterior: Distribution
    prior: Distribution
    """For which the posterior was optimised."""
    objective: float
    """The bound, as the model of the risk sees it."""
    kl: float
    evaluations: Evaluations
    failures: tuple[Run, ...] = ()

    @property
    def queries(self) -> int:
        """How many runs were made."""
        return len(self.evaluations)


@dataclass(frozen=True, eq=False)
class MetaResult:
    """The prior that was learnt, and how."""

    priors: tuple[Distribution, ...]
    """The first prior, and that after each meta-step; of tasks without features."""
    coefficients: FloatArray
    """A with θ_p = A·φ: (size, k)."""
    first: Distribution
    """The prior before anything was learnt."""
    history: dict[str, FloatArray]
    """One column a quantity, one row a meta-step."""
    tasks: tuple[TaskResult, ...]
    stop_reason: StopReason
    parameters: Parameters | None = None

    @property
    def prior(self) -> Distribution:
        """The last prior."""
        if not self.priors:
            raise ValueError("the prior depends on features: ask for prior_for(features)")
        return self.priors[-1]

    def prior_for(self, features: Sequence[float] | FloatArray) -> Distribution:
        """The prior of a task with these features: A·φ."""
        phi = vector(features, "features", self.coefficients.shape[1])
        theta = prior_of(self.coefficients, phi)
        if not self.first.family.contains(theta):
            raise ValueError(
                f"features = {phi} give no distribution: they are too far from those learnt on"
            )
        return self.first.at(theta)

    def prior_of(self, task: Task) -> Distribution:
        """The prior of a task, by its features where it has any."""
        return self.prior if task.features is None else self.prior_for(task.features)

    def minimize(self, task: Task, *, budget: int, **options: Any) -> Result:
        """A new task from the prior that was learnt; the options are those of `minimize`."""
        return solve(
            task, self.prior_of(task), budget=budget, parameters=self.parameters, **options
        )

    @property
    def pass_priors(self) -> tuple[Distribution, ...]:
        """Of `priors`, the first and those after whole passes."""
        if not self.priors:
            return ()
        passes = self.history["passes"]
        ends = np.flatnonzero(passes == np.round(passes))
        return (self.priors[0], *(self.priors[k + 1] for k in ends))

    @property
    def queries(self) -> int:
        """Of all tasks."""
        return sum(each.queries for each in self.tasks)

    @property
    def left_out(self) -> tuple[int, ...]:
        """Tasks that were visited, but of which nothing was learnt: too many of their runs fail."""
        return tuple(
            i for i, each in enumerate(self.tasks) if each.queries and np.isnan(each.objective)
        )

    def __str__(self) -> str:
        objective, passes = self.history["objective"], self.history["passes"]
        if np.isnan(objective).all():
            return f"nothing was learnt yet; stopped: {self.stop_reason}"
        known = objective[~np.isnan(objective)]
        lost = ", ".join(str(each) for each in self.left_out)
        return (
            f"mean bound {known[0]:.4g} → {known[-1]:.4g} over {len(self.tasks)} tasks in "
            f"{passes[-1]:g} passes and {self.queries} queries; stopped: {self.stop_reason}"
        ) + (f"; nothing was learnt of tasks {lost}: their runs fail" if lost else "")


def meta_learn(  # noqa: PLR0913 - one argument a thing that a user decides, all but two by keyword
    tasks: Sequence[Task],
    prior: Distribution | Parameters,
    *,
    passes: int = 6,
    learner: MetaSuPAC | None = None,
    executor: Executor | int | str | None = None,
    timeout: float | None = None,
    retries: int = 2,
    on_failure: Literal["raise", "penalise", "drop"] = "raise",
    store: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    seed: int = 0,
    callback: Callable[[MetaInfo], object] | None = None,
) -> MetaResult:
    """Learn the prior under which the mean of the tasks' minimal bounds is least.

    Parameters
    ----------
    tasks
        Problems of the same parameters, such as `Task(risk, Catoni(temperature=0.01))`.
    prior
        Where to begin, and the scales on which parameters vary: a distribution, or `Parameters`.
    passes
        How often each task is visited. A larger number goes on with the same beginning.
    learner
        By default `MetaSuPAC()`; `MetaSuPAC.paper(temperature, tasks=len(tasks))` is the paper's
        stochastic gradient.
    executor, timeout, retries, on_failure
        As for `minimize`; the runs of all tasks share the workers.
    store
        A file in which every run is kept as it ends. Where it holds the beginning of this very
        call, that is gone on with; where it holds more passes, all of them are returned. Tasks are
        known again by their names, or by what their risks are called.
    progress
        Show a progress bar; by default if the standard error is a terminal.
    seed
        Same seed, same result, whatever the executor.
    callback
        Called with a `MetaInfo` after each meta-step; returning anything true stops.

    """
    learner = MetaSuPAC() if learner is None else learner
    if not isinstance(learner, MetaSuPAC):
        raise TypeError(f"learner must be one such as MetaSuPAC(), not {learner!r}")
    whole(passes, "passes", least=1)
    place = Place(executor, timeout, whole(retries, "retries", least=0))
    environment = environment_of(tasks, prior, on_failure)
    with ExitStack() as stack:
        interrupt = stack.enter_context(Interrupt())
        kept = None
        if store is not None:
            config = _config(tasks, prior, learner, environment, place)
            config |= {"on_failure": on_failure, "seed": seed, "passes": passes}
            kept = stack.enter_context(MetaStore(store, config, environment.prior, len(tasks)))
        bar = stack.enter_context(PassBar(passes, progress))
        fleet = Fleet(
            [(each.risk, each.vectorized) for each in tasks],
            place,
            parameters=prior if isinstance(prior, Parameters) else None,
            raising=on_failure == "raise",
            ceilings=environment.failure_risks,
            shelves=None if kept is None else kept.shelves,
            interrupt=interrupt,
            watch=bar.watch,
        )
        stack.callback(fleet.close)
        loop = _Loop(environment, learner, fleet, learner.init(environment, seed))
        if kept is not None:
            loop.remember(kept)
        stop = loop.run(passes, kept, bar, callback)
    return loop.result(stop, prior if isinstance(prior, Parameters) else None)


def environment_of(
    tasks: Sequence[Task], prior: Distribution | Parameters, on_failure: str
) -> Environment:
    """What the pure part has to know of the tasks; an error where they do not fit together."""
    if not tasks or not all(isinstance(each, Task) for each in tasks):
        raise TypeError(f"tasks must be one Task or more, not {tasks!r:.80}")
    first = prior.prior if isinstance(prior, Parameters) else prior
    if not isinstance(first, Distribution):
        raise TypeError(
            "prior must be a Distribution, such as gaussian(mean, covariance), or Parameters, not "
            f"{prior!r}"
        )
    if not isinstance(first.family, Family):
        raise TypeError(
            f"prior must be a member of an exponential family, such as gaussian(mean, covariance), "
            f"not of {first.family}: only there is the best prior of several tasks known"
        )
    if on_failure not in ("raise", "penalise", "drop"):
        raise ValueError(f'on_failure must be "raise", "penalise" or "drop", not {on_failure!r}')
    given = [each.features for each in tasks]
    widths = {None if each is None else len(each) for each in given}
    if len(widths) > 1:
        raise ValueError(f"all tasks must have as many features, or none, not {widths}")
    ceilings = [getattr(each.bound, "ceiling", None) for each in tasks]
    if on_failure == "penalise" and None in ceilings:
        raise ValueError(
            'on_failure="penalise" counts a failed run as the ceiling of the risk, but '
            f"{tasks[ceilings.index(None)].bound!r} has no attribute `ceiling`; give it one"
        )
    return Environment.of(
        first,
        tuple(each.bound for each in tasks),
        features=None if widths == {None} else np.array(given, dtype=np.float64),
        losses=tuple(t.risk.loss if isinstance(t.risk, Composite) else None for t in tasks),
        failure_risks=tuple(c if on_failure == "penalise" else None for c in ceilings),
    )


def _config(
    tasks: Sequence[Task],
    prior: Distribution | Parameters,
    learner: MetaSuPAC,
    environment: Environment,
    place: Place,
) -> dict[str, Spec]:
    settings = {
        "prior": prior,
        "tasks": [describe(each.risk) if each.name is None else each.name for each in tasks],
        "bounds": [each.bound for each in tasks],
        "learner": learner,
        "features": environment.features,
        "losses": list(environment.losses),
        "vectorized": [each.vectorized for each in tasks],
        "timeout": place.timeout,
        "retries": place.retries,
    }
    return {name: to_spec(value) for name, value in settings.items()}


@dataclass(eq=False)
class _Loop:
    """Meta-learning on its way."""

    environment: Environment
    learner: MetaSuPAC
    fleet: Fleet
    state: MetaState
    failures: dict[int, list[Run]] = field(default_factory=dict)

    def remember(self, store: MetaStore) -> None:
        """Go on where the store ends."""
        self.state = store.state(self.state, self.fleet.failure_losses)
        for shelf in store.shelves:
            told = [shelf.runs[run] for each in shelf.rounds for run in each.ids]
            self.failures[shelf.task] = [run for run in told if run.status is not Status.OK]

    def run(
        self,
        passes: int,
        store: MetaStore | None,
        bar: PassBar,
        callback: Callable[[MetaInfo], object] | None,
    ) -> StopReason:
        """Visit after visit."""
        while self.state.passes < passes:
            try:
                told = self._visit()
            except Interrupted:
                return StopReason.INTERRUPTED
            if store is not None:
                store.keep_visit(told, self.state)
            info = self.state.history[-1]
            bar.update(info)
            if callback is not None and callback(info):
                return StopReason.USER
        return StopReason.BUDGET

    def _visit(self) -> list[tuple[int, Round]]:
        """One visit with its meta-step; where it is interrupted, the state is that before it."""
        learner, environment = self.learner, self.environment
        told: list[tuple[int, Round]] = []
        failures: list[tuple[int, Run]] = []
        state = learner.begin(environment, self.state, look=self.fleet.look)
        while asked := learner.ask(state):
            batches = {i: _planned(state.tasks[i], x) for i, x in asked.items()}
            outcomes = self.fleet.batch(asked)
            for i, outcome in outcomes.items():
                self.fleet.look()
                state = learner.tell(environment, state, {i: (outcome.risk, outcome.outputs)})
                batch, task = batches[i], state.tasks[i]
                assert task is not None
                told.append((i, Round(outcome.ids, batch.drawn, batch.proposal, task.info)))
                failures += [(i, run) for run in outcome.failures]
        self.state = learner.finish(environment, state)
        for i, run in failures:
            self.failures.setdefault(i, []).append(run)
        return told

    def result(self, stop: StopReason, parameters: Parameters | None) -> MetaResult:
        """What was learnt."""
        state, first = self.state, self.environment.prior
        plain = self.environment.plain
        names = [each.name for each in fields(MetaInfo)]
        return MetaResult(
            priors=(first, *(first.at(each[:, 0]) for each in state.priors)) if plain else (),
            coefficients=state.prior,
            first=first,
            history={n: np.array([getattr(each, n) for each in state.history]) for n in names},
            tasks=tuple(
                _task_result(each, first, self.failures.get(i, []))
                for i, each in enumerate(state.tasks)
            ),
            stop_reason=stop,
            parameters=parameters,
        )


def _planned(task: TaskState | None, x: FloatArray) -> Batch:
    assert task is not None
    return task.state.planned(x)


def _task_result(
    task: TaskState | None, first: Distribution, failures: Sequence[Run]
) -> TaskResult:
    if task is None or task.prior is None:  # it was never visited
        return TaskResult(first, first, np.nan, 0.0, Evaluations.none(first.dim))
    prior, posterior = first.at(task.prior), task.state.posterior
    return TaskResult(
        posterior,
        prior,
        task.objective,
        posterior.kl(prior),
        task.state.evaluations,
        tuple(failures),
    )
