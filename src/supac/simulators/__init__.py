"""Simulators like a user's own: they import nothing of the rest of the package."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from supac.simulators import adm1, drug, synthetic

__all__ = ["adm1", "drug", "synthetic"]


def __getattr__(name: str) -> Any:
    """A simulator when it is first asked for: most users bring their own."""
    if name in __all__:
        return import_module(f"supac.simulators.{name}")
    raise AttributeError(f"module 'supac.simulators' has no attribute {name!r}")
