"""Scales, offsets and noise levels of a calibration, for outputs that are predicted."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from supac.arrays import BoolArray, IntArray
from supac.posterior.outputs import Outputs
from supac.problem.columns import ObservedCells, as_column_loss
from supac.problem.data import as_observations
from supac.problem.observation import observation_count
from supac.record.record import Record

SIMULATED = "simulated"
"""In place of a unit: the simulator's own outputs, where scales differ between experiments."""
_DIFFERENT = -2


@dataclass(frozen=True, eq=False)
class ObservedData:
    """The measured columns, and the parameters that make measured values of simulated ones."""

    table: Outputs
    cells: ObservedCells
    measured: BoolArray
    """(columns, rows)."""

    @classmethod
    def of(cls, loss: object, data: object) -> ObservedData | None:
        """Return those of a calibration; None if it has no parameters of columns."""
        own, seen = as_column_loss(loss), as_observations(data)
        if own is None or seen is None:
            return None
        measured = np.isfinite(own.values).reshape(len(seen.columns), seen.rows)
        return cls(Outputs.of_data(seen), own.cells(observation_count(loss)), measured)

    def describe(self, table: Outputs, own_noise: Collection[str] = ()) -> Outputs:
        """Return a table with the parameters of its columns, but for the noise of some.

        A column whose scale or offset differs between experiments is the simulator's own: it has
        no unit, and no noise.
        """
        units = list(table.units or ("",) * len(table.columns))
        noise = np.full(len(units), np.nan) if table.noise is None else table.noise.copy()
        places = np.full((3, len(units), table.rows), -1)
        for i, name in enumerate(table.columns):
            if name not in self.table.columns:
                continue
            mine = self._places(name, table)
            if (mine[:2] == _DIFFERENT).any():
                units[i], noise[i] = SIMULATED, np.nan
                continue
            if name in own_noise:
                mine[2] = -1
            elif (mine[2] == _DIFFERENT).any():
                mine[2], noise[i] = -1, np.nan
            places[:, i] = mine
        scales, offsets, levels = places.reshape(3, -1)
        return replace(
            table,
            units=tuple(units) if any(units) else table.units,
            noise=None if table.noise is None else noise,
            observed=ObservedCells(self.cells.count, scales, offsets, levels),
        )

    def _places(self, name: str, table: Outputs) -> IntArray:
        """Return scale, offset and level of each row of a column; _DIFFERENT if not known."""
        known = self.table
        column = known.columns.index(name)
        cells = (self.cells.scales, self.cells.offsets, self.cells.levels)
        mine = np.array([each.reshape(-1, known.rows)[column] for each in cells])
        if table.rows == known.rows and np.array_equal(table.clock, known.clock):
            return mine
        rows = mine[:, self.measured[column]] if self.measured[column].any() else mine
        single = np.where(np.ptp(rows, axis=1) == 0, rows[:, 0], _DIFFERENT)
        return np.repeat(single[:, None], table.rows, axis=1)


def as_calibrated(
    table: Outputs,
    record: Record,
    own_noise: Collection[str] = (),
    *,
    noise_of_discrepant: bool = False,
) -> Outputs:
    """Return a table with the observation parameters of a record, if it has none yet.

    A loss of the user's own may do anything with them: nothing is known of the noise of a
    measurement of simulated outputs, unless it is given. The noise beside a discrepancy is not the
    whole error of a measurement: it is kept only for those who add the discrepancy.
    """
    if table.observed is not None or not record.observation:
        return table
    known = ObservedData.of(record.settings.loss, record.settings.data)
    own = as_column_loss(record.settings.loss)
    discrepant = own is not None and own.discrepancy is not None
    if known is not None and discrepant and not noise_of_discrepant:
        return replace(known.describe(table, table.columns), noise=None, share=None)
    if known is not None:
        return known.describe(table, own_noise)
    return table if own_noise else replace(table, noise=None, share=None)
