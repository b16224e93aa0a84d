"""Simulators like a user's own: they import nothing of the rest of the package."""

from supac.simulators import synthetic

__all__ = ["synthetic"]
