"""Regimes of a search: few parameters, a field, or many."""

from __future__ import annotations

from enum import Enum

MANY_PARAMETERS = 40
"""Number above which there are fewer runs than directions: models have fewer freedoms, steps are
longer, and nothing is computed for each statistic."""


class Regime(Enum):
    """Name the kinds of problems that are emulated and searched differently."""

    FEW = "few"
    """Each parameter is an input of its own, and runs determine the direction of each."""
    FIELD = "field"
    """Up to as many parameters that correlate, of which a few components count."""
    MANY = "many"
    """There are more directions than runs."""

    @classmethod
    def of(cls, dim: int, *, field: bool = False) -> Regime:
        """Return the regime of `dim` parameters; `field` if their prior has few components."""
        if dim > MANY_PARAMETERS:
            return cls.MANY
        return cls.FIELD if field else cls.FEW

    @staticmethod
    def excess(dim: int) -> float:
        """Return how many times more parameters there are than few, at least 1."""
        return max(1.0, dim / MANY_PARAMETERS)

    @property
    def is_many(self) -> bool:
        """Return True if there are more directions than runs."""
        return self is Regime.MANY
