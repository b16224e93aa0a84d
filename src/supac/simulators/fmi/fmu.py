"""A Functional Mock-up Unit as a simulator."""

from __future__ import annotations

import copy
import os
import shutil
import tempfile
import threading
import weakref
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from supac.simulators.fmi.binding import Binding, Bound
from supac.simulators.fmi.description import (
    Description,
    FMUError,
    check_platform,
    read_description,
)
from supac.simulators.fmi.experiment import plan
from supac.simulators.fmi.signals import FloatArray
from supac.simulators.fmi.units import SECONDS

if TYPE_CHECKING:
    from supac.simulators.fmi.instance import Instance


class FMU:
    """Run a Functional Mock-up Unit (FMI 2 or 3) through FMPy: its outputs at given times.

    The outputs follow one after the other, each as long as `times`. There is one instance a
    process, reset between runs.

    Parameters
    ----------
    path
        The file, for this platform.
    outputs
        Names of the variables that are recorded.
    times
        When they are recorded, in any order.
    names
        Of the parameters, in their order; by default those of the `Parameters` that `minimize` is
        given.
    variables
        Name in the model of a parameter, output or input that is called otherwise here.
    units
        Units of parameters, outputs and inputs that are not those of the model, which must define
        them.
    values
        Start values of other variables, also of inputs that stay constant.
    inputs
        A column for each input and one `time`: linear in between, and a time that stands there
        twice is a jump; variables that are not continuous keep their values.
    interface
        "co-simulation" or "model-exchange"; by default the first of these that the model has.
    start
        Time at which a run begins; by default the model's.
    step
        Longest time between two communication points; by default the model's own, or such that
        there are at most 1000. If the model takes equal steps only, all times must be multiples.
    tolerance
        Relative tolerance of the solver; by default the model's, or 1e-6 for model exchange.
    time_unit
        Unit of `times`, `start`, `step` and the times of inputs: "ms", "s", "min", "h" or "d"; by
        default that of the model.
    reset
        False makes a new instance for each run, for a model whose reset leaves something behind.

    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        outputs: Sequence[str],
        times: npt.ArrayLike,
        *,
        names: Sequence[str] | None = None,
        variables: Mapping[str, str] | None = None,
        units: Mapping[str, str] | None = None,
        values: Mapping[str, Any] | None = None,
        inputs: Mapping[str, npt.ArrayLike] | None = None,
        interface: str | None = None,
        start: float | None = None,
        step: float | None = None,
        tolerance: float | None = None,
        time_unit: str | None = None,
        reset: bool = True,
    ):
        self.path, self.reset = Path(path).absolute(), reset
        model = read_description(self.path)
        check_platform(model)
        binding = Binding(model, dict(variables or {}), dict(units or {}))
        self._binding, chosen = binding.sized(values or {}), _interface(model, interface)
        if self._binding is not binding and chosen == "model-exchange":
            words = "sizes of arrays can be set for co-simulation only"
            raise FMUError(f'{words}: write interface = "co-simulation"', "interface")
        model = self._binding.model
        self._outputs = {name: self._binding.output(name) for name in outputs}
        self._values = [self._binding.value(*each) for each in (values or {}).items()]
        scale = _time_scale(model, time_unit)
        samples, self._rows = np.unique(_numbers(times) * scale, return_inverse=True)
        begin = model.start if start is None else start * scale
        if samples[0] < begin:
            words = f"{samples[0] / scale:g} is before the start of a run, {begin / scale:g}"
            raise FMUError(f"the time {words}: give an earlier start", "times")
        self._inputs = tuple(each for each in inputs or {} if each != "time")
        self.experiment = plan(
            model,
            chosen,
            begin,
            samples,
            None if step is None else step * scale,
            model.tolerance if tolerance is None else tolerance,
            tuple(variable for variable, _ in self._outputs.values()),
            None if inputs is None else self._binding.signals(inputs, scale),
        )
        self._parameters: list[Bound] | None = None
        if names is not None:
            self._bind(names)
        self._folder: _Extracted | Path | None = None
        self._instance: Instance | None = None
        self._lock = threading.Lock()  # an executor of the user may call from several threads
        self.__qualname__ = f"FMU({self.path.name})"

    @property
    def model(self) -> Description:
        """Return what the FMU declares."""
        return self._binding.model

    def named(self, names: Sequence[str]) -> FMU:
        """Return the FMU with these parameters, unless it has its own."""
        if self._parameters is not None:
            return self
        other = copy.copy(self)
        other._bind(names)
        other._instance, other._lock = None, threading.Lock()
        return other

    def _bind(self, names: Sequence[str]) -> None:
        """Find the parameters, and check that nothing is missing."""
        self._parameters = [self._binding.parameter(name) for name in names]
        inputs = () if self.experiment.inputs is None else self.experiment.inputs.variables
        given = [each for each, _ in self._parameters] + [each for each, _ in self._values]
        self._binding.check_complete([*given, *inputs], [*names, *self._outputs, *self._inputs])

    def set_up(self) -> None:
        """Extract the FMU, unless that was done."""
        if self._instance is None:
            from supac.simulators.fmi.instance import Instance  # noqa: PLC0415 - needs fmpy

            self._instance = Instance(self._extracted(), self.experiment, reset=self.reset)

    def _extracted(self) -> Path:
        """Return the folder with the files of the FMU, which are extracted once."""
        folder = self._folder.path if isinstance(self._folder, _Extracted) else self._folder
        if folder is None or not folder.is_dir():  # or this is another machine
            self._folder = _Extracted(self.path)
            folder = self._folder.path
        return folder

    def __call__(self, x: Any) -> FloatArray:
        """Return the outputs at one point (dim,), one after the other."""
        if self._parameters is None:
            raise FMUError("the FMU does not know the names of its parameters: give names=")
        if len(self._parameters) != len(x):
            raise FMUError(f"{len(self._parameters)} names were given for {len(x)} parameters")
        pairs = zip(self._parameters, x, strict=True)
        values = [(variable, unit.forward(float(value))) for (variable, unit), value in pairs]
        with self._lock:
            self.set_up()
            table = self._instance.run([*self._values, *values])  # type: ignore[union-attr]
        columns = zip(self._outputs.values(), table[self._rows].T, strict=True)
        return np.concatenate([unit.back(column) for (_, unit), column in columns])

    def check(self, x: Any) -> str:
        """Return an error message if a run gives other outputs after a reset; "" if it does not."""
        first, again = self(x), self(x)
        if np.allclose(first, again, rtol=1e-9, atol=0.0):
            return ""
        return (
            f"{self.path.name} gives other outputs when the same run is made again: its reset "
            "leaves something behind. Write reset = false for a new instance a run"
        )

    def __getstate__(self) -> dict[str, Any]:
        # Extracted here, not by each worker: these are killed, and would leave their files behind.
        return {**self.__dict__, "_instance": None, "_lock": None, "_folder": self._extracted()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())


class _Extracted:
    """A temporary folder with the files of an FMU, removed when nobody needs it."""

    def __init__(self, archive: Path):
        self.path = Path(tempfile.mkdtemp(prefix="supac-fmu-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
        with zipfile.ZipFile(archive) as file:
            file.extractall(self.path)


def _numbers(times: npt.ArrayLike) -> FloatArray:
    given = np.atleast_1d(np.asarray(times, dtype=np.float64))
    if given.ndim != 1 or not given.size or not np.isfinite(given).all():
        raise FMUError("times must be a vector of finite numbers", "times")
    return given


def _interface(model: Description, wanted: str | None) -> str:
    """Return the interface that is used; FMUError if the FMU does not have it."""
    if wanted is not None and wanted not in model.interfaces:
        words = f"{model.path.name} has no {wanted}, but {model.interfaces[0]}"
        raise FMUError(words, "interface")
    return wanted or model.interfaces[0]


def _time_scale(model: Description, unit: str | None) -> float:
    """Return how many of the model's units of time are one of these."""
    if unit is None or unit == model.time_unit:
        return 1.0
    for each in (unit, model.time_unit):
        if each not in SECONDS:
            words = f"{each} is not one of {', '.join(SECONDS)}; the model's time is in"
            raise FMUError(f"{words} {model.time_unit}", "time_unit")
    return SECONDS[unit] / SECONDS[model.time_unit]
