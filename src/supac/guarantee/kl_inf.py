"""KL_inf: how hard it is to reach a mean with a distribution that is near the losses seen.

For losses x in [0, 1] with weights w that sum to 1, and a mean m,

    KL_inf(F, m) = max over 0 ≤ b ≤ 1 of Σ wᵢ log(1 − b + b(1 − xᵢ)/(1 − m))

is the least KL(F, G) over all distributions G on [0, 1] with a mean of at least m (Honda and
Takemura, 2010). It is 0 up to the mean of F, then increases, and is at least the binary kl of the
means. In the terms of a gambler, b is the stake and e^(n·KL_inf) the wealth of the best one.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from supac.arrays import FloatArray

_STEPS = 60  # of Newton's method, each of which halves the bracket at least
_CLOSE = 1e-12
_FAR = 1.0 - 1e-12  # a mean of losses that is not told apart from 1


def log_regret(n: float) -> float:
    """Compute log ξ_n: what a mixture of stakes loses in n rounds to the best one, in nats.

    ξ_n = √π Γ(n + 1)/Γ(n + ½) ≤ 2√n, for Jeffreys' mixture, with density 1/(π√(b(1 − b))) on
    stakes (Cover and Ordentlich, 1996). n is the sum of the exponents, which need not be whole.
    """
    return float(0.5 * np.log(np.pi) + gammaln(n + 1.0) - gammaln(n + 0.5))


def growth(losses: FloatArray, weights: FloatArray, mean: float, stake: float) -> float:
    """Compute the mean log growth of wealth with one stake: Σ w log(1 − b + b(1 − x)/(1 − m))."""
    with np.errstate(divide="ignore"):
        return float(weights @ np.log1p(stake * ((mean - losses) / (1.0 - mean))))


def best_stake(losses: FloatArray, weights: FloatArray, mean: float) -> float:
    """Compute the stake of the largest growth, which is concave in the stake."""
    gains = (mean - losses) / (1.0 - mean)
    if weights @ gains <= 0.0:
        return 0.0
    low, high, stake = 0.0, 1.0, 0.5
    if gains.min() > -1.0 and weights @ (gains / (1.0 + gains)) >= 0.0:
        return 1.0
    for _ in range(_STEPS):
        each = gains / (1.0 + stake * gains)
        slope, bend = float(weights @ each), float(weights @ each**2)
        low, high = (stake, high) if slope > 0.0 else (low, stake)
        step = slope / bend
        if abs(step) < _CLOSE * stake or high - low < _CLOSE:
            break
        stake = stake + step if low < stake + step < high else 0.5 * (low + high)
    return float(stake)


def kl_inf(losses: FloatArray, weights: FloatArray, mean: float) -> float:
    """Compute KL_inf of losses (m,) in [0, 1] with weights (m,), for a mean below 1."""
    return max(growth(losses, weights, mean, best_stake(losses, weights, mean)), 0.0)


def kl_inf_inverse(losses: FloatArray, weights: FloatArray, complexity: float) -> float:
    """Compute the largest mean with kl_inf ≤ complexity, rounded up.

    The growth with any stake is a lower limit of KL_inf, so that the mean at which it reaches the
    complexity is an upper limit, however exact the stake is.
    """
    mean = float(weights @ losses)
    if complexity <= 0.0 or mean >= _FAR:
        return min(mean, 1.0)
    low, high, stake = mean, 1.0, 1.0
    middle = mean + 0.5 * (1.0 - mean)
    for _ in range(_STEPS):
        stake = best_stake(losses, weights, middle)
        excess = growth(losses, weights, middle, stake) - complexity
        low, high = (low, middle) if excess > 0.0 else (middle, high)
        gain = (1.0 - losses) / (1.0 - middle)
        slope = stake * float(weights @ (gain / (1.0 - stake + stake * gain))) / (1.0 - middle)
        step = excess / slope if slope > 0.0 else np.inf
        if abs(step) < _CLOSE or high - low < _CLOSE:
            break
        middle = middle - step if low < middle - step < high else 0.5 * (low + high)
    return _reached(losses, weights, complexity, stake, middle)


def _reached(
    losses: FloatArray, weights: FloatArray, complexity: float, stake: float, mean: float
) -> float:
    """Return a mean, hardly larger, at which the growth with this stake is the complexity."""
    step = _CLOSE
    while mean < _FAR and growth(losses, weights, mean, stake) < complexity:
        mean, step = mean + step, 2.0 * step
    return float(mean) if mean < _FAR else 1.0
