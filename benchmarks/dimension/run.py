"""How good a posterior of hundreds of parameters is found, and what does a round cost?

Problems × methods × seeds; each posterior is scored exactly or with draws that are common to all.
Runs are kept one by one in dimension.jsonl: one that is there is not made again. Then the table and
the picture are written anew.

    make bench-dimension                                              # all: hours
    make bench-dimension ARGS="--methods ours --problems linear-100 --seeds 0 --folder /tmp/try"
    make bench-dimension ARGS=--report                                # of what is there
    python benchmarks/dimension/run.py --methods ours --role development   # without the peers
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

# One thread a process, before NumPy reads it, and this package, wherever the script is started.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

import dimension.methods as m
import dimension.problems as p
from dimension.answer import Answer
from dimension.report import Row, Table, draw
from outside.posteriors import SkippedError
from outside.runs import Key, commit, keep, missing_runs, parse_options, read, run_all

CHECKPOINTS = (50, 100, 200, 400)
RESULTS = Path(__file__).parents[1] / "results"


@dataclass(frozen=True)
class Outcome:
    """One method, one problem, one seed: what was found after so many runs."""

    problem: str
    method: str
    seed: int
    objectives: dict[str, float]
    gaps: dict[str, float]
    """Per cent of the way from the prior's objective to the best known that is left."""
    runs: dict[str, int]
    """Runs that were made for each of them."""
    round_seconds: dict[str, float]
    """Processor seconds of a round, without its simulations: median and largest."""
    note: str
    commit: str

    @property
    def key(self) -> Key:
        """What is not to be run again."""
        return self.problem, self.method, self.seed


def main() -> None:
    """Make the runs that are missing, then the table and the picture."""
    options = parse_options(__doc__, p.MAKERS, m.METHODS, seeds=3, folder=RESULTS)
    options.folder.mkdir(parents=True, exist_ok=True)
    path = options.folder / "dimension.jsonl"
    failures = 0 if options.report else make_runs(path, options)
    outcomes = {each.key: each for each in read(path, Outcome)}
    rows = [
        Row(each.problem, each.method, each.objectives, each.round_seconds)
        for each in outcomes.values()
    ]
    if not rows:
        sys.exit(f"{path} has no runs to report")
    table = Table(rows, CHECKPOINTS)
    (options.folder / "dimension.md").write_text(table.text())
    print(table.text())
    draw(options.folder / "dimension.png", table)
    sys.exit(1 if failures else 0)


def make_runs(path: Path, options: argparse.Namespace) -> int:
    """Make what is missing, keep each run as it ends, and return how many failed."""
    jobs = missing_runs(options, p.ROLES, {each.key for each in read(path, Outcome)})
    print(f"{len(jobs)} runs to make", flush=True)
    failures = 0
    for number, outcome in enumerate(run_all(run, jobs, options.jobs), start=1):
        labelled = replace(outcome, method=options.label or outcome.method)
        gaps = " ".join(f"{at}: {value:.2f} %" for at, value in labelled.gaps.items())
        rounds = " ".join(f"{each:.2f}" for each in labelled.round_seconds.values())
        print(
            f"[{number}/{len(jobs)}] {labelled.problem} {labelled.method} seed {labelled.seed}: "
            f"{gaps} | seconds a round {rounds or '-'} {labelled.note}",
            flush=True,
        )
        if labelled.objectives:
            keep(path, labelled)
        failures += labelled.note.startswith("the prior")
    return failures


def run(name: str, method: str, seed: int) -> Outcome:
    """Run a method and score its posteriors; an outcome without objectives was skipped.

    A search that ends with an error of its own leaves the user with the prior, and is scored so.
    """
    note, answer = "", Answer()
    objectives: dict[str, float] = {}
    gaps: dict[str, float] = {}
    try:
        problem, known = p.problem(name), p.known()[name]
        try:
            answer = m.METHODS[method](problem, seed, CHECKPOINTS)
        except (SkippedError, ImportError):
            raise
        except Exception as error:
            note = f"the prior, since {type(error).__name__}: {error}"[:200]
            answer = Answer(dict.fromkeys(CHECKPOINTS, problem.prior))
        scores = {id(each): problem.objective(each) for each in answer.posteriors.values()}
        for at, posterior in answer.posteriors.items():
            objectives[str(at)] = float(f"{scores[id(posterior)]:.7g}")
            gaps[str(at)] = round(100.0 * known.gap_left(objectives[str(at)]), 4)
    except (SkippedError, ImportError, FileNotFoundError) as error:
        note = f"skipped: {error}"
    return Outcome(
        problem=name,
        method=method,
        seed=seed,
        objectives=objectives,
        gaps=gaps,
        runs={str(at): runs for at, runs in answer.runs.items()},
        round_seconds=_summary(answer.rounds),
        note=note,
        commit=commit(),
    )


def _summary(rounds: list[float]) -> dict[str, float]:
    if not rounds:
        return {}
    return {
        "median": round(float(np.median(rounds)), 3),
        "largest": round(max(rounds), 3),
    }


if __name__ == "__main__":
    main()
