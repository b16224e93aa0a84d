"""Prediction bands for new measurements with distribution-free coverage, from held-out data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supac.arrays import FloatArray, probability
from supac.guarantee.gate import CertificateError
from supac.problem.composite import Observations


@dataclass(frozen=True, eq=False)
class Bands:
    """Limits between which a new measurement of each output lies with probability `coverage`."""

    lower: FloatArray
    """(rows · columns,)."""
    upper: FloatArray
    coverage: float
    width: float
    """Half the width, in noise standard deviations."""
    n: int
    """Number of held-out measurements that it rests on."""

    @property
    def assumption(self) -> str:
        """What the coverage assumes, in one sentence."""
        return (
            f"a new residual, in noise standard deviations, is exchangeable with those of the "
            f"{self.n} held-out measurements; the coverage is over both"
        )


def conformal_bands(outputs: FloatArray, held_out: Observations, coverage: float = 0.9) -> Bands:
    """Compute split-conformal bands around the median of an ensemble's outputs (K, m).

    The half-width is the ⌈(n + 1)·coverage⌉-th smallest absolute residual of the n held-out
    measurements, which the ensemble has not seen: a further one exceeds it with probability at most
    1 − coverage.
    """
    probability(coverage, "coverage")
    centre = np.nanmedian(outputs, axis=0)
    residuals = held_out.residuals(centre[None])[0]
    scores = np.sort(np.where(np.isnan(residuals), np.inf, np.abs(residuals)))
    rank = int(np.ceil((len(scores) + 1) * coverage - 1e-9))
    if rank > len(scores):
        least = int(np.ceil(coverage / (1.0 - coverage) - 1e-9))
        raise CertificateError(
            f"bands of coverage {coverage:g} need at least {least} held-out measurements, not "
            f"{len(scores)}"
        )
    width = float(scores[rank - 1])
    noise = held_out.noise
    if held_out.logarithmic:
        lower, upper = centre * np.exp(-width * noise), centre * np.exp(width * noise)
    else:
        lower, upper = centre - width * noise, centre + width * noise
    return Bands(lower, upper, coverage, width, len(scores))
