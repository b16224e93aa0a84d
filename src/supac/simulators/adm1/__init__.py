"""Anaerobic Digestion Model No. 1 (ADM1), compiled."""

from supac.simulators.adm1.cuda import NoDeviceError
from supac.simulators.adm1.digester import (
    OUTPUT_UNITS,
    OUTPUTS,
    Digester,
    DigesterError,
    UnitsWarning,
)
from supac.simulators.adm1.model import BSM2, BSM2_KINETICS, CALIBRATED, PAPER, PAPER_KINETICS
from supac.simulators.adm1.problem import Problem, example, load
from supac.simulators.adm1.simulator import ShorterStepsWarning, Simulator, StepLimitWarning

__all__ = [
    "BSM2", "BSM2_KINETICS", "CALIBRATED", "OUTPUTS", "OUTPUT_UNITS", "PAPER", "PAPER_KINETICS",
    "Digester", "DigesterError", "NoDeviceError", "Problem", "ShorterStepsWarning", "Simulator",
    "StepLimitWarning", "UnitsWarning", "example", "load",
]  # fmt: skip
