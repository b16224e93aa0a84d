"""The exact expectation of a likelihood over emulated outputs, at a cost that is not theirs.

Outputs that are emulated as they are, up to factors, are linear in the scores of a few components;
so a likelihood of normal errors is quadratic in them. See `problem/reduced.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from supac.arrays import FloatArray
from supac.emulator.tuning import EmulatorTuning, ViewTuning
from supac.emulator.view import SeenLoss, View
from supac.problem.columns import as_column_loss
from supac.problem.observation import ObservationLoss, as_observation_loss
from supac.problem.reduced import ReducedLikelihood, reduced


@dataclass(frozen=True, eq=False)
class ExactRisk:
    """Expected risks of scores y (n, k) with a variance, and their slopes."""

    loss: ObservationLoss
    likelihood: ReducedLikelihood
    worst: float

    @classmethod
    def of(
        cls, seen: SeenLoss, origin: FloatArray, basis: FloatArray, tuning: EmulatorTuning
    ) -> ExactRisk | None:
        """Return that of outputs in a view, t = origin + basis·y; None if there is none."""
        view, loss, own = seen.view, as_observation_loss(seen.loss), as_column_loss(seen.loss)
        if not is_exact(seen.loss, view, len(origin), tuning) or loss is None or own is None:
            return None
        if view is not None:
            origin = view.centre + origin / view.weight
            basis = basis / view.weight[:, None]
        return cls(loss, reduced(own, origin, basis), seen.worst)

    def risk_and_slopes(
        self, x: FloatArray, y: FloatArray, variance: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return risks at points x, and slopes in y, its variance, and coordinates of x."""
        z = self.loss.own(x)
        with np.errstate(all="ignore"):
            risk, *slopes = self.likelihood.risk_and_slopes(y, variance, z)
            slopes[2] = self.loss.slopes_of_own(slopes[2], x)
        by_y, by_variance, by_own = (np.where(np.isfinite(s), s, 0.0) for s in slopes)
        return np.where(np.isfinite(risk), risk, self.worst), by_y, by_variance, by_own


def is_exact(loss: Any, view: View | None, outputs: int, tuning: EmulatorTuning) -> bool:
    """Return True for a likelihood of correlated errors, or of many outputs, in a linear view."""
    own = as_column_loss(loss)
    if own is None or (view is not None and np.isfinite(view.scale)):
        return False
    return (own.errors is not None or outputs > tuning.view.long) and own.measured.is_reducible


def is_long(loss: Any, outputs: int, tuning: ViewTuning) -> bool:
    """Return True for a likelihood of so many outputs that none of them is compressed."""
    own = as_column_loss(loss)
    return outputs > tuning.long and own is not None and own.measured.is_reducible
