"""Posteriors next to reference posteriors, after few runs: this package and others.

make bench-reference                      # goes on where it stopped
make bench-reference ARGS="--targets lotka --methods supac --runs 30,60 --minutes 10"
make bench-reference ARGS=--check         # are the simulators those of the references?
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

from reference import metrics, tasks
from reference.check import Known, known_of
from reference.methods import METHODS, Answer
from reference.own import own
from reference.report import write
from reference.target import Target
from supac.arrays import FloatArray

RESULTS = Path(__file__).parents[1] / "results" / "reference.jsonl"
CHECKPOINTS = "15,20,30,36,40,45,60,100"
_DRAWS = 1_000  # of either sample; sbibm takes ten times as many
Row = dict[str, Any]


def targets() -> Iterator[Target]:
    """Yield all targets: the first observation of each task first."""
    yield from own()
    for observation in tasks.OBSERVATIONS:
        for make in tasks.TASKS.values():
            yield make(observation)


def compare(target: Target, reference: FloatArray, answer: Answer, known: Known) -> Row:
    """Return what tells an answer from the reference."""
    chosen = np.random.default_rng(zlib.crc32(target.name.encode())).permutation(len(reference))
    one, other = target.compared(reference[chosen[:_DRAWS]]), target.compared(answer.draws[:_DRAWS])
    log = answer.log_evidence
    return {
        "c2st": round(metrics.c2st(one, other), 4),
        "mmtv": round(metrics.mmtv(one, other), 4),
        "gskl": round(metrics.gskl(one, other), 4),
        "log": None if log is None else round(log - known.log, 4),
        "used": answer.used,
        "seconds": round(answer.seconds, 2),
    }


def measure(name: str, target: Target, seed: int, missing: list[int]) -> Iterator[Row]:
    """Yield a row for each number of runs."""
    reference, known = target.reference(), known_of(target)
    for answer in METHODS[name](target, seed, missing):
        row = {"target": target.name, "method": name, "seed": seed, "runs": answer.runs}
        yield {**row, **compare(target, reference, answer, known)}


def main() -> None:
    """Measure what is missing, then write the page and its picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--targets", default="", help="parts of names, with commas; all else")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--runs", default=CHECKPOINTS)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=600.0)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--check", action="store_true", help="compare likelihoods with references")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    wanted = [each for each in targets() if any(p in each.name for p in given.targets.split(","))]
    if given.check:
        for each in wanted:
            print(each.name, known_of(each), flush=True)
        return
    kept = given.results
    rows = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    there = {(row["target"], row["method"], row["seed"], row["runs"]) for row in rows}
    begun = time.monotonic()
    for seed in range(given.seeds):
        for target in wanted:
            for name in given.methods.split(","):
                asked = [int(each) for each in given.runs.split(",")]
                missing = [n for n in asked if (target.name, name, seed, n) not in there]
                if not missing or time.monotonic() - begun > 60.0 * given.minutes:
                    continue
                for row in measure(name, target, seed, missing):
                    rows.append(row)
                    with kept.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(row) + "\n")
                    print(*row.values(), flush=True)
    write(rows, kept)


if __name__ == "__main__":
    main()
