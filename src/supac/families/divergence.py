"""KL divergences, exact or estimated from draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import cho_solve

from supac.arrays import FloatArray

_RIDGE = 1e-12  # relative: scores may be linearly dependent

Seed = int | Sequence[int]


class Density(Protocol):
    """Any distribution with a log-density, such as `Distribution`."""

    def log_prob(self, x: FloatArray) -> FloatArray:
        """Compute the log-density: (n, dim) → (n,)."""


@dataclass(frozen=True)
class Divergence:
    """KL(π, prior), exact or estimated from draws."""

    value: float
    error: float = 0.0
    """Standard error; 0 if the value is exact."""
    spread: float = 0.0
    """Range of the averaged values; 0 if the value is exact, infinite if they are unbounded."""
    draws: int = 0

    def upper(self, delta: float) -> float:
        """Compute an upper limit that KL exceeds with probability at most delta (Hoeffding)."""
        if self.spread == 0.0:
            return self.value
        return self.value + self.spread * float(np.sqrt(-np.log(delta) / (2.0 * self.draws)))


def estimate_divergence(ratio: FloatArray, score: FloatArray) -> Divergence:
    """Estimate KL(π, prior) from log π − log prior (n,) and the score of π (n, size) at draws of π.

    The scores have mean zero and serve as control variates: the estimate is the intercept of a
    regression of the ratio on them.
    """
    if not np.isfinite(ratio).all():
        return Divergence(float("inf"), float("inf"), float("inf"), len(ratio))
    n = len(ratio)
    scale = np.sqrt((score**2).mean(axis=0))
    design = np.hstack([np.ones((n, 1)), score / np.where(scale > 0.0, scale, 1.0)])
    gram = design.T @ design / n
    root = np.linalg.cholesky(gram + _RIDGE * np.eye(len(gram)))
    beta = cho_solve((root, True), design.T @ ratio / n)
    rest = ratio - design @ beta
    error = float(np.sqrt(rest @ rest / max(n - len(gram), 1) / n))
    return Divergence(float(beta[0]), error, float("inf"), n)


def gaussian_cross_entropy(
    mean: FloatArray, covariance: FloatArray, centre: FloatArray, spread: FloatArray
) -> float:
    """Compute −π[log N(centre, spread)] for any π with this mean and covariance."""
    root = np.linalg.cholesky(spread)
    z = np.linalg.solve(root, mean - centre)
    ratio = np.linalg.solve(root, np.linalg.cholesky(covariance))
    log_volume = float(np.log(np.diag(root)).sum()) + 0.5 * len(mean) * float(np.log(2.0 * np.pi))
    return 0.5 * float(z @ z + (ratio**2).sum()) + log_volume
