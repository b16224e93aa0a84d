"""Units that a model description defines, and conversions between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_BASE = ("kg", "m", "s", "A", "K", "mol", "cd", "rad")
SECONDS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
"""Units of time."""


@dataclass(frozen=True)
class Conversion:
    """From one unit to another: value · factor + offset."""

    factor: float = 1.0
    offset: float = 0.0

    def forward(self, value: Any) -> Any:
        """Convert a value or an array."""
        return value * self.factor + self.offset

    def back(self, value: Any) -> Any:
        """Convert a value or an array from the other unit to the first."""
        return (value - self.offset) / self.factor


@dataclass(frozen=True)
class UnitTable:
    """Units with their dimension and the conversion to the base units of that dimension.

    The dimension of a unit without base units is its own name.
    """

    units: Mapping[str, tuple[Any, Conversion]]

    @classmethod
    def of(cls, definitions: Iterable[Any]) -> UnitTable:
        """Return the table of FMPy's definitions, with the display units of each."""
        units: dict[str, tuple[Any, Conversion]] = {}
        displayed: dict[str, tuple[Any, Conversion]] = {}
        for each in definitions:
            base, dimension, own = each.baseUnit, each.name, Conversion()
            if base is not None:
                dimension = tuple(int(getattr(base, name) or 0) for name in _BASE)
                own = Conversion(float(base.factor), float(base.offset))
            units[each.name] = (dimension, own)
            for shown in each.displayUnits:  # shown = factor · unit + offset
                factor = own.factor / float(shown.factor)
                offset = own.offset - factor * float(shown.offset)
                displayed[shown.name] = (dimension, Conversion(factor, offset))
        return cls({**displayed, **units})

    def alike(self, unit: str) -> list[str]:
        """Return the units of the same dimension."""
        dimension = self.units.get(unit, (None,))[0]
        return sorted(name for name, (other, _) in self.units.items() if other == dimension)

    def conversion(self, given: str, wanted: str, *, difference: bool) -> Conversion | None:
        """Return the conversion between two units; None if there is none."""
        if given not in self.alike(wanted):
            return None
        (_, first), (_, second) = self.units[given], self.units[wanted]
        offset = 0.0 if difference else (first.offset - second.offset) / second.factor
        return Conversion(first.factor / second.factor, offset)
