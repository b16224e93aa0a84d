"""How long does `import supac` take, and how much of that is NumPy and SciPy?

make bench-startup               # half a minute
"""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import scipy

from supac.arrays import FloatArray

REPEATS = 15
RESULTS = Path(__file__).parent / "results" / "startup.md"
CASES = {
    "python": "pass",
    "import numpy": "import numpy",
    "import scipy.linalg, scipy.special": "import scipy.linalg, scipy.special",
    "import supac": "import supac",
    "import supac.cli": "import supac.cli",
    "supac --version": "import sys; sys.argv[1:] = ['--version']; from supac.cli import app; app()",
}


def seconds(code: str) -> tuple[float, float]:
    """Of a new process: by the clock, and of the processor."""
    # Bytecode is kept, as it is wherever a package is installed.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, env=environment
    )
    clock = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return clock, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """In turns, so that a busy machine is busy for all."""
    for code in CASES.values():
        seconds(code)  # bytecode and the disk's cache
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in CASES}
    for _ in range(REPEATS):
        for name, code in CASES.items():
            taken[name].append(seconds(code))
    lines = [
        f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, NumPy "
        f"{np.__version__}, SciPy {scipy.__version__}. Seconds of a new process, {REPEATS} each.\n",
        "| | best | median | processor, median |",
        "|---|---|---|---|",
        *(_row(name, np.array(times)) for name, times in taken.items()),
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    RESULTS.write_text(text)


def _row(name: str, times: FloatArray) -> str:
    clock, processor = times.T
    return f"| `{name}` | {clock.min():.2f} | {np.median(clock):.2f} | {np.median(processor):.2f} |"


if __name__ == "__main__":
    main()
