"""Compiled integration of ordinary differential equations, fast enough for thousands of runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np

from supac.arrays import FloatArray

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile a function of numbers and arrays when it is first called."""
    return numba.njit(function)


@compiled
def runge_kutta(
    slopes: Callable[[FloatArray, FloatArray, FloatArray], None],
    start: FloatArray,
    p: FloatArray,
    times: FloatArray,
    step: float,
) -> FloatArray:
    """Integrate from t = 0 by the classical method of order 4: (times, states).

    `slopes(state, p, out)` writes the derivatives into `out`; steps are at most `step` long.
    """
    n = len(start)
    state, ahead = start.copy(), np.empty(n)
    k1, k2, k3, k4 = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    out = np.empty((len(times), n))
    now = 0.0
    for i in range(len(times)):
        steps = int(np.ceil((times[i] - now) / step))
        h = (times[i] - now) / max(steps, 1)
        for _ in range(steps):
            slopes(state, p, k1)
            for j in range(n):
                ahead[j] = state[j] + 0.5 * h * k1[j]
            slopes(ahead, p, k2)
            for j in range(n):
                ahead[j] = state[j] + 0.5 * h * k2[j]
            slopes(ahead, p, k3)
            for j in range(n):
                ahead[j] = state[j] + h * k3[j]
            slopes(ahead, p, k4)
            for j in range(n):
                state[j] += h / 6.0 * (k1[j] + 2.0 * k2[j] + 2.0 * k3[j] + k4[j])
        now = times[i]
        out[i] = state
    return out
