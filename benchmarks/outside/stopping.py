"""How much does a search lose that stops because nothing is to be gained, and what does it save?

    make bench-stopping                          # some five minutes of processor time
    make bench-stopping ARGS="--seeds 0 --problems fhn,banana --folder /tmp/try"

A search that stops before its budget of 100 runs is made to spend the rest, as `supac resume
--budget` would, and both posteriors are scored with the same draws. Searches are kept one by one
in stopping.jsonl: one that is there is not made again. Nothing but this package is needed.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

# One thread a process, before NumPy reads it, and this package, wherever the script is started.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

import outside.problems as p
import supac
from outside.problem import Gaussian, OutsideProblem
from outside.runs import Key, commit, keep, missing_runs, parse_options, read, run_all
from outside.studies import all_problems
from pages import fitted

RESULTS = Path(__file__).parents[1] / "results"
BUDGET, DRAWS = 100, 1024


@dataclass(frozen=True)
class Stop:
    """One search: its runs and objective at the stop, and the objective of the whole budget."""

    problem: str
    method: str
    seed: int
    runs: int
    reason: str
    objective: float
    whole: float
    commit: str

    @property
    def key(self) -> Key:
        """Name of the search, which is not to be made again."""
        return self.problem, self.method, self.seed

    @property
    def early(self) -> bool:
        """True if the search has stopped before its budget."""
        return self.reason == "converged"

    @property
    def loss(self) -> float:
        """Per cent by which the objective at the stop is above that of the whole budget."""
        return 100.0 * (self.objective / self.whole - 1.0)


def run(name: str, method: str, seed: int) -> Stop:
    """Make a search; if it stops early, let it spend the rest, and score both posteriors."""
    problem = replace(p.problem(name), draws=DRAWS)
    risk = problem.composite(seed)
    where = supac.Execution(on_failure="penalise" if problem.fails else "raise", progress=False)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "run.supac"
        first = supac.minimize(
            risk,
            problem.parameters,
            problem.bound,
            budget=BUDGET,
            validation=0,
            seed=seed,
            execution=where,
            store=store,
        )
        early = first.stop_reason is supac.StopReason.CONVERGED
        # Another budget is spent whole.
        whole = supac.resume(store, risk, budget=BUDGET + 1, execution=where) if early else first
    at_stop, at_end = (round(_score(problem, each), 7) for each in (first, whole))
    reason = str(first.stop_reason.value)
    return Stop(name, method, seed, first.queries, reason, at_stop, at_end, commit())


def _score(problem: OutsideProblem, result: supac.Result) -> float:
    posterior = result.posterior
    return problem.objective(Gaussian(np.asarray(posterior.mean), np.asarray(posterior.covariance)))


def table(stops: Sequence[Stop]) -> str:
    """Return the table: each problem, and all of them."""
    early = [each for each in stops if each.early]
    saved = [BUDGET - each.runs if each.early else 0 for each in stops]
    lines = [
        f"Searches of at most {BUDGET} runs that stop when the posterior has changed by less than "
        "0.005 nats in each of three rounds, of 15 runs or more, beside the same searches that "
        "spend their budget whole. Loss: by how much the objective at the stop is above that of "
        "the whole budget, which may be worse by chance. Command: `make bench-stopping`; "
        "stopping.jsonl has the version of each.\n",
        f"- Stopped early: {len(early)} of {len(stops)} searches.",
        f"- Runs saved of {BUDGET}: median {np.median(saved):.0f} of all searches, "
        f"{np.median([BUDGET - each.runs for each in early]) if early else 0:.0f} of those that "
        "stopped early.",
        f"- Largest loss: {max(each.loss for each in stops):.2f} %; median of those that stopped "
        f"early {np.median([each.loss for each in early]) if early else 0.0:.3f} %.\n",
        "| problem | role | seeds | stopped early | runs at the stop, median | largest loss, % |",
        "|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(each.problem for each in stops):
        mine = [each for each in stops if each.problem == name]
        count = sum(each.early for each in mine)
        runs = np.median([each.runs for each in mine])
        worst = f"{max(each.loss for each in mine):.2f}" if count else "–"
        lines.append(f"| {name} | {p.ROLES[name]} | {len(mine)} | {count} | {runs:.0f} | {worst} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Make the searches that are missing, and write the table."""
    options = parse_options(__doc__, all_problems(), ["ours"], seeds=3, folder=RESULTS)
    options.folder.mkdir(parents=True, exist_ok=True)
    path = options.folder / "stopping.jsonl"
    if not options.report:
        jobs = missing_runs(options, p.ROLES, {each.key for each in read(path, Stop)})
        for stop in run_all(run, jobs, options.jobs):
            print(stop, flush=True)
            keep(path, stop)
    kept = {each.key: each for each in read(path, Stop)}
    text = table(sorted(kept.values(), key=lambda each: list(p.MAKERS).index(each.problem)))
    (options.folder / "stopping.md").write_text(fitted(text))
    print(text)


if __name__ == "__main__":
    main()
