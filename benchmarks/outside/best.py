"""Look for the best Gaussian posterior of each problem when runs cost nothing, and keep its score.

Starts are narrow Gaussians around the parameters that made the data (or the published ones), with
the Gauss–Newton covariance too, and the default search with 300 runs. From the best of them,
closed-form updates on fresh draws; all are scored with the benchmark's own draws, on which nothing
is optimised.

    make bench-outside-best                                   # all that are missing
    make bench-outside-best ARGS="--problems fhn --force"
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

import outside.problems as p
import supac
from outside.methods import ours
from outside.posteriors import laplace
from outside.problem import Gaussian, OutsideProblem
from supac.arrays import FloatArray

SCALES = (0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3)
SEARCHES, RUNS, MOST_SEARCHED = range(100, 102), 300, 30
"""Seeds and runs of the default search, and the parameters up to which it is quick."""
ROUNDS, ROUNDS_IF_SLOW = 30, 10
_DIFFERENCE = 1e-3  # latent, for derivatives


def main() -> None:
    """Search for the problems whose best is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--problems", help="a,b,c; all of them by default")
    parser.add_argument("--force", action="store_true", help="repeat what is there already")
    parser.add_argument("--searches", type=int, default=len(SEARCHES), help="of the default search")
    options = parser.parse_args()
    for name in options.problems.split(",") if options.problems else p.MAKERS:
        if name in p.known() and not options.force:
            continue
        try:
            problem = p.problem(name)
        except (ImportError, OSError) as error:
            print(f"{name}: skipped, {error}", flush=True)
            continue
        start = time.perf_counter()
        result = search(problem, options.searches)
        found = p.known()  # other processes may have added to it
        if name in found:
            result = min(result, found[name], key=lambda each: each.best)
        kept = {key: asdict(value) for key, value in (found | {name: result}).items()}
        p.BEST.write_text(json.dumps(kept, indent=1) + "\n")
        print(f"{name}: {result} ({time.perf_counter() - start:.0f} s)", flush=True)


def search(problem: OutsideProblem, searches: int = len(SEARCHES)) -> p.Known:
    """Return the best of all starts and of what the updates make of the best of each kind."""
    nearby = [Gaussian(problem.reference, s**2 * problem.prior.covariance) for s in SCALES]
    nearby.append(laplace(problem, problem.reference, jacobian(problem, problem.reference)))
    candidates = [(problem.objective(each), "near the reference", each) for each in nearby]
    kinds = [min(candidates, key=lambda each: each[0])]
    for seed in SEARCHES[:searches] if problem.dim <= MOST_SEARCHED else ():
        try:
            posterior = ours(problem.easier or problem, seed, (RUNS,))[RUNS]
        except supac.EvaluationError:
            continue
        how = f"the default search, {RUNS} runs, seed {seed}"
        kinds.append((problem.objective(posterior), how, posterior))
    kinds.sort(key=lambda each: each[0])
    found = [(value, how) for value, how, _ in kinds]
    # The updates have full covariances; a prior with blocks does not allow them.
    for _, how, posterior in kinds[:2] if problem.parameters.blocks is None else ():
        found += [(value, f"{how}, then updates") for value in polish(problem, posterior)]
    best, how = min(found)
    return p.Known(prior=problem.objective(problem.prior), best=best, how=how)


def jacobian(problem: OutsideProblem, u: FloatArray) -> FloatArray:
    """Compute derivatives of the residuals in the latent parameters: (k, d); NaN if runs fail."""
    columns = []
    for direction in _DIFFERENCE * np.eye(problem.dim):
        ahead, behind = (problem.outputs(u + sign * direction, 0) for sign in (1.0, -1.0))
        if ahead is None or behind is None:
            return np.full((1, problem.dim), np.nan)
        change = problem.residuals(ahead) - problem.residuals(behind)
        columns.append(change / (2.0 * _DIFFERENCE))
    return np.column_stack(columns)


def polish(problem: OutsideProblem, posterior: Gaussian) -> list[float]:
    """Improve a posterior by closed-form updates on fresh draws; the objective now and then."""
    statistics = problem.dim * (problem.dim + 3) // 2
    slow = problem.draws < 1024
    draws = max(500, 2 * statistics) if slow else max(2_000, 20 * statistics)
    step = supac.FixedStep(0.3, 1.0)
    algorithm = supac.SuPAC(supac.FreshDraws(), step, draws, draws)
    start = supac.gaussian(posterior.mean, posterior.covariance)
    task = supac.Problem(problem.parameters.prior, problem.bound, start)
    state = algorithm.init(task, seed=0)
    found = []
    for i in range(ROUNDS_IF_SLOW if slow else ROUNDS):
        batch = algorithm.ask(task, state)
        u = batch.x
        risk = problem.risks(u, first_seed=1_000_000 * (i + 1))
        state, _ = algorithm.tell(task, state, batch, risk)
        if (i + 1) % 5 == 0:
            latest = state.posterior
            now = Gaussian(np.asarray(latest.mean), np.asarray(latest.covariance))
            found.append(problem.objective(now))
    return found


if __name__ == "__main__":
    main()
