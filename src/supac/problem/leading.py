"""Simulators that take the leading parameters alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from supac.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class LeadingSimulator(ABC):
    """Call a simulator with the leading parameters only.

    It has the simulator's name, and its methods that take names or points, without the last
    `trailing` ones.
    """

    passed_on: ClassVar[tuple[str, ...]] = ("named", "with_fields", "refuses", "check")
    """Methods and other attributes that are the simulator's, if it has them."""
    simulate: Callable[[FloatArray], Any]
    trailing: int

    def __post_init__(self) -> None:
        name = getattr(self.simulate, "__qualname__", type(self.simulate).__qualname__)
        object.__setattr__(self, "__qualname__", name)
        object.__setattr__(self, "__module__", getattr(self.simulate, "__module__", __name__))

    def set_up(self) -> None:
        """Load the simulator, if it has something to load."""
        load = getattr(self.simulate, "set_up", None)
        if load is not None:
            load()

    def leading(self, values: Any) -> Any:
        """Return names (dim,) or points (..., dim) without the last ones."""
        if not self.trailing:
            return values
        is_array = hasattr(values, "shape")
        return values[..., : -self.trailing] if is_array else values[: -self.trailing]

    def __getattr__(self, name: str) -> Any:
        """Return a method of the simulator, for the leading parameters alone."""
        if name not in type(self).passed_on:
            raise AttributeError(name)
        own = getattr(self.simulate, name)
        if name in ("refuses", "check"):
            return lambda x: own(self.leading(x))
        if name == "named":
            return lambda names: replace(self, simulate=own(self.leading(names)))
        if name == "with_fields":
            return lambda fields: replace(self, simulate=own(fields))
        return own

    @abstractmethod
    def __call__(self, x: FloatArray) -> Any:
        """Return the outputs of one point or of many."""
