"""Inputs of a model as functions of time, from a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from supac.simulators.fmi.variable import Variable

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Signals:
    """Inputs at given times: linear in between, or held if the variable is not continuous.

    A time that stands there twice is a jump. The first and the last row are held before and after.
    """

    variables: tuple[Variable, ...]
    times: FloatArray
    """(rows,), not decreasing."""
    table: FloatArray
    """(rows, variables)."""

    def at(self, time: float, *, after: bool) -> list[float]:
        """Return the values at a time, before or after a jump there."""
        right = int(np.searchsorted(self.times, time, side="right" if after else "left"))
        if right in (0, len(self.times)):
            return self.table[0 if right == 0 else -1].tolist()
        first, last = self.table[right - 1], self.table[right]
        begin, end = self.times[right - 1], self.times[right]
        share = np.where(self._held, 0.0, (time - begin) / (end - begin))
        return (first + share * (last - first)).tolist()

    @cached_property
    def _held(self) -> BoolArray:
        return np.array([each.is_held for each in self.variables])

    def jumps(self) -> frozenset[float]:
        """Return the times at which a value jumps."""
        return frozenset(
            time
            for time in set(self.times.tolist())
            if self.at(time, after=False) != self.at(time, after=True)
        )

    def snapped(self, times: Sequence[float]) -> Signals:
        """Return the same with times replaced by those given that differ by rounding alone."""
        given = np.asarray(times)
        nearest = given[np.abs(self.times[:, None] - given).argmin(axis=1)]
        close = np.isclose(self.times, nearest, rtol=1e-12, atol=1e-12)
        return Signals(self.variables, np.where(close, nearest, self.times), self.table)
