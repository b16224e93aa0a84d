"""Source of the model for Numba: LANES simulations in parallel, one in each *lane*.

A quantity has LANES consecutive entries of one work array W.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from supac.simulators.adm1.routines import Routines

LANES = 8


class Lanes:
    """Notation of the routines for `vectors.py`."""

    def at(self, place: int) -> str:
        """Return the expression of a quantity in all lanes."""
        return f"W[{place}]"

    def choose(self, condition: str, value: str, other: str) -> str:
        """Return a conditional expression."""
        return f"choose({condition}, {value}, {other})"

    def function(
        self, name: str, arguments: str, shared: Mapping[str, str], statements: Sequence[str]
    ) -> list[str]:
        """Return a compiled function of vector instructions."""
        body = [f"{symbol} = {at}" for symbol, at in shared.items()] + [*statements]
        lines = ", ".join(repr(line) for line in body)
        return [
            "",
            f"vector_{name} = routine({arguments!r}, [{lines}], LANES)",
            "",
            "@compiled",
            f"def {name}({arguments}):",
            f"    vector_{name}({arguments})",
        ]


def generate(variant: str, extra: Mapping[str, str]) -> str:
    """Return the source of the routines that `driver.py` calls."""
    routines = Routines(variant, extra, Lanes())
    lines = [
        f"LANES = {LANES}",
        f"STATES = {tuple(routines.states)!r}",
        f"DIFFERENTIAL = {len(routines.differential)}",
        f"DAE = {routines.dae}",
        f"SIZE = {routines.size * LANES}",
        *(f"AT_{name} = {at * LANES}" for name, at in routines.offsets.items()),
    ]
    return "\n".join(lines + routines.source())
