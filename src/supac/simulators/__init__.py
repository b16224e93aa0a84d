"""Example simulators; like a user's own, they do not import the search."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from supac.simulators import adm1, drug, pest, petab, synthetic

__all__ = ["adm1", "drug", "pest", "petab", "synthetic"]


def __getattr__(name: str) -> Any:
    """Import a simulator on first use."""
    if name in __all__:
        return import_module(f"supac.simulators.{name}")
    raise AttributeError(f"module 'supac.simulators' has no attribute {name!r}")
