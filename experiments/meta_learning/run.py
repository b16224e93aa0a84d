"""Closed-form meta-steps on the paper's meta-learning experiment.

Eight dimensions, 100 training and 40 test tasks, the prior N(0, I) at first, the risk as in the
authors' code. The closed form is given three environments, and what it is compared with one of
them; the paper's stochastic gradient is run by `make reproduce`. Test tasks are optimised from
scratch under each prior and judged by 10,000 fresh draws.

    make meta-learning                      # all: an hour or two
    make meta-learning ARGS=--quick         # a small one of each, in minutes, kept in quick/
    make meta-learning ARGS=--report        # tables and picture of what is there

What has been done is kept in records.jsonl, one line an environment, temperature and learner, and
not done again.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

# One thread, before NumPy reads it: all matrices are small.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

import supac
from report import write_report
from supac.simulators.synthetic import Environment

HERE = Path(__file__).parent
DIM = 8
LOOKS = (0, 1, 2, 4)
"""Passes after which priors are tested, besides the last."""


@dataclass(frozen=True)
class Job:
    """One environment, one temperature, one learner."""

    environment: int
    temperature: float
    learner: str
    tasks: int = 100
    tests: int = 40
    passes: int = 6
    budget: int = 150

    @property
    def name(self) -> str:
        """For files."""
        return f"{self.learner}-{self.environment}-{self.temperature}"


def closed_form(**options: float) -> supac.MetaSuPAC:
    """Closed-form steps."""
    return supac.MetaSuPAC((supac.Stage(supac.ClosedForm(**options)),))  # type: ignore[arg-type]


PSEUDO_TASKS = (0.0, 0.03, 0.1, 0.3)
FEW = 8
"""Training tasks on which they are compared."""
LEARNERS = {
    "closed": closed_form(),
    "restart": closed_form(),
    "plain": closed_form(iterations=1),
    **{f"pseudo-{each}": closed_form(pseudo_tasks=each) for each in PSEUDO_TASKS},
}
"""The default; the same, then each pass again without reuse; moment matching alone; few tasks."""


def draw(job: Job) -> tuple[list[supac.Task], list[supac.Task]]:
    """Training and test tasks of an environment."""
    rng = np.random.default_rng(job.environment)
    environment, bound = Environment.draw(rng, DIM), supac.Catoni(job.temperature)
    tasks = [
        supac.Task(environment.draw_task(rng), bound, vectorized=True)
        for _ in range(job.tasks + job.tests)
    ]
    return tasks[: job.tasks], tasks[job.tasks :]


def run(job: Job, folder: Path) -> dict[str, object]:
    """Learn, then test; the store lets a run that was stopped go on."""
    train, test = draw(job)
    first = supac.gaussian(np.zeros(DIM), np.eye(DIM))
    start = time.perf_counter()
    store = folder / f"{job.name}.store"
    resumed = store.exists()  # then the seconds are those of the rest alone
    result = supac.meta_learn(
        train,
        first,
        passes=job.passes,
        learner=LEARNERS[job.learner],
        store=store,
        seed=job.environment,
        callback=lambda info: print(job.name, info, flush=True),
    )
    seconds = time.perf_counter() - start
    draws = np.random.default_rng(0)
    trained = [
        float(task.risk(done.posterior.sample(10_000, draws)).mean() + job.temperature * done.kl)
        for task, done in zip(train, result.tasks, strict=True)
    ]
    record = asdict(job) | {
        "resumed": resumed,
        "train_end": float(np.mean(trained)),
        "history": {name: column.tolist() for name, column in result.history.items()},
        "deviations": np.sqrt(np.linalg.eigvalsh(result.prior.covariance)).tolist(),
        "seconds": seconds,
    }
    priors = result.pass_priors
    record |= restart(train, priors) if job.learner == "restart" else judge(job, test, priors)
    store.unlink()
    return record


def judge(
    job: Job, tasks: list[supac.Task], priors: Sequence[supac.Distribution]
) -> dict[str, object]:
    """The objectives of new tasks under some of these priors."""
    wanted = {job.passes} if job.learner.startswith("pseudo") else {*LOOKS, job.passes}
    looks = sorted(wanted & set(range(len(priors))))
    scores = supac.evaluate_priors(
        [priors[each] for each in looks], tasks, budget=job.budget, seed=1000
    )
    return {
        "looks": looks,
        "test": scores.objective.tolist(),
        "test_queries": scores.queries.mean(axis=1).tolist(),
    }


def restart(tasks: list[supac.Task], priors: Sequence[supac.Distribution]) -> dict[str, object]:
    """What each pass takes, and reaches by fresh draws, where each task begins without a run."""
    inner, draws = supac.Reuse(), np.random.default_rng(1)
    queries, bounds = [], []
    for prior in priors[:-1]:
        spent, reached = 0, 0.0
        for seed, task in enumerate(tasks):
            problem = supac.Problem.within(prior, task.bound)
            state = inner.begin(problem, None, seed)
            while state.asked is not None:
                state = inner.tell(problem, state, task.risk(state.asked.x))
            posterior = state.state.posterior
            risk = float(task.risk(posterior.sample(10_000, draws)).mean())
            spent += state.spent
            reached += task.bound(risk, posterior.kl(prior))
        queries.append(spent / len(tasks))
        bounds.append(reached / len(tasks))
        print(f"restarting: {queries[-1]:.0f} queries a task, bound {bounds[-1]:.4f}", flush=True)
    return {"queries": queries, "bounds": bounds}


def main() -> None:
    """Do what has not been done yet, then write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="minutes instead of hours")
    parser.add_argument("--report", action="store_true", help="only tables and picture")
    parser.add_argument("--learners", nargs="+", default=list(LEARNERS), choices=LEARNERS)
    parser.add_argument("--environments", nargs="+", type=int, default=[3, 1, 2])
    parser.add_argument("--temperatures", nargs="+", type=float, default=[0.1, 0.01])
    options = parser.parse_args()
    folder = HERE / "quick" if options.quick else HERE
    folder.mkdir(exist_ok=True)
    records = folder / "records.jsonl"
    for job in [] if options.report else jobs(options):
        done = [json.loads(line) for line in records.open()] if records.exists() else []
        if any(asdict(job).items() <= each.items() for each in done):
            continue
        record = run(job, folder)
        with records.open("a") as file:
            file.write(json.dumps(record) + "\n")
    write_report(folder, [json.loads(line) for line in records.open()])
    print(f"wrote {folder}/README.md, results.csv and meta_learning.svg")


def jobs(options: argparse.Namespace) -> list[Job]:
    """All that was asked for."""
    found = []
    for learner in options.learners:
        few = learner.startswith("pseudo")
        # One environment is enough for those that are only there to be compared with.
        environments = options.environments[: None if learner == "closed" else 1]
        passes = 4 if few else {"plain": 12}.get(learner, 6)
        for environment in environments[:1] if options.quick else environments:
            for temperature in options.temperatures:
                tasks = FEW if few else 100
                job = Job(environment, temperature, learner, tasks, passes=passes)
                if options.quick:
                    job = Job(environment, temperature, learner, 10, 5, 2, 60)
                found.append(job)
    return found


if __name__ == "__main__":
    main()
