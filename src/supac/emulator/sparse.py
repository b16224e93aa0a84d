"""Sparse polynomials: each of many outputs as a quadratic function of few of many inputs.

One metric for all outputs cannot tell that each depends on few parameters of its own: with fewer
runs than parameters it then knows little of any. For each output a greedy search picks inputs, and
products of the strongest; a regression shrinks those that earn little to zero (automatic
relevance determination, with a prior of the variances that prefers small ones).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from supac.arrays import BoolArray, FloatArray, IntArray
from supac.families import Distribution

_MOST_INPUTS = 20  # of an output
_STRONGEST = 8  # inputs whose products are candidates
_MOST_PRODUCTS = 16  # of an output
_RUNS_A_TERM = 4  # least number of runs for each term of an output
_UPDATES = 10  # of the variances of the coefficients
_SHRINK = 2.0  # what these are divided by: their prior is 1/√variance
_USUAL = 3.0  # squared standard deviations a parameter within which a run is near
_LEAST_WEIGHT = 0.05
_FEWEST = 16  # runs near the posterior
_FOLDS = 4  # parts of the runs, each of which is predicted from the others
_TOGETHER = 3  # runs of a batch in one part
_BETTER, _HOPELESS = 0.9, 2.0  # errors in those of the rival with which it wins, and gives up
_NEGLIGIBLE = 1e-6  # share of an output's variance below which a product is left out
_TINY = 1e-9


@dataclass(frozen=True, eq=False)
class SparsePolynomial:
    """Predict y_j = c_j + Σ b_ij u_i + Σ q_pj u_a(p) u_b(p), u from a centre."""

    centre: FloatArray
    """Mean of the inputs that it was fitted to: (dim,)."""
    constant: FloatArray
    """(k,)."""
    linear: FloatArray
    """(dim, k)."""
    first: IntArray
    """a: (p,)."""
    second: IntArray
    """b: (p,)."""
    quadratic: csr_array
    """(p, k)."""

    def __call__(self, u: FloatArray) -> FloatArray:
        """Predict at inputs: (n, dim) → (n, k)."""
        across = np.ascontiguousarray((u - self.centre).T)
        found = self.linear.T @ across
        found += self.quadratic.T @ (across[self.first] * across[self.second])
        return np.asarray(self.constant + found.T)

    def pull_back(self, u: FloatArray, by_outputs: FloatArray) -> FloatArray:
        """Compute the gradient in u (n, dim) from that in the outputs (n, k)."""
        across = np.ascontiguousarray((u - self.centre).T)
        slopes = np.ascontiguousarray(by_outputs.T)
        weight, (left, right) = self.quadratic @ slopes, self._ends
        found = self.linear @ slopes
        found += left.T @ (weight * across[self.second])
        found += right.T @ (weight * across[self.first])
        return np.asarray(found.T)

    @cached_property
    def _ends(self) -> tuple[csr_array, csr_array]:
        count, ones = len(self.first), np.ones(len(self.first))
        shape = count, len(self.linear)
        rows = np.arange(count)
        return csr_array((ones, (rows, self.first)), shape), csr_array(
            (ones, (rows, self.second)), shape
        )


@dataclass(frozen=True, eq=False)
class Trend:
    """Hold a polynomial around the posterior, and its predictions of runs it was not fitted to."""

    polynomial: SparsePolynomial
    near: BoolArray
    """Runs near the posterior: (n,)."""
    unseen: FloatArray
    """Predictions of these by polynomials fitted without them: (near, k)."""


def nearness(current: Distribution, x: FloatArray) -> FloatArray:
    """Compute the weights of runs x (n, dim) in a model around a posterior: (n,).

    The first runs are far from it, where a polynomial has other coefficients.
    """
    distance = (current.whiten().points(x) ** 2).mean(axis=1)
    return np.asarray(1.0 / (1.0 + (distance / _USUAL) ** 2))


def fold_runs(iteration: IntArray) -> IntArray:
    """Divide runs into parts, of which each is to be predicted from the others: (n,).

    Runs of a small batch stay together.
    """
    return np.asarray((iteration + np.arange(len(iteration)) // _TOGETHER) % _FOLDS)


def find_trend(
    u: FloatArray, y: FloatArray, weight: FloatArray, folds: IntArray, rival: FloatArray
) -> Trend | None:
    """Fit a polynomial to y (n, k) at u (n, dim), by weights (n,).

    None if too few runs are near, or if it does not predict them better, unseen, than a model with
    the mean squared errors `rival` (n,).
    """
    near = weight > _LEAST_WEIGHT
    if near.sum() < _FEWEST:
        return None
    unseen, own, other = np.zeros_like(y), 0.0, 0.0
    for fold in np.unique(folds[near]):
        rows = near & (folds == fold)
        unseen[rows] = fit_sparse(u[~rows], y[~rows], weight[~rows])(u[rows])
        own += float(weight[rows] @ ((unseen - y)[rows] ** 2).mean(axis=1))
        other += float(weight[rows] @ rival[rows])
        if own > _HOPELESS * other:
            return None
    if not own < _BETTER * other:
        return None
    return Trend(fit_sparse(u, y, weight), near, unseen[near])


def fit_sparse(u: FloatArray, y: FloatArray, weight: FloatArray) -> SparsePolynomial:
    """Fit a sparse polynomial to outputs y (n, k) at inputs u (n, dim), by weights (n,)."""
    share = weight / weight.sum()
    centre, constant = share @ u, share @ y
    root = np.sqrt(share * len(u))
    plain, outputs = (u - centre).T, ((y - constant) * root[:, None]).T
    inputs = plain * root
    terms = max(int(1.0 / float(share @ share)) // _RUNS_A_TERM, 2)
    chosen = _pursue(inputs[None], outputs, min(_MOST_INPUTS, terms, len(inputs)))
    linear = inputs[chosen]
    slopes = _relevance(linear, outputs)
    strength = np.abs(slopes) * np.sqrt((linear**2).mean(axis=2))
    order = np.argsort(-strength, axis=1, kind="stable")[:, :_STRONGEST]
    strongest = np.take_along_axis(chosen, order, axis=1)
    left, right = np.triu_indices(strongest.shape[1])
    first, second = strongest[:, left], strongest[:, right]
    products = plain[first] * plain[second]
    middle = products @ share
    products -= middle[:, :, None]
    products *= root
    # Products are searched for what the linear terms leave.
    rest = outputs - (slopes[:, None] @ linear)[:, 0]
    own = _pursue(products, rest, min(_MOST_PRODUCTS, terms, products.shape[1]))
    rows = np.arange(len(outputs))[:, None]
    found = _relevance(np.concatenate([linear, products[rows, own]], axis=1), outputs)
    slopes, bends = np.split(found, [chosen.shape[1]], axis=1)
    size = bends**2 * (products[rows, own] ** 2).mean(axis=2)
    bends = np.where(size > _NEGLIGIBLE * (outputs**2).mean(axis=1, keepdims=True), bends, 0.0)
    constant = constant - (bends * middle[rows, own]).sum(axis=1)
    full = np.zeros((len(outputs), len(inputs)))
    np.put_along_axis(full, chosen, slopes, axis=1)
    pairs, quadratic = _gather(first[rows, own], second[rows, own], bends)
    return SparsePolynomial(centre, constant, full.T, pairs[0], pairs[1], quadratic)


def _gather(first: IntArray, second: IntArray, bends: FloatArray) -> tuple[IntArray, csr_array]:
    """Return the pairs of inputs of any output (2, p), and their coefficients (p, k)."""
    outputs, terms = np.nonzero(bends)
    one, other = first[outputs, terms], second[outputs, terms]
    ends = np.stack([np.minimum(one, other), np.maximum(one, other)])
    pairs, place = np.unique(ends, axis=1, return_inverse=True)
    shape = pairs.shape[1], len(bends)
    return pairs, csr_array((bends[outputs, terms], (place.ravel(), outputs)), shape)


def _pursue(features: FloatArray, y: FloatArray, count: int) -> IntArray:
    """Choose features (k or 1, f, n) of outputs y (k, n), one by one: (k, count).

    Each is the one that leaves least of what the others have left (orthogonal matching pursuit).
    """
    outputs, rows = len(y), np.arange(len(y))
    shared = len(features) == 1
    norms = np.sqrt((features**2).sum(axis=2)) + _TINY
    unit = features / norms[:, :, None]
    gram = unit @ unit.transpose(0, 2, 1)
    towards = y @ unit[0].T if shared else np.einsum("kn,kfn->kf", y, unit)
    left = np.ones_like(towards)
    taken = np.empty((outputs, count, towards.shape[1]))  # chosen, made orthonormal, by features
    chosen = np.empty((outputs, count), dtype=np.intp)
    for step in range(count):
        gain = np.where(left > 1e-6, towards**2 / np.maximum(left, 1e-6), -1.0)
        best = gain.argmax(axis=1)
        chosen[:, step] = best
        before = taken[rows, :step, best]
        new = gram[0, best] if shared else gram[rows, best]
        new = new - (before[:, None] @ taken[:, :step])[:, 0]
        length = np.sqrt(np.maximum(left[rows, best], 1e-12))
        new /= length[:, None]
        taken[:, step] = new
        towards = towards - (towards[rows, best] / length)[:, None] * new
        left = left - new**2
        left[rows, best] = 0.0
    return chosen


def _relevance(features: FloatArray, y: FloatArray) -> FloatArray:
    """Regress outputs y (k, n) on features (k, f, n), each with a variance of its own: (k, f)."""
    n, diagonal = y.shape[1], np.arange(features.shape[1])
    power = (y**2).mean(axis=1) + 1e-300
    gram = features @ features.transpose(0, 2, 1)
    towards = (features @ y[:, :, None])[:, :, 0]
    size = np.einsum("kff->kf", gram) / n + 1e-300
    variance, noise = power[:, None] / len(diagonal) / size, 0.2 * power
    least = _TINY * power[:, None] / size
    for _ in range(_UPDATES):
        precision = gram / noise[:, None, None]
        precision[:, diagonal, diagonal] += 1.0 / variance
        spread = np.linalg.inv(precision)
        found = (spread @ towards[:, :, None])[:, :, 0] / noise[:, None]
        own = np.einsum("kff->kf", spread)
        freedom = (1.0 - own / variance).sum(axis=1)
        variance = np.maximum((found**2 + own) / _SHRINK, least)
        left = ((y - (found[:, None] @ features)[:, 0]) ** 2).sum(axis=1)
        noise = np.maximum(left / np.maximum(n - freedom, n / 4), 1e-6 * power)
    return np.asarray(found)
