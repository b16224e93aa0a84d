"""Does the driver keep up with a thousand workers?

A virtual clock: simulated workers finish runs of ten minutes, log-normal, in the order in which
real ones would, but as soon as the driver has time for them. What is measured is the driver: real
seconds and memory a result, as the number of results grows to 100,000, with a store on disk.

    make bench-scale                   # both sizes, some half an hour
    make bench-scale ARGS="30 20000"   # parameters, results
"""

from __future__ import annotations

import heapq
import os
import platform
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

import supac
from pages import fitted
from supac.arrays import FloatArray

RESULTS = Path(__file__).parent / "results" / "scale.md"
WORKERS = 1_000
MARKS = (2_000, 5_000, 10_000, 20_000, 50_000, 100_000)


class VirtualCluster(Executor):
    """Workers that take virtual time: a run ends when no other could end before it."""

    num_workers = WORKERS

    def __init__(self) -> None:
        self._rng = np.random.default_rng(0)
        self._pending: list[tuple[float, int, Future[Any], Any]] = []
        self._free = [0.0] * WORKERS
        self._count = 0
        self._lock = threading.Condition()
        self._closed = False
        self.now = 0.0
        threading.Thread(target=self._pump, daemon=True).start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Computed at once, and done in due time."""
        answer, future = fn(*args, **kwargs), Future[Any]()
        with self._lock:
            start = max(heapq.heappop(self._free), self.now)
            end = start + 600.0 * float(np.exp(0.5 * self._rng.standard_normal()))
            heapq.heappush(self._free, end)
            self._count += 1
            heapq.heappush(self._pending, (end, self._count, future, answer))
            self._lock.notify()
        return future

    def _pump(self) -> None:
        seen = 0
        while not self._closed:
            with self._lock:
                # With fewer runs than workers the driver may be about to submit more.
                if not self._pending or (len(self._pending) < WORKERS and self._count != seen):
                    seen = self._count
                    self._lock.wait(0.01)
                    continue
                self.now, _, future, answer = heapq.heappop(self._pending)
            future.set_result(answer)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Stop the pump."""
        self._closed = True


def risk(x: FloatArray) -> float:
    """A bowl in all parameters, saturating."""
    return float(np.tanh(((x - 0.5) ** 2).mean() + 0.1 * np.sin(3.0 * x[0])))


def measure(dim: int, results: int) -> list[str]:
    """Rows of the table: results so far, driver's milliseconds and memory a result."""
    prior = supac.gaussian(np.zeros(dim), np.eye(dim) if dim <= 30 else np.ones(dim))
    rows: list[str] = []
    started = last = time.perf_counter()
    before, marks = 0, [mark for mark in MARKS if mark <= results]
    cluster = VirtualCluster()

    def look(event: supac.Iteration) -> None:
        nonlocal last, before
        if not marks or event.queries < marks[0]:
            return
        now, memory = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        rate = (event.queries - before) / (now - last)
        busy = event.queries / (now - started)
        rows.append(
            f"| {dim} | {prior.family.size:,} | {event.queries:,} | {rate:.0f} | {busy:.0f} | "
            f"{memory / 2**20:.2f} | {event.objective:.4f} |"
        )
        print(rows[-1], flush=True)
        last, before = now, event.queries
        while marks and marks[0] <= event.queries:
            marks.pop(0)

    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as folder:
        supac.minimize(
            risk, prior, supac.Catoni(0.001), budget=results + results // 10,
            execution=supac.Execution(cluster, mode="async", progress=False), callback=look,
            store=Path(folder) / "run.supac", validation=0,
        )  # fmt: skip
    cluster.shutdown()
    return rows


def main() -> None:
    """Both sizes, or the one that was asked for."""
    asked = [int(word) for word in sys.argv[1:]]
    sizes = [(asked[0], asked[1])] if asked else [(30, MARKS[-1]), (200, MARKS[-1])]
    lines = [
        f"{os.cpu_count()} cores ({platform.machine()}), one thread; {WORKERS:,} simulated "
        "workers, a store on disk. 30 parameters have a full covariance, 200 a diagonal one.\n",
        "| parameters | statistics | results | results a second since the row above | since the "
        "start | peak memory (GiB) | objective |",
        "|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    for dim, results in sizes:
        lines += measure(dim, results)
    if not asked:
        RESULTS.write_text(fitted("\n".join(lines) + "\n"))


if __name__ == "__main__":
    main()
