"""Marks of missing measurements, such as -9999 or NA, and values that look like one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from supac.arrays import FloatArray
from supac.problem import Observations

_USUAL = frozenset({99.0, 999.0, 9999.0, 99999.0, 999999.0, 99.99, 999.99, 9999.99, 999.25, 1e20})
_REPEATS = 3  # times that an extreme value is there before it is doubted


@dataclass(frozen=True)
class MissingMarks:
    """Texts and numbers of a table that stand where nothing was measured."""

    texts: frozenset[str] = frozenset()
    numbers: tuple[float, ...] = ()
    declared: bool = False
    """True if the problem file says what they are, or that there are none."""

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> MissingMarks:
        """Return those of a table [data]."""
        given = table.get("missing", [])
        marks = given if isinstance(given, list) else [given]
        texts = frozenset(each.strip() for each in marks if isinstance(each, str))
        numbers = tuple(float(each) for each in marks if not isinstance(each, str))
        return cls(texts, numbers, "missing" in table)

    def __contains__(self, cell: object) -> bool:
        if cell in self.texts:
            return True
        try:
            return float(str(cell)) in self.numbers
        except ValueError:
            return False

    def usual_mark_in(self, values: FloatArray) -> float | None:
        """Return a number such as -9999 far outside of all others, unless marks were declared."""
        if self.declared:
            return None
        for value, rest in _extremes(values):
            gap = float(np.abs(rest - value).min())
            if abs(value) in _USUAL and gap > max(float(np.ptp(rest)), 0.5 * abs(value)):
                return value
        return None


def suspicious_values(seen: Observations) -> list[str]:
    """Return a sentence for each column in which one extreme value stands apart and repeats."""
    words = []
    shape = (len(seen.columns), seen.rows)
    for name, values in zip(seen.columns, seen.values.reshape(shape), strict=True):
        for value, rest in _extremes(values):
            count = int((values == value).sum())
            apart = float(np.abs(rest - value).min()) > float(np.ptp(rest))
            negative = value < 0.0 <= float(rest.min())
            if count >= _REPEATS and (apart or negative):
                words.append(
                    f"{name} is {value:g} in {count} rows, and from {rest.min():g} to "
                    f"{rest.max():g} in all others: if that means that nothing was measured, write "
                    f"missing = {value:g} in [data]"
                )
    return words


def _extremes(values: FloatArray) -> list[tuple[float, FloatArray]]:
    """Return the least and the largest value, each with all others."""
    known = values[np.isfinite(values)]
    if len(np.unique(known)) < 3:
        return []
    ends = float(known.min()), float(known.max())
    return [(end, known[known != end]) for end in ends]
