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

from large_store import Size, write
from supac.record.record import read_store

SIZE: Size = (20, 5, 1_000, 64)


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
            write(path, SIZE, jacobians=jacobians)
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
