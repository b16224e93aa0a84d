"""The gate: the probability that a run fails or is an outlier.

Simulators rarely fail at random: beyond some value of one parameter, or of a combination of two,
the process they describe collapses. The gate is a noisy-or of half-spaces,

    p(x) = 1 − (1 − ε) Π_k [1 − g·Φ((a_k·u − t_k)/s)],

u being x in units of the prior's standard deviations, seen from the current mean. The directions
a_k are given: both ways along each axis, diagonals of the pairs that may correlate, and a few
suggested by the data. Unknown is where the cliff of each direction is, if it has one; that is
sampled by Gibbs' method on a grid. Cliffs that no run has excluded yet keep a small probability:
insurance against tails that nobody has looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from scipy.special import expit, ndtr

from supac.arrays import BoolArray, FloatArray, IntArray, frozen
from supac.emulator.units import Units
from supac.surrogate.estimator import MANY_PARAMETERS

_WIDTH, _CERTAINTY, _LEAK = 0.25, 0.9, 0.005  # s, g, ε
_THRESHOLDS = np.arange(-2.0, 6.01, 0.25)
_AXIS, _PAIR, _DATA = 0.05, 0.01, 0.001  # prior probability that a direction has a cliff
_CLIFFS_AS_OF = 10.0  # parameters: of many, no more cliffs are expected than of so many
_MOST_PAIRS = 40
_MOST_FAILURES = 120  # the latest count; their likelihood then stays within float64
_CHAINS, _BURN, _SWEEPS = 8, 3, 7
_GRID = np.arange(-6.0, 10.01, 0.05)  # on which a direction's probability is tabulated
_STEP = _WIDTH / 16.0  # of the grid on which runs are counted
_COUNTED = np.arange(_THRESHOLDS[0] - 4.0 * _WIDTH, _THRESHOLDS[-1] + 4.0 * _WIDTH, _STEP)


@dataclass(frozen=True, eq=False)
class Gate:
    """Hold `chances[k, j]`, g times the probability of a cliff of direction k at threshold j."""

    units: Units
    directions: FloatArray
    chances: FloatArray

    @cached_property
    def _table(self) -> FloatArray:
        return self.chances @ _behind()

    def probability(self, x: FloatArray) -> FloatArray:
        """Compute the probability of an outlier at x, to first order: (n, dim) → (n,)."""
        left, share = _cells(self.units(x) @ self.directions.T, _GRID, _GRID[1] - _GRID[0])
        left += len(_GRID) * np.arange(len(self.directions))
        values = self._table.take(left) * (1.0 - share) + self._table.take(left + 1) * share
        return np.minimum(values.sum(axis=1), 1.0)

    def expectation(
        self, mean: FloatArray, covariance: FloatArray
    ) -> tuple[float, FloatArray, FloatArray]:
        """Compute E[p], E[∇p] and E[∇²p] under N(mean, covariance), by which Φ averages to a Φ."""
        along = self._along
        dim = len(mean)
        if dim > MANY_PARAMETERS:  # the directions begin with both ways along each axis
            others = np.concatenate([along[:dim], along[2 * dim :]])
            variance = np.einsum("ki,ki->k", others @ covariance, others)
            variance = np.concatenate([variance[:dim], variance])
        else:
            variance = np.einsum("ki,ki->k", along @ covariance, along)
        width = np.sqrt(_WIDTH**2 + variance)[:, None]
        excess = (along @ (mean - self.units.centre))[:, None] - _THRESHOLDS
        excess /= width
        density = self.chances * np.exp(-0.5 * excess**2) / (np.sqrt(2.0 * np.pi) * width)
        slope, curvature = density.sum(axis=1), -(density * excess / width).sum(axis=1)
        value = float(np.vdot(self.chances, ndtr(excess)))
        if dim > MANY_PARAMETERS:
            curvature[dim : 2 * dim] += curvature[:dim]
            along, bent = along[dim:], along[dim:] * curvature[dim:, None]
            return value, slope @ self._along, bent.T @ along
        return value, slope @ along, (along * curvature[:, None]).T @ along

    @cached_property
    def _along(self) -> FloatArray:
        return np.asarray(self.directions @ self.units.scale.T)


def fit_gate(
    x: FloatArray,
    outlier: BoolArray,
    iteration: IntArray,
    units: Units,
    coupled: BoolArray,
    near: float,
    rng: np.random.Generator,
) -> Gate:
    """Fit the gate to the labels of the runs.

    `near` is the weight of cliffs within half a standard deviation of the centre: none, unless
    many runs of the last batch are outliers.
    """
    u = units(x)
    directions, chance = _directions(u, outlier, iteration, coupled)
    along = u @ directions.T
    grid = len(_THRESHOLDS)
    weight = np.where(_THRESHOLDS < 0.5, max(near, 1e-12), 1.0)
    log_prior = np.log(chance)[:, None] + np.log(weight / weight.sum())
    # Last column: no cliff. Columns before: how much less likely the good runs are behind a cliff.
    log_odds = np.zeros((len(directions), grid + 1))
    log_odds[:, :grid] = log_prior - np.log1p(-chance)[:, None] + _log_spared_all(along[~outlier])
    bad = along[outlier][-_MOST_FAILURES:]
    spared = np.ones((len(directions), grid + 1, len(bad)))
    spared[:, :grid] = 1.0 - _CERTAINTY * ndtr((bad.T[:, None] - _THRESHOLDS[:, None]) / _WIDTH)
    odds = np.exp(np.minimum(log_odds, 600.0))
    chances = odds / odds.sum(axis=1, keepdims=True)
    # A direction that explains no failure keeps what the good runs say of it; the others compete.
    gain = np.log((1.0 - (1.0 - _LEAK) * spared) / _LEAK).sum(axis=2)
    active = np.flatnonzero((log_odds + gain)[:, :grid].max(axis=1, initial=-np.inf) > -5.0)
    if len(bad) and len(active):
        chances[active] = _explain(odds[active], spared[active], rng)
    return Gate(units, directions, _CERTAINTY * chances[:, :grid])


def _cells(along: FloatArray, grid: FloatArray, step: float) -> tuple[IntArray, FloatArray]:
    """Return the point of the grid to the left of each value, and the share of the next one."""
    place = along - grid[0]
    place /= step
    np.clip(place, 0.0, len(grid) - 1.001, out=place)
    left = place.astype(np.intp)
    place -= left
    return left, place


@cache
def _behind() -> FloatArray:
    """Compute Φ((a − t)/s) for a of the grid: (T, grid)."""
    return frozen(np.asarray(ndtr((_GRID - _THRESHOLDS[:, None]) / _WIDTH)))


@cache
def _log_spared() -> FloatArray:
    """Compute log(1 − g·Φ((a − t)/s)) for a of the grid on which runs are counted: (grid, T)."""
    return frozen(np.log1p(-_CERTAINTY * ndtr((_COUNTED[:, None] - _THRESHOLDS) / _WIDTH)))


def _log_spared_all(along: FloatArray) -> FloatArray:
    """Compute Σ_i log(1 − g·Φ((along_ik − t)/s)) over runs i: (n, D) → (D, T).

    Runs are counted on a fine grid, with linear interpolation, and each of its points is looked up
    once for all: beyond four widths on either side nothing changes any more.
    """
    directions, grid = along.shape[1], len(_COUNTED)
    left, share = _cells(along, _COUNTED, _STEP)
    left += grid * np.arange(directions)
    right = np.bincount(left.ravel(), share.ravel(), directions * grid)
    counts = np.bincount(left.ravel(), np.subtract(1.0, share, out=share).ravel(), len(right))
    counts[1:] += right[:-1]
    return np.asarray(counts.reshape(directions, grid) @ _log_spared())


def _explain(odds: FloatArray, spared: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Sample the posterior of each direction's threshold by Gibbs' method: (D, T + 1).

    Given all other cliffs, failure i escapes them with probability e_i, and threshold j of
    direction k has weight odds[k, j]·Π_i (1 − e_i·spared[k, j, i]). The last threshold is none, and
    spares all. Directions compete for the same failures, and whichever explains them first is slow
    to give way: so each chain begins with one cliff, drawn by how well it alone explains them all,
    and visits the directions in an order of its own.
    """
    count, states, _ = spared.shape
    by_failure = np.ascontiguousarray(spared.transpose(0, 2, 1))  # (D, failures, T + 1)
    chain = np.arange(_CHAINS)
    alone = (odds * (1.0 - (1.0 - _LEAK) * by_failure).prod(axis=1))[:, :-1].ravel()
    first, threshold = np.divmod(rng.choice(len(alone), _CHAINS, p=alone / alone.sum()), states - 1)
    state = np.full((_CHAINS, count), states - 1)
    state[chain, first] = threshold
    escaped = (1.0 - _LEAK) * by_failure[first, :, threshold]
    chances = np.zeros((count, states))
    for sweep in range(_BURN + _SWEEPS):
        order = rng.permuted(np.tile(np.arange(count), (_CHAINS, 1)), axis=1)
        uniform = rng.random((count, _CHAINS, 1))
        for step in range(count):
            k = order[:, step]
            own = by_failure[k]
            others = escaped / own[chain, :, state[chain, k]]
            weight = (1.0 - others[:, :, None] * own).prod(axis=1)
            weight *= odds[k]
            cumulative = weight.cumsum(axis=1)
            total = cumulative[:, -1:]
            drawn = np.minimum((cumulative < uniform[step] * total).sum(axis=1), states - 1)
            state[chain, k] = drawn
            escaped = others * own[chain, :, drawn]
            if sweep >= _BURN:
                np.add.at(chances, k, weight / total)
    return chances / (_SWEEPS * _CHAINS)


def _directions(
    u: FloatArray, outlier: BoolArray, iteration: IntArray, coupled: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Return unit vectors (D, dim), and the prior probability of a cliff along each (D,)."""
    dim = u.shape[1]
    axes = np.vstack([np.eye(dim), -np.eye(dim)])
    expected = _AXIS if dim <= MANY_PARAMETERS else _AXIS * _CLIFFS_AS_OF / dim
    directions, chance = [axes], [np.full(2 * dim, expected)]
    rows, columns = np.nonzero(np.tril(coupled, -1))
    if len(rows) <= _MOST_PAIRS and dim <= MANY_PARAMETERS:
        for signs in ((1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0)):
            pairs = np.zeros((len(rows), dim))
            pairs[np.arange(len(rows)), rows] = signs[0] * np.sqrt(0.5)
            pairs[np.arange(len(rows)), columns] = signs[1] * np.sqrt(0.5)
            directions.append(pairs)
            chance.append(np.full(len(rows), _PAIR))
    if outlier.sum() >= 2:
        suggested = _suggest(u, outlier, iteration)
        directions.append(suggested)
        chance.append(np.full(len(suggested), _DATA / max(len(suggested), 1)))
    return np.vstack(directions), np.concatenate(chance)


def _suggest(u: FloatArray, outlier: BoolArray, iteration: IntArray) -> FloatArray:
    """Find directions in which outliers differ from the other runs: (≤ 3, dim)."""
    contrasts = []
    for which in np.unique(iteration[outlier]):
        batch = iteration == which
        good = u[batch & ~outlier]
        contrasts.append(u[batch & outlier] - (good.mean(axis=0) if len(good) else 0.0))
    mean = np.vstack(contrasts).mean(axis=0)
    sparse = np.sign(mean) * np.maximum(np.abs(mean) - 1.5 / np.sqrt(outlier.sum()), 0.0)
    candidates = np.vstack([mean, sparse, _logistic(u, outlier)])
    norms = np.linalg.norm(candidates, axis=1)
    return candidates[norms > 1e-6] / norms[norms > 1e-6, None]


def _logistic(u: FloatArray, outlier: BoolArray) -> FloatArray:
    """Compute the coefficients of a logistic regression with a unit ridge: (dim,)."""
    design = np.column_stack([np.ones(len(u)), u])
    ridge = np.ones(design.shape[1])
    ridge[0] = 0.05
    theta = np.zeros(design.shape[1])
    theta[0] = -2.0
    for _ in range(12):
        chance = expit(np.clip(design @ theta, -30.0, 30.0))
        weight = np.maximum(chance * (1.0 - chance), 1e-4)
        slope = design.T @ (outlier - chance) - ridge * theta
        step = np.linalg.solve((design.T * weight) @ design + np.diag(ridge), slope)
        theta = theta + step * min(1.0, 3.0 / max(float(np.abs(step).max()), 1e-9))
    return theta[1:]
