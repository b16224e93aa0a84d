"""How long does it take to write, open, read, export and report 20,000 runs of 1,000 outputs?

python benchmarks/large_store.py        # a minute, and 170 MB of disk
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import supac
from supac.jacobian import rounded
from supac.record.encoding import pack
from supac.record.record import Record
from supac.record.run import Round, Run, Status
from supac.record.settings import Settings
from supac.search.algorithm import Info

Size = tuple[int, int, int, int]
SIZE: Size = (200, 100, 1_000, 10)
"""Rounds, runs of each, outputs, parameters."""


def write(path: Path, size: Size, *, jacobians: bool = False) -> None:
    """Write a search that has not ended, of random numbers."""
    rounds, batch, outputs, dim = size
    parameters = supac.Parameters({f"k{i}": supac.marginals.Normal(0.0, 1.0) for i in range(dim)})
    settings = Settings(
        prior=parameters,
        bound=supac.Catoni(0.01),
        algorithm=supac.SuPAC(),
        loss=supac.Welsch(),
        tolerance=1e-12,
        budget=rounds * batch,
    )
    prior, rng = parameters.prior, np.random.default_rng(0)
    state = {"theta": pack(prior.theta), "memory": {}, "batch": None}
    with Record.of_search(path, settings, prior.family, kind="minimize", proxy=None) as record:
        for k in range(rounds):
            runs = [
                Run(
                    batch * k + i, rng.standard_normal(dim), Status.OK, float(rng.random()),
                    rng.standard_normal(outputs), 1.0,
                    jacobian=rounded(rng.standard_normal((outputs, dim))) if jacobians else None,
                )
                for i in range(batch)
            ]  # fmt: skip
            record.add(runs)
            told = Round(tuple(run.id for run in runs), prior, Info(0.1, 0.1, 0.1))
            record.add_rounds([told], lambda: state)


def main() -> None:
    """Each step in a process of its own, with its largest memory."""
    if len(sys.argv) > 1:
        step, path = sys.argv[1], Path(sys.argv[2])
        start = time.perf_counter()
        if step == "write":
            write(path, SIZE)
        elif step == "CSV":
            supac.export(path, path.with_suffix(".csv"))
        elif step == "report":
            supac.write_report(supac.read_store(path), path.with_suffix(".html"))
        elif step == "evaluations":
            assert len(supac.read_store(path).evaluations) == SIZE[0] * SIZE[1]
        else:
            supac.read_store(path)
        seconds = time.perf_counter() - start
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{step:12} {seconds:6.2f} s {most:6.0f} MB", flush=True)
        return
    with tempfile.TemporaryDirectory() as folder:
        for step in ("write", "open", "evaluations", "CSV", "report"):
            arguments = [sys.executable, __file__, step, str(Path(folder, "run.supac"))]
            subprocess.run(arguments, check=True)


if __name__ == "__main__":
    main()
