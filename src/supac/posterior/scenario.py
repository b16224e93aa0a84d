"""The simulator of a prediction: called as the calibrated one was, its outputs in one vector."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from supac.arrays import FloatArray
from supac.posterior.observed import as_calibrated
from supac.posterior.outputs import Outputs
from supac.problem import Composite
from supac.problem.leading import LeadingSimulator
from supac.problem.observation import ObservedSimulator
from supac.record.record import Record


@dataclass(frozen=True, eq=False)
class ScenarioSimulator(LeadingSimulator):
    """Simulate without the last parameters, and return the outputs as a vector."""

    passed_on = ("named", "with_fields", "refuses", "__code__")
    table: Outputs | None

    def __call__(self, x: FloatArray) -> Any:
        """Return the outputs of one point or of many."""
        points = np.asarray(x)
        answer = self.simulate(self.leading(points))
        if isinstance(answer, Mapping) and self.table is None:
            names = ", ".join(map(str, answer))
            raise TypeError(f"simulate returns {names} by name: pass outputs=, their names")
        if self.table is None or points.ndim > 1:
            return answer
        return self.table.flat(answer)


def simulator_and_outputs(
    record: Record, simulate: Any, outputs: Any, times: Any
) -> tuple[Callable[[FloatArray], Any], Outputs | None]:
    """Return the function that makes the runs of a prediction, and the table of its outputs.

    Of a `Composite` the outputs are those of its data; at other times they are, without `outputs`,
    the columns that were measured.
    """
    known = Outputs.of_measured(record.settings.data)
    table, own_noise = None, list[str]()
    if isinstance(simulate, Composite):
        table = Outputs.of_measured(simulate.data)
        simulate = simulate.simulate
        if isinstance(simulate, ObservedSimulator):
            simulate = simulate.simulate
    if outputs is None and times is not None:
        outputs, times = _measured_columns(known if table is None else table, times), None
    if outputs is not None:
        given = Outputs.of(outputs, times)
        table = given.with_noise_of(known)
        own_noise = [] if given.noise is None else list(given.columns)
    if not callable(simulate):
        raise TypeError(f"simulate must be a function, not {simulate!r}")
    if table is not None:
        table = as_calibrated(table, record, own_noise, noise_of_discrepant=True)
    return ScenarioSimulator(simulate, record.observation, table), table


def _measured_columns(known: Outputs | None, times: Any) -> Outputs:
    """Return the measured columns at other times; ValueError if there are none."""
    if known is None:
        raise ValueError("times needs outputs=, the names of what is simulated at these times")
    given = Outputs.of(known.columns, times)
    return replace(given, units=known.units, time_label=known.time_label)
