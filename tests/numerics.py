"""Numerical derivatives and Monte Carlo comparisons, for the tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from supac.arrays import FloatArray


def derivative(
    function: Callable[[FloatArray], Any], at: FloatArray, relative_step: float = 1e-5
) -> FloatArray:
    """Fourth-order central differences along each coordinate, stacked in the first axis."""
    rows = []
    for i in range(len(at)):
        h = np.zeros(len(at))
        h[i] = relative_step * max(abs(at[i]), 0.1)
        near = np.asarray(function(at + h)) - np.asarray(function(at - h))
        far = np.asarray(function(at + 2.0 * h)) - np.asarray(function(at - 2.0 * h))
        rows.append((8.0 * near - far) / (12.0 * h[i]))
    return np.array(rows)


def assert_mean(samples: FloatArray, expected: Any, z: float = 5.0) -> None:
    """The samples' mean is `expected` within z of its own standard errors.

    With z = 5 and a few hundred comparisons a correct law fails by chance once in ten thousand
    suites; the seeds are fixed, so it fails always or never.
    """
    error = samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
    gap = np.abs(samples.mean(axis=0) - expected)
    assert (gap <= z * error + 1e-12).all(), f"{gap} is more than {z} × {error}"
