"""What are Jacobians worth, if each costs nothing, one run or three?

Problems × methods × seeds: the default search without Jacobians, and with a Jacobian at a cost that
the budget counts. Posteriors are scored after so many runs, those that Jacobians cost included.
Runs are kept one by one in jacobians.jsonl: one that is there is not made again.

    make bench-jacobians                                          # all: an hour or two
    make bench-jacobians ARGS="--problems nonlinear-200 --seeds 0 --folder /tmp/try"
    make bench-jacobians ARGS=--report                            # of what is there
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

import dimension.problems as p
import supac
from dimension import physics, small, smoothing
from dimension.optimum import find_optimum
from dimension.problem import WideProblem
from outside.problem import Gaussian
from outside.runs import Key, commit, keep, missing_runs, parse_options, read, run_all
from pages import fitted
from supac.arrays import FloatArray

CHECKPOINTS = (3, 5, 7, 10, 15, 20, 30, 50)
SHOWN = (5, 7, 10, 20, 50)
DRAWS = 512
"""Simulations behind a score: the same for all, so that differences have small errors."""
RESULTS = Path(__file__).parents[1] / "results"
Maker = Callable[..., WideProblem]
DEVELOPMENT: dict[str, Maker] = {
    "epidemic-6": partial(small.few_epidemic, seed=0),
    "predators-6": partial(small.predators, seed=0),
    "nonlinear-20": partial(smoothing.nonlinear, dim=20, seed=0),
    "darcy-25": partial(physics.darcy, rows=5, columns=5, seed=0),
    **{
        name: p.MAKERS[name]
        for name in (
            *("linear-64", "groundwater-64", "poisson-64-b", "lorenz96-100", "nonlinear-200"),
            *("groundwater-200", "tomography-200", "darcy-200", "nonlinear-500"),
        )
    },
}
JUDGEMENT: dict[str, Maker] = {
    "epidemic-6-b": partial(small.few_epidemic, seed=1),
    "predators-6-b": partial(small.predators, seed=1),
    "darcy-25-b": partial(physics.darcy, rows=5, columns=5, seed=1),
    **{
        name: p.MAKERS[name]
        for name in ("epidemic-64", "poisson-64", "lorenz96-100-b", "sparse-200", "heat-100")
    },
}
MAKERS = {**DEVELOPMENT, **JUDGEMENT}
ROLES = {name: "judgement" if name in JUDGEMENT else "development" for name in MAKERS}
COSTS = {"without": None, "cost 0": 0.0, "cost 1": 1.0, "cost 3": 3.0}


@dataclass(frozen=True)
class Outcome:
    """One method, one problem, one seed."""

    problem: str
    method: str
    seed: int
    gaps: dict[str, float]
    """Per cent of the way from the prior's objective to the best known that is left."""
    jacobians: int
    round_seconds: dict[str, float]
    """Processor seconds of a round, without its simulations: median and largest."""
    note: str
    commit: str

    @property
    def key(self) -> Key:
        """What is not to be run again."""
        return self.problem, self.method, self.seed


@cache
def problem(name: str) -> WideProblem:
    """Return the problem of this name."""
    made = MAKERS[name](name=name, role=ROLES[name])
    return replace(made, draws=DRAWS)


@cache
def prior_and_best(name: str) -> tuple[float, float]:
    """Return the objective of the prior, and the best known."""
    known, made = p.known().get(name), problem(name)
    return made.objective(made.prior), find_optimum(made)[0] if known is None else known.best


def main() -> None:
    """Make the runs that are missing, then the table."""
    options = parse_options(__doc__, MAKERS, COSTS, seeds=3, folder=RESULTS)
    options.folder.mkdir(parents=True, exist_ok=True)
    path = options.folder / "jacobians.jsonl"
    if not options.report:
        make_runs(path, options)
    outcomes = {each.key: each for each in read(path, Outcome)}
    text = table(list(outcomes.values()))
    (options.folder / "jacobians.md").write_text(fitted(text))
    print(text)


def make_runs(path: Path, options: argparse.Namespace) -> None:
    """Make what is missing, and keep each run as it ends."""
    jobs = missing_runs(options, ROLES, {each.key for each in read(path, Outcome)})
    print(f"{len(jobs)} runs to make", flush=True)
    for number, outcome in enumerate(run_all(run, jobs, options.jobs), start=1):
        gaps = " ".join(f"{at}: {value:.3g}" for at, value in outcome.gaps.items())
        print(
            f"[{number}/{len(jobs)}] {outcome.problem} {outcome.method} seed {outcome.seed}: "
            f"{gaps} | {outcome.round_seconds} {outcome.note}",
            flush=True,
        )
        keep(path, outcome)


def run(name: str, method: str, seed: int) -> Outcome:
    """Search, and score the posteriors after so many runs."""
    made, cost = problem(name), COSTS[method]
    trace, rounds, calls, note = list[tuple[float, Gaussian]](), list[float](), [0], ""
    simulating, last = [0.0], [time.process_time()]

    def simulate(x: FloatArray) -> FloatArray:
        start = time.process_time()
        residuals = made.residuals(x)
        simulating[0] += time.process_time() - start
        return residuals

    def jacobian(x: FloatArray) -> list[FloatArray]:
        start = time.process_time()
        calls[0] += len(x)
        found = [made.jacobian(each) for each in x]
        simulating[0] += time.process_time() - start
        return found

    def look(event: supac.Iteration) -> None:
        rounds.append(time.process_time() - last[0] - simulating[0])
        q = event.next_posterior
        spent = event.queries + (cost or 0.0) * calls[0]
        trace.append((spent, Gaussian(np.asarray(q.mean), np.asarray(q.covariance))))
        simulating[0], last[0] = 0.0, time.process_time()

    loss = supac.MeanSquare()
    risk = supac.Composite(simulate, loss)
    if cost is not None:
        risk = supac.Composite(simulate, loss, jacobian=jacobian, jacobian_cost=cost)
    try:
        supac.minimize(
            risk,
            supac.gaussian(made.prior.mean, made.covariance),
            made.bound,
            budget=max(CHECKPOINTS) + 2,
            validation=0,
            seed=seed,
            callback=look,
            execution=supac.Execution(vectorized=True, progress=False),
        )
    except Exception as error:
        note = f"{type(error).__name__}: {error}"[:200]
    return Outcome(
        name,
        method,
        seed,
        _gaps(name, trace),
        calls[0],
        {"median": round(float(np.median(rounds)), 3), "largest": round(max(rounds), 3)},
        note,
        commit(),
    )


def _gaps(name: str, trace: list[tuple[float, Gaussian]]) -> dict[str, float]:
    made, (prior, best), scores = problem(name), prior_and_best(name), dict[int, float]()
    found = {}
    for at in CHECKPOINTS:
        reached = [q for spent, q in trace if spent <= at]
        q = reached[-1] if reached else made.prior
        if id(q) not in scores:
            scores[id(q)] = 100.0 * (made.objective(q) - best) / (prior - best)
        found[str(at)] = float(f"{scores[id(q)]:.4g}")
    return found


def table(outcomes: list[Outcome]) -> str:
    """Write medians (and the worst seed), and where a search with Jacobians is behind."""
    lines = [
        "Per cent of the gap that is left after so many runs, those that Jacobians cost included: "
        "the median, and the worst seed in brackets.",
        "",
        f"| problem | method | seeds | {' | '.join(map(str, SHOWN))} | seconds a round |",
        f"|---|---|---|{'---|' * (len(SHOWN) + 1)}",
    ]
    for name in MAKERS:
        for method in COSTS:
            rows = [each for each in outcomes if (each.problem, each.method) == (name, method)]
            if rows:
                cells = [_cell([each.gaps[str(at)] for each in rows]) for at in SHOWN]
                usual = float(np.median([each.round_seconds["median"] for each in rows]))
                label = f"{name} ({ROLES[name]})" if method == "without" else ""
                lines.append(
                    f"| {label} | {method} | {len(rows)} | {' | '.join(cells)} | {usual:.2f} |"
                )
    return "\n".join([*lines, "", *_behind(outcomes), ""])


def _cell(values: list[float]) -> str:
    worst = f" ({_digits(max(values))})" if len(values) > 1 else ""
    return f"{_digits(float(np.median(values)))}{worst}"


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 10.0 else f"{max(value, 0.0):.2g}"


def _behind(outcomes: list[Outcome]) -> list[str]:
    """Name the checkpoints at which a search with Jacobians is more than 2 % of the gap behind."""
    plain = {(each.problem, each.seed): each for each in outcomes if each.method == "without"}
    pairs = [
        (each, at, each.gaps[str(at)] - plain[each.problem, each.seed].gaps[str(at)])
        for each in outcomes
        if each.method != "without" and (each.problem, each.seed) in plain
        for at in CHECKPOINTS
    ]
    late = [
        f"{each.problem}, {each.method}, seed {each.seed}, after {at} runs: {by:.1f} %"
        for each, at, by in pairs
        if by > 2.0
    ]
    found = f"More than 2 % of the gap behind at {len(late)} of {len(pairs)} checkpoints"
    return [f"{found}{': ' if late else '.'}{'; '.join(late)}{'.' if late else ''}"]


if __name__ == "__main__":
    main()
