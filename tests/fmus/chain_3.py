"""A chain of decays with arrays of FMI 3, of which one has a size that can be chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
from pythonfmu3 import (
    Dimension,
    Float64,
    Fmi3Causality,
    Fmi3Slave,
    Fmi3StepResult,
    Fmi3Variability,
    UInt64,
)

FIXED = {"causality": Fmi3Causality.parameter, "variability": Fmi3Variability.fixed}
FLOWING = {"variability": Fmi3Variability.continuous}


class Chain3(Fmi3Slave):  # type: ignore[misc]
    """x' = −k·x + inflow from the one before; y = mixing·x; total = sum of the weights."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.n = 2
        self.k, self.weights = np.array([1.0, 2.0, 3.0]), np.ones(2)
        self.mixing = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]])
        self.u, self.x, self.y, self.total = (
            np.zeros(2),
            np.array([1.0, 0.0, 0.0]),
            np.zeros(2),
            0.0,
        )
        three, two = Dimension(start="3"), Dimension(start="2")
        output = {"causality": Fmi3Causality.output, **FLOWING}
        size = {"causality": Fmi3Causality.structuralParameter, "variability": FIXED["variability"]}
        for variable in (
            UInt64("n", start=2, **size),
            Float64("k", dimensions=[three], setter=self._setter("k", 3), **FIXED),
            Float64(
                "mixing", dimensions=[two, three], setter=self._setter("mixing", 2, 3), **FIXED
            ),
            Float64(
                "weights",
                dimensions=[Dimension(valueReference="0")],
                setter=self._set_weights,
                **FIXED,
            ),
            Float64(
                "u",
                dimensions=[two],
                setter=self._setter("u", 2),
                causality=Fmi3Causality.input,
                **FLOWING,
            ),
            Float64("x", dimensions=[three], **output),
            Float64("y", dimensions=[two], **output),
            Float64("total", **output),
        ):
            self.register_variable(variable)

    def _setter(self, name: str, *shape: int) -> Any:
        return lambda values: setattr(self, name, np.reshape(values, shape))

    def _set_weights(self, values: list[float]) -> None:
        self.weights = np.array(values)

    def do_step(self, time: float, step: float) -> Fmi3StepResult:
        for _ in range(100):
            flow = self.k * self.x
            gain = np.array([self.u[0], flow[0] + self.u[1], flow[1]])
            self.x = self.x + step / 100 * (gain - flow)
        self.y, self.total = self.mixing @ self.x, float(self.weights.sum())
        return Fmi3StepResult()
