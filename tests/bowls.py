"""Risks of tasks; processes that make runs import this file, so it imports little."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supac.arrays import FloatArray


@dataclass(frozen=True)
class Bowl:
    """A risk in [0, 1) with its minimum at (a, b)."""

    a: float
    b: float

    def __call__(self, x: FloatArray) -> float:
        return float(np.tanh(0.5 * (x[0] - self.a) ** 2 + (x[1] - self.b) ** 2))


@dataclass(frozen=True)
class Fails:
    """A bowl that cannot be computed on one side."""

    bowl: Bowl

    def __call__(self, x: FloatArray) -> float:
        if x[0] < -0.8:
            raise RuntimeError("it has frozen")
        return self.bowl(x)


def bowls(n: int, seed: int = 0) -> list[Bowl]:
    """Minima around (1, −1), wide in one direction and narrow in the other."""
    rng = np.random.default_rng(seed)
    return [Bowl(1.0 + 0.8 * u, -1.0 + 0.02 * v) for u, v in rng.standard_normal((n, 2))]


@dataclass(frozen=True)
class Residuals:
    """Outputs of a simulator with two parameters in units, minus those of the truth."""

    rate: float

    def __call__(self, x: FloatArray) -> FloatArray:
        times = np.linspace(0.0, 2.0, 6)
        return np.asarray(x[0] * np.exp(-x[1] * times) - 2.0 * np.exp(-self.rate * times))
