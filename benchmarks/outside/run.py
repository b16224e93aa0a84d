"""How good a posterior do the default search and its peers find where nothing was tuned?

Problems × methods × seeds; each objective is scored with thousands of draws that are common to all
posteriors. Runs are kept one by one in outside.jsonl: one that is there is not made again. Then
the table and the picture are written anew.

    make bench-outside                                               # all: hours
    make bench-outside ARGS="--methods ours --problems fhn,banana --seeds 0,1,2 --folder /tmp/try"
    make bench-outside ARGS=--report                                 # of what is there
    python benchmarks/outside/run.py --methods ours --role development    # without the peers
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

# One thread a process, before NumPy reads it, and this package, wherever the script is started.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))

import outside.methods as m
import outside.problems as p
from outside.posteriors import SkippedError
from outside.report import draw, table
from outside.runs import Key, commit, keep, missing_runs, parse_options, read, run_all

CHECKPOINTS = (30, 60, 100)
RESULTS = Path(__file__).parents[1] / "results"


@dataclass(frozen=True)
class Outcome:
    """One method, one problem, one seed: the objective after so many runs."""

    problem: str
    method: str
    seed: int
    objectives: dict[str, float]
    seconds: float
    """Of the search, with its simulations, without the scoring."""
    note: str
    commit: str

    @property
    def key(self) -> Key:
        """What is not to be run again."""
        return self.problem, self.method, self.seed


def main() -> None:
    """Make the runs that are missing, then the table and the picture."""
    options = parse_options(__doc__, p.MAKERS, m.METHODS, seeds=5, folder=RESULTS)
    options.folder.mkdir(parents=True, exist_ok=True)
    path = options.folder / "outside.jsonl"
    failures = 0 if options.report else make_runs(path, options)
    outcomes = {each.key: each for each in read(path, Outcome)}
    rows = [(*key, each.objectives) for key, each in outcomes.items()]
    if not rows:
        sys.exit(f"{path} has no runs to report")
    text = table(rows, CHECKPOINTS)
    (options.folder / "outside.md").write_text(text)
    print(text)
    draw(options.folder / "outside.png", rows, CHECKPOINTS)
    sys.exit(1 if failures else 0)


def make_runs(path: Path, options: argparse.Namespace) -> int:
    """Make what is missing, keep each run as it ends, and return how many failed."""
    jobs = missing_runs(options, p.ROLES, {each.key for each in read(path, Outcome)})
    print(f"{len(jobs)} runs to make", flush=True)
    failures = 0
    for number, outcome in enumerate(run_all(run, jobs, options.jobs), start=1):
        labelled = replace(outcome, method=options.label or outcome.method)
        text = " ".join(f"{at}: {value:.5g}" for at, value in labelled.objectives.items())
        print(
            f"[{number}/{len(jobs)}] {labelled.problem} {labelled.method} seed {labelled.seed}: "
            f"{text} ({labelled.seconds:.1f} s) {labelled.note}",
            flush=True,
        )
        if labelled.objectives:
            keep(path, labelled)
        failures += labelled.note.startswith("failed")
    return failures


def run(name: str, method: str, seed: int) -> Outcome:
    """Run a method and score its posteriors; an outcome without objectives was skipped or failed.

    A search that ends with an error of its own leaves the user with the prior, and is scored so.
    """
    start = time.perf_counter()
    objectives: dict[str, float] = {}
    note, seconds = "", 0.0
    try:
        problem = p.problem(name)
        start = time.perf_counter()
        try:
            posteriors = m.METHODS[method](problem, seed, CHECKPOINTS)
        except (SkippedError, ImportError):
            raise
        except Exception as error:
            note = f"the prior, since {type(error).__name__}: {error}"[:200]
            posteriors = dict.fromkeys(CHECKPOINTS, problem.prior)
        seconds = time.perf_counter() - start
        scores = {id(each): problem.objective(each) for each in posteriors.values()}
        objectives = {str(at): float(f"{scores[id(each)]:.7g}") for at, each in posteriors.items()}
    except (SkippedError, ImportError, FileNotFoundError) as error:
        note = f"skipped: {error}"
    return Outcome(name, method, seed, objectives, round(seconds, 2), note, commit())


if __name__ == "__main__":
    main()
