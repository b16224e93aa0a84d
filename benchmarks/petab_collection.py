"""PEtab problems from their own files: are the likelihoods right, and what does a search reach?

Likelihood at the published parameters, time of a run, share of draws of the prior that fail; then
searches with the file's own priors, which are ten decades wide, scored with common draws: with
parameters of observables and noise declared as observation parameters, and with what they do
emulated. Searches are kept one by one in petab.jsonl: one that is there is not made again.

    make bench-petab                                            # twenty minutes
    make bench-petab ARGS="--problems boehm,bruno --seeds 10,11"
    make bench-petab ARGS=--report                              # of the searches that are there
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

import supac
from outside.runs import Key, commit, keep, missing_runs, parse_options, read, run_all
from pages import fitted
from supac.families import Distribution
from supac.simulators import petab

FOLDER = Path(__file__).parents[2] / "shared" / "reference" / "petab"
RESULTS = Path(__file__).parent / "results"
PUBLISHED = {
    "boehm": ("Boehm_JProteomeRes2014", 138.2220),
    "crauste": ("Crauste_CellSystems2017", 190.965),
    "fiedler": ("Fiedler_BMCSystBiol2016", -58.5839),
    "bruno": ("Bruno_JExpBot2016", -46.6882),
    "zheng": ("Zheng_PNAS2012", -278.3335),
}
"""Folder, and negative log-likelihood at the published parameters."""
CHECKPOINTS = (50, 100, 200, 300)
SEEDS = (10, 11, 12)  # others than those with which the long tail of the likelihood was chosen
DRAWS, PRIOR_DRAWS, TIMED = 400, 200, 20


@dataclass(frozen=True)
class Outcome:
    """A search: n·objective after so many runs, and the share of draws that fail."""

    problem: str
    method: str
    seed: int
    objectives: dict[str, float]
    failing: dict[str, float]
    likelihoods: dict[str, float]
    """Median negative log-likelihood of the draws."""
    seconds: float
    commit: str

    @property
    def key(self) -> Key:
        """What is not to be run again."""
        return self.problem, self.method, self.seed


METHODS = {"declared": True, "undeclared": False}
"""Whether observation parameters are declared, so that they cost no run."""


@cache
def problem_of(name: str, method: str = "declared") -> petab.Problem:
    """Load a problem of the collection."""
    folder = PUBLISHED[name][0]
    return petab.load(FOLDER / folder / f"{folder}.yaml", observation=METHODS[method])


def likelihoods(problem: petab.Problem, points: Iterable[np.ndarray]) -> np.ndarray:
    """Compute negative log-likelihoods, NaN for failed runs."""
    found = []
    for x in points:
        try:
            found.append(problem.negative_log_likelihood(x))
        except petab.SimulationError:
            found.append(np.nan)
    return np.array(found)


def search(name: str, method: str, seed: int) -> Outcome:
    """Run `minimize` with the problem's own prior, risk and bound, and score its posteriors."""
    problem = problem_of(name, method)
    seen: list[tuple[int, Distribution]] = [(0, problem.parameters.prior)]
    start = time.perf_counter()
    supac.minimize(
        problem.risk,
        problem.parameters,
        problem.bound,
        budget=max(CHECKPOINTS),
        validation=0,
        seed=seed,
        callback=lambda event: seen.append((event.queries, event.next_posterior)),
        execution=supac.Execution(on_failure="penalise", progress=False),
    )
    seconds = time.perf_counter() - start
    objectives, failing, middle = {}, {}, {}
    for at in CHECKPOINTS:
        posterior = [each for runs, each in seen if runs <= at][-1]
        draws = problem.parameters.sample(posterior, DRAWS, 20_251_116)
        values = likelihoods(problem, draws)
        kl = posterior.kl(problem.parameters.prior)
        objectives[str(at)] = round(float(np.nanmean(values)) + kl, 3)
        failing[str(at)] = float(np.isnan(values).mean())
        middle[str(at)] = round(float(np.nanmedian(values)), 3)
    return Outcome(name, method, seed, objectives, failing, middle, round(seconds, 1), commit())


def facts(name: str) -> str:
    """Return a row on the likelihood, the time of a run, and failures under the prior."""
    folder, published = PUBLISHED[name]
    problem = problem_of(name)
    found = problem.negative_log_likelihood(problem.nominal)
    start = time.perf_counter()
    for _ in range(TIMED):
        problem.risk(problem.nominal)
    ms = 1e3 * (time.perf_counter() - start) / TIMED
    draws = problem.parameters.sample(problem.parameters.prior, PRIOR_DRAWS, 0)
    failed = float(np.isnan(likelihoods(problem, draws)).mean())
    assert abs(found - published) < 1e-3, f"{folder}: {found} instead of {published}"
    return (
        f"| {folder} | {len(problem.parameters)} ({len(problem.observation_parameters)}) | "
        f"{problem.measurements.measured} | {found:.4f} | {published:.4f} | {ms:.1f} | "
        f"{100 * failed:.0f} % |"
    )


def table(names: Iterable[str], outcomes: Iterable[Outcome]) -> str:
    """Return both tables."""
    lines = [
        "# PEtab problems",
        "",
        "From their own files, by `make bench-petab`. Parameters, those of observables and noise "
        "alone in brackets; measurements; negative log-likelihood at the published parameters, "
        "and as published; milliseconds a run; share of 200 draws of the prior that fail.",
        "",
        "| problem | parameters | measurements | −log L | published | ms a run | failing |",
        "|---|---|---|---|---|---|---|",
        *map(facts, names),
        "",
        "## Searches",
        "",
        "n·objective = mean of −log L over the posterior + KL, after so many runs, with the file's "
        f"own priors: median (worst) of the seeds, from {DRAWS} draws each, without those that "
        "fail; and the median −log L of the draws, median of the seeds. Residuals beyond 10 times "
        "the noise count with the long tail of supac's likelihood. That limit was chosen among "
        "10, 30 and 100, where 10 and 30 did alike, and its derivatives were tried with and "
        "without, by searches on Boehm, Bruno and Fiedler with seeds 0 to 2, which are not among "
        "these. An earlier version of the search had been run with these seeds, too. Declared: "
        "parameters of observables and noise alone are observation parameters, which cost no run; "
        "the other rows emulate what they do. Bruno and Crauste have none. By default, `load` "
        "declares those of Boehm and Fiedler, and not those of Zheng, with more than 40 others: "
        "there they help at first and not later.",
        "",
        f"| problem | method | seeds | {' | '.join(f'{at} runs' for at in CHECKPOINTS)} "
        f"| −log L at {CHECKPOINTS[-1]} | failing draws | seconds |",
        f"|---|---|---|{'---|' * len(CHECKPOINTS)}---|---|---|",
    ]
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for each in outcomes:
        groups.setdefault((each.problem, each.method), []).append(each)
    for (name, method), group in sorted(groups.items()):
        lines.append(_row(name, method, group))
    return "\n".join(lines) + "\n"


def _row(name: str, method: str, group: list[Outcome]) -> str:
    cells = []
    for at in map(str, CHECKPOINTS):
        values = [each.objectives[at] for each in group]
        cells.append(f"{median(values):.1f} ({max(values):.1f})")
    last = str(CHECKPOINTS[-1])
    likelihood = median(each.likelihoods[last] for each in group)
    failing = max(each.failing[last] for each in group)
    seconds = median(each.seconds for each in group)
    return (
        f"| {name} | {method} | {len(group)} | {' | '.join(cells)} | {likelihood:.1f} | "
        f"{100 * failing:.0f} % | {seconds:.0f} |"
    )


def main() -> None:
    """Make the searches that are missing, then the tables."""
    if not FOLDER.exists():
        sys.exit(f"the PEtab collection is not at {FOLDER}")
    options = parse_options(__doc__, PUBLISHED, METHODS, seeds=0, folder=RESULTS)
    options.seeds = options.seeds or SEEDS
    path = options.folder / "petab.jsonl"
    if not options.report:
        kept = {each.key for each in read(path, Outcome)}
        jobs = [
            (name, method, seed)
            for name, method, seed in missing_runs(options, dict.fromkeys(PUBLISHED), kept)
            if not METHODS[method] or problem_of(name, method).observation_parameters
        ]
        for outcome in run_all(search, jobs, options.jobs):
            keep(path, outcome)
            print(outcome, flush=True)
    latest = {each.key: each for each in read(path, Outcome)}
    text = table(PUBLISHED, latest.values())
    (options.folder / "petab.md").write_text(fitted(text))
    print(text)


if __name__ == "__main__":
    main()
