"""The best run of a search, in the user's units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from supac.arrays import FloatArray

_SHOWN = 6  # parameters that a line names


@dataclass(frozen=True, eq=False)
class BestRun:
    """Run with the smallest risk: one parameter set, for which nothing is guaranteed."""

    id: int
    risk: float
    parameters: Mapping[str, float]
    """Value of each parameter, by default x0, x1, …."""
    units: tuple[str, ...]
    outputs: FloatArray | None = None
    """Simulated outputs (m,), if any."""

    @property
    def x(self) -> tuple[float, ...]:
        """Values in the order of the parameters."""
        return tuple(self.parameters.values())

    def __repr__(self) -> str:
        both = zip(self.parameters.items(), self.units, strict=True)
        told = [f"{name}={value:.4g}{f' {unit}' if unit else ''}" for (name, value), unit in both]
        left = len(told) - _SHOWN
        more = [f"and {left} more"] if left > 0 else []
        return f"BestRun(risk={self.risk:.4g}, {', '.join([*told[:_SHOWN], *more])})"

    def _repr_html_(self) -> str:
        from supac.report.notebook import html_of_best_run  # noqa: PLC0415

        return html_of_best_run(self)
