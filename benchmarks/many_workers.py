"""How busy are many workers with the default batches?

Runs of 1 to 3 seconds on a virtual clock: each batch lasts as long as its runs on so many workers,
one after the other where there are more runs, and between batches the search takes the processor
time that it takes. Budget: five runs a worker.

    make bench-throughput ARGS=--many
"""

from __future__ import annotations

import heapq
import time
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import numpy as np

import supac
from pages import fitted
from supac.arrays import FloatArray
from supac.record.record import Record
from supac.simulators import synthetic

RESULTS = Path(__file__).parent / "results" / "many_workers.md"
WORKERS, SEEDS, DIM = (21, 40, 64, 200), range(3), 8
PRIOR, BOUND = supac.gaussian(np.zeros(DIM), np.eye(DIM)), supac.Catoni(0.01)


class Here(Executor):
    """Makes each run at once; notes when the first began."""

    def __init__(self) -> None:
        self.began: float | None = None

    def submit(self, function: Any, /, *given: Any, **named: Any) -> Future[Any]:
        """Call the function."""
        self.began = self.began or time.thread_time()
        done: Future[Any] = Future()
        done.set_result(function(*given, **named))
        return done


def seconds(x: FloatArray) -> float:
    """Return a duration that belongs to a point."""
    return float(np.random.default_rng(np.abs(x[:2]).view(np.uint64)).uniform(1.0, 3.0))


def makespan(times: list[float], workers: int) -> float:
    """Return the time of a batch: each run goes to the worker that is free first."""
    free = [0.0] * workers
    for each in times:
        heapq.heapreplace(free, free[0] + each)
    return max(free)


def batches_of(record: Record) -> list[list[float]]:
    """Return the durations of the runs of each batch, those that validate included."""
    x = {run.id: run.x for run in record.light_runs}
    assert record.ending is not None
    ids = [each.ids for each in record.rounds]
    ids += [each.ids for each in record.ending.validation]
    return [[seconds(x[i]) for i in each] for each in ids]


def share(workers: int, seed: int) -> tuple[float, float, int]:
    """Return the busy share, that of an instant search, and the number of runs."""
    executor, bowl = Here(), synthetic.example(0)

    def risk(x: FloatArray) -> float:
        return float(bowl(x[None])[0])

    result = supac.minimize(
        risk, PRIOR, BOUND, budget=5 * workers, seed=seed,
        execution=supac.Execution(executor, capacity=workers, progress=False),
    )  # fmt: skip
    assert executor.began is not None
    thinking = time.thread_time() - executor.began
    batches = batches_of(result.record)
    work, waited = sum(map(sum, batches)), sum(makespan(each, workers) for each in batches)
    return (
        work / (workers * (waited + thinking)),
        work / (workers * waited),
        sum(map(len, batches)),
    )


def main() -> None:
    """Write the table."""
    lines = [
        f"8-D bowl, {len(SEEDS)} seeds: medians. Share of the workers' time that is the "
        "simulator's, with the time of the search between batches, and without.\n",
        "| workers | runs | busy | if the search took no time |",
        "|---|---|---|---|",
    ]
    for workers in WORKERS:
        found = np.median([share(workers, seed) for seed in SEEDS], axis=0)
        lines.append(f"| {workers} | {found[2]:.0f} | {found[0]:.2f} | {found[1]:.2f} |")
        print(lines[-1], flush=True)
    RESULTS.write_text(fitted("\n".join(lines) + "\n"))


if __name__ == "__main__":
    main()
