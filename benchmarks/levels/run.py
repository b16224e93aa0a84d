"""Compare searches with a coarse model and without: fine-run equivalents until little is left.

A gap is the share of the way from the prior's objective to the best one. Counted is from when on a
search stays below 1 and 0.1 % of it. Seeds are paired, and a coarse run costs what the problem
says. Lines are appended to `benchmarks/results/levels.jsonl`, the table is `levels.md`.

    make bench-levels                                             # all that is missing
    make bench-levels ARGS="--role development --seeds 0:2"
    make bench-levels ARGS=--report
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))

import json

import numpy as np

import supac
from dimension.problem import WideProblem
from levels import problems as p
from levels.report import Outcome, write
from outside.problem import Gaussian
from outside.runs import keep, missing_runs, parse_options, read, run_all
from supac.arrays import FloatArray

RESULTS = Path(__file__).parents[1] / "results"
Simulator = Callable[[FloatArray], FloatArray]
BUDGET = 60.0
ENOUGH = 2e-4  # share of the gap below which nothing is counted any more
FRESH = 3  # rounds below it that end a search
SEARCHES, LONG = (100, 101), 150  # seeds and runs of the searches for the best


def search(name: str, method: str, seed: int) -> Outcome:
    """Make one search."""
    levels, known = p.problem(name), best(name)
    own, made = levels.fine, {"fine": 0, "coarse": 0}
    spent, left, scoring = [], [], [0.0]

    def counted(function: Simulator, kind: str) -> Simulator:
        def simulate(x: FloatArray) -> FloatArray:
            start = time.process_time()
            made[kind] += len(x)
            found = function(x)
            scoring[0] += time.process_time() - start
            return found

        return simulate

    def look(event: supac.Iteration) -> bool:
        start = time.process_time()
        posterior = event.next_posterior
        mean, covariance = posterior.family.moments(posterior.theta)
        gap = (own.objective(Gaussian(mean, covariance)) - known[1]) / (known[0] - known[1])
        spent.append(made["fine"] + levels.cost * made["coarse"])
        left.append(float(gap))
        scoring[0] += time.process_time() - start
        return len(left) >= FRESH and max(left[-FRESH:]) < ENOUGH

    coarse = None
    if method == "levels":
        coarse = supac.Coarse(counted(levels.coarse, "coarse"), levels.cost)
    risk = supac.Composite(counted(own.residuals, "fine"), supac.MeanSquare(), coarse=coarse)
    start = time.process_time()
    supac.minimize(
        risk,
        supac.gaussian(np.zeros(own.dim), own.covariance),
        own.bound,
        budget=int(BUDGET),
        validation=0,
        seed=seed,
        callback=look,
        execution=supac.Execution(vectorized=True, on_failure="drop", progress=False),
    )
    seconds = time.process_time() - start - scoring[0]
    return Outcome(name, method, seed, spent, left, made["coarse"], seconds)


@cache
def best(name: str) -> tuple[float, float]:
    """Return the objectives of the prior and of the best posterior known; find what is missing."""
    path, own = RESULTS / "levels-best.json", name.partition("-")[0]
    kept = json.loads(path.read_text()) if path.exists() else {}
    if own not in kept:
        problem = p.problem(own).fine
        found = [_long_search(problem, seed) for seed in SEARCHES]
        print(f"{own}: the best of {found}", flush=True)
        kept[own] = [problem.objective(problem.prior), min(found)]
        path.write_text(json.dumps(kept, indent=1) + "\n")
    prior, least = kept[own]
    return prior, least


def _long_search(problem: WideProblem, seed: int) -> float:
    """Return the objective of the posterior that fine runs alone find, of which there are many."""
    result = supac.minimize(
        supac.Composite(problem.residuals, supac.MeanSquare()),
        supac.gaussian(np.zeros(problem.dim), problem.covariance),
        problem.bound,
        budget=LONG,
        validation=0,
        seed=seed,
        algorithm=supac.SuPAC(batch=10),
        shape="gaussian",
        execution=supac.Execution(vectorized=True, on_failure="drop", progress=False),
    )
    moments = result.posterior.family.moments(result.posterior.theta)
    return problem.objective(Gaussian(*moments))


def main() -> None:
    """Make the searches that are missing, and write the table."""
    methods = ("fine", "levels")
    options = parse_options(__doc__, p.NAMES, methods, seeds=5, folder=RESULTS)
    roles = {name: p.role(name) for name in p.NAMES}
    path = options.folder / "levels.jsonl"
    kept = {(each.problem, each.method, each.seed) for each in read(path, Outcome)}
    wanted = missing_runs(options, roles, kept)
    jobs = [] if options.report else [each for each in wanted if not _is_other_fine(each)]
    for outcome in run_all(search, jobs, options.jobs):
        keep(path, outcome)
        print(f"{outcome.problem} {outcome.method} {outcome.seed}: {outcome.left[-1]:.2g}")
    every: list[Outcome] = read(path, Outcome)
    write(options.folder / "levels.md", every, roles)


def _is_other_fine(job: tuple[str, str, int]) -> bool:
    """Return True for fine searches of a problem of which only the coarse model is another."""
    return job[1] == "fine" and "-" in job[0]


if __name__ == "__main__":
    main()
