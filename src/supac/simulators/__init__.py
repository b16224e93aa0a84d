"""Simulators like a user's own: they import nothing of the rest of the package."""
