"""Fixed steps of a simulation, and the data that they need, as tables for a GPU."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from supac.simulators.adm1.digester import FloatArray


class Plan(NamedTuple):
    """Arguments of the kernel for one digester, as `simulate.cu` describes them."""

    same: Any
    rows: FloatArray
    steps: FloatArray
    marks: Any
    limits: FloatArray
    tolerance: float


def plan(
    data: Mapping[str, Any], h_max: float, transient: float, tolerance: float, *, dae: bool,
    interpolated: bool,
) -> Plan:  # fmt: skip
    """Return the plan of a simulation with the fixed steps of `driver.py`."""
    times, feed = data["times"], data["feed"]
    lengths, steps, ends = np.diff(times), list[tuple[float, ...]](), list[int]()
    for begin, length in zip(times, lengths, strict=False):
        early, done = begin - times[0] < transient, 0.0
        for h, order in _steps(length, h_max, early, dae) if length > 0.0 else ():
            steps.append((order / h, done / length, h / length, order))
            done += h
        ends.append(len(steps))
    steps.append((1.0, 0.0, 0.0, 2.0))  # read ahead, and not used
    kept = np.exp(-feed[:, 1, -1] * lengths)
    given = feed.reshape(len(feed), -1) if interpolated else feed[:, 1]
    columns = [lengths, kept, data["ions_in"], data["h2_in"], data["day"], ends, 0.0 * lengths]
    rows = np.column_stack([given, *columns])
    table = np.array(steps)
    marks = np.zeros(table.shape, np.int32)
    marks[:, 0] = table[:, 3] < 2.0
    parts = [data[name] for name in ("constants", "nu", "initial", "washed")]
    same = np.concatenate([*parts, data["solids"][0, :-1]])
    return Plan(
        same.view([("values", np.float64, len(same))]), np.vstack([rows, rows[-1:]]), table, marks,
        np.ascontiguousarray(data["solids"][:, -1]), tolerance,
    )  # fmt: skip


def _steps(length: float, h_max: float, early: bool, dae: bool) -> Iterator[tuple[float, float]]:
    """Yield the fixed steps of an interval: length, and 2, or 1 for one of first order."""
    if early:
        sizes, h = list[float](), h_max / 80.0
        while sum(sizes) < length * (1.0 - 1e-9):
            sizes.append(h)
            h = min(1.3 * h, h_max)
        yield from ((size * (length / sum(sizes)), 2.0) for size in sizes)
        return
    count = max(1, math.ceil(length / h_max * (1.0 - 1e-9)))
    h, done = length / count, 0.0
    if not dae and count > 1:
        yield 0.06 * h, 1.0
        yield 0.45 * h, 2.0
        done = 0.06 * h + 0.45 * h
        count -= 1
    yield from count * [((length - done) / count, 2.0)]
