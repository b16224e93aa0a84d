"""How busy are the workers, and what does the store cost?

Efficiency is the simulator's own seconds over the workers' seconds, from the start of the first run
to the end of the last: two local processes and a Dask cluster of two, simulators of about 10 ms,
100 ms and 1 s whose times are log-normal, batch by batch and asynchronously; the milliseconds that
a run costs to store; and how good the posteriors of both modes are.

    make bench-throughput                  # some ten minutes
    make bench-throughput ARGS=--quick     # without the one-second simulator
    make bench-throughput ARGS=--quality   # only how good asynchronous runs are
    make bench-throughput ARGS=--many      # only how busy 21 to 200 workers are
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

import many_workers
import supac
from pages import fitted
from supac.arrays import FloatArray
from supac.record.record import Record
from supac.simulators import synthetic

RESULTS = Path(__file__).parent / "results" / "throughput.md"
QUALITY = Path(__file__).parent / "results" / "async.md"
WORKERS = 2
DIM = 8
SPREAD = 0.5  # standard deviation of the logarithm of a run's time
BUDGETS = {0.01: 400, 0.1: 300, 1.0: 120}
PRIOR = supac.gaussian(np.zeros(DIM), np.eye(DIM))
BOUND = supac.Catoni(0.01)
Mode = Literal["batch", "async"]
MODES: tuple[Mode, Mode] = ("batch", "async")


@dataclass
class Slow:
    """A risk that takes its time, and writes down when."""

    ledger: Path
    seconds: float

    def __call__(self, x: FloatArray) -> float:
        """Sleep for a log-normal time that belongs to the point."""
        start = time.time()
        share = np.random.default_rng(np.abs(x[:2]).view(np.uint64)).standard_normal()
        time.sleep(self.seconds * float(np.exp(SPREAD * share - 0.5 * SPREAD**2)))
        risk = float(synthetic.example(0)(x[None])[0])
        with self.ledger.open("a") as file:
            file.write(f"{start} {time.time()}\n")
        return risk


@contextmanager
def workers(kind: str) -> Iterator[Executor | int]:
    """Two of them."""
    if kind == "local":
        yield WORKERS
        return
    from distributed import Client, LocalCluster  # noqa: PLC0415

    with (
        LocalCluster(  # type: ignore[no-untyped-call]
            WORKERS, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,  # type: ignore[no-untyped-call]
    ):
        yield client.get_executor()


def efficiency(kind: str, mode: Mode, seconds: float, seed: int) -> float:
    """Of one run."""
    with tempfile.TemporaryDirectory() as folder, workers(kind) as executor:
        ledger = Path(folder) / "ledger"
        supac.minimize(
            Slow(ledger, seconds), PRIOR, BOUND, budget=BUDGETS[seconds],
            execution=supac.Execution(executor, mode=mode, progress=False), validation=0,
            seed=seed, store=Path(folder) / "run.supac",
        )  # fmt: skip
        start, end = np.loadtxt(ledger).T
    return float((end - start).sum() / (WORKERS * (end.max() - start.min())))


def time_the_store(runs: int = 2_000, outputs: int = 1_000) -> tuple[FloatArray, FloatArray]:
    """Milliseconds of keeping single runs, and of keeping ten at a time, each a run."""
    rng = np.random.default_rng(0)

    def run(number: int) -> supac.Run:
        x, y = rng.standard_normal(30), rng.standard_normal(outputs)
        return supac.Run(number, x, supac.Status.OK, 0.3, y, 1.0)

    single, ten = [], []
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as folder:
        path = Path(folder) / "run.supac"
        with Record.of_runs(supac.Composite(np.copy, supac.MeanSquare()), 30, path) as record:
            for number in range(0, runs, 11):
                made = [run(number + i) for i in range(11)]
                start = time.perf_counter()
                record.add(made[:1])
                single.append(1e3 * (time.perf_counter() - start))
                start = time.perf_counter()
                record.add(made[1:])
                ten.append(1e2 * (time.perf_counter() - start))
    return np.array(single), np.array(ten)


def quality(seeds: range) -> list[str]:
    """True objectives with both modes, few workers and many, runs of about 0.1 and 0.3 s."""
    task = synthetic.example(0)
    normal = np.random.default_rng(0).standard_normal((20_000, DIM))

    def true_objective(mode: Mode, crowd: int, seed: int) -> float:
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(crowd) as threads:
            seconds = 0.0 if mode == "batch" else 0.1 if crowd == WORKERS else 0.3
            result = supac.minimize(
                Slow(Path(folder) / "ledger", seconds), PRIOR, BOUND, budget=200,
                execution=supac.Execution(threads, mode=mode, progress=False), validation=0,
                seed=seed, shape="gaussian",
            )  # fmt: skip
        root = np.linalg.cholesky(result.posterior.covariance)
        risk = task(result.posterior.mean + normal @ root.T)
        return BOUND(float(risk.mean()), result.posterior.kl(PRIOR))

    lines = [
        f"True objective after 200 queries of the 8-D bowl, mean (worst) of {len(seeds)} seeds.\n",
        "| | |",
        "|---|---|",
    ]
    rows: dict[str, tuple[Mode, int]] = {
        "batch": ("batch", WORKERS), "async, 2 workers": ("async", WORKERS),
        "async, 40 workers": ("async", 40),
    }  # fmt: skip
    for name, (mode, crowd) in rows.items():
        values = [true_objective(mode, crowd, seed) for seed in seeds]
        lines.append(f"| {name} | {np.mean(values):.4f} ({max(values):.4f}) |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    """All questions, kept and shown."""
    if "--many" in sys.argv:
        many_workers.main()
        return
    if "--quality" in sys.argv:
        QUALITY.write_text("\n".join(quality(range(10))) + "\n")
        return
    times = [seconds for seconds in BUDGETS if seconds < 1.0 or "--quick" not in sys.argv]
    lines = [
        f"{os.cpu_count()} cores ({platform.machine()}). Two workers; simulators that sleep for "
        f"log-normal times (σ = {SPREAD}); with a store. Efficiency, median (worst) of three "
        "seeds; one for the simulator of a second.\n",
        "| workers | mode | " + " | ".join(f"{1e3 * s:.0f} ms" for s in times) + " |",
        "|---|---|" + "---|" * len(times),
    ]
    print("\n".join(lines), flush=True)
    for kind in ("local", "dask"):
        for mode in MODES:
            cells = []
            for seconds in times:
                shares = [
                    efficiency(kind, mode, seconds, s) for s in range(1 if seconds >= 1 else 3)
                ]
                cells.append(f"{np.median(shares):.3f} ({min(shares):.3f})")
            lines.append(f"| {kind} | {mode} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    single, ten = time_the_store()
    lines += [
        "",
        f"Store, 30 parameters and 1,000 outputs: {np.median(single):.2f} ms a run kept alone "
        f"(worst {single.max():.1f}), {np.median(ten):.2f} ms a run where ten end together "
        f"(worst {ten.max():.1f}).",
    ]
    RESULTS.write_text(fitted("\n".join(lines) + "\n"))
    print(lines[-1])
    QUALITY.write_text("\n".join(quality(range(10))) + "\n")
    many_workers.main()


if __name__ == "__main__":
    main()
