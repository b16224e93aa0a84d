"""Public loop of meta-learning: visit tasks, make their runs, update the prior."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Unpack

import numpy as np

from supac.arrays import FloatArray, vector, whole
from supac.calibration.old_keywords import OldKeywords, with_old
from supac.calibration.search import Search
from supac.families import Distribution
from supac.guarantee.provenance import Provenance
from supac.meta.learner import MetaSuPAC
from supac.meta.state import (
    MetaInfo,
    MetaState,
    TaskState,
    meta_state_from_spec,
    meta_state_to_spec,
)
from supac.meta.step import prior_of
from supac.meta.task import Environment, Task
from supac.problem import Evaluations, Parameters
from supac.problem.composite import loss_and_data
from supac.problem.problem import latent_of, parameters_of
from supac.record.ending import StopReason
from supac.record.record import Record
from supac.record.result import Result
from supac.record.run import Round, Run
from supac.record.settings import Settings
from supac.running.execution import Execution
from supac.running.interrupt import Interrupted
from supac.running.runner import Runner
from supac.running.terminal import Bar
from supac.search.algorithm import Algorithm


@dataclass(frozen=True, eq=False)
class TaskResult:
    """Runs of one task, and its posterior for the prior of its last visit."""

    posterior: Distribution
    prior: Distribution
    """Prior for which the posterior was optimised."""
    objective: float
    """Bound of the posterior, as the surrogate predicts it: no certificate, also because the prior
    has seen the data of the task."""
    kl: float
    evaluations: Evaluations
    failures: tuple[Run, ...] = ()

    @property
    def queries(self) -> int:
        """Number of runs of this task."""
        return len(self.evaluations)


@dataclass(frozen=True, eq=False)
class MetaResult:
    """Learnt prior, and the history of learning it."""

    priors: tuple[Distribution, ...]
    """First prior, and the prior after each meta-step; empty if tasks have features."""
    coefficients: FloatArray
    """A with θ_p = A·φ: (size, k)."""
    first: Distribution
    """Prior before learning."""
    history: dict[str, FloatArray]
    """Diagnostics as columns, one row per meta-step."""
    tasks: tuple[TaskResult, ...]
    stop_reason: StopReason
    parameters: Parameters | None = None
    learnt_on: tuple[Task, ...] = ()

    @property
    def prior(self) -> Distribution:
        """Last prior; ValueError if it depends on features."""
        if not self.priors:
            raise ValueError("the prior depends on features: use prior_for(features)")
        return self.priors[-1]

    def prior_for(self, features: Sequence[float] | FloatArray) -> Distribution:
        """Return the prior of a task with these features: A·φ."""
        phi = vector(features, "features", self.coefficients.shape[1])
        theta = prior_of(self.coefficients, phi)
        if not self.first.family.contains(theta):
            raise ValueError(
                f"features = {phi} give no distribution: they are too far from those learnt on"
            )
        return self.first.at(theta)

    def prior_of(self, task: Task) -> Distribution:
        """Return the prior of a task, by its features if it has any."""
        return self.prior if task.features is None else self.prior_for(task.features)

    def minimize(
        self,
        task: Task,
        *,
        budget: int,
        algorithm: Algorithm | None = None,
        execution: Execution | Any = None,
        store: str | os.PathLike[str] | None = None,
        validation: int | None = None,
        seed: int = 0,
        **old: Unpack[OldKeywords],
    ) -> Result:
        """Minimise the bound of a task with the learnt prior; arguments as in `minimize`.

        Certificates hold for a new task. There are none for the tasks that the prior was learnt on:
        it has seen their data.
        """
        where, rest = with_old(execution, old, "tolerance", "description")
        prior = self.prior_of(task)
        seen = any(task.shares_data(each) for each in self.learnt_on)
        return Search(
            task.risk,
            prior if self.parameters is None else self.parameters.with_prior(prior),
            task.bound,
            budget,
            algorithm=algorithm,
            execution=task.execution(where),
            store=store,
            validation=validation,
            seed=seed,
            provenance=Provenance(prior_is_independent=not seen),
            **rest,
        ).run()

    @property
    def pass_priors(self) -> tuple[Distribution, ...]:
        """First prior, and the prior after each complete pass."""
        if not self.priors:
            return ()
        passes = self.history["passes"]
        ends = np.flatnonzero(passes == np.round(passes))
        return (self.priors[0], *(self.priors[k + 1] for k in ends))

    @property
    def queries(self) -> int:
        """Number of runs of all tasks."""
        return sum(each.queries for each in self.tasks)

    @property
    def left_out(self) -> tuple[int, ...]:
        """Visited tasks without a posterior, because too many of their runs failed."""
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


def meta_learn(
    tasks: Sequence[Task],
    prior: Distribution | Parameters,
    *,
    passes: int = 6,
    learner: MetaSuPAC | None = None,
    execution: Execution | Any = None,
    store: str | os.PathLike[str] | None = None,
    seed: int = 0,
    callback: Callable[[MetaInfo], object] | None = None,
    **old: Unpack[OldKeywords],
) -> MetaResult:
    """Learn the prior that minimises the mean of the tasks' optimised bounds.

    That mean guarantees nothing, neither for these tasks nor for others. With the learnt prior, a
    new task has certificates like any other: see `MetaResult.minimize`.

    Parameters
    ----------
    tasks
        Problems with the same parameters, such as `Task(risk, Catoni(temperature=0.01))`.
    prior
        First prior, which also sets the scales of the parameters: a distribution or `Parameters`.
    passes
        Number of visits of each task.
    learner
        By default `MetaSuPAC()`; `MetaSuPAC.paper(temperature, tasks=len(tasks))` is the paper's
        stochastic gradient.
    execution
        As in `minimize`; the runs of all tasks share the workers.
    store
        File that keeps every run as it ends. A file with the beginning of this call is continued;
        one with more passes returns them all. Tasks are identified by name.
    seed
        Same seed, same result, whatever the workers.
    callback
        Called with a `MetaInfo` after each meta-step; a true return value stops.

    """
    where, _ = with_old(execution, old)
    learner = MetaSuPAC() if learner is None else learner
    _check(learner, where, passes)
    parameters, first = parameters_of(prior), latent_of(prior)
    environment = Environment(first, tasks, where)
    settings = _settings_of(environment, prior=prior, learner=learner, seed=seed, passes=passes)
    bar = _PassBar(passes, where.progress)
    with Runner.opened(
        [each.risk for each in tasks],
        where,
        partial(Record.of_search, store, settings, first.family, kind=settings.kind),
        bar,
        parameters=parameters,
        ceilings=environment.failure_risks,
        vectorized=[each.vectorized for each in tasks],
    ) as runner:
        loop = _Loop(environment, learner, runner, learner.init(environment, seed))
        stop = loop.run(passes, bar, callback)
    return loop.result(stop, parameters)


def _check(learner: Any, execution: Execution, passes: int) -> None:
    if not isinstance(learner, MetaSuPAC):
        raise TypeError(f"learner must be one such as MetaSuPAC(), not {learner!r}")
    if execution.mode == "async":
        raise ValueError(
            'mode="async" is not for meta_learn, whose meta-steps wait for the runs of all visited '
            "tasks; these share the workers in any case"
        )
    whole(passes, "passes", least=1)


def _settings_of(environment: Environment, **others: Any) -> Settings:
    """Return the settings of the tasks, of how their runs are made, and others, for a store."""
    tasks, where = environment.tasks, environment.execution
    parts = [loss_and_data(each.risk) for each in tasks]
    stored = {
        "tasks": [each.label for each in tasks],
        "bounds": [each.bound for each in tasks],
        "losses": [each["loss"] for each in parts],
        "data": [each["data"] for each in parts],
        "features": environment.features,
        "vectorized": [each.vectorized for each in tasks],
        "timeout": where.timeout,
        "retries": where.retries,
        "on_failure": where.on_failure,
        **others,
    }
    return Settings.of({"kind": "meta_learn", **stored})


class _PassBar(Bar):
    """Progress bar in passes over the tasks."""

    passes, words = 0.0, "passes"

    def update(self, info: MetaInfo) -> None:
        """Show the diagnostics of a meta-step."""
        self.words = f"passes, mean bound {info.objective:.4g}, step {info.step_kl:.2g}"
        self.passes = info.passes
        self.show()

    def show(self) -> None:
        """Draw the bar with the numbers of runs."""
        failed = f", {self.failed} failed" * bool(self.failed)
        self.draw(self.passes, f"{self.words}, {self.runs} runs{failed}")


@dataclass(eq=False)
class _Loop:
    """State of `meta_learn` between visits."""

    environment: Environment
    learner: MetaSuPAC
    runner: Runner
    state: MetaState

    @property
    def record(self) -> Record:
        """Record of the runs of all tasks."""
        return self.runner.record

    def _restore(self) -> None:
        """Restore the state from the record."""
        if self.record.state is not None:
            told = [
                self.record.told(function.columns, task)
                for task, function in enumerate(self.runner.functions)
            ]
            seed, prior = self.state.seed, self.environment.prior
            self.state = self.record.read_state(
                lambda spec: meta_state_from_spec(spec, seed, prior, told)
            )

    def run(
        self, passes: int, bar: _PassBar, callback: Callable[[MetaInfo], object] | None
    ) -> StopReason:
        """Visit tasks, after those of an earlier process, until all passes are made or stopped."""
        self._restore()
        if self.state.passes < passes:
            self.record.confirm()  # passes, time limit and retries may differ from the file's
        while self.state.passes < passes:
            try:
                self._visit()
            except Interrupted:
                return StopReason.INTERRUPTED
            info = self.state.history[-1]
            bar.update(info)
            if callback is not None and callback(info):
                return StopReason.USER
        return StopReason.BUDGET

    def _visit(self) -> None:
        """Make one visit with its meta-step; an interrupted one leaves the state unchanged."""
        learner, environment, runner = self.learner, self.environment, self.runner
        rounds: list[Round] = []
        state = learner.begin(environment, self.state, look=runner.look)
        while asked := learner.ask(state):
            planned = {i: batch.planned for i, batch in asked.items()}
            for i, runs in runner.run_tasks(planned).items():
                runner.look()
                state = learner.tell(environment, state, {i: runner.functions[i].columns(runs)})
                ids, info = tuple(run.id for run in runs), state.visited[i].info
                rounds.append(Round(ids, asked[i].proposal, info, i))
        self.state = learner.finish(environment, state)
        self.record.add_rounds(rounds, lambda: meta_state_to_spec(self.state))

    def result(self, stop: StopReason, parameters: Parameters | None) -> MetaResult:
        """Return the learnt prior and the results of all tasks."""
        state, first = self.state, self.environment.prior
        plain, failures = self.environment.plain, self._failures()
        names = [each.name for each in fields(MetaInfo)]
        return MetaResult(
            priors=(first, *(first.at(each[:, 0]) for each in state.priors)) if plain else (),
            coefficients=state.prior,
            first=first,
            history={n: np.array([getattr(each, n) for each in state.history]) for n in names},
            tasks=tuple(
                _task_result(each, first, failures.get(i, ())) for i, each in enumerate(state.tasks)
            ),
            stop_reason=stop,
            parameters=parameters,
            learnt_on=tuple(self.environment.tasks),
        )

    def _failures(self) -> dict[int, list[Run]]:
        """Return the failed runs that were told, by task."""
        told = {(each.task, run) for each in self.record.rounds for run in each.ids}
        found: dict[int, list[Run]] = {}
        for run in self.record.failures:
            if (run.task, run.id) in told:
                found.setdefault(run.task, []).append(run)
        return found


def _task_result(
    task: TaskState | None, first: Distribution, failures: Sequence[Run]
) -> TaskResult:
    if task is None or task.prior is None:  # it was never visited
        return TaskResult(first, first, np.nan, 0.0, Evaluations.none(first.dim))
    prior, posterior = first.at(task.prior), task.state.posterior
    kl, evaluations = posterior.kl(prior), task.state.evaluations
    return TaskResult(posterior, prior, task.objective, kl, evaluations, tuple(failures))
