"""Parts of the data by time: a warm-up that is not compared, and periods that are held out."""

from __future__ import annotations

from typing import Any

import numpy as np

from supac.arrays import BoolArray, FloatArray
from supac.problem_file.clock import clock_times


def in_warm_up(given: Any, times: FloatArray, label: str | None) -> BoolArray:
    """Return True for rows before a date, or before so long after the first time.

    ValueError for a date where the data have none, and if no row is left.
    """
    if isinstance(given, int | float):
        end = float(times.min()) + given
    else:
        (end,) = clock_times([given], label)
    before = times < end
    if before.all():
        raise ValueError("leaves no row of the data: make it shorter")
    return before


def in_periods(given: Any, times: FloatArray, label: str | None) -> BoolArray:
    """Return True for rows in one of several periods, whose ends belong to them.

    Each is a table with `from`, `to` or both: times or dates.
    """
    found = np.zeros(len(times), dtype=bool)
    for period in given if isinstance(given, list) else [given]:
        ends = {name: clock_times([value], label)[0] for name, value in period.items()}
        low, high = ends.get("from", -np.inf), ends.get("to", np.inf)
        if low > high:
            raise ValueError(f"has a period that ends before it begins: {period}")
        found |= (times >= low) & (times <= high)
    return found
