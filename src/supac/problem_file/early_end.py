"""Outputs of simulations that end before the data do: held at their last value, or a number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from supac.arrays import FloatArray
from supac.problem import Observations
from supac.problem_file.data import data_tables
from supac.problem_file.errors import Source

HOLD = "hold"


@dataclass(frozen=True)
class EarlyEnd:
    """Values in place of those that a simulation did not reach."""

    value: float | None = None
    """None for the last value of the column."""

    @classmethod
    def of(cls, source: Source) -> EarlyEnd | None:
        """Return the declaration of the tables of data; None if an early end is a failed run."""
        tables = data_tables(source)
        given = {key: table.get("after_end") for key, table in tables.items()}
        values = list(given.values())
        for key, value in given.items():
            if value != values[0]:
                raise source.fail((*key, "after_end"), "must be the same in all tables [[data]]")
        if not values or values[0] is None:
            return None
        return cls(None if values[0] == HOLD else float(values[0]))

    def padded(self, answer: Any, count: int) -> Any:
        """Return an answer by name with columns of `count` values, NaN after their end."""
        if not isinstance(answer, Mapping):
            return answer
        columns = {name: np.atleast_1d(np.asarray(each, float)) for name, each in answer.items()}
        return {
            name: np.append(each, np.full(count - len(each), np.nan))
            if each.ndim == 1 and 0 < len(each) < count
            else each
            for name, each in columns.items()
        }

    def filled(self, outputs: FloatArray, data: Observations) -> FloatArray:
        """Return outputs (…, cells) with values for NaN at the end of each column, by time.

        NaN before other values, or in all of a column, are no early end.
        """
        made = np.array(outputs, dtype=np.float64)
        times = np.arange(float(data.rows)) if data.times is None else data.times
        for _, column, rows in data.parts:
            places = column * data.rows + rows[np.argsort(times[rows], kind="stable")]
            own = made[..., places]
            known = np.isfinite(own)
            last = known.shape[-1] - 1 - np.argmax(known[..., ::-1], axis=-1)[..., None]
            after = (np.arange(known.shape[-1]) > last) & known.any(axis=-1, keepdims=True)
            ends = np.take_along_axis(own, last, axis=-1) if self.value is None else self.value
            made[..., places] = np.where(after, ends, own)
        return made
