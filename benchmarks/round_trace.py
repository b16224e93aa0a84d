"""Which files does one default round pass through, from the end of a run to the next points?

    python benchmarks/round_trace.py

A round of `minimize` on a composite risk with a store, traced with `sys.setprofile`: every file of
the package in which a function is called between the end of one round and the end of the next, and
the number of distinct calls from a function of one file to a function of another.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from types import FrameType

import numpy as np

import supac

PACKAGE = Path(supac.__file__).parent
TIMES = np.linspace(0.0, 5.0, 10)


def decay(x: np.ndarray) -> np.ndarray:
    """Residuals of a first-order reaction."""
    return (x[0] * np.exp(-x[1] * TIMES) - 2.0 * np.exp(-0.7 * TIMES)) / 0.1


class Trace:
    """Files of the package in which functions are called while it is on, with their counts."""

    def __init__(self) -> None:
        self.files: dict[str, int] = {}
        self.crossings: set[tuple[str, str, str, str]] = set()
        """Distinct calls between files: file and function of the caller, and of the called."""

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """Count a call, as `sys.setprofile` reports it."""
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            name = str(path.relative_to(PACKAGE))
            self.files[name] = self.files.get(name, 0) + 1
            caller = frame.f_back
            while caller and not Path(caller.f_code.co_filename).is_relative_to(PACKAGE):
                caller = caller.f_back
            if caller and caller.f_code.co_filename != frame.f_code.co_filename:
                origin = str(Path(caller.f_code.co_filename).relative_to(PACKAGE))
                called = frame.f_code.co_qualname
                self.crossings.add((origin, caller.f_code.co_qualname, name, called))


def main() -> None:
    """Trace the third round, and print its files."""
    trace, rounds = Trace(), []

    def between(iteration: supac.Iteration) -> None:
        rounds.append(iteration.queries)
        if len(rounds) == 2:
            sys.setprofile(trace)
        elif len(rounds) == 3:
            sys.setprofile(None)

    prior = supac.Parameters(
        {
            "initial": supac.marginals.Uniform(0.0, 5.0),
            "rate": supac.marginals.LogNormal(1.0, 0.5),
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        supac.minimize(
            supac.Composite(decay, supac.Welsch()), prior, supac.Catoni(0.01), budget=60,
            store=Path(folder, "run.supac"), callback=between,
            execution=supac.Execution(progress=False),
        )  # fmt: skip
    for name, calls in sorted(trace.files.items()):
        print(f"{calls:6} {name}")
    print(f"{len(trace.files)} files, {len(trace.crossings)} distinct calls between files")


if __name__ == "__main__":
    main()
