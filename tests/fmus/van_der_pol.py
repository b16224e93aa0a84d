"""Van der Pol's oscillator as a co-simulation of FMI 2; pythonfmu makes an FMU of this file."""

from __future__ import annotations

from typing import Any

from pythonfmu import DefaultExperiment, Fmi2Causality, Fmi2Slave, Fmi2Variability, Real


class VanDerPol(Fmi2Slave):  # type: ignore[misc]
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.default_experiment = DefaultExperiment(start_time=0.0, stop_time=10.0, step_size=0.05)
        self.mu, self.x, self.v = 1.0, 2.0, 0.0
        fixed = {"causality": Fmi2Causality.parameter, "variability": Fmi2Variability.fixed}
        self.register_variable(Real("mu", description="damping", **fixed))
        self.register_variable(Real("x", causality=Fmi2Causality.output))
        self.register_variable(Real("v", causality=Fmi2Causality.output))

    def do_step(self, time: float, step: float) -> bool:
        if self.mu > 50.0:
            raise ValueError("too stiff")
        k1 = self.rates(self.x, self.v)
        k2 = self.rates(self.x + step / 2 * k1[0], self.v + step / 2 * k1[1])
        k3 = self.rates(self.x + step / 2 * k2[0], self.v + step / 2 * k2[1])
        k4 = self.rates(self.x + step * k3[0], self.v + step * k3[1])
        self.x += step / 6 * (k1[0] + 2 * k2[0] + 2 * k3[0] + k4[0])
        self.v += step / 6 * (k1[1] + 2 * k2[1] + 2 * k3[1] + k4[1])
        return True

    def rates(self, x: float, v: float) -> tuple[float, float]:
        return v, self.mu * (1 - x * x) * v - x
