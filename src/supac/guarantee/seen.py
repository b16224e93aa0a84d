"""Measurements that earlier results have seen, and changes of them since.

Prior, loss and data of a certificate must not depend on what came of these very data. Whether they
do is asked of the measurements themselves: one that is at the same place, of the same column, time
and experiment, and has the same value up to rounding, is the same.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from supac.codec import Spec, from_spec, to_spec
from supac.problem.composite import ResidualData, parts_of
from supac.problem.data import Observations, as_observations

_ROUNDING = 1e-6  # relative
_OF_NOISE = 0.01
"""Difference in noise standard deviations below which values at one time are the same."""
_BY_CHANCE = 0.05
"""Share of the smaller of two sets of data that may coincide by chance."""


class _Cell(NamedTuple):
    """One measurement."""

    experiment: str
    column: str
    time: float
    value: float
    noise: float
    logarithmic: bool
    block: float
    test: bool


@dataclass(frozen=True)
class Changes:
    """Changes of measurements since they were seen; "" where there are none."""

    shared: bool = False
    """True if some of the measurements are the same."""
    data: str = ""
    """Change of the data that the search is to see."""
    test: str = ""
    """Change of the held-out data, or that they were seen."""


@dataclass(frozen=True, eq=False)
class SeenData:
    """Data of one result: those that its search has seen, and those that it was tested on."""

    training: Observations | None
    test: Observations | None = None

    @classmethod
    def of(cls, risk: object) -> SeenData | None:
        """Return the data of a risk; None if their measurements are not known."""
        parts = parts_of(risk)
        data = parts.data.data if isinstance(parts.data, ResidualData) else parts.data
        training = as_observations(data)
        return None if training is None else cls(training, as_observations(parts.held_out))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SeenData) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return f"SeenData({len(self._cells)} measurements)"

    def to_spec(self) -> Spec:
        """Return the data as JSON."""
        return [to_spec(self.training), to_spec(self.test)]

    @classmethod
    def from_spec(cls, spec: Spec) -> SeenData:
        """Invert `to_spec`."""
        training, test = map(from_spec, spec)
        return cls(training, test)

    @cached_property
    def _text(self) -> str:
        return json.dumps(self.to_spec())

    @cached_property
    def _cells(self) -> list[_Cell]:
        return [*_cells_of(self.training, test=False), *_cells_of(self.test, test=True)]

    def changes_until(self, now: SeenData) -> Changes:
        """Compare these data, which a result has seen, with those of a new one."""
        then, ours = self._cells, now._cells
        pairs = _pairs(then, ours)
        few = min(len(then), len(ours))
        exact = any(a.value == b.value != 0.0 for a, b in pairs)
        if not exact and len(pairs) <= _BY_CHANCE * few:
            return Changes()
        if len(pairs) <= _BY_CHANCE * few:
            return Changes(shared=True)
        reasons = _changed(then, ours, pairs)
        seen = [after for before, after in pairs if after.test and not before.test]
        if seen:
            return Changes(True, reasons, "held-out measurements were seen by an earlier search")
        tested = any(each.test for each in then)
        return Changes(True, reasons, reasons if tested else "")


def _cells_of(data: Observations | None, *, test: bool) -> list[_Cell]:
    if data is None:
        return []
    labels, cells, found = data.blocks_of_measured, data.cells, []
    for k, i in enumerate(np.flatnonzero(data.needed).tolist()):
        experiment, column, time = cells[i]
        block = np.nan if labels is None else float(labels[k])
        time = np.nan if data.times is None else time
        value, noise = float(data.values[i]), float(data.noise[i])
        found.append(_Cell(experiment, column, time, value, noise, data.logarithmic, block, test))
    return found


def _pairs(then: list[_Cell], now: list[_Cell]) -> list[tuple[_Cell, _Cell]]:
    """Return the measurements that are the same, each at most once."""
    named = all(any(each.experiment for each in cells) for cells in (then, now))
    timed = all(cells and np.isfinite(cells[0].time) for cells in (then, now))

    def place(cell: _Cell) -> tuple[str, str, str]:
        time = f"{cell.time:.9g}" if timed else ""
        return (cell.experiment if named else "", cell.column, time)

    waiting: dict[tuple[str, str, str], list[_Cell]] = defaultdict(list)
    for cell in sorted(now, key=lambda each: each.value):
        waiting[place(cell)].append(cell)
    found = []
    for cell in then:
        others, tolerance = waiting[place(cell)], _tolerance(cell, timed)
        low = bisect_left(others, cell.value - tolerance, key=lambda each: each.value)
        if low < len(others) and others[low].value <= cell.value + tolerance:
            found.append((cell, others.pop(low)))
    return found


def _tolerance(cell: _Cell, timed: bool) -> float:
    """Return the difference up to which a value is the same; without times only by rounding."""
    rounding = _ROUNDING * abs(cell.value)
    if not timed or not np.isfinite(cell.noise):
        return rounding
    own = cell.noise * (abs(cell.value) if cell.logarithmic else 1.0)
    return max(rounding, _OF_NOISE * own)


def _changed(then: list[_Cell], now: list[_Cell], pairs: list[tuple[_Cell, _Cell]]) -> str:
    """Return what was changed, in words; "" if nothing was, though data may have been added."""
    missing = len(then) - len(pairs)
    if missing:
        return f"{missing} of the {len(then)} measurements were removed or changed"
    if any(before.test is not after.test for before, after in pairs):
        return "measurements were moved between training and held-out data"
    if any(
        before.logarithmic is not after.logarithmic
        or not np.isclose(before.noise, after.noise, rtol=_ROUNDING, atol=0.0, equal_nan=True)
        for before, after in pairs
    ):
        return "the noise of measurements was changed"
    if not _same_partition([(before.block, after.block) for before, after in pairs]):
        return "the independent blocks of measurements were changed"
    return ""


def _same_partition(labels: list[tuple[float, float]]) -> bool:
    """Return True if labels of blocks, NaN for none, divide measurements in one way."""
    then, now = (np.array(each) for each in zip(*labels, strict=True))
    if not np.array_equal(np.isnan(then), np.isnan(now)):
        return False
    known = ~np.isnan(then)
    kinds = np.unique(np.column_stack([then, now])[known], axis=0)
    return len(np.unique(then[known])) == len(np.unique(now[known])) == len(kinds)
