"""Simulators that are Functional Mock-up Units (FMI 2 and 3), run through FMPy."""

from supac.simulators.fmi.description import Description, FMUError, read_description
from supac.simulators.fmi.fmu import FMU
from supac.simulators.fmi.variable import Variable

__all__ = ["FMU", "Description", "FMUError", "Variable", "read_description"]
