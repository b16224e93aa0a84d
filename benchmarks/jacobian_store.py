"""How large is a store with Jacobians, and how long does it take to open?

100 runs of 1,000 outputs and 64 parameters, of random numbers, which do not compress.

    python benchmarks/jacobian_store.py        # a quarter of a minute, and 30 MB of disk
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import supac
from supac.jacobian import rounded
from supac.record.encoding import pack
from supac.record.record import Record, read_store
from supac.record.run import Round, Run, Status
from supac.record.settings import Settings
from supac.search.algorithm import Info

ROUNDS, BATCH, OUTPUTS, DIM = 20, 5, 1_000, 64


def write(path: Path, *, jacobians: bool) -> None:
    """Write a search that has not ended."""
    parameters = supac.Parameters({f"k{i}": supac.marginals.Normal(0.0, 1.0) for i in range(DIM)})
    settings = Settings(
        prior=parameters,
        bound=supac.Catoni(0.01),
        algorithm=supac.SuPAC(),
        loss=supac.MeanSquare(),
        tolerance=1e-12,
        budget=ROUNDS * BATCH,
    )
    prior, rng = parameters.prior, np.random.default_rng(0)
    state = {"theta": pack(prior.theta), "memory": {}, "batch": None}
    with Record.of_search(path, settings, prior.family, kind="minimize", proxy=None) as record:
        for k in range(ROUNDS):
            runs = [
                Run(
                    BATCH * k + i, rng.standard_normal(DIM), Status.OK, 0.5,
                    rng.standard_normal(OUTPUTS), 1.0,
                    jacobian=rounded(rng.standard_normal((OUTPUTS, DIM))) if jacobians else None,
                )
                for i in range(BATCH)
            ]  # fmt: skip
            record.add(runs)
            told = Round(tuple(run.id for run in runs), prior, Info(0.1, 0.1, 0.1))
            record.add_rounds([told], lambda: state)


def seconds(action: Callable[[], Any]) -> float:
    """Return the least of three times, of the processor."""
    times = []
    for _ in range(3):
        start = time.process_time()
        action()
        times.append(time.process_time() - start)
    return min(times)


def main() -> None:
    """Print sizes and times, with Jacobians and without."""
    with tempfile.TemporaryDirectory() as folder:
        for jacobians in (False, True):
            path = Path(folder) / f"{jacobians}.supac"
            start = time.process_time()
            write(path, jacobians=jacobians)
            written = time.process_time() - start
            opened = seconds(lambda p=path: read_store(p))  # type: ignore[misc]
            whole = seconds(lambda p=path: list(read_store(p).iterate(jacobians=True)))  # type: ignore[misc]
            print(
                f"{'with' if jacobians else 'without'} Jacobians: "
                f"{path.stat().st_size / 1e6:.1f} MB, written in {written:.2f} s, "
                f"opened in {opened:.2f} s, read in full in {whole:.2f} s"
            )


if __name__ == "__main__":
    main()
