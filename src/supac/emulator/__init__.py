"""Emulators of the risk or of the simulator's outputs, with a model of where runs fail."""

from supac.emulator.outputs import OutputEmulator
from supac.emulator.risk import GaussianProcess
from supac.emulator.screening import GatedModel

__all__ = ["GatedModel", "GaussianProcess", "OutputEmulator"]
