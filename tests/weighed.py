"""Runs of a smooth risk, drawn from any number of distributions."""

from __future__ import annotations

import numpy as np

import supac
from supac.problem import Evaluations

PLANE = supac.gaussian([1.0, -1.0], [[2.0, 0.5], [0.5, 1.0]])


def evaluations(*batches: tuple[supac.Distribution, int], seed: int = 0) -> Evaluations:
    rng = np.random.default_rng(seed)
    runs = Evaluations.none(batches[0][0].dim)
    for distribution, n in batches:
        x = distribution.sample(n, rng)
        runs = runs.append(x, np.sin(x).sum(axis=1), distribution)
    return runs
