"""The ADM1 simulator: calibrated parameters → daily outputs of one digester."""

from __future__ import annotations

import importlib.util
import math
import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from supac.simulators.adm1 import cuda, kernel, model
from supac.simulators.adm1.digester import OUTPUTS, Digester, FloatArray, whole_days
from supac.simulators.adm1.equations import COEFFICIENTS, CONSTANTS, KINETICS, states_of
from supac.simulators.adm1.expressions import constant
from supac.simulators.adm1.plan import Plan, plan

GAS_CONSTANT = 0.083145  # bar m³/(kmol K)
BASE_TEMPERATURE = 298.15
_TRANSIENT = 2.0  # days with shorter steps
_RTOL = 1e-4  # of the adaptive steps of a row for which fixed ones are too long
_MOST_STEPS = 250  # adaptive steps with that, for each interval and each quarter of a day
_SHORTER = 2  # times that steps are quartered
_LOOSE = 1e-7  # residual of the balances of S_H and S_h2 after an interval of fixed steps


class StepLimitWarning(UserWarning):
    """Runs with adaptive steps were stopped after too many of them, and count as failed."""


class ShorterStepsWarning(UserWarning):
    """A GPU without Numba made runs that the processor would have made with adaptive steps."""


@dataclass(frozen=True, eq=False, repr=False)
class Simulator:
    """ADM1 for one digester.

    `variant`: "dae" solves pH and S_h2 together with the other states; "split" holds them during
    each feed interval and solves for them after it, as the paper's code does. `fixed`: the values
    that are not calibrated, such as `model.BSM2` or `model.PAPER`. `interpolate`: flow and loads
    (flow times concentration) change linearly between rows instead of stepwise. `normalised`: gas
    flows at atmospheric pressure. `steps_a_day`: number of fixed steps, more in the first days.
    `device`: "cpu", or "cuda" for a GPU; adaptive steps and trajectories are the processor's.
    """

    digester: Digester
    variant: Literal["dae", "split"] = "dae"
    fixed: Mapping[str, float] = field(default_factory=lambda: model.PAPER)
    interpolate: bool = False
    normalised: bool = False
    steps_a_day: int = 12
    threads: int = 1
    device: Literal["cpu", "cuda"] = "cpu"
    watch: tuple[tuple[str, str], ...] = ()
    """Additional states, (name, formula of the rate of change), to record flows."""
    _shorter: int = 0
    """Times that the steps of doubtful rows were quartered, on a GPU without Numba."""

    def __post_init__(self) -> None:
        if self.variant not in ("dae", "split"):
            raise ValueError(f'variant must be "dae" or "split", not {self.variant!r}')
        if not isinstance(self.digester, Digester):
            raise TypeError(
                f"digester must be a Digester, such as Digester.read(folder), not {self.digester!r}"
            )
        if not isinstance(self.threads, int) or self.threads < 1:
            raise ValueError(f"threads must be a whole number, 1 or more, not {self.threads!r}")
        if self.device not in ("cpu", "cuda"):
            raise ValueError(f'device must be "cpu" or "cuda", not {self.device!r}')
        if not self.steps_a_day >= 1:
            raise ValueError(f"steps_a_day must be 1 or more, not {self.steps_a_day!r}")
        _check_fixed(self.fixed)
        if self.interpolate and self.variant == "split":
            raise ValueError('the variant "split" holds the feed; interpolate it with "dae"')

    def __repr__(self) -> str:
        return f"Simulator({self.digester!r}, {self.variant!r})"

    def outputs(self, x: FloatArray, rtol: float = 0.0) -> FloatArray:
        """Simulate the nine daily outputs for calibrated parameters: (n, 30) → (n, days, 9).

        NaN from the day on which a run fails: gas stops, a concentration becomes negative, or, in
        the variant "split" as in the paper, the effluent has more volatile solids than the feed of
        that day. With rtol > 0 the steps are adaptive; a run that takes absurdly many of them fails
        with a `StepLimitWarning`.
        """
        if self.device == "cuda" and rtol == 0.0:
            nothing = np.full((len(self.digester.days), len(OUTPUTS)), np.nan)
            outputs, _, doubtful = self._on_device(x, nothing, keep_outputs=True)
            if len(doubtful):
                again = self.careful
                outputs[doubtful] = np.nan if again is None else again.outputs(x[doubtful])
            return outputs
        return self._run(x, rtol, trace=False)[0]

    def squares(self, x: FloatArray, observed: FloatArray) -> tuple[FloatArray, Any]:
        """Sum the squared residuals of each run on the GPU: (n,), and the doubtful rows.

        NaN if failed; rows that need shorter steps are doubtful, and left to the processor.
        """
        _, squares, doubtful = self._on_device(x, observed, keep_outputs=False)
        return squares, doubtful

    @cached_property
    def careful(self) -> Simulator | None:
        """Return the simulator of rows that are doubtful on the GPU.

        That is the processor, with adaptive steps. Without Numba it is the GPU with shorter ones,
        which a warning says once, and then with still shorter ones; what is negative even then
        fails: None.
        """
        if importlib.util.find_spec("numba") is not None:
            return replace(self, device="cpu")
        if not self._shorter:
            warnings.warn(
                "some runs need shorter steps, which the processor would adapt to each of them; "
                "without Numba (pip install 'supac[adm1]') the GPU makes them, all equally short",
                ShorterStepsWarning,
                stacklevel=3,
            )
        if self._shorter == _SHORTER:
            return None
        return replace(self, steps_a_day=4 * self.steps_a_day, _shorter=self._shorter + 1)

    def _on_device(
        self, x: FloatArray, observed: FloatArray, *, keep_outputs: bool
    ) -> tuple[FloatArray, FloatArray, Any]:
        values = _shaped(x)
        outputs, squares, doubtful = self._device.run(values, observed, keep_outputs=keep_outputs)
        if (doubtful > 1).any():
            _checked(values)
        return outputs, squares, np.flatnonzero(doubtful)

    @cached_property
    def _device(self) -> cuda.Device:
        """Return the kernel with the data of the digester, on the GPU."""
        return cuda.Device(cuda.load(self.variant, self.watch, self.interpolate), self._plan)

    @cached_property
    def _plan(self) -> Plan:
        return plan(
            self._data, 1.0 / self.steps_a_day, _TRANSIENT, _LOOSE,
            dae=self.variant == "dae", interpolated=self.interpolate,
        )  # fmt: skip

    def trajectories(self, x: FloatArray, rtol: float = 0.0) -> dict[str, FloatArray]:
        """Simulate all 35 states, pH and q_gas at the `time` of each feed row: name → (n, rows).

        NaN from the day after a failure on.
        """
        _, traces = self._run(x, rtol, trace=True)
        solved = ("S_H", "S_h2", "S_cation", "S_anion", "q_gas")  # states themselves in "dae"
        states = {n: traces[:, :, len(self._states) + k] for k, n in enumerate(solved)}
        states |= {name: traces[:, :, k] for k, name in enumerate(self._states)}
        with np.errstate(invalid="ignore"):
            pH = -np.log10(states["S_H"])
        time = self.digester.feed["time"]
        return {"time": time, **states, **self._ions(states), "pH": pH}

    def _ions(self, states: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
        """Compute the six ions in equilibrium with S_H."""
        constants = dict(zip(CONSTANTS, self._constants(), strict=True))
        pairs = {
            f"S_{acid}_ion": (f"S_{acid}", f"K_a_{acid}") for acid in ("va", "bu", "pro", "ac")
        }
        pairs |= {"S_hco3_ion": ("S_IC", "K_a_co2"), "S_nh3": ("S_IN", "K_a_IN")}
        return {
            ion: constants[acidity] * states[whole] / (constants[acidity] + states["S_H"])
            for ion, (whole, acidity) in pairs.items()
        }

    def load(self) -> None:
        """Load the model before the first run; ImportError without Numba, or CuPy on a GPU."""
        if self.device == "cuda":
            cuda.load(self.variant, self.watch, self.interpolate)
        else:
            assert self._module

    @cached_property
    def _states(self) -> tuple[str, ...]:
        differential, algebraic = states_of(self.variant, dict(self.watch))
        return (*differential, *algebraic)

    @cached_property
    def _module(self) -> Any:
        return kernel.load(self.variant, self.watch)

    def _run(self, x: FloatArray, rtol: float, trace: bool) -> tuple[FloatArray, FloatArray]:
        if not rtol >= 0.0:
            raise ValueError(f"rtol must not be negative, but is {rtol!r}")
        kinetics = kinetics_of(_checked(x))
        with kernel.announced(self._module, self.variant):
            outputs, traces, lowest = self._batch(kinetics, rtol, trace)
        # A row with negative concentrations needs shorter steps: repeat it with adaptive ones.
        doubtful = np.flatnonzero(~(lowest >= 0.0))
        if rtol == 0.0 and len(doubtful):
            outputs[doubtful], again, _ = self._batch(kinetics[doubtful], _RTOL, trace)
            if trace:
                traces[doubtful] = again
        return outputs, traces

    def _batch(
        self, kinetics: FloatArray, rtol: float, trace: bool
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Simulate rows in groups of LANES, or one by one with adaptive steps."""
        lanes, n = self._module.LANES, len(kinetics)
        width = 1 if rtol > 0.0 else lanes
        groups = -(-n // width)
        rows = (len(self._data["day"]), len(self._states) + 5)
        outputs = np.full((groups, lanes, len(self.digester.days), len(OUTPUTS)), np.nan)
        traces = np.full((groups, lanes if trace else 0, *rows), np.nan)
        lowest = np.full((groups, lanes), np.inf)
        h_max = 1.0 / self.steps_a_day
        options = (
            h_max, _TRANSIENT, rtol, 1e-12 if rtol > 0.0 else _LOOSE, self._most_steps(rtol),
        )  # fmt: skip
        exhausted = np.zeros(groups, dtype=bool)

        def simulate(group: int) -> None:
            chosen = np.minimum(group * width + np.arange(lanes) % width, n - 1)
            results = outputs[group], traces[group], lowest[group]
            work = _aligned_zeros(self._module.SIZE)
            data = self._data.values()
            exhausted[group] = self._module.simulate(
                work, kinetics[chosen], *data, options, *results
            )

        if self.threads > 1:
            with ThreadPoolExecutor(self.threads) as pool:
                list(pool.map(simulate, range(groups)))
        else:
            for group in range(groups):
                simulate(group)
        if exhausted.any():
            warnings.warn(
                f"{exhausted.sum()} of {n} runs with adaptive steps took more than "
                f"{self._most_steps(rtol):,} of them, and count as failed: their parameters are "
                "far from those of a digester",
                StepLimitWarning,
                stacklevel=2,
            )
        used = (each[:, :width] for each in (outputs, traces, lowest))
        outputs, traces, lowest = (each.reshape(-1, *each.shape[2:])[:n] for each in used)
        return outputs, traces, lowest

    def _most_steps(self, rtol: float) -> int:
        """Return how many adaptive steps a run may take; their error is of third order."""
        finer = (_RTOL / min(rtol, _RTOL)) ** (1.0 / 3.0) if rtol > 0.0 else 1.0
        parts = len(self._data["day"]) + 4 * len(self.digester.days)
        return math.ceil(_MOST_STEPS * parts * finer)

    @cached_property
    def _data(self) -> dict[str, FloatArray]:
        """Return the kernel's arguments from the digester, in their order."""
        digester, states = self.digester, self._states
        feed, initial = digester.feed, digester.initial
        dilution = feed["Q"] / digester.V_liq
        inflow = np.zeros((len(dilution), len(states) + 1))
        for k, name in enumerate(states):
            inflow[:, k] = dilution * feed.get(name, 0.0)
        inflow[:, -1] = dilution
        before = np.concatenate([inflow[:1], inflow[:-1]]) if self.interpolate else inflow
        # The paper's code always takes the field pH as a pH.
        S_H = 10.0 ** -initial["pH"] if self.variant == "split" else digester.S_H
        start = {**dict.fromkeys(dict(self.watch), 0.0), **initial, "S_H": S_H}
        names = (*states, "S_H", "S_h2", "S_cation", "S_anion")
        return {
            "initial": np.array([start[name] for name in names]),
            "constants": self._constants(),
            "nu": np.array([constant(formula, self.fixed) for formula in COEFFICIENTS]),
            "times": np.concatenate([[initial["time"]], feed["time"]]),
            "feed": np.ascontiguousarray(np.stack([before, inflow], axis=1)),
            "washed": np.array([float(name in model.LIQUID) for name in states]),
            "ions_in": np.column_stack([feed["S_cation"], feed["S_anion"]]),
            "h2_in": dilution * feed["S_h2"],
            "day": self._completed_days(),
            "solids": self._solids(),
        }

    def _constants(self) -> FloatArray:
        """Compute the physical constants at the digester's temperature (van 't Hoff)."""
        digester = self.digester
        warming = 1.0 / BASE_TEMPERATURE - 1.0 / digester.T_ad
        values = {
            **self.fixed,
            "V_liq": digester.V_liq,
            "V_gas": digester.V_gas,
            "RT": GAS_CONSTANT * digester.T_op,
            "p_h2o": 0.0313 * math.exp(5290.0 * warming),
            **{
                name: base * math.exp(enthalpy / (100.0 * GAS_CONSTANT) * warming)
                for name, (base, enthalpy) in model.VAN_T_HOFF.items()
            },
            "normalised": float(self.normalised),
        }
        return np.array([values[name] for name in CONSTANTS])

    def _completed_days(self) -> Any:
        """Return the day that each feed interval completes, −1 for none."""
        ends = whole_days(self.digester.feed["time"])
        start = int(whole_days(self.digester.initial["time"]))
        return np.where(np.diff(ends, prepend=start) > 0, ends - start - 1, -1)

    def _solids(self) -> FloatArray:
        """Return the states' weights in volatile solids, and the solids of each day's feed."""
        feed, states, completes = self.digester.feed, self._states, self._completed_days()
        table = np.zeros((len(self.digester.days), len(states) + 1))
        table[:, :-1] = [
            1.0 / model.COD_OF_SOLIDS[n] if n in model.COD_OF_SOLIDS else 0.0 for n in states
        ]
        if self.variant == "dae":  # the paper's rule; a day of thin feed would break it
            table[:, -1] = np.inf
            return table
        fed = np.sum([feed[name] / cod for name, cod in model.COD_OF_SOLIDS.items()], axis=0)
        volume = feed["Q"] * np.diff(feed["time"], prepend=self.digester.initial["time"])
        first = 0
        for n in map(int, np.flatnonzero(completes >= 0)):
            rows = slice(first, n + 1)
            total = volume[rows].sum()
            # A day without feed sets no limit.
            table[completes[n], -1] = (volume[rows] @ fed[rows]) / total if total > 0.0 else np.inf
            first = n + 1
        return table


def _aligned_zeros(size: int) -> FloatArray:
    """Return zeros at an address divisible by 64, so that no vector lies in two cache lines."""
    memory = np.zeros(size + 8)
    start = -(memory.ctypes.data // 8) % 8
    return memory[start : start + size]


def _check_fixed(fixed: Mapping[str, float]) -> None:
    unknown, missing = set(fixed) - set(model.BSM2), set(model.BSM2) - set(fixed)
    calibrated = sorted(unknown & set(model.CALIBRATED))
    if calibrated:
        raise ValueError(f"fixed holds {', '.join(calibrated)}, which are calibrated: columns of x")
    if unknown or missing:
        raise ValueError(
            f"fixed must hold the names of adm1.BSM2: unknown {sorted(unknown)}, missing "
            f"{sorted(missing)}; change a copy, such as adm1.BSM2 | {{'Y_su': 0.12}}"
        )
    wrong = [name for name, value in fixed.items() if not value > 0.0]
    if wrong:
        raise ValueError(f"fixed values must be positive, but these are not: {', '.join(wrong)}")


def _shaped(x: FloatArray) -> FloatArray:
    values = np.asarray(x, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != len(model.CALIBRATED):
        raise ValueError(
            f"x must have a row of 30 parameters a simulation, not shape {values.shape}"
        )
    return values


def _checked(x: FloatArray) -> FloatArray:
    values = _shaped(x)
    fine = (values > 0.0) & np.isfinite(values)
    if not fine.all():
        row, column = np.argwhere(~fine)[0]
        name, value = model.CALIBRATED[column], values[row, column]
        raise ValueError(
            f"parameters of ADM1 must be positive and finite, but {name} = {value} in row {row}; "
            "convert latent points with problem.parameters.from_latent(u)"
        )
    return values


def kinetics_of(x: FloatArray) -> FloatArray:
    """Compute the kernel's parameters: pH limits become pK, their middle, and n = 3/(UL − LL)."""
    values = dict(zip(model.CALIBRATED, x.T, strict=True))
    for group in ("aa", "ac", "h2"):
        width = values[f"pH_UL:LL_{group}"]
        values[f"pK_{group}"] = values[f"pH_LL_{group}"] + 0.5 * width
        values[f"n_{group}"] = 3.0 / width
    return np.column_stack([values[name] for name in KINETICS])
