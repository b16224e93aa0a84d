"""Emulators of the risk or of the simulator's outputs, with a model of where runs fail."""

from supac.emulator.gated import GatedModel
from supac.emulator.outputs import OutputEmulator
from supac.emulator.risk import GaussianProcess

__all__ = ["GatedModel", "GaussianProcess", "OutputEmulator"]
