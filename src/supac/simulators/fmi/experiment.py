"""One run of an FMU: from when to when, in which steps, recording which outputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supac.simulators.fmi.description import Description, FMUError
from supac.simulators.fmi.signals import BoolArray, FloatArray, Signals
from supac.simulators.fmi.variable import Variable

_CLOSE = 1e-6  # of a step: points of the grid nearer than this to another point are left out
_MOST = 1_000  # steps of a run, unless the step is given
_INTEGRATION = 50  # the least number of steps of an integration


@dataclass(frozen=True, eq=False)
class Experiment:
    """One run of an FMU, in the model's own unit of time."""

    interface: str
    start: float
    points: FloatArray
    """Times after the start at which the model stops, in order."""
    recorded: BoolArray
    """True for points at which outputs are recorded."""
    records_start: bool
    tolerance: float | None
    outputs: tuple[Variable, ...]
    inputs: Signals | None = None

    @property
    def stop(self) -> float:
        """Return the last time."""
        return float(self.points[-1]) if len(self.points) else self.start

    @property
    def longest_step(self) -> float:
        """Return the longest distance between two points."""
        return float(np.diff(self.points, prepend=self.start).max(initial=0.0))


def plan(
    model: Description,
    interface: str,
    start: float,
    samples: FloatArray,
    step: float | None,
    tolerance: float | None,
    outputs: tuple[Variable, ...],
    inputs: Signals | None,
) -> Experiment:
    """Return the experiment that records outputs at the samples, which are sorted and distinct.

    The model stops at the samples, at the rows of its inputs, and after every step in between.
    """
    stop = float(samples[-1])
    if interface == "co-simulation" and model.has_equal_steps:
        points = _equal_steps(model, start, samples, step)
    else:
        if inputs is not None:
            inputs = inputs.snapped([start, *samples])
        exact = np.unique(np.concatenate([samples, [] if inputs is None else inputs.times]))
        exact = exact[(exact > start) & (exact <= stop)]
        points = _with_grid(exact, start, stop, step or _usual_step(model, interface, stop - start))
    recorded = np.isin(points, samples)
    return Experiment(
        interface,
        start,
        points,
        recorded,
        bool(samples[0] == start),
        tolerance,
        outputs,
        inputs,
    )


def _usual_step(model: Description, interface: str, duration: float) -> float:
    """Return the step if none is given: as FMPy chooses it, at most 1000 of them."""
    from fmpy.util import auto_interval  # noqa: PLC0415

    if interface == "model-exchange":
        return duration / _INTEGRATION
    step = model.step or float(auto_interval(duration or 1.0))
    while duration / step > _MOST:
        step *= 2.0
    return step


def _with_grid(exact: FloatArray, start: float, stop: float, step: float) -> FloatArray:
    """Return the exact times and a grid of steps between them."""
    grid = start + step * np.arange(1.0, (stop - start) / step if step else 1.0)
    if not len(exact) or not len(grid):
        return exact
    right = np.searchsorted(exact, grid).clip(max=len(exact) - 1)
    left = (right - 1).clip(min=0)
    distance = np.minimum(np.abs(exact[right] - grid), np.abs(exact[left] - grid))
    return np.unique(np.concatenate([exact, grid[distance > _CLOSE * step]]))


def _equal_steps(
    model: Description, start: float, samples: FloatArray, step: float | None
) -> FloatArray:
    """Return a grid that meets every sample, with these at their exact values."""
    step = step or model.step
    name = model.path.name
    if not step:
        words = "does not say how long: give a step of which every time is a multiple"
        raise FMUError(f"{name} takes steps of equal length only, and {words}", "step")
    places = (samples - start) / step
    off = samples[np.abs(places - places.round()) > _CLOSE]
    if len(off):
        words = f"the time {off[0]:g} is no multiple: give a step of which every time is one"
        raise FMUError(f"{name} takes steps of equal length only, here {step:g}; {words}", "step")
    points = start + step * np.arange(1.0, places[-1].round() + 1.0)
    inner = places.round().astype(int) - 1
    points[inner[inner >= 0]] = samples[inner >= 0]
    return points
