"""An instance of an FMU that makes one run after the other."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import fmpy
import numpy as np
from fmpy.fmi1 import FMICallException

from supac.simulators.fmi.co_simulation import co_simulate
from supac.simulators.fmi.description import FMUError
from supac.simulators.fmi.experiment import Experiment
from supac.simulators.fmi.model_exchange import Integrator
from supac.simulators.fmi.signals import FloatArray
from supac.simulators.fmi.variable import Variable

_WARNING, _FATAL = 1, 4  # statuses of FMI calls and messages
_TOLD = 800  # characters of the model's own messages that are kept
_TYPES = {"co-simulation": "CoSimulation", "model-exchange": "ModelExchange"}
_CONVERSIONS = {"Real": float, "Float64": float, "Float32": float, "Boolean": bool, "String": str}

Values = Iterable[tuple[Variable, Any]]
Arrays = dict[tuple[str, int], list[Any]]
"""Present values of arrays, by type and reference: they are set as a whole."""


class Instance:
    """One instance of an extracted FMU, reset between runs or made anew; freed when it is gone."""

    def __init__(self, folder: Path, experiment: Experiment, *, reset: bool):
        self._folder, self._experiment, self._resets = folder, experiment, reset
        self._model = fmpy.read_model_description(folder, validate=False)
        self._messages: deque[str] = deque(maxlen=5)
        self._arrays: Arrays = {}
        self._fmu: Any = None
        self._freed: weakref.finalize[..., Instance] | None = None
        self._integrator: Integrator | None = None

    def run(self, values: Values) -> FloatArray:
        """Set the values, simulate and return the recorded outputs: (samples, outputs)."""
        self._messages.clear()
        reached = self._experiment.start
        rows: list[list[float]] = []
        try:
            self._open()
            self._initialise(values)
            if self._experiment.records_start:
                rows.append(self._outputs())
            for time, recorded in self._steps():
                reached = time
                if recorded:
                    rows.append(self._outputs())
            self._fmu.terminate()
        except Exception as error:
            self.close(fatal=getattr(error, "status", 0) == _FATAL)
            said = " ".join("; ".join(self._messages).split())[-_TOLD:]
            words = f"{error}" + (f" The model says: {said}" if said else "")
            raise FMUError(f"after time {reached:g}: {words}") from error
        return np.array(rows)

    def _open(self) -> None:
        """Reset the instance; or make one if there is none, or it cannot be reset."""
        if self._fmu is not None and self._resets:
            try:
                self._fmu.reset()
            except FMICallException as error:
                self.close(fatal=error.status == _FATAL)
            else:
                return
        self.close()
        place = Path.cwd()
        try:
            self._fmu = fmpy.instantiate_fmu(
                str(self._folder),
                self._model,
                _TYPES[self._experiment.interface],
                logger=_logger(self._messages),
                debug_logging=True,
            )
        finally:
            os.chdir(place)  # FMPy changes it, and an error leaves it changed
        self._freed = weakref.finalize(self, free_instance, self._fmu)

    def _initialise(self, values: Values) -> None:
        fmu, experiment = self._fmu, self._experiment
        times = {
            "tolerance": experiment.tolerance,
            "startTime": experiment.start,
            "stopTime": experiment.stop,
        }
        if self._model.fmiMajorVersion == 2:
            fmu.setupExperiment(**times)
            times = {}
        self._arrays = {}
        given = list(values)
        sizes = [each for each in given if each[0].causality == "structuralParameter"]
        if sizes:
            fmu.enterConfigurationMode()
            set_values(fmu, sizes, self._arrays)
            fmu.exitConfigurationMode()
        set_values(fmu, [each for each in given if each not in sizes], self._arrays)
        fmu.enterInitializationMode(**times)
        self._apply(experiment.start, after=True)
        fmu.exitInitializationMode()

    def _apply(self, time: float, *, after: bool) -> None:
        """Set the inputs as they are at this time, before or after a jump."""
        inputs = self._experiment.inputs
        if inputs is not None:
            values = zip(inputs.variables, inputs.at(time, after=after), strict=True)
            set_values(self._fmu, values, self._arrays)

    def _steps(self) -> Iterable[tuple[float, bool]]:
        if self._experiment.interface == "co-simulation":
            return co_simulate(self._fmu, self._experiment, self._apply)
        if self._integrator is None:
            self._integrator = Integrator(self._fmu, self._model, self._experiment, self._apply)
        return self._integrator.steps()

    def _outputs(self) -> list[float]:
        outputs = self._experiment.outputs
        found: dict[tuple[str, int], Any] = {}
        for kind, references in _by_type(each for each in outputs if each.array is None).items():
            values = getattr(self._fmu, f"get{kind}")(references)
            found.update(zip([(kind, each) for each in references], values, strict=True))
        arrays: Arrays = {}
        for each in outputs:
            key = each.type, each.reference
            if each.array is not None and key not in arrays:
                arrays[key] = getattr(self._fmu, f"get{key[0]}")([key[1]], each.array.size)
        return [
            float(found[key] if each.array is None else arrays[key][each.place])
            for each in outputs
            for key in [(each.type, each.reference)]
        ]

    def close(self, *, fatal: bool = False) -> None:
        """Free the instance; after a fatal error it must not be called again, not even for that.

        What a library holds beside it is released even then: that calls the library, not the
        instance.
        """
        fmu, self._fmu, self._integrator = self._fmu, None, None
        if self._freed is not None and self._freed.detach() is not None:
            free_instance(fmu, fatal)


def _logger(messages: deque[str]) -> Callable[..., None]:
    """Return a function that keeps warnings and errors of a model.

    It does not know the `Instance`, which could not be collected if its model did.
    """

    def log(*arguments: Any) -> None:
        status, _, message = arguments[-3:]
        if status >= _WARNING and message:
            messages.append(message.decode(errors="replace").strip())

    return log


def free_instance(fmu: Any, fatal: bool = False) -> None:
    """Free an instance and its library."""
    # Libraries of pythonfmu stay in the process, and let go of Python when it ends, after their own
    # memory of it is freed: some such processes abort. Done now, there is nothing left to do then.
    release = getattr(fmu.dll, "finalizePythonInterpreter", None)
    with contextlib.suppress(Exception):
        if release is not None:
            release()
        if not fatal:
            fmu.freeInstance()


def set_values(fmu: Any, values: Values, arrays: Arrays) -> None:
    """Set variables, scalars of one type in one call, and arrays with their present values."""
    scalars: list[tuple[Variable, Any]] = []
    changed: dict[tuple[str, int], None] = {}
    # Whole arrays first: an element that is set too is not lost.
    for each, value in sorted(values, key=lambda pair: not pair[0].is_array):
        key = each.type, each.reference
        if each.is_array:
            arrays[key] = list(value)
        elif each.array is not None:
            arrays.setdefault(key, _starts(each.array))[each.place] = value
        else:
            scalars.append((each, value))
            continue
        changed[key] = None
    by_reference = {(each.type, each.reference): value for each, value in scalars}
    for kind, references in _by_type(each for each, _ in scalars).items():
        convert = _CONVERSIONS.get(kind, int)
        some = [convert(by_reference[kind, each]) for each in references]
        getattr(fmu, f"set{kind}")(references, some)
    for kind, reference in changed:
        convert = _CONVERSIONS.get(kind, int)
        getattr(fmu, f"set{kind}")([reference], [convert(each) for each in arrays[kind, reference]])


def _starts(array: Variable) -> list[Any]:
    """Return the start values of an array."""
    texts = (array.start_at(place) for place in range(array.size))
    return [float({"true": "1", "false": "0"}.get(each, each) or "0") for each in texts]


def _by_type(variables: Iterable[Variable]) -> dict[str, list[int]]:
    """Return the references of variables by their type."""
    found: dict[str, list[int]] = {}
    for each in variables:
        found.setdefault(each.type, []).append(each.reference)
    return found
