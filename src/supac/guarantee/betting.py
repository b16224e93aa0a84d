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
_STAKES = expit(np.linspace(-2.0, 3.0, 4))
"""Stakes on data, from 12 % to 95 %; none of all, which a loss of 1 would ruin."""
_SHARES = expit(np.linspace(-3.0, 4.0, 4))
"""Stakes on draws."""
_HALVINGS_OF_BOTH = 30


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


def posterior_limit(losses: FloatArray, exponents: FloatArray, nats: float, delta: float) -> float:
    """Compute the limit of a posterior's mean true risk from the losses of its draws.

    `losses` (m, n) are those of independent draws, in [0, 1]. With probability 1 − δ_PAC over data,
    the mean over the posterior of Σ w log(1 − b + b(1 − x)/(1 − M)), M its mean true risk and w the
    exponents divided by their sum, is at most c = nats/Σa for all stakes b: KL_inf's theorem. So a
    second gambler, who bets on each draw that it is more, has a wealth that ever reaches 1/δ with
    probability at most δ, and any M at which it did is excluded.
    """
    complexity, weights = nats / exponents.sum(), exponents / exponents.sum()
    lowest, highest = 0.0, 1.0
    for _ in range(_HALVINGS_OF_BOTH):
        middle = 0.5 * (lowest + highest)
        if _both_wealths(losses, weights, complexity, middle).max() >= -np.log(delta):
            highest = middle
        else:
            lowest = middle
    return highest


def _both_wealths(
    losses: FloatArray, weights: FloatArray, complexity: float, mean: float
) -> FloatArray:
    """Compute the log wealth of the second gambler after each draw: (m,)."""
    gains, logs = (mean - losses) / (1.0 - mean), []
    for stake in _STAKES:
        least = np.log1p(-stake)
        surplus = (np.log1p(stake * gains) @ weights - complexity) / (complexity - least)
        logs.append(np.cumsum(np.log1p(_SHARES[:, None] * surplus), axis=1))
    every = np.concatenate(logs)
    return np.asarray(logsumexp(every, axis=0, b=1.0 / len(every)))
