"""Models that are differential equations, for tests, by the classical Runge–Kutta method."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from supac.arrays import FloatArray


def integrate(
    slope: Callable[[FloatArray], FloatArray], y: FloatArray, times: FloatArray, steps: int
) -> FloatArray:
    """Integrate from time 0, with `steps` steps between times: (n, k) → (n, times, k)."""
    found = []
    for h in np.diff(times, prepend=0.0) / steps:
        for _ in range(steps):
            a = slope(y)
            b = slope(y + 0.5 * h * a)
            c = slope(y + 0.5 * h * b)
            y = y + h / 6.0 * (a + 2.0 * b + 2.0 * c + slope(y + h * c))
        found.append(y)
    return np.stack(found, axis=1)


def epidemic(z: FloatArray) -> FloatArray:
    """Share of infected people, at 24 times: (n, 3) → (n, 24)."""
    contact, recovery, first = (np.array([0.5, 0.2, 0.01]) * np.exp(0.7 * z)).T

    def slope(y: FloatArray) -> FloatArray:
        new = contact * y[:, 0] * y[:, 1]
        return np.stack([-new, new - recovery * y[:, 1]], axis=1)

    start = np.stack([1.0 - first, first], axis=1)
    return integrate(slope, start, np.linspace(2.0, 60.0, 24), 4)[:, :, 1]
