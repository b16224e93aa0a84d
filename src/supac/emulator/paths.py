"""Random functions from a Gaussian process, conditioned on its runs (Matheron's rule).

A draw of the process before the runs, from random features, plus the process of what it gets wrong
at the runs: f(u) = g(u) + k(u, U)·K⁻¹(y − g(U) − ε). It costs as much as a prediction, at any
number of points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from supac.arrays import FloatArray
from supac.emulator.process import CONSTANT, Process

_FEATURES = 600  # random waves of the squared-exponential part
_PRODUCTS = 1_000  # of pairs of inputs, up to which the quadratic part is exact
_ROWS = 2048  # evaluated at a time

Paths = Callable[[FloatArray], FloatArray]
"""Inputs (n, dim) → values of all functions (count, n, k)."""


@dataclass(frozen=True, eq=False)
class _PriorPaths:
    """Draws of functions with the process's kernel: constant, linear, quadratic and waves.

    All share the waves, and have heights of their own.
    """

    metric: FloatArray
    constant: FloatArray
    """(functions,)."""
    linear: FloatArray
    """(dim, functions)."""
    quadratic: FloatArray
    """(products, functions)."""
    sides: tuple[FloatArray, FloatArray] | None
    """Random directions r and s, (dim, products), with E[(v·r)(v·s)(w·r)(w·s)] = (v·w)²; None if
    the products of all pairs of inputs are few enough."""
    waves: FloatArray
    """(dim, features)."""
    phases: FloatArray
    heights: FloatArray
    """(features, functions)."""

    @classmethod
    def draw(cls, process: Process, functions: int, rng: np.random.Generator) -> _PriorPaths:
        dim = process.metric.shape[0]
        products, sides = dim * (dim + 1) // 2, None
        if products > _PRODUCTS:
            products = _PRODUCTS
            first, second = rng.standard_normal((2, dim, products))
            sides = (first, second / np.sqrt(products))
        smooth, linear, quadratic = (np.sqrt(process.amplitude * v) for v in process.variances)
        return cls(
            process.metric,
            np.sqrt(process.amplitude * CONSTANT) * rng.standard_normal(functions),
            linear * rng.standard_normal((dim, functions)),
            quadratic * rng.standard_normal((products, functions)),
            sides,
            rng.standard_normal((dim, _FEATURES)),
            rng.uniform(0.0, 2.0 * np.pi, _FEATURES),
            smooth * np.sqrt(2.0 / _FEATURES) * rng.standard_normal((_FEATURES, functions)),
        )

    def __call__(self, u: FloatArray) -> FloatArray:
        v = u @ self.metric.T
        values = self.constant + v @ self.linear
        values += np.cos(v @ self.waves + self.phases) @ self.heights
        values += self._products(v) @ self.quadratic
        return values

    def _products(self, v: FloatArray) -> FloatArray:
        """Return features of which the inner products are (v·w)²: (n, products)."""
        if self.sides is not None:
            return (v @ self.sides[0]) * (v @ self.sides[1])
        rows, columns = np.triu_indices(v.shape[1])
        twice = np.where(rows == columns, 1.0, np.sqrt(2.0))
        return v[:, rows] * v[:, columns] * twice


def draw_paths(process: Process, count: int, rng: np.random.Generator) -> Paths:
    """Draw functions that the process holds possible after its runs."""
    n, k = process.y.shape
    before = _PriorPaths.draw(process, count * k, rng)
    spread = np.sqrt(process.amplitude * process.noise * process.inflation)[:, None]
    wrong = np.tile(process.y, count) - before(process.u)
    wrong -= spread * rng.standard_normal((n, count * k))
    corrected = replace(process, y=wrong)

    def paths(u: FloatArray) -> FloatArray:
        values = np.empty((count, len(u), k))
        for start in range(0, len(u), _ROWS):
            part = u[start : start + _ROWS]
            found = before(part) + corrected.predict(part)
            values[:, start : start + _ROWS] = found.reshape(len(part), count, k).swapaxes(0, 1)
        return values

    return paths
