"""Two consecutive reactions, A → B → C: the example model of `supac init`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

PARAMETERS = ("initial", "k1", "k2")
OUTPUTS = ("A", "B")


class Reaction:
    """A' = −k1·A, B' = k1·A − k2·B, from A = initial and B = 0, at given times.

    x (n, 3) with columns in the order of `names` → (n, 2·times): all of A, then all of B.
    """

    def __init__(self, times: FloatArray, names: tuple[str, ...] = PARAMETERS):
        self.times = np.asarray(times, dtype=np.float64)
        self._columns = [names.index(name) for name in PARAMETERS]

    def __call__(self, x: FloatArray) -> FloatArray:
        """Compute the closed-form solution."""
        initial, k1, k2 = (np.asarray(x)[:, [column]] for column in self._columns)
        a = initial * np.exp(-k1 * self.times)
        # (e^(−k1 t) − e^(−k2 t)) / (k2 − k1), also for equal rates.
        gap = (k2 - k1) * self.times
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(np.abs(gap) < 1e-8, 1.0 - 0.5 * gap, -np.expm1(-gap) / gap)
        return np.hstack([a, k1 * self.times * a * share])
