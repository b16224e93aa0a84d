"""Limits from the wealth of a mixture of fixed stakes: form M, before Jensen's inequality.

A gambler with the stake b bets on each datum that its loss x is below m; after all data the wealth
is Π (1 − b + b(1 − xᵢ)/(1 − m))^aᵢ. Where m is the mean true risk, with weights proportional to
the exponents aᵢ ≤ 1, its expectation is at most 1: by Jensen's inequality, independence, and the
inequality of the weighted arithmetic and geometric means. So is that of e^Δ, with Δ(m) the
logarithm of the mean wealth over stakes that are fixed before the data. For sets h_1 … h_K drawn
from a posterior, with log density ratios ρ_k and true risks m_k, Markov's inequality gives

    (1/K) Σ exp(Δ_k(m_k) − ρ_k) ≤ 1/δ

with probability 1 − δ over data and draws, and the limit is the largest mean of m_k that fulfils
it. Each term is convex in its m_k, and any value of the Lagrangian's dual is an upper limit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logsumexp

from supac.arrays import FloatArray
from supac.problem.bounds import binary_kl

STAKES = np.append(expit(np.linspace(-5.0, 5.0, 16)), 1.0 - 1e-6)
"""From 0.7 % to all: the best one depends on the spread of the losses, which is unknown."""
_CHERNOFF_SHARE = 0.7  # of the wealth on held-out data
_EDGES = np.sin(np.linspace(0.0, 0.5 * np.pi, 257)) ** 2  # of ranges of means, one stake in each
_HALVINGS = 50
_FAR = 1.0 - 1e-9
_NEWTON_STEPS, _MOST_CUTS = 6, 40
_PRECISION = 1e-6
_ROUNDING = 1e-9
_HIGHEST = 300.0  # logarithm of a wealth beyond which nothing is told apart


def log_wealth(
    losses: FloatArray, exponents: FloatArray, means: FloatArray, stakes: FloatArray = STAKES
) -> tuple[FloatArray, FloatArray]:
    """Compute Δ_k at m_k < 1, and its derivative: (K, n), (n,), (K,) → (K,), (K,)."""
    rest = (1.0 - means)[:, None]
    gains = (means[:, None] - losses) / rest
    logs, slopes = [], []
    for stake in stakes:
        factor = 1.0 + stake * gains
        logs.append(np.log(factor) @ exponents)
        slopes.append(stake * ((1.0 + gains) / factor @ exponents) / rest[:, 0])
    each = np.stack(logs)
    total = np.asarray(logsumexp(each, axis=0, b=1.0 / len(stakes)))
    shares = np.exp(each - total) / len(stakes)
    return total, np.einsum("bk,bk->k", shares, np.stack(slopes))


@dataclass(frozen=True)
class _Tangents:
    """Tangents of the convex functions δ·exp(Δ_k − ρ_k), at points in ascending order: (K, j)."""

    points: FloatArray
    logs: FloatArray
    slopes: FloatArray
    """Derivatives of the logarithms."""

    def with_points(self, points: FloatArray, logs: FloatArray, slopes: FloatArray) -> _Tangents:
        """Add one point each, (K,)."""
        columns = [
            np.column_stack([old, new])
            for old, new in zip(
                (self.points, self.logs, self.slopes), (points, logs, slopes), strict=True
            )
        ]
        order = np.argsort(columns[0], axis=1, kind="stable")
        return _Tangents(*(np.take_along_axis(each, order, axis=1) for each in columns))

    def vertices(self) -> tuple[FloatArray, FloatArray]:
        """Return where neighbouring tangents cross, and their values there: (K, j + 1) each.

        The first one crosses 0, which is a lower limit too, and the last one ends at 1.
        """
        values = np.exp(np.minimum(self.logs, _HIGHEST))
        slopes = values * self.slopes
        # The lines from left to right, beginning with 0: heights at 0, and slopes.
        nothing = np.zeros((len(values), 1))
        heights = np.column_stack([nothing, values - slopes * self.points])
        slopes = np.column_stack([nothing, slopes])
        bends, drops = np.diff(slopes), -np.diff(heights)
        with np.errstate(invalid="ignore", divide="ignore"):
            where = np.where(bends > 0.0, drops / bends, self.points)
        # Rounding must not move a crossing beyond its neighbours.
        where = np.clip(where, np.column_stack([nothing, self.points[:, :-1]]), self.points)
        where = np.column_stack([where, nothing + 1.0])
        return where, np.maximum(heights + slopes * where, 0.0)


def held_out_limit(losses: FloatArray, exponents: FloatArray, delta: float) -> float:
    """Compute the limit of a mean from losses (n,) in [0, 1] that no stake depends on.

    Most of the wealth is on the stake with which Chernoff's bound would just exclude a mean. That
    stake is chosen for each of many ranges of means, fixed beforehand, so that wealth grows within
    each; above the limit that is returned, every mean is excluded.
    """

    def fixed_excludes(mean: float) -> bool:
        return _log_wealth_of(losses, exponents, mean) + np.log(1.0 - _CHERNOFF_SHARE) >= price

    price, rest = -np.log(delta), -np.log(delta * _CHERNOFF_SHARE) / exponents.sum()
    highest = _first(fixed_excludes, 0.0, 1.0)
    cell = int(np.searchsorted(_EDGES, highest, side="left")) - 1
    for edge, top in zip(_EDGES[cell::-1], [highest, *_EDGES[cell:0:-1]], strict=True):
        stake = _chernoff_stake(float(edge), float(rest))

        def excludes(mean: float, stake: float = stake) -> bool:
            own = np.log1p(stake * (mean - losses) / (1.0 - mean)) @ exponents
            fixed = _log_wealth_of(losses, exponents, mean)
            both = np.log(_CHERNOFF_SHARE) + own, np.log(1.0 - _CHERNOFF_SHARE) + fixed
            return bool(np.logaddexp(*both) >= price)

        if not excludes(float(edge)):
            return _first(excludes, float(edge), float(top))
    return float(_EDGES[1])


def _log_wealth_of(losses: FloatArray, exponents: FloatArray, mean: float) -> float:
    return float(log_wealth(losses[None], exponents, np.array([mean]))[0][0])


def _first(excluded: Callable[[float], bool], low: float, high: float) -> float:
    """Return the least mean from which on all are excluded, rounded up; `high` is or is 1."""
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (low, middle) if excluded(middle) else (middle, high)
    return high


def _chernoff_stake(mean: float, complexity: float) -> float:
    """Return the best stake against `mean` for 0/1 losses whose kl from it is the complexity."""
    from scipy.optimize import brentq  # noqa: PLC0415 - slow to import

    if mean <= 0.0 or -np.log1p(-mean) <= complexity:
        return 1.0 - _ROUNDING
    low = float(brentq(lambda q: binary_kl(q, mean) - complexity, 0.0, mean))
    return (mean - low) / mean


def mixture_limit(
    losses: FloatArray,
    exponents: FloatArray,
    log_ratio: FloatArray,
    delta: float,
    stakes: FloatArray = STAKES,
) -> float:
    """Compute the limit of form M from losses (K, n) in [0, 1], exponents (n,) and ρ_k (K,)."""
    price = log_ratio - np.log(delta)

    def tangents_at(means: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        logs, slopes = log_wealth(losses, exponents, means, stakes)
        return means, logs - price, slopes

    # Newton's method towards Δ_k = ρ_k + log 1/δ, near which the solution is.
    own = losses @ exponents / exponents.sum()
    at = tangents_at(np.minimum(own + 0.5 * (1.0 - own), _FAR))
    known = _Tangents(*(each[:, None] for each in at))
    for _ in range(_NEWTON_STEPS):
        means, logs, slopes = at
        step = logs / np.where(slopes > 0.0, slopes, 1.0)
        at = tangents_at(np.clip(means - step, 0.5 * (own + means), 0.5 * (1.0 + means)))
        known = known.with_points(*at)
    limit, before = 1.0, np.inf
    for _ in range(_MOST_CUTS):
        found, means = _dual(known)
        limit = min(limit, found)
        if before - found < _PRECISION * found:
            break
        before, known = found, known.with_points(*tangents_at(np.minimum(means, _FAR)))
    return min(limit + _ROUNDING, 1.0)


def _dual(known: _Tangents) -> tuple[float, FloatArray]:
    """Minimise the dual over its multiplier; return its value and the means there, (K,).

    With multiplier ν it is ν + mean of max over m of (m − ν·δ·exp(Δ_k(m) − ρ_k)); at every ν, and
    with tangents for the convex functions, it is an upper limit.
    """
    from scipy.optimize import minimize_scalar  # noqa: PLC0415 - slow to import

    where, heights = known.vertices()

    def value(log_multiplier: float) -> float:
        multiplier = float(np.exp(log_multiplier))
        return multiplier + float((where - multiplier * heights).max(axis=1).mean())

    best = minimize_scalar(value, bounds=(-40.0, 5.0), method="bounded", options={"xatol": 1e-7})
    multiplier = float(np.exp(best.x))
    place = np.argmax(where - multiplier * heights, axis=1)
    return float(best.fun), np.take_along_axis(where, place[:, None], axis=1)[:, 0]
