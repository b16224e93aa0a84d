"""How long do `import supac` and the command line take, and how large is the core environment?

make bench-startup               # half a minute
"""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
import time
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import scipy
from packaging.requirements import Requirement

import supac
from pages import fitted
from supac.arrays import FloatArray

REPEATS = 15
RESULTS = Path(__file__).parent / "results" / "startup.md"
_COMMAND = "from supac.cli import app;"
CASES = {
    "python": "pass",
    "import numpy": "import numpy",
    "import scipy.linalg, scipy.special": "import scipy.linalg, scipy.special",
    "import supac": "import supac",
    "from supac import minimize": "from supac import minimize",
    "supac --help": f"{_COMMAND} app(['--help'])",
    "supac --version": f"{_COMMAND} app(['--version'])",
    "supac show --help": f"{_COMMAND} app(['show', '-h'])",
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
        f"{np.__version__}, SciPy {scipy.__version__}. Seconds of a new process, {REPEATS} each, "
        f"while {os.getloadavg()[0]:.0f} processes wanted a core: processor times are steadier.\n",
        "| | best | median | processor, median |",
        "|---|---|---|---|",
        *(_row(name, np.array(times)) for name, times in taken.items()),
        "",
        "NumPy and SciPy are imported with the first public name, not with the package.\n",
        *_sizes(),
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    RESULTS.write_text(fitted(text))


def _row(name: str, times: FloatArray) -> str:
    clock, processor = times.T
    return f"| `{name}` | {clock.min():.2f} | {np.median(clock):.2f} | {np.median(processor):.2f} |"


def _sizes() -> list[str]:
    """Tell the size of the core and of all that it depends on, as files of this environment."""
    sizes = {name: _size(name) for name in sorted(_needed("supac"))}
    total = np.sum(list(sizes.values()), axis=0)
    large = {name: size for name, size in sizes.items() if sum(size) > 5.0}
    rest = total - np.sum(list(large.values()), axis=0)
    rows = {**large, f"{len(sizes) - len(large)} others": rest, "all": total}
    return [
        "Megabytes of the core environment, without pip:\n",
        "| | files | bytecode that pip adds |",
        "|---|---|---|",
        *(f"| {name} | {size[0]:.0f} | {size[1]:.0f} |" for name, size in rows.items()),
    ]


def _needed(name: str) -> set[str]:
    """Return the distributions that one needs without its extras, itself included."""
    found, wanted = {name}, [name]
    while wanted:
        for line in distribution(wanted.pop()).requires or ():
            other = Requirement(line)
            needed = other.marker is None or other.marker.evaluate({"extra": ""})
            if needed and other.name not in found:
                found.add(other.name)
                wanted.append(other.name)
    return found


def _size(name: str) -> tuple[float, float]:
    """Return the megabytes of a distribution's files and of their bytecode."""
    if name == "supac":  # installed as a link to its sources
        paths = [each for each in Path(str(supac.__file__)).parent.rglob("*") if each.is_file()]
    else:
        paths = [Path(str(each.locate())) for each in distribution(name).files or ()]
    there = [(each.suffix == ".pyc", each.stat().st_size) for each in paths if each.exists()]
    source, compiled = (sum(size for is_code, size in there if is_code is b) for b in (False, True))
    return source / 2**20, compiled / 2**20


if __name__ == "__main__":
    main()
