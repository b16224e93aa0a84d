"""What does a run of an FMU cost: after a reset, with a new instance, and with FMPy's own loop?

make bench-fmus                  # half a minute; needs pythonfmu, pythonfmu3 and a C compiler
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fmpy
import numpy as np

import supac
from pages import fitted

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import fmu_files

REPEATS, RUNS = 5, 10
RESULTS = Path(__file__).parent / "results" / "fmus.md"


def models(folder: Path) -> dict[str, tuple[Path, str, str, list[str], list[float]]]:
    """File, interface, parameter, outputs and times of each model."""
    oscillator, ball = fmu_files.van_der_pol(folder / "2"), fmu_files.ball(folder / "ball")
    both = fmu_files.van_der_pol_3(folder / "3")
    times = np.linspace(1.0, 10.0, 10).tolist()
    few = np.linspace(0.2, 2.0, 10).tolist()
    return {
        "oscillator in Python, FMI 2": (oscillator, "co-simulation", "mu", ["x", "v"], times),
        "oscillator in Python, FMI 3": (both, "model-exchange", "mu", ["x", "v"], times),
        "bouncing ball in C, FMI 2": (ball, "model-exchange", "g", ["h", "lag.x"], few),
    }


def milliseconds(function: Callable[[], Any]) -> float:
    """Of one call, the median over repeats of the mean over some calls."""
    function()
    taken = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        for _ in range(RUNS):
            function()
        taken.append((time.perf_counter() - start) / RUNS * 1e3)
    return float(np.median(taken))


def main() -> None:
    """Measure every model in every way, and write a table."""
    lines = [
        f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, FMPy "
        f"{fmpy.__version__}. Milliseconds a run, outputs at ten times; median of {REPEATS} means "
        f"over {RUNS} runs. FMPy's `simulate_fmu` extracts the file for each run.\n",
        "| model | interface | reset | new instance | `simulate_fmu` |",
        "|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        for name, (path, interface, parameter, outputs, times) in models(Path(folder)).items():
            start = {parameter: 2.0}
            options: dict[str, Any] = {"names": list(start), "interface": interface}
            if "lag.x" in outputs:
                options["values"] = {"lag.u": 0.0}
            reset = supac.FMU(path, outputs, times, **options)
            anew = supac.FMU(path, outputs, times, reset=False, **options)
            kind = "CoSimulation" if interface == "co-simulation" else "ModelExchange"
            theirs = {"start_values": start, "stop_time": times[-1], "fmi_type": kind}
            taken = (
                milliseconds(lambda model=reset: model([2.0])),  # type: ignore[misc]
                milliseconds(lambda model=anew: model([2.0])),  # type: ignore[misc]
                milliseconds(lambda p=path, t=theirs: fmpy.simulate_fmu(str(p), **t)),  # type: ignore[misc]
            )
            cells = " | ".join(f"{each:.1f}" for each in taken)
            lines.append(f"| {name} | {interface} | {cells} |")
            print(lines[-1])
    RESULTS.write_text(fitted("\n".join(lines) + "\n"), encoding="utf-8")


if __name__ == "__main__":
    main()
