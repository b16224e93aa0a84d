"""ADM1 on a GPU: microseconds a query at several batch sizes, and how far from the processor.

    make bench-cuda                                     # needs a GPU and the extra cuda
    make bench-cuda ARGS="--save FILE"                  # the processor's risks alone, no GPU needed
    make bench-cuda ARGS="--compare FILE"               # with those, where Numba is not installed
    make bench-cuda ARGS="--data FOLDER"                # a digester in the paper's layout

Writes benchmarks/results/cuda.md, or cuda_FOLDER.md. (A script named cuda.py would hide the package
cuda from CuPy.)
"""

from __future__ import annotations

import argparse
import platform
import time
import warnings
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pages import fitted
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
    parser.add_argument("--data", type=Path, help="a digester, instead of the embedded one")
    parser.add_argument("--out", type=Path, help="the table")
    options = parser.parse_args()
    data: Path | None = options.data
    if options.save:
        risks = {variant: processor(variant, data) for variant in VARIANTS}
        np.savez(options.save, **risks)  # type: ignore[arg-type]
        return
    known = np.load(options.compare) if options.compare else None
    lines = [
        f"{device()}; Python {platform.python_version()}; data: "
        f"{data.name if data else 'embedded'}; prior draws, best of {TURNS} calls of "
        "`problem.risk`, transfers and loss included, and of its kernel; differences from the "
        f"processor over {COMPARED} draws.\n",
        "| variant | batch | ms | µs a query | of it the kernel | largest difference of the risk |",
        "|---|---|---|---|---|---|",
    ]
    for variant in VARIANTS:
        expected = processor(variant, data) if known is None else known[variant]
        lines += measure(variant, expected, data)
        print("\n".join(lines), flush=True)
    out = options.out or (RESULTS.with_stem(f"cuda_{data.name}") if data else RESULTS)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(fitted("\n".join(lines) + "\n"))


def load(variant: Variant, data: Path | None, device: Literal["cpu", "cuda"]) -> adm1.Problem:
    """The problem of a digester, or the embedded one."""
    if data is None:
        return adm1.example(variant, device=device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", adm1.UnitsWarning)
        return adm1.load(data, variant, device=device)


def draws(problem: adm1.Problem, n: int) -> FloatArray:
    """The same draws of the prior everywhere; latent, as the exponential may differ in a digit."""
    latent = np.random.default_rng(0).standard_normal((n, len(problem.parameters)))
    return problem.parameters.from_latent(latent)


def processor(variant: Variant, data: Path | None) -> FloatArray:
    """Risks of the first draws, by the processor."""
    problem = load(variant, data, "cpu")
    return problem.risk(draws(problem, COMPARED))


class TimedKernel:
    """A kernel that notes how long it takes, in milliseconds."""

    def __init__(self, kernel: Any):
        self.kernel, self.times = kernel, list[float]()
        self.max_dynamic_shared_size_bytes = kernel.max_dynamic_shared_size_bytes

    def __call__(self, *words: Any, **options: Any) -> None:
        """Launch it, and wait."""
        import cupy  # noqa: PLC0415

        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        self.kernel(*words, **options)
        end.record()
        end.synchronize()
        self.times.append(cupy.cuda.get_elapsed_time(start, end))


def measure(variant: Variant, expected: FloatArray, data: Path | None) -> list[str]:
    """Rows of the table."""
    start = time.perf_counter()
    problem = load(variant, data, "cuda")
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
        best, on_device = min(times), problem.simulator._device
        kernel = on_device.kernel = TimedKernel(on_device.kernel)
        for _ in range(TURNS):
            problem.risk(x[:batch])
        on_device.kernel = kernel.kernel
        per_query = (1e6 * best / batch, 1e3 * min(kernel.times) / batch)
        rows.append(
            f"| {variant} | {batch:,} | {1e3 * best:.1f} | {per_query[0]:.2f} | {per_query[1]:.2f} "
            f"| {gap:.1e} |"
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
