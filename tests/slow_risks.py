"""Risks that take their time; processes that make runs import this file, so it imports little."""

from __future__ import annotations

import time

import numpy as np

from supac.arrays import FloatArray


def risk(x: FloatArray) -> float:
    """Take 20 ms."""
    time.sleep(0.02)
    return float(np.tanh(0.1 * x @ x))


def slow(x: FloatArray) -> float:
    """Take half a second."""
    time.sleep(0.5)
    return risk(x)


def hanging(x: FloatArray) -> float:
    """Take a minute at some of the points."""
    if x[0] > 1.0:
        time.sleep(60.0)
    return risk(x)
