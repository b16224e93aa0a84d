"""Steps of a co-simulation: the model brings its own solver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from supac.simulators.fmi.description import FMUError
from supac.simulators.fmi.experiment import Experiment


def co_simulate(
    fmu: Any, experiment: Experiment, apply_inputs: Callable[..., None]
) -> Iterator[tuple[float, bool]]:
    """Step from point to point; yield each with True if outputs are to be recorded there."""
    time = experiment.start
    for point, recorded in zip(experiment.points.tolist(), experiment.recorded, strict=True):
        apply_inputs(time, after=True)
        ended = fmu.doStep(currentCommunicationPoint=time, communicationStepSize=point - time)
        if isinstance(ended, tuple):  # FMI 3: an event, termination, an early return, the time
            _, terminated, early, reached = ended
            if terminated or (early and reached < point):
                raise FMUError(f"the model ended the simulation at time {reached:g}.")
        time = point
        yield time, bool(recorded)
