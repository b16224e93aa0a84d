"""ADM1 on a GPU; without one, the generated source through the processor's C++ compiler."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba", reason="ADM1 needs the extra adm1")

from supac.arrays import FloatArray
from supac.simulators import adm1
from supac.simulators.adm1 import cuda, kernel
from supac.simulators.adm1.problem import Loss

VARIANTS = pytest.mark.parametrize("variant", ["dae", "split"])
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
DAYS = 12

# One simulation after the other, as one thread after the other.
PRELUDE = """
#include <cmath>
#include <cstddef>
using std::fabs; using std::fma; using std::fmax; using std::fmin;
#define __device__ static
#define __global__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(n)
#define __restrict__
struct Place { int x; };
static Place blockIdx{0}, threadIdx{0};
"""
LOOP = """
extern "C" void run(const Same* same, int n, int intervals, int days, const double** a,
                    const int* marks, double tolerance, double* outputs, double* squares,
                    int* doubtful)
{
    for (int row = 0; row < n; ++row) {
        blockIdx.x = row / THREADS;
        threadIdx.x = row % THREADS;
        simulate(*same, n, intervals, days, a[0], a[1], a[2], marks, a[3], a[4], tolerance,
                 outputs, squares, doubtful);
    }
}
"""


def short(problem: adm1.Problem) -> adm1.Problem:
    """The first days of it."""
    digester = problem.digester
    kept = digester.feed["time"] <= DAYS
    feed = {name: column[kept] for name, column in digester.feed.items()}
    seen = digester.observations["time"] <= DAYS
    observations = {name: column[seen] for name, column in digester.observations.items()}
    digester = replace(digester, feed=feed, observations=observations)
    return replace(
        problem, digester=digester, simulator=replace(problem.simulator, digester=digester)
    )


def through_gcc(
    folder: Path, problem: adm1.Problem, x: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Outputs and sums of squares by the source that a GPU gets."""
    simulator = problem.simulator
    source, library = folder / "kernel.cpp", folder / "kernel.so"
    text = cuda.generate(simulator.variant, {}, simulator.interpolate)
    source.write_text(PRELUDE + text + LOOP)
    command = ["g++", "-O0", "-fPIC", "-shared", "-w", str(source), "-o", str(library)]
    if not library.exists():
        subprocess.run(command, check=True)
    n, days, plan = len(x), len(problem.digester.days), simulator._plan
    observed = np.exp(problem.data.log_observed).reshape(days, 9)
    given = [x, plan.rows, plan.steps, observed, plan.limits]
    arrays = [np.ascontiguousarray(each) for each in given]
    outputs, squares, doubtful = np.full((n, days, 9), np.nan), np.empty(n), np.ones(n, np.int32)
    real = ctypes.POINTER(ctypes.c_double)

    def pointer(array: Any) -> Any:
        return array.ctypes.data_as(ctypes.c_void_p)

    table = (real * len(arrays))(*(array.ctypes.data_as(real) for array in arrays))
    ctypes.CDLL(str(library)).run(
        pointer(plan.same), n, len(plan.rows) - 1, days, table, pointer(plan.marks),
        ctypes.c_double(plan.tolerance), pointer(outputs), pointer(squares), pointer(doubtful),
    )  # fmt: skip
    assert not doubtful.any()
    return outputs, squares


@needs_compiler
@VARIANTS
def test_the_source_for_a_gpu_computes_what_the_processor_does(
    variant: Any, tmp_path: Path
) -> None:
    problem = short(adm1.example(variant))
    x = problem.parameters.sample(problem.prior, 5, 3)
    outputs, squares = through_gcc(tmp_path, problem, x)
    np.testing.assert_allclose(outputs, problem.simulator.outputs(x), rtol=1e-10)
    risk = Loss().of_mean_square(squares / problem.data.measured)
    assert (risk < 3.0).sum() > 3
    np.testing.assert_allclose(risk, problem.risk(x), rtol=1e-10)
    # One step an interval, which begins in another way.
    coarse = replace(problem, simulator=replace(problem.simulator, steps_a_day=4))
    outputs, _ = through_gcc(tmp_path, coarse, x)
    np.testing.assert_allclose(outputs, coarse.simulator.outputs(x), rtol=1e-10)


@needs_compiler
def test_an_interpolated_feed_is_the_same_too(tmp_path: Path) -> None:
    problem = short(adm1.example("dae"))
    problem = replace(problem, simulator=replace(problem.simulator, interpolate=True))
    x = problem.parameters.sample(problem.prior, 3, 3)
    outputs, _ = through_gcc(tmp_path, problem, x)
    np.testing.assert_allclose(outputs, problem.simulator.outputs(x), rtol=1e-10)


@needs_compiler
def test_the_processor_is_not_asked_where_nothing_is_doubtful(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = short(adm1.example("dae"))
    x = problem.parameters.sample(problem.prior, 3, 3)
    outputs, squares = through_gcc(tmp_path, problem, x)

    def no_numba(*words: object) -> None:
        raise ImportError("Numba was imported")

    # In place of a GPU, the results of its source through the compiler of the processor.
    class Device:
        def __init__(self, *words: object):
            pass

        def run(self, *words: object, keep_outputs: bool) -> tuple[FloatArray, FloatArray, Any]:
            return outputs.copy(), squares, np.zeros(len(x), np.int32)

    monkeypatch.setattr(cuda, "load", lambda *words: None)
    monkeypatch.setattr(cuda, "Device", Device)
    monkeypatch.setattr(kernel, "load", no_numba)
    gpu = replace(problem, simulator=replace(problem.simulator, device="cuda"))
    risk = Loss().of_mean_square(squares / problem.data.measured)
    np.testing.assert_array_equal(gpu.risk(x), risk)
    np.testing.assert_array_equal(gpu.simulator.outputs(x), outputs)


def test_doubtful_rows_without_numba_get_shorter_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row k of a device that needs 4^k times the steps: the last one, which needs more, fails."""
    problem = short(adm1.example("split"))
    problem = replace(problem, simulator=replace(problem.simulator, steps_a_day=4, device="cuda"))
    steps: list[int] = []

    class Device:
        def __init__(self, _: object, plan: Any):
            self.steps = len(plan.steps)

        def run(
            self, x: FloatArray, seen: FloatArray, *, keep_outputs: bool
        ) -> tuple[FloatArray, FloatArray, Any]:
            steps.append(self.steps)
            level, days = len(steps) - 1, len(problem.digester.days)
            squares = np.full(len(x), problem.data.measured * 0.25**level)
            outputs = np.full((len(x), days, 9), float(level))
            return outputs, squares, np.arange(len(x)) > 0

    monkeypatch.setattr(cuda, "load", lambda *words: None)
    monkeypatch.setattr(cuda, "Device", Device)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    x = problem.parameters.from_latent(np.zeros((4, 30)))
    with pytest.warns(adm1.ShorterStepsWarning, match="without Numba"):
        np.testing.assert_allclose(problem.risk(x), [1.0, 0.5, 0.25, 3.0])
    assert 2 * steps[0] < steps[1]
    assert 2 * steps[1] < steps[2]
    steps.clear()
    found = problem.simulator.outputs(x)[:, 0, 0]
    np.testing.assert_array_equal(found, [0.0, 1.0, 2.0, np.nan])


def device() -> bool:
    try:
        cuda._cupy()
    except (ImportError, adm1.NoDeviceError):
        return False
    return True


@pytest.mark.skipif(not device(), reason="there is no GPU, or no CuPy")
@VARIANTS
def test_a_gpu_computes_what_the_processor_does(variant: Any) -> None:
    processor, gpu = adm1.example(variant), adm1.example(variant, device="cuda")
    x = processor.parameters.sample(processor.prior, 300, 0)
    np.testing.assert_allclose(gpu.risk(x), processor.risk(x), rtol=1e-10)
    np.testing.assert_allclose(gpu.simulate(x), processor.simulate(x), rtol=1e-10)
    np.testing.assert_array_equal(gpu.risk(x[100:103]), gpu.risk(x)[100:103])


@pytest.mark.skipif(device(), reason="there is a GPU")
def test_without_a_gpu_the_error_says_so() -> None:
    with pytest.raises((ImportError, adm1.NoDeviceError), match=r"needs (CuPy|a GPU)"):
        adm1.example(device="cuda")


def test_without_cupy_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['cupy'] = None; from supac.simulators import adm1; "
        "adm1.example(device='cuda')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'supac[cuda]'" in done.stderr


def test_devices_are_named() -> None:
    with pytest.raises(ValueError, match='device must be "cpu" or "cuda"'):
        adm1.example(device="gpu")  # type: ignore[arg-type]
