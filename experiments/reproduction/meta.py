"""The paper's meta-learning experiment at one temperature: learn priors, test them on new tasks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

import supac
from supac.meta import Plan, TaskState
from supac.simulators.synthetic import Environment

DIM = 8
TEMPERATURES = (0.1, 0.01)
SGD, CLOSED = "stochastic gradient", "closed form"
"""The paper's way, and ours."""
EPOCHS = {SGD: (*range(6), 7, 10, 15, 20, 30, 50, 75, 100, 150), CLOSED: (0, 1, 2)}
"""After which the priors are tested."""
TEST_DRAWS = 10_000


@dataclass(frozen=True)
class Experiment:
    """One temperature, one learner."""

    learner: str
    temperature: float
    tasks: int = 100
    tests: int = 40
    epochs: int = 150
    weight_draws: int = 2000
    """Behind the Voronoi weights, or worth as many. The paper has 10,000."""
    environment: int = 3
    """The seed that it is drawn from."""

    @property
    def name(self) -> str:
        """For people and for files."""
        return f"{self.learner}, λ = {self.temperature:g}, environment {self.environment}"


@dataclass(frozen=True)
class Lesson:
    """What was learnt: a row an epoch."""

    epochs: tuple[int, ...]
    queries: tuple[float, ...]
    """A task, until then."""
    train: tuple[float, ...]
    """Mean bound of the training tasks in that epoch; NaN before the first."""
    tests: tuple[tuple[float, ...], ...]
    """Bound of each test task; empty where the prior was not tested."""
    train_end: float
    """Mean bound of the training tasks at the end, from fresh draws."""
    seconds: float
    """Of processor time."""


def experiments(quick: bool, environments: Sequence[int] = (3,)) -> list[Experiment]:
    """All that is run."""
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


def learn(experiment: Experiment) -> Lesson:
    """Learn the prior and test it."""
    rng = np.random.default_rng(experiment.environment)
    environment = Environment.draw(rng, DIM)
    bound = supac.Catoni(experiment.temperature)
    tasks = [
        supac.Task(environment.draw_task(rng), bound, vectorized=True)
        for _ in range(experiment.tasks + experiment.tests)
    ]
    train, test = tasks[: experiment.tasks], tasks[experiment.tasks :]
    start = time.process_time()
    result = supac.meta_learn(
        train,
        supac.gaussian(np.zeros(DIM), np.eye(DIM)),
        passes=experiment.epochs,
        learner=learner(experiment),
        seed=experiment.environment,
        execution=supac.Execution(progress=False),
    )
    history = result.history
    epochs = range(experiment.epochs + 1)
    looks = EPOCHS[experiment.learner]
    spent, trained = [0.0], [np.nan]
    for k, done in enumerate(history["passes"]):
        if done == round(done):
            spent.append(history["queries"][k] / len(train))
            within = (history["passes"] > done - 1.0 + 1e-9) & (history["passes"] <= done)
            trained.append(float(history["objective"][within].mean()))
    tests = [
        tuple(score_on(task, prior, experiment, i) for i, task in enumerate(test))
        if epoch in looks
        else ()
        for epoch, prior in enumerate(result.pass_priors)
    ]
    fresh = np.random.default_rng([experiment.environment, 2024])
    end = [
        bound(float(task.risk(done.posterior.sample(TEST_DRAWS, fresh)).mean()), done.kl)
        for task, done in zip(train, result.tasks, strict=True)
    ]
    return Lesson(
        tuple(epochs), tuple(spent), tuple(trained), tuple(tests), float(np.mean(end)),
        time.process_time() - start,
    )  # fmt: skip


def score_on(
    task: supac.Task, prior: supac.Distribution, experiment: Experiment, seed: int
) -> float:
    """The objective of a new task, from scratch."""
    plan, problem = test_plan(experiment), supac.Problem.within(prior, task.bound)
    state: TaskState = plan.begin(problem, None, seed)
    while state.asked is not None:
        state = plan.tell(problem, state, task.risk(state.asked))
    posterior = state.state.posterior
    draws = posterior.sample(TEST_DRAWS, np.random.default_rng([seed, 2024]))
    return task.bound(float(task.risk(draws).mean()), posterior.kl(prior))


def test_plan(experiment: Experiment) -> Plan:
    """The paper's 20 steps of SuPAC-CE for a new task, 1250 queries."""
    first = Plan.paper(first=True, draws=experiment.weight_draws)
    return replace(first, queries=(100,) * 5 + (50,) * 15)


def learner(experiment: Experiment) -> supac.MetaSuPAC:
    """Ours, or the paper's with its schedule."""
    if experiment.learner == CLOSED:
        return supac.MetaSuPAC()
    paper = supac.MetaSuPAC.paper(experiment.temperature, tasks=experiment.tasks)
    weights = supac.ReusedVoronoi(experiment.weight_draws)
    stages = []
    for stage in paper.stages:
        assert isinstance(stage.inner, Plan)
        algorithm = replace(stage.inner.algorithm, estimator=weights)
        stages.append(replace(stage, inner=replace(stage.inner, algorithm=algorithm)))
    return supac.MetaSuPAC(tuple(stages))
