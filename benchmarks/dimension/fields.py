"""Covariances of random fields at given places."""

from __future__ import annotations

import numpy as np

from supac.arrays import FloatArray


def distances(places: FloatArray) -> FloatArray:
    """Compute the distances between all places: (n, k) → (n, n)."""
    return np.asarray(np.sqrt(((places[:, None] - places[None]) ** 2).sum(axis=-1)))


def exponential(places: FloatArray, length: float) -> FloatArray:
    """Return the covariance exp(−distance/length): continuous, rough fields."""
    return np.asarray(np.exp(-distances(places) / length))


def matern(places: FloatArray, length: float) -> FloatArray:
    """Return the Matérn covariance of order 3/2: fields that are differentiable once."""
    scaled = np.sqrt(3.0) * distances(places) / length
    return np.asarray((1.0 + scaled) * np.exp(-scaled))


def cell_centres(rows: int, columns: int) -> FloatArray:
    """Return the centres (x, y) of a grid's cells on the unit square, row after row: (n, 2)."""
    x, y = (np.arange(columns) + 0.5) / columns, (np.arange(rows) + 0.5) / rows
    return np.column_stack([np.tile(x, rows), np.repeat(y, columns)])
