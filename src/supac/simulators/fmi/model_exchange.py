"""Integration of a model-exchange FMU with CVode, and its events."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from ctypes import c_double, c_int, c_void_p
from types import SimpleNamespace
from typing import Any

from fmpy.fmi1 import FMICallException
from fmpy.sundials import CVodeSolver
from fmpy.sundials.libraries import sundials_core, sundials_cvode
from fmpy.sundials.sundials_context import SUNContext_PushErrHandler as _push_handler

from supac.simulators.fmi.description import FMUError
from supac.simulators.fmi.experiment import Experiment

_TOLERANCE = 1e-6  # relative, if neither the user nor the model gives one
_STEPS = 100_000  # internal steps between two points
_EVENTS = 100  # iterations of one event
_DISCARD = 2  # status of a call that may succeed with a smaller step
_RETRY, _STOP = 1, -1  # answers to CVode

_set_stop_time = sundials_cvode.CVodeSetStopTime
_set_stop_time.argtypes, _set_stop_time.restype = [c_void_p, c_double], c_int
_clear_handlers = sundials_core.SUNContext_ClearErrHandlers
_clear_handlers.argtypes, _clear_handlers.restype = [c_void_p], c_int


class _Solver(CVodeSolver):  # type: ignore[misc]
    """CVode that raises errors of the model's functions; FMPy's own solver ignores them."""

    error: FMICallException | None = None

    def __init__(self, **options: Any):
        super().__init__(**options)
        _clear_handlers(self.sunctx)  # one of them prints; the one that keeps the message is next
        _push_handler(self.sunctx, self.ehfun_, None)

    def f(self, *arguments: Any) -> int:
        return self._tried(super().f, *arguments)

    def g(self, *arguments: Any) -> int:
        return self._tried(super().g, *arguments)

    def _tried(self, function: Callable[..., int], *arguments: Any) -> int:
        try:
            return function(*arguments)
        except FMICallException as error:
            self.error = error
            return _RETRY if error.status == _DISCARD else _STOP

    def advance(self, time: float, target: float, limit: float) -> tuple[bool, float]:
        """Integrate to the target, or to the first state event, without a look beyond the limit.

        Return whether there is an event, and the time reached.
        """
        self.error = None
        _set_stop_time(self.cvode_mem, limit)
        try:
            _, roots, reached = self.step(time, target)
        except RuntimeError as error:
            raise self.error or error from error
        return bool(roots.any()), reached


class Integrator:
    """The solver of one instance, which runs the experiment again after each reset."""

    def __init__(
        self, fmu: Any, model: Any, experiment: Experiment, apply_inputs: Callable[..., None]
    ):
        self._fmu, self._model, self._experiment = fmu, model, experiment
        self._apply_inputs = apply_inputs
        jumps = () if experiment.inputs is None else experiment.inputs.jumps()
        self._jumps = sorted(each for each in jumps if experiment.start < each <= experiment.stop)
        self._solver: _Solver | None = None
        self._since, self._next_event = experiment.start, math.inf

    def steps(self) -> Iterator[tuple[float, bool]]:
        """Integrate from point to point; yield each with True if outputs are recorded there."""
        time = self._experiment.start
        self._update_discrete_states(time)
        points, recorded = self._experiment.points.tolist(), self._experiment.recorded
        for point, is_recorded in zip(points, recorded, strict=True):
            while time < point:
                time, has_event = self._advance(time, min(point, self._next_event))
                if time == point:
                    yield time, bool(is_recorded)
                if has_event:
                    self._fmu.enterEventMode()
                    self._apply_inputs(time, after=True)
                    self._update_discrete_states(time)

    def _advance(self, time: float, target: float) -> tuple[float, bool]:
        """Return the time reached, and whether there is an event of any kind."""
        jump = next((each for each in self._jumps if each > time), math.inf)
        limit = min(jump, self._next_event, self._experiment.stop)
        has_event, time = self._solver_of_run.advance(time, target, limit)
        self._move(time)
        if self._model.modelExchange.needsCompletedIntegratorStep:
            wanted, terminated = self._fmu.completedIntegratorStep()
            _check(terminated, time)
            has_event |= bool(wanted)
        return time, has_event or time in (jump, self._next_event)

    def _update_discrete_states(self, time: float) -> None:
        """Iterate an event to its end, and begin to integrate from there."""
        is_fmi2 = self._model.fmiMajorVersion == 2
        update = self._fmu.newDiscreteStates if is_fmi2 else self._fmu.updateDiscreteStates
        for _ in range(_EVENTS):
            wanted, terminated, _, _, defined, next_event = update()
            _check(terminated, time)
            if not wanted:
                break
        else:
            raise FMUError(f"the event at time {time:g} has no end.")
        self._next_event = next_event if defined else math.inf
        self._fmu.enterContinuousTimeMode()
        self._since = time
        if self._solver is None:
            self._solver = self._new_solver()
        else:
            self._solver.reset(time)

    @property
    def _solver_of_run(self) -> _Solver:
        assert self._solver is not None
        return self._solver

    def _new_solver(self) -> _Solver:
        fmu, experiment = self._fmu, self._experiment
        is_fmi2 = self._model.fmiMajorVersion == 2
        return _Solver(
            nx=self._model.numberOfContinuousStates,
            nz=self._model.numberOfEventIndicators,
            get_x=fmu.getContinuousStates,
            set_x=fmu.setContinuousStates,
            get_dx=fmu.getDerivatives if is_fmi2 else fmu.getContinuousStateDerivatives,
            get_z=fmu.getEventIndicators,
            get_nominals=fmu.getNominalsOfContinuousStates,
            set_time=self._move,
            input=SimpleNamespace(apply=lambda time: None),  # `set_time` sets them
            startTime=experiment.start,
            maxStep=experiment.longest_step,
            relativeTolerance=experiment.tolerance or _TOLERANCE,
            maxNumSteps=_STEPS,
        )

    def _move(self, time: float) -> None:
        """Set the time and the inputs: at the last event those after it."""
        self._fmu.setTime(time)
        self._apply_inputs(time, after=time <= self._since)


def _check(terminated: bool, time: float) -> None:
    if terminated:
        raise FMUError(f"the model ended the simulation at time {time:g}.")
