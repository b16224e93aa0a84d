"""ADM1 on a GPU: microseconds a query at several batch sizes, and how far from the processor.

    make bench-cuda                                     # needs a GPU and the extra cuda
    make bench-cuda ARGS="--save FILE"                  # the processor's risks alone, no GPU needed
    make bench-cuda ARGS="--compare FILE"               # with those, where Numba is not installed

Writes benchmarks/results/cuda.md. (A script named cuda.py would hide the package cuda from CuPy.)
"""

from __future__ import annotations

import argparse
import platform
import time
from pathlib import Path
from typing import Literal

import numpy as np

from supac.arrays import FloatArray
from supac.simulators import adm1

COMPARED, TURNS = 256, 5
BATCHES = (1024, 4096, 16_384, 32_768, 65_536)
RESULTS = Path(__file__).parent / "results" / "cuda.md"
Variant = Literal["dae", "split"]
VARIANTS: tuple[Variant, ...] = ("split", "dae")


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--save", type=Path, help="write the processor's risks, no more")
    parser.add_argument("--compare", type=Path, help="read them")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the table")
    options = parser.parse_args()
    if options.save:
        np.savez(options.save, split=processor("split"), dae=processor("dae"))
        return
    known = np.load(options.compare) if options.compare else None
    lines = [
        f"{device()}; Python {platform.python_version()}; embedded data, prior draws, best of "
        f"{TURNS} calls of `problem.risk`, transfers and loss included; differences from the "
        f"processor over {COMPARED} draws.\n",
        "| variant | batch | ms | µs a query | largest difference of the risk |",
        "|---|---|---|---|---|",
    ]
    for variant in VARIANTS:
        expected = processor(variant) if known is None else known[variant]
        lines += measure(variant, expected)
        print("\n".join(lines), flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text("\n".join(lines) + "\n")


def draws(problem: adm1.Problem, n: int) -> FloatArray:
    """The same draws of the prior everywhere; latent, as the exponential may differ in a digit."""
    latent = np.random.default_rng(0).standard_normal((n, len(problem.parameters)))
    return problem.parameters.from_latent(latent)


def processor(variant: Variant) -> FloatArray:
    """Risks of the first draws, by the processor."""
    problem = adm1.example(variant)
    return problem.risk(draws(problem, COMPARED))


def measure(variant: Variant, expected: FloatArray) -> list[str]:
    """Rows of the table."""
    start = time.perf_counter()
    problem = adm1.example(variant, device="cuda")
    x = draws(problem, BATCHES[-1])
    risk = problem.risk(x[:COMPARED])
    print(f"{variant}: compiled in {time.perf_counter() - start:.0f} s", flush=True)
    gap = float(np.abs(risk - expected).max())
    rows = []
    for batch in BATCHES:
        times = []
        for _ in range(TURNS):
            start = time.perf_counter()
            problem.risk(x[:batch])
            times.append(time.perf_counter() - start)
        best = min(times)
        rows.append(
            f"| {variant} | {batch:,} | {1e3 * best:.1f} | {1e6 * best / batch:.2f} | {gap:.1e} |"
        )
        print(rows[-1], flush=True)
    return rows


def device() -> str:
    """The GPU, and what runs it."""
    import cupy  # noqa: PLC0415

    properties = cupy.cuda.runtime.getDeviceProperties(0)
    version = cupy.cuda.runtime.runtimeGetVersion()
    return f"{properties['name'].decode()}, CUDA {version // 1000}, CuPy {cupy.__version__}"


if __name__ == "__main__":
    main()
