"""The paper's meta-learning experiment at one temperature: learn priors, test them on new tasks."""

from __future__ import annotations

import gc
import pickle
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

import supac
from supac.meta import Environment as Tasks
from supac.meta import MetaState, Plan, TaskState
from supac.search.algorithm import one_thread
from supac.simulators.synthetic import Environment

DIM = 8
TEMPERATURES = (0.1, 0.01)
SGD, CLOSED = "stochastic gradient", "closed form"
"""Learners: the paper's and ours."""
EPOCHS = {SGD: (0, 1, 2, 3, 5, 10, 15, 30, 75, 150), CLOSED: (0, 1, 2)}
"""Epochs after which the priors are tested, by learner."""
TEST_DRAWS = 10_000
KEEP_EVERY = 10
"""Number of epochs after which the state is kept, so that a stopped run can go on."""


@dataclass(frozen=True)
class Experiment:
    """Describe one run of meta-learning: a learner at a temperature in an environment."""

    learner: str
    temperature: float
    tasks: int = 100
    tests: int = 40
    epochs: int = 150
    weight_draws: int = 2000
    """Number of draws that the Voronoi weights are worth; the paper has 10,000."""
    environment: int = 3
    """Seed that the environment is drawn from."""

    @property
    def name(self) -> str:
        """Name on the page and in the progress."""
        return f"{self.learner}, λ = {self.temperature:g}, environment {self.environment}"


@dataclass(frozen=True)
class Lesson:
    """Hold the outcome of meta-learning: one entry per epoch, from the first prior on."""

    epochs: tuple[int, ...]
    queries: tuple[float, ...]
    """Mean number of queries a task up to then."""
    train: tuple[float, ...]
    """Mean bound of the training tasks in that epoch; NaN before the first."""
    tests: tuple[tuple[float, ...], ...]
    """Bound of each test task; empty where the prior was not tested."""
    train_end: float
    """Mean bound of the training tasks at the end, from fresh draws."""
    seconds: float
    """Seconds of processor time."""


def experiments(quick: bool, environments: Sequence[int] = (3,)) -> list[Experiment]:
    """List all runs of meta-learning."""
    found = []
    for environment in environments:
        for temperature in TEMPERATURES:
            sgd = Experiment(SGD, temperature, environment=environment)
            found += [sgd, replace(sgd, learner=CLOSED, epochs=2)]
    if quick:
        found = [
            replace(each, tasks=10, tests=6, epochs=min(each.epochs, 3), weight_draws=500)
            for each in found
            if each.temperature == TEMPERATURES[0]
        ]
    return found


def learn(experiment: Experiment, kept: Path | None = None) -> Lesson:
    """Learn the prior and test it, from the state in the file `kept` on, which the end removes."""
    rng = np.random.default_rng(experiment.environment)
    environment = Environment.draw(rng, DIM)
    bound = supac.Catoni(experiment.temperature)
    tasks = [
        supac.Task(environment.draw_task(rng), bound, vectorized=True)
        for _ in range(experiment.tasks + experiment.tests)
    ]
    train, test = tasks[: experiment.tasks], tasks[experiment.tasks :]
    start = time.process_time()
    first = supac.gaussian(np.zeros(DIM), np.eye(DIM))
    state, before = _train(experiment, Tasks(first, train), kept)
    ends = [k for k, each in enumerate(state.history) if each.passes == round(each.passes)]
    spent, trained = [0.0], [np.nan]
    for before_it, last in pairwise([-1, *ends]):
        spent.append(state.history[last].queries / len(train))
        within = [each.objective for each in state.history[before_it + 1 : last + 1]]
        trained.append(float(np.mean(within)))
    priors = [first, *(first.at(state.priors[k][:, 0]) for k in ends)]
    tests = [
        tuple(score_on(task, prior, experiment, i) for i, task in enumerate(test))
        if epoch in EPOCHS[experiment.learner]
        else ()
        for epoch, prior in enumerate(priors)
    ]
    fresh = np.random.default_rng([experiment.environment, 2024])
    end = [_end(task, done, first, fresh) for task, done in zip(train, state.tasks, strict=True)]
    if kept is not None:
        kept.unlink(missing_ok=True)
    return Lesson(
        tuple(range(experiment.epochs + 1)), tuple(spent), tuple(trained), tuple(tests),
        float(np.mean(end)), before + time.process_time() - start,
    )  # fmt: skip


def _train(experiment: Experiment, tasks: Tasks, kept: Path | None) -> tuple[MetaState, float]:
    """Learn as `meta_learn` does, without its records.

    Return the state, and the seconds of earlier processes. The state is kept every few epochs, so
    that a process that is stopped loses no more than these.
    """
    method, start, before = learner(experiment), time.process_time(), 0.0
    state = method.init(tasks, experiment.environment)
    if kept is not None and kept.exists():
        state, before = pickle.loads(kept.read_bytes())
    while state.passes < experiment.epochs:
        passes = state.passes
        with one_thread():
            state = method.begin(tasks, state)
            while asked := method.ask(state):
                answers = {i: (tasks.tasks[i].risk(batch.x), None) for i, batch in asked.items()}
                state = method.tell(tasks, state, answers)
            state = method.finish(tasks, state)
        if state.passes > passes:
            # Thousands of posteriors that stay: to look through them for cycles again and again
            # costs a tenth of the time.
            gc.freeze()
        if kept is not None and state.passes > passes and state.passes % KEEP_EVERY == 0:
            seconds = before + time.process_time() - start
            half = kept.with_suffix(".half")
            half.write_bytes(pickle.dumps((state, seconds)))
            half.replace(kept)
    return state, before


def _end(
    task: supac.Task, done: TaskState | None, first: supac.Distribution, rng: np.random.Generator
) -> float:
    """Estimate the objective of a training task at the end, from fresh draws."""
    assert done is not None
    assert done.prior is not None
    posterior = done.state.posterior
    risk = float(task.risk(posterior.sample(TEST_DRAWS, rng)).mean())
    return task.bound(risk, posterior.kl(first.at(done.prior)))


def score_on(
    task: supac.Task, prior: supac.Distribution, experiment: Experiment, seed: int
) -> float:
    """Optimise a new task from scratch, and estimate its objective from fresh draws."""
    plan, problem = test_plan(experiment), supac.Problem.within(prior, task.bound)
    state: TaskState = plan.begin(problem, None, seed)
    while state.asked is not None:
        state = plan.tell(problem, state, task.risk(state.asked.x))
    posterior = state.state.posterior
    draws = posterior.sample(TEST_DRAWS, np.random.default_rng([seed, 2024]))
    return task.bound(float(task.risk(draws).mean()), posterior.kl(prior))


def test_plan(experiment: Experiment) -> Plan:
    """Return the paper's plan for a new task: 20 steps of SuPAC-CE, 1250 queries."""
    first = _reusing(Plan.paper(first=True), experiment)
    return replace(first, queries=(100,) * 5 + (50,) * 15)


def _reusing(inner: Plan, experiment: Experiment) -> Plan:
    """Return the plan with `ReusedVoronoi` as its estimator."""
    weights = supac.ReusedVoronoi(experiment.weight_draws, leave_one_out=False)
    return replace(inner, algorithm=replace(inner.algorithm, estimator=weights))


def learner(experiment: Experiment) -> supac.MetaSuPAC:
    """Return `MetaSuPAC()`, or the paper's learner with its schedule."""
    if experiment.learner == CLOSED:
        return supac.MetaSuPAC()
    paper = supac.MetaSuPAC.paper(experiment.temperature, tasks=experiment.tasks)
    stages = []
    for stage in paper.stages:
        assert isinstance(stage.inner, Plan)
        stages.append(replace(stage, inner=_reusing(stage.inner, experiment)))
    return supac.MetaSuPAC(tuple(stages))
