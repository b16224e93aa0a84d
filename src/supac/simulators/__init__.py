"""Simulators like a user's own: they import nothing of the rest of the package."""

from supac.simulators import adm1, drug, synthetic

__all__ = ["adm1", "drug", "synthetic"]
