"""Upper confidence limit on a mean by betting, valid at every number of draws simultaneously.

A gambler starts with 1 and bets on each draw X in [0, 1] that it is below m: the stake is a
fraction c of what m can bear, and wealth is multiplied by 1 + c(m − X)/(1 − m), which has mean at
most 1 where the true mean is at least m. By Ville's inequality the wealth then ever reaches 1/δ
with probability at most δ, so any m at which it did can be excluded (Waudby-Smith and Ramdas,
2024). Wealth is the mean over gamblers with different fractions c, fixed in advance.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logsumexp

from supac.arrays import FloatArray

_FRACTIONS = expit(np.arange(-5.0, 5.0))
"""Stakes from 0.7 % to 98 %: the best one depends on the spread of the draws, which is unknown."""
_HALVINGS = 50


def betting_limit(shares: FloatArray, delta: float) -> float:
    """Compute an upper limit on the mean of independent draws in [0, 1] of one distribution.

    It may be looked at after every draw: all limits hold together with probability 1 − δ. The
    smallest until now is returned, so that further draws never raise it.
    """
    lowest, highest = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (lowest + highest)
        if log_wealth(shares, middle).max() >= -np.log(delta):
            highest = middle
        else:
            lowest = middle
    return highest


def log_wealth(shares: FloatArray, mean: float) -> FloatArray:
    """Compute the logarithm of the wealth after each draw, if the bets are on `mean`: (m,)."""
    gains = np.log1p(_FRACTIONS[:, None] * ((mean - shares) / (1.0 - mean)))
    return np.asarray(logsumexp(np.cumsum(gains, axis=1), axis=0, b=1.0 / len(_FRACTIONS)))
