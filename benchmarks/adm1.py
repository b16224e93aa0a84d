"""How fast is ADM1, how exact, and how does it compare with SciPy's LSODA on the same model?

Milliseconds of processor time a query, batches of 256 prior draws, five turns; the error of the
risk against a run with tight tolerance; and the paper's way of solving the same equations: LSODA,
started anew in each feed interval.

    make bench-adm1                      # the embedded data set
    make bench-adm1 ARGS=FOLDER          # another in the paper's layout, such as its LF
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.integrate import solve_ivp

from pages import fitted
from supac.arrays import FloatArray
from supac.simulators import adm1
from supac.simulators.adm1.simulator import kinetics_of

ROWS, TURNS, BY_LSODA = 256, 5, 3
RESULTS = Path(__file__).parent / "results" / "adm1.md"


def main() -> None:
    """Measure, print, keep."""
    folder = sys.argv[1] if len(sys.argv) > 1 else None
    lines = [
        f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, one "
        f"thread, processor time; {ROWS} prior draws; data: "
        f"{Path(folder).name if folder else 'embedded'}.\n",
        "| variant | ms a query, median (best, worst) | error of the risk, max | median | failed |",
        "|---|---|---|---|---|",
    ]
    variants: tuple[Literal["dae", "split"], ...] = ("dae", "split")
    for variant in variants:
        lines.append(measure(_problem(folder, variant), variant))
        print(lines[-1], flush=True)
    lines += ["", compare_with_lsoda(_problem(folder, "split")), "", start_up()]
    RESULTS.parent.mkdir(exist_ok=True)
    path = RESULTS if folder is None else RESULTS.with_stem(f"adm1_{Path(folder).name}")
    path.write_text(fitted("\n".join(lines) + "\n"))
    print("\n".join(lines))


def _problem(folder: str | None, variant: Literal["dae", "split"]) -> adm1.Problem:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", adm1.UnitsWarning)
        return adm1.example(variant) if folder is None else adm1.load(folder, variant)


def measure(problem: adm1.Problem, variant: str) -> str:
    """A row of the table."""
    x = problem.parameters.sample(problem.prior, ROWS, 0)
    problem.risk(x[:16])
    times = []
    for _ in range(TURNS):
        start = time.process_time()
        risk = problem.risk(x)
        times.append(1e3 * (time.process_time() - start) / ROWS)
    tight = problem.simulator.outputs(x, rtol=1e-7).reshape(ROWS, -1)
    error = np.abs(problem.loss(tight) - risk)
    speed = f"{np.median(times):.2f} ({min(times):.2f}, {max(times):.2f})"
    failed = int((risk == 3.0).sum())
    return f"| {variant} | {speed} | {error.max():.1e} | {np.median(error):.1e} | {failed} |"


def compare_with_lsoda(problem: adm1.Problem) -> str:
    """The same rows both ways, turn by turn in one run."""
    x = problem.parameters.sample(problem.prior, ROWS, 0)
    kept = x[problem.risk(x) < 1.0][:BY_LSODA]
    ratios, gaps, seconds = [], [], []
    for row in kept:
        start = time.process_time()
        risk = problem.risk(np.tile(row, (ROWS, 1)))[0]
        own = (time.process_time() - start) / ROWS
        start = time.process_time()
        other = problem.loss(outputs_by_lsoda(problem.simulator, row).reshape(1, -1))[0]
        seconds.append(time.process_time() - start)
        ratios.append(seconds[-1] / own)
        gaps.append(abs(other - risk))
    return (
        f"Through SciPy's LSODA, restarted in each feed interval (compiled right-hand side, "
        f"rtol 1e-3): {np.median(seconds):.2f} s a query, {np.median(ratios):.0f} times as long "
        f"(median of {len(ratios)}; least {min(ratios):.0f}), risks within {max(gaps):.1e}."
    )


def outputs_by_lsoda(simulator: adm1.Simulator, row: FloatArray) -> FloatArray:
    """The nine daily outputs of one simulation, variant split, through `solve_ivp`."""
    module, data = simulator._module, simulator._data
    lanes, n, size = module.LANES, len(module.STATES), module.SIZE
    W = np.zeros(size)

    def places(name: str) -> slice:
        at = getattr(module, f"AT_{name}")
        return slice(at, at + n * lanes, lanes)

    kinetics = kinetics_of(row[None])[0]
    W[module.AT_kinetics : module.AT_kinetics + len(kinetics) * lanes] = np.repeat(kinetics, lanes)
    for k, value in enumerate(data["initial"][:n]):
        W[module.AT_y + k * lanes : module.AT_y + (k + 1) * lanes] = value
    for name, value in zip(
        ("S_H", "S_h2", "S_cation", "S_anion"), data["initial"][n:], strict=True
    ):
        at = getattr(module, f"AT_{name}")
        W[at : at + lanes] = value
    constants, nu = data["constants"], data["nu"]
    module.ions(W, constants)
    outputs = np.full((len(simulator.digester.days), 9), np.nan)
    sums, parts = np.zeros(4), 0
    for i, length in enumerate(np.diff(data["times"])):
        inflow, D = np.ascontiguousarray(data["feed"][i, 1]), data["feed"][i, 1, n]
        module.inhibition(W)
        module.prepare(W, constants, nu)

        def change(
            _: float, y: FloatArray, inflow: FloatArray = inflow, D: float = D
        ) -> FloatArray:
            W[places("y")] = y
            module.rates(W, constants, nu, inflow, D, 0.0)
            return W[places("f")]

        if length > 0.0:
            solution = solve_ivp(change, (0.0, length), W[places("y")].copy(), method="LSODA")
            W[module.AT_y : module.AT_y + n * lanes] = np.repeat(solution.y[:, -1], lanes)
            kept = np.exp(-D * length)
            for name, inside in zip(("S_cation", "S_anion"), data["ions_in"][i], strict=True):
                at = getattr(module, f"AT_{name}")
                W[at : at + lanes] = inside + kept * (W[at : at + lanes] - inside)
        module.settle(W, constants, nu, D, data["h2_in"][i], 1e-12)
        module.gas(W, constants)
        flow, methane, p_ch4, p_co2 = W[module.AT_gas : module.AT_gas + 4 * lanes : lanes]
        sums += (flow * length, methane * length, p_ch4, p_co2)
        parts += 1
        day = data["day"][i]
        if day >= 0:
            states = W[places("y")][list(module.STATE_OUTPUTS)]
            outputs[day] = [*states, sums[0], sums[1], sums[2] / parts, sums[3] / parts]
            sums, parts = np.zeros(4), 0
    return outputs


def start_up() -> str:
    """From a new process to the first risk, with the compiled model in the cache."""
    code = (
        "import numpy as np; from supac.simulators import adm1; "
        "adm1.example().risk(np.array([list(adm1.PAPER_KINETICS.values())]))"
    )
    times = []
    for _ in range(TURNS):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        times.append(time.perf_counter() - start)
    usual, worst = np.median(times), max(times)
    return f"A new process gives its first risk after {usual:.1f} s (worst {worst:.1f} s)."


if __name__ == "__main__":
    main()
