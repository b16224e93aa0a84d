"""Van der Pol's oscillator with both interfaces of FMI 3; pythonfmu3 makes an FMU of this file."""

from __future__ import annotations

from typing import Any

from pythonfmu3 import (
    CoSimulation,
    Float64,
    Fmi3Causality,
    Fmi3Initial,
    Fmi3SlaveBase,
    Fmi3StepResult,
    Fmi3Variability,
    ModelExchange,
)


class VanDerPol3(Fmi3SlaveBase, ModelExchange, CoSimulation):  # type: ignore[misc]
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.time, self.mu, self.x, self.v, self.der_x, self.der_v = 0.0, 1.0, 2.0, 0.0, 0.0, 0.0
        flowing = {"variability": Fmi3Variability.continuous}
        state = {"causality": Fmi3Causality.output, "initial": Fmi3Initial.exact, **flowing}
        rate = {"causality": Fmi3Causality.local, **flowing}
        for variable in (
            Float64("time", causality=Fmi3Causality.independent, **flowing),
            Float64("mu", causality=Fmi3Causality.parameter, variability=Fmi3Variability.fixed),
            Float64("x", start=2.0, **state),
            Float64("v", start=0.0, **state),
            Float64("der_x", derivative=2, **rate),
            Float64("der_v", derivative=3, **rate),
        ):
            self.register_variable(variable)

    def get_continuous_state_derivatives(self) -> list[float]:
        self.der_x, self.der_v = self.v, self.mu * (1 - self.x**2) * self.v - self.x
        return [self.der_x, self.der_v]

    def do_step(self, time: float, step: float) -> Fmi3StepResult:
        for _ in range(4):  # Heun's method
            x, v, dt = self.x, self.v, step / 4
            k1 = self.get_continuous_state_derivatives()
            self.x, self.v = x + dt * k1[0], v + dt * k1[1]
            k2 = self.get_continuous_state_derivatives()
            self.x, self.v = x + dt * (k1[0] + k2[0]) / 2, v + dt * (k1[1] + k2[1]) / 2
        return Fmi3StepResult()
