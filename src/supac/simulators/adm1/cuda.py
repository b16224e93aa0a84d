"""The model on a GPU: CUDA C from the same routines, compiled and run through CuPy."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from supac.simulators.adm1 import model
from supac.simulators.adm1.digester import FloatArray
from supac.simulators.adm1.equations import COEFFICIENTS, CONSTANTS, KINETICS
from supac.simulators.adm1.plan import Plan
from supac.simulators.adm1.routines import Routines

THREADS = 64
"""Of a block."""
ROWS = 65_536
"""Simulations of one launch; fewer where all their outputs are asked for."""
_SHARED = {
    "split": ("kinetics", "ahead", "factors", "rates"), "dae": ("kinetics", "ahead", "factors"),
}  # fmt: skip
"""Quantities in shared memory, where they are read often. The others are in registers."""

_FILES = ("arithmetic.cu", "simulate.cu")
_FUNCTIONS = {
    "math.log(": "logarithm(", "math.exp(": "exponential(", "math.copysign(": "copysign(",
    "abs(": "fabs(",
}  # fmt: skip


class NoDeviceError(RuntimeError):
    """No GPU can be used for `device="cuda"`."""


class Cuda:
    """Notation of the routines in CUDA C: W is an array of the thread, S in shared memory."""

    def at(self, place: int) -> str:
        """Return the expression of a quantity."""
        return f"W[{place}]"

    def choose(self, condition: str, value: str, other: str) -> str:
        """Return a conditional expression."""
        return f"({condition}) ? {value} : {other}"

    def function(
        self, name: str, arguments: str, shared: Mapping[str, str], statements: Sequence[str]
    ) -> list[str]:
        """Return a function that is copied to where it is called."""
        declared: set[str] = set()
        body = []
        for line in [*(f"{symbol} = {at}" for symbol, at in shared.items()), *statements]:
            target, formula = line.split(" = ", 1)
            new = target.isidentifier() and target not in declared
            declared.add(target)
            for name_here, name_there in _FUNCTIONS.items():
                formula = formula.replace(name_here, name_there)
            formula = re.sub(r"1\.0 / (\w+)", r"reciprocal(\1)", formula)
            formula = re.sub(r"excess / slope", "excess * reciprocal(slope)", formula)
            body.append(f"    {'double ' if new else ''}{target} = {formula};")
        kinds = dict.fromkeys(("constants", "nu", "inflow"), "const double*")
        kinds |= dict.fromkeys(("W", "S", "F"), "double*")
        memory = "W, S, F" if arguments.endswith("D, g") else "W, S"
        given = arguments.replace("W", memory, 1).split(", ")
        types = [f"{kinds.get(each, 'double')} {each}" for each in given]
        heading = f"__device__ __forceinline__ void {name}({', '.join(types)})"
        return ["", heading, "{", *body, "}"]


def generate(variant: str, extra: Mapping[str, str], interpolated: bool) -> str:
    """Return the source of the kernel."""
    routines = Routines(variant, extra, Cuda())
    states = routines.states
    outputs = [states.index(name) for name in ("S_va", "S_bu", "S_pro", "S_ac", "S_IN")]
    concentration = ", ".join(str(int(name[:2] in ("S_", "X_"))) for name in states)
    lengths = {name: routines.lengths[name] for name in _SHARED[variant]}
    shared = dict(zip(lengths, accumulate(lengths.values(), initial=0), strict=False))
    definitions = {
        "N": len(states), "SIZE": routines.size, "DAE": int(routines.dae), "THREADS": THREADS,
        "SHARED": sum(lengths.values()),
        "INTERPOLATED": int(interpolated), "FED": 1 + interpolated,
        "PARAMETERS": len(model.CALIBRATED),
        "CONSTANTS": len(CONSTANTS), "COEFFICIENTS": len(COEFFICIENTS),
        **{f"AT_{name}": at for name, at in routines.offsets.items()},
        **{f"IN_{name}": at for name, at in shared.items()},
        **{f"STATE_OUTPUT_{k}": at for k, at in enumerate(outputs)},
    }  # fmt: skip
    moved = {
        routines.offsets[name] + k: shared[name] + k
        for name, length in lengths.items()
        for k in range(length)
    }

    def place(found: re.Match[str]) -> str:
        at = int(found[1])
        array = "F" if at - routines.offsets["factors"] in range(len(routines.factors)) else "S"
        return f"{array}[{moved[at]} * THREADS]" if at in moved else found[0]

    lines = [f"#define {name} {value}" for name, value in definitions.items()]
    lines.append(f"__device__ const int CONCENTRATION[N] = {{{concentration}}};")
    source = re.sub(r"W\[(\d+)\]", place, "\n".join(routines.source()))
    source = _read_kinetics(shared["kinetics"]) + source
    here = Path(__file__).parent
    arithmetic, driver = ((here / name).read_text("utf-8") for name in _FILES)
    return "\n".join([arithmetic, *lines, source, "", driver])


def _read_kinetics(at: int) -> str:
    """Return the function that does for one simulation what `simulator.kinetics_of` does."""
    x = {name: f"x[{k}]" for k, name in enumerate(model.CALIBRATED)}
    for group in ("aa", "ac", "h2"):
        width = x[f"pH_UL:LL_{group}"]
        x[f"pK_{group}"] = f"{x[f'pH_LL_{group}']} + 0.5 * {width}"
        x[f"n_{group}"] = f"3.0 / {width}"
    lines = [f"    S[{at + k} * THREADS] = {x[name]};" for k, name in enumerate(KINETICS)]
    heading = "__device__ __forceinline__ void read_kinetics(double* S, const double* x)"
    return "\n".join([heading, "{", *lines, "}", ""])


@cache
def load(variant: str, extra: tuple[tuple[str, str], ...], interpolated: bool) -> Any:
    """Return the compiled kernel; NoDeviceError without a GPU, ImportError without CuPy."""
    cupy = _cupy()
    source = generate(variant, dict(extra), interpolated)
    # NVRTC knows the standard constants only where they are included.
    prelude = "#define INFINITY __longlong_as_double(0x7ff0000000000000LL)\n"
    prelude += "#define NAN __longlong_as_double(0x7ff8000000000000LL)\n"
    kernel = cupy.RawKernel(prelude + source, "simulate", backend="nvrtc", options=("-std=c++17",))
    kernel.max_dynamic_shared_size_bytes = shared_bytes(source)
    return kernel


def shared_bytes(source: str) -> int:
    """Return the shared memory of a block."""
    names = r"#define (SHARED|N|FED) (\d+)"
    sizes = {name: int(value) for name, value in re.findall(names, source)}
    row = (sizes["FED"] + 2) * (sizes["N"] + 1) + 8
    return 8 * (sizes["SHARED"] * THREADS + THREADS // 32 * row)


def _cupy() -> Any:
    try:
        import cupy  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(
            "device=\"cuda\" needs CuPy: pip install 'supac[cuda]', or another CuPy for your CUDA"
        ) from error
    try:
        found = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise NoDeviceError(_NO_DEVICE.format(error)) from error
    if not found:
        raise NoDeviceError(_NO_DEVICE.format("no device was found"))
    return cupy


_NO_DEVICE = 'device="cuda" needs a GPU with CUDA ({}); leave device out to use the processor'


class Device:
    """A kernel and the data of a digester on the GPU."""

    def __init__(self, kernel: Any, planned: Plan):
        cupy = _cupy()
        self.kernel, self.plan = kernel, planned
        tables = (planned.rows, planned.steps, planned.marks)
        self._tables = [cupy.asarray(each) for each in tables]
        self._limits = cupy.asarray(planned.limits)

    def run(
        self, x: FloatArray, observed: FloatArray, *, keep_outputs: bool
    ) -> tuple[FloatArray, FloatArray, Any]:
        """Simulate rows: outputs (n, days, 9), or none, sums of squares (n,), doubtful (n,).

        Doubtful are 1 for rows that need the processor, 2 for rows that are no parameters.
        `observed` (days, 9): measurements, NaN where there is none.
        """
        cupy = _cupy()
        days, n, rows = len(observed), len(x), ROWS // 4 if keep_outputs else ROWS
        seen = cupy.asarray(np.ascontiguousarray(observed))
        outputs = np.full((n if keep_outputs else 0, days, 9), np.nan)
        squares, doubtful = np.empty(n), np.empty(n, np.int32)
        for first in range(0, n, rows):
            part = slice(first, first + rows)
            given = cupy.asarray(np.ascontiguousarray(x[part]))
            count = len(given)
            kept: Any = cupy.full((count, days, 9), np.nan) if keep_outputs else np.intp(0)
            sums, doubts = cupy.empty(count), cupy.empty(count, np.int32)
            sizes = (np.int32(count), np.int32(len(self.plan.rows) - 1), np.int32(days))
            tables = (given, *self._tables, seen, self._limits, np.float64(self.plan.tolerance))
            arguments = (self.plan.same, *sizes, *tables, kept, sums, doubts)
            memory = self.kernel.max_dynamic_shared_size_bytes
            blocks = -(-count // THREADS)
            self.kernel((blocks,), (THREADS,), arguments, shared_mem=memory)
            squares[part], doubtful[part] = sums.get(), doubts.get()
            if keep_outputs:
                outputs[part] = kept.get()
        return outputs, squares, doubtful
