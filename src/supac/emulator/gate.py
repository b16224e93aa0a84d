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
from supac.emulator.tuning import DEFAULT, GateTuning
from supac.emulator.units import Units
from supac.surrogate.regime import Regime

_SPACING = 0.25  # of the places where a cliff may be, in standard deviations of the prior
_GRID = np.arange(-6.0, 10.01, 0.05)  # on which a direction's probability is tabulated


@cache
def _places(tuning: GateTuning) -> FloatArray:
    """Return the places t where a cliff may be: (T,)."""
    return frozen(np.arange(tuning.nearest, tuning.farthest + 0.01, _SPACING))


@dataclass(frozen=True, eq=False)
class Gate:
    """Hold `chances[k, j]`, g times the probability of a cliff of direction k at threshold j."""

    units: Units
    directions: FloatArray
    chances: FloatArray
    severity: float = 0.0
    """Mean excess risk of a run that fails or is an outlier; 0 if there was none."""
    tuning: GateTuning = DEFAULT.gate

    @cached_property
    def _table(self) -> FloatArray:
        return self.chances @ _behind(self.tuning)

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
        many = Regime.of(dim).is_many
        if many:  # the directions begin with both ways along each axis
            others = np.concatenate([along[:dim], along[2 * dim :]])
            variance = np.einsum("ki,ki->k", others @ covariance, others)
            variance = np.concatenate([variance[:dim], variance])
        else:
            variance = np.einsum("ki,ki->k", along @ covariance, along)
        width = np.sqrt(self.tuning.width**2 + variance)[:, None]
        excess = (along @ (mean - self.units.centre))[:, None] - _places(self.tuning)
        excess /= width
        density = self.chances * np.exp(-0.5 * excess**2) / (np.sqrt(2.0 * np.pi) * width)
        slope, curvature = density.sum(axis=1), -(density * excess / width).sum(axis=1)
        value = float(np.vdot(self.chances, ndtr(excess)))
        if many:
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
    *,
    tuning: GateTuning = DEFAULT.gate,
) -> Gate:
    """Fit the gate to the labels of the runs.

    `near` is the weight of cliffs within half a standard deviation of the centre: none, unless
    many runs of the last batch are outliers.
    """
    u = units(x)
    directions, chance = _directions(u, outlier, iteration, coupled, tuning)
    along = u @ directions.T
    places, width = _places(tuning), tuning.width
    grid = len(places)
    weight = np.where(places < tuning.close, max(near, 1e-12), 1.0)
    log_prior = np.log(chance)[:, None] + np.log(weight / weight.sum())
    # Last column: no cliff. Columns before: how much less likely the good runs are behind a cliff.
    log_odds = np.zeros((len(directions), grid + 1))
    spares_good = _log_spared_all(along[~outlier], tuning)
    log_odds[:, :grid] = log_prior - np.log1p(-chance)[:, None] + spares_good
    bad = along[outlier][-tuning.most_failures :]
    spared = np.ones((len(directions), grid + 1, len(bad)))
    spared[:, :grid] = 1.0 - tuning.certainty * ndtr((bad.T[:, None] - places[:, None]) / width)
    odds = np.exp(np.minimum(log_odds, 600.0))
    chances = odds / odds.sum(axis=1, keepdims=True)
    # A direction that explains no failure keeps what the good runs say of it; the others compete.
    gain = np.log((1.0 - (1.0 - tuning.leak) * spared) / tuning.leak).sum(axis=2)
    active = np.flatnonzero(
        (log_odds + gain)[:, :grid].max(axis=1, initial=-np.inf) > tuning.competing
    )
    if len(bad) and len(active):
        chances[active] = _explain(odds[active], spared[active], rng, tuning)
    return Gate(units, directions, tuning.certainty * chances[:, :grid], tuning=tuning)


def _cells(along: FloatArray, grid: FloatArray, step: float) -> tuple[IntArray, FloatArray]:
    """Return the point of the grid to the left of each value, and the share of the next one."""
    place = along - grid[0]
    place /= step
    np.clip(place, 0.0, len(grid) - 1.001, out=place)
    left = place.astype(np.intp)
    place -= left
    return left, place


@cache
def _behind(tuning: GateTuning) -> FloatArray:
    """Compute Φ((a − t)/s) for a of the grid: (T, grid)."""
    return frozen(np.asarray(ndtr((_GRID - _places(tuning)[:, None]) / tuning.width)))


@cache
def _counted(tuning: GateTuning) -> FloatArray:
    """Return the grid a on which runs are counted: (grid,)."""
    places, beyond = _places(tuning), 4.0 * tuning.width
    return frozen(np.arange(places[0] - beyond, places[-1] + beyond, tuning.width / 16.0))


@cache
def _log_spared(tuning: GateTuning) -> FloatArray:
    """Compute log(1 − g·Φ((a − t)/s)) for a of the grid on which runs are counted: (grid, T)."""
    behind = ndtr((_counted(tuning)[:, None] - _places(tuning)) / tuning.width)
    return frozen(np.log1p(-tuning.certainty * behind))


def _log_spared_all(along: FloatArray, tuning: GateTuning) -> FloatArray:
    """Compute Σ_i log(1 − g·Φ((along_ik − t)/s)) over runs i: (n, D) → (D, T).

    Runs are counted on a fine grid, with linear interpolation, and each of its points is looked up
    once for all: beyond four widths on either side nothing changes any more.
    """
    directions, counted = along.shape[1], _counted(tuning)
    grid = len(counted)
    left, share = _cells(along, counted, tuning.width / 16.0)
    left += grid * np.arange(directions)
    right = np.bincount(left.ravel(), share.ravel(), directions * grid)
    counts = np.bincount(left.ravel(), np.subtract(1.0, share, out=share).ravel(), len(right))
    counts[1:] += right[:-1]
    return np.asarray(counts.reshape(directions, grid) @ _log_spared(tuning))


def _explain(
    odds: FloatArray, spared: FloatArray, rng: np.random.Generator, tuning: GateTuning
) -> FloatArray:
    """Sample the posterior of each direction's threshold by Gibbs' method: (D, T + 1).

    Given all other cliffs, failure i escapes them with probability e_i, and threshold j of
    direction k has weight odds[k, j]·Π_i (1 − e_i·spared[k, j, i]). The last threshold is none, and
    spares all. Directions compete for the same failures, and whichever explains them first is slow
    to give way: so each chain begins with one cliff, drawn by how well it alone explains them all,
    and visits the directions in an order of its own.
    """
    count, states, _ = spared.shape
    by_failure = np.ascontiguousarray(spared.transpose(0, 2, 1))  # (D, failures, T + 1)
    chains, leak = tuning.chains, tuning.leak
    chain = np.arange(chains)
    alone = (odds * (1.0 - (1.0 - leak) * by_failure).prod(axis=1))[:, :-1].ravel()
    first, threshold = np.divmod(rng.choice(len(alone), chains, p=alone / alone.sum()), states - 1)
    state = np.full((chains, count), states - 1)
    state[chain, first] = threshold
    escaped = (1.0 - leak) * by_failure[first, :, threshold]
    chances = np.zeros((count, states))
    for sweep in range(tuning.burn + tuning.sweeps):
        order = rng.permuted(np.tile(np.arange(count), (chains, 1)), axis=1)
        uniform = rng.random((count, chains, 1))
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
            if sweep >= tuning.burn:
                np.add.at(chances, k, weight / total)
    return chances / (tuning.sweeps * chains)


def _directions(
    u: FloatArray,
    outlier: BoolArray,
    iteration: IntArray,
    coupled: BoolArray,
    tuning: GateTuning,
) -> tuple[FloatArray, FloatArray]:
    """Return unit vectors (D, dim), and the prior probability of a cliff along each (D,)."""
    dim = u.shape[1]
    many = Regime.of(dim).is_many
    axes = np.vstack([np.eye(dim), -np.eye(dim)])
    expected = tuning.axis * tuning.cliffs_as_of / dim if many else tuning.axis
    directions, chance = [axes], [np.full(2 * dim, expected)]
    rows, columns = np.nonzero(np.tril(coupled, -1))
    if len(rows) <= tuning.most_pairs and not many:
        for signs in ((1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0)):
            pairs = np.zeros((len(rows), dim))
            pairs[np.arange(len(rows)), rows] = signs[0] * np.sqrt(0.5)
            pairs[np.arange(len(rows)), columns] = signs[1] * np.sqrt(0.5)
            directions.append(pairs)
            chance.append(np.full(len(rows), tuning.pair))
    if outlier.sum() >= 2:
        suggested = _suggest(u, outlier, iteration)
        directions.append(suggested)
        chance.append(np.full(len(suggested), tuning.suggested / max(len(suggested), 1)))
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
