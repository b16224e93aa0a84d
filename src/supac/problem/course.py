"""The course of a risk: the order of its data, and its loss on the first part of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from supac.arrays import FloatArray, IntArray
from supac.problem.columns import as_column_loss
from supac.problem.composite import parts_of
from supac.problem.data import Observations, as_observations
from supac.problem.losses import as_residual_loss
from supac.problem.observation import as_observation_loss, loss_of_outputs, observation_count
from supac.problem.order import Course


def course_of(risk: object) -> Course | None:
    """Return the course of a risk whose loss can be shortened; None for any other."""
    parts = parts_of(risk)
    data, loss = as_observations(parts.data), parts.loss
    if data is None:
        return None
    if observation_count(loss):
        columns = as_column_loss(loss_of_outputs(loss))
        if columns is None or columns.errors is not None:
            return None
        loss = columns.loss
    # Jacobians would have to be shortened, too, and coarse runs.
    if as_residual_loss(loss) is None or parts.jacobian_cost is not None or parts.coarse:
        return None
    return Course(tuple(_places(data)), data.measured)


def shortened(loss: Any, kept: FloatArray) -> Any:
    """Return the loss where residuals of the measurements that are not kept are 0."""
    own = as_observation_loss(loss)
    if own is None:
        return loss
    columns: Any = own.loss
    return replace(own, loss=replace(columns, kept=kept))


def compared(loss: Any, rows: FloatArray) -> FloatArray:
    """Return the residuals of the measurements from arguments of the loss: (n, k) → (n, m)."""
    own = as_observation_loss(loss)
    return rows if own is None else own.compared(rows)


def _places(data: Observations) -> list[IntArray]:
    """Return the places of each series among the measurements, in the order of time."""
    place = np.cumsum(data.needed) - 1
    times = np.arange(float(data.rows)) if data.times is None else data.times
    found = []
    for _, column, rows in data.parts:
        cells = column * data.rows + rows[np.argsort(times[rows], kind="stable")]
        found.append(place[cells[data.needed[cells]]])
    return [each for each in found if len(each)]
