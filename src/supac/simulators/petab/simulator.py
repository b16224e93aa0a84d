"""A PEtab problem as a simulator: estimated parameters → simulated measurements and noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from supac.simulators.petab.description import Description
from supac.simulators.petab.layout import Layout, Series
from supac.simulators.petab.model import FloatArray, Runner, Symbols
from supac.simulators.petab.terms import Terms


class Simulator:
    """Simulate all measurements: x (dim,) → outputs, the measured values and unknown noise levels.

    With observation parameters, outputs are the terms that values and levels are combined from.
    The model is loaded once in each process, from its text: other machines need not have the files.
    """

    def __init__(
        self,
        description: Description,
        sbml: str,
        names: Sequence[str],
        observation: Sequence[str] = (),
    ):
        self.description, self.sbml, self.names = description, sbml, tuple(names)
        self.observation = tuple(observation)
        self._runner: Runner | None = None
        self.__qualname__ = f"petab.Simulator({description.path.name})"

    def set_up(self) -> None:
        """Load the model, unless that was done."""
        if self._runner is not None:
            return
        file = self.description.model.name
        self.symbols = Symbols(self.sbml, file)
        layout = Layout(self.description, self.symbols)
        self._outputs = Terms(layout, self.observation) if self.observation else layout
        self._runner = Runner(self.symbols, file)
        self._nominal = {each.id: each.nominal for each in self.description.parameters}
        self._in_model = [
            name for name in self._nominal if name in self.symbols and name not in self.observation
        ]
        self._plans = [self._plan(i) for i in range(len(self.description.experiments))]

    def _plan(self, experiment: int) -> tuple[list[Series], list[float], list[str]]:
        """Return the series of an experiment, its times, and the model's symbols it needs."""
        mine = [each for each in self._outputs.series if each.experiment == experiment]
        times = sorted({float(t) for each in mine for t in each.times})
        wanted = {name for each in mine for name in each.symbols if name in self.symbols}
        return mine, times, sorted(wanted)

    def __call__(self, x: FloatArray) -> FloatArray:
        """Return the outputs, (dim,) → (outputs,); SimulationError if that fails."""
        self.set_up()
        values = self._nominal | dict(zip(self.names, np.asarray(x).tolist(), strict=True))
        out = np.empty(self._outputs.size)
        for plan, experiment in zip(self._plans, self.description.experiments, strict=True):
            series, times, wanted = plan
            assert self._runner is not None
            known = {name: values[name] for name in self._in_model}
            found = self._runner.simulate(experiment, values.__getitem__, known, times, wanted)
            for each in series:
                at = np.searchsorted(times, each.times)
                here = {name: column[at] for name, column in found.items()}
                out[each.rows] = each({**values, **here}.__getitem__)
        return out

    def __getstate__(self) -> dict[str, Any]:
        kept = ("description", "sbml", "names", "observation", "__qualname__")
        return {**{name: getattr(self, name) for name in kept}, "_runner": None}
