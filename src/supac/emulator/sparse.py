"""Sparse polynomials: each of many outputs as a quadratic function of few of many inputs.

A process with one metric for all outputs cannot learn that each output depends on few parameters
of its own, and with fewer runs than parameters it predicts such outputs badly. Here a greedy search
picks inputs for each output, and products of the strongest of them; a regression shrinks the
coefficients that explain little to zero (automatic relevance determination, with a prior of the
variances that prefers small ones).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs
from scipy.sparse import csr_array

from supac.arrays import BoolArray, FloatArray, IntArray
from supac.emulator.tuning import DEFAULT, TrendTuning
from supac.families import Distribution

_TINY = 1e-9
_RIDGE = 1.0 + 1e-10  # on the diagonal of products of features, which may depend on each other


@dataclass(frozen=True, eq=False)
class SparsePolynomial:
    """Predict y_j = c_j + Σ b_ij u_i + Σ q_pj u_first(p) u_second(p), u from a centre."""

    centre: FloatArray
    """Mean of the inputs that it was fitted to: (dim,)."""
    constant: FloatArray
    """c, (k,)."""
    linear: FloatArray
    """b, (dim, k)."""
    first: IntArray
    """Index of the first factor of each product: (p,)."""
    second: IntArray
    """Index of the second factor, which may be the same: (p,)."""
    quadratic: csr_array
    """Coefficients of the products, q: (p, k)."""

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


def nearness(
    current: Distribution, x: FloatArray, tuning: TrendTuning = DEFAULT.trend
) -> FloatArray:
    """Compute the weights of runs x (n, dim) in a model around a posterior: (n,).

    Runs far from it, such as the first ones, count little: a polynomial that fits there has other
    coefficients.
    """
    if tuning.usual is None:
        return np.ones(len(x))
    distance = (current.whiten().points(x) ** 2).mean(axis=1)
    return np.asarray(1.0 / (1.0 + (distance / tuning.usual) ** 2))


def fold_runs(iteration: IntArray, tuning: TrendTuning = DEFAULT.trend) -> IntArray:
    """Return the fold of each run for cross-validation: (n,).

    Runs of a small batch are in the same fold.
    """
    part = np.arange(len(iteration)) // tuning.together
    return np.asarray((iteration + part) % tuning.folds)


def find_trend(
    u: FloatArray,
    y: FloatArray,
    weight: FloatArray,
    folds: IntArray,
    rival: FloatArray,
    tuning: TrendTuning = DEFAULT.trend,
) -> Trend | None:
    """Fit a polynomial to y (n, k) at u (n, dim), by weights (n,).

    Return None if too few runs are near the posterior, or if polynomials fitted to the other folds
    do not predict them clearly better than the rival model, whose mean squared errors in the same
    cross-validation are `rival` (n,).
    """
    near = weight > tuning.least_weight
    if near.sum() < tuning.fewest:
        return None
    unseen, own, other = np.zeros_like(y), 0.0, 0.0
    for fold in np.unique(folds[near]):
        rows = near & (folds == fold)
        unseen[rows] = fit_sparse(u[~rows], y[~rows], weight[~rows], tuning)(u[rows])
        own += float(weight[rows] @ ((unseen - y)[rows] ** 2).mean(axis=1))
        other += float(weight[rows] @ rival[rows])
        if own > tuning.hopeless * other:
            return None
    if not own < tuning.better * other:
        return None
    return Trend(fit_sparse(u, y, weight, tuning), near, unseen[near])


def fit_sparse(
    u: FloatArray, y: FloatArray, weight: FloatArray, tuning: TrendTuning = DEFAULT.trend
) -> SparsePolynomial:
    """Fit a sparse polynomial to outputs y (n, k) at inputs u (n, dim), by weights (n,).

    Choose inputs of each output, then products of its strongest inputs that explain what the
    linear terms leave, and fit the coefficients of both together.
    """
    share = weight / weight.sum()
    centre, constant = share @ u, share @ y
    root = np.sqrt(share * len(u))
    plain, outputs = (u - centre).T, ((y - constant) * root[:, None]).T
    inputs = plain * root
    power = np.einsum("kn,kn->k", outputs, outputs)
    most = max(int(1.0 / float(share @ share)) // tuning.runs_a_term, 2)  # terms of an output
    linear = _choose_inputs(inputs, outputs, power, most, tuning)
    rest = outputs - linear.slopes @ inputs
    products = _choose_products(plain, root, linear, rest, most=min(tuning.products, most))
    cross = inputs[linear.chosen] @ products.values.transpose(0, 2, 1)
    gram = np.block([[linear.gram, cross], [cross.transpose(0, 2, 1), products.gram]])
    by_products = (products.values @ outputs[:, :, None])[:, :, 0]
    towards = np.concatenate([linear.towards, by_products], axis=1)
    found = _relevance(gram, towards, power, len(u), tuning)
    slopes, bends = np.split(found, [linear.chosen.shape[1]], axis=1)
    size = bends**2 * np.einsum("kff->kf", products.gram)
    bends = np.where(size > tuning.negligible * power[:, None], bends, 0.0)
    constant = constant - (bends * products.means).sum(axis=1)
    all_slopes = linear.slopes.copy()
    all_slopes[_rows(outputs), linear.chosen] = slopes
    pairs, quadratic = _gather(products.first, products.second, bends)
    return SparsePolynomial(centre, constant, all_slopes.T, pairs[0], pairs[1], quadratic)


@dataclass(frozen=True, eq=False)
class _LinearTerms:
    """Hold the inputs that were chosen for each of k outputs."""

    chosen: IntArray
    """(k, f), of which `strongest` are the first few by what they explain."""
    strongest: IntArray
    gram: FloatArray
    """Inner products of the chosen inputs over the runs: (k, f, f)."""
    towards: FloatArray
    """Inner products of these with the output: (k, f)."""
    slopes: FloatArray
    """Coefficients of all inputs: (k, dim)."""


def _choose_inputs(
    inputs: FloatArray, outputs: FloatArray, power: FloatArray, most: int, tuning: TrendTuning
) -> _LinearTerms:
    """Choose at most `most` of the inputs (dim, n) for each of the outputs (k, n), and regress."""
    rows = _rows(outputs)
    gram, towards = inputs @ inputs.T, outputs @ inputs.T
    chosen = _pursue(gram[None], towards, min(tuning.inputs, most, len(inputs)))
    gram, towards = gram[chosen[:, :, None], chosen[:, None]], towards[rows, chosen]
    found = _relevance(gram, towards, power, inputs.shape[1], tuning)
    strength = np.abs(found) * np.sqrt(np.einsum("kff->kf", gram))
    order = np.argsort(-strength, axis=1, kind="stable")[:, : tuning.strongest]
    slopes = np.zeros((len(outputs), len(inputs)))
    slopes[rows, chosen] = found
    return _LinearTerms(chosen, np.take_along_axis(chosen, order, axis=1), gram, towards, slopes)


@dataclass(frozen=True, eq=False)
class _ProductTerms:
    """Hold the products of two inputs that were chosen for each of k outputs."""

    first: IntArray
    """(k, f), and the second factor alike."""
    second: IntArray
    values: FloatArray
    """(k, f, n), times the root of the weights."""
    means: FloatArray
    """(k, f)."""
    gram: FloatArray
    """Inner products of the centred products over the runs: (k, f, f)."""


def _choose_products(
    plain: FloatArray, root: FloatArray, linear: _LinearTerms, rest: FloatArray, *, most: int
) -> _ProductTerms:
    """Choose at most `most` products of the strongest inputs for each output.

    `plain` are the inputs (dim, n) without the roots of the weights (n,), `rest` (k, n) is what the
    linear terms leave.
    """
    rows, n = _rows(rest), len(root)
    products = _products((plain * np.sqrt(root))[linear.strongest])
    # Linear terms and outputs have the mean zero: only products by products need their own.
    means = products @ root / n
    gram = products @ products.transpose(0, 2, 1)
    gram -= n * means[:, :, None] * means[:, None]
    towards = (products @ rest[:, :, None])[:, :, 0]
    best = _pursue(gram, towards, min(most, products.shape[1]))
    left, right = np.triu_indices(linear.strongest.shape[1])
    return _ProductTerms(
        linear.strongest[:, left][rows, best],
        linear.strongest[:, right][rows, best],
        products[rows, best],
        means[rows, best],
        gram[rows[:, :, None], best[:, :, None], best[:, None]],
    )


def _rows(outputs: FloatArray) -> IntArray:
    """Return the index of each output, (k, 1), to go with those of its terms (k, f)."""
    return np.arange(len(outputs))[:, None]


def _products(factors: FloatArray) -> FloatArray:
    """Multiply each of the factors (k, f, n) by itself and by those after it: (k, f(f+1)/2, n)."""
    outputs, count, n = factors.shape
    found, start = np.empty((outputs, count * (count + 1) // 2, n)), 0
    for i in range(count):
        end = start + count - i
        np.multiply(factors[:, i : i + 1], factors[:, i:], out=found[:, start:end])
        start = end
    return found


def _gather(first: IntArray, second: IntArray, bends: FloatArray) -> tuple[IntArray, csr_array]:
    """Return the pairs of inputs of any output (2, p), and their coefficients (p, k)."""
    outputs, terms = np.nonzero(bends)
    one, other = first[outputs, terms], second[outputs, terms]
    ends = np.stack([np.minimum(one, other), np.maximum(one, other)])
    pairs, place = np.unique(ends, axis=1, return_inverse=True)
    shape = pairs.shape[1], len(bends)
    return pairs, csr_array((bends[outputs, terms], (place.ravel(), outputs)), shape)


def _pursue(gram: FloatArray, towards: FloatArray, count: int) -> IntArray:
    """Choose `count` features for each of k outputs by orthogonal matching pursuit: (k, count).

    `gram` (k or 1, f, f) has the inner products of the features, `towards` (k, f) those with the
    outputs. The next feature is the one that, beside those chosen before, leaves the smallest
    residual.
    """
    outputs, rows = len(towards), np.arange(len(towards))
    shared = len(gram) == 1
    norms = np.sqrt(np.maximum(np.einsum("kff->kf", gram), 0.0)) + _TINY
    gram = gram / norms[:, :, None] / norms[:, None]
    towards = towards / norms
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


def _relevance(
    gram: FloatArray, towards: FloatArray, power: FloatArray, n: int, tuning: TrendTuning
) -> FloatArray:
    """Regress k outputs on features, each coefficient with a prior variance of its own: (k, f).

    `gram` (k, f, f) has the inner products of the features over n runs, `towards` (k, f) those
    with the outputs, and `power` (k,) those of the outputs with themselves.
    """
    mean, diagonal = power / n + 1e-200, np.arange(gram.shape[1])
    size = np.einsum("kff->kf", gram) / n + 1e-100
    variance, noise = mean[:, None] / len(diagonal) / size, 0.2 * mean
    least = _TINY * mean[:, None] / size
    found, own = np.empty_like(towards), np.empty_like(towards)
    for _ in range(tuning.updates):
        precision = gram / noise[:, None, None]
        precision[:, diagonal, diagonal] *= _RIDGE
        precision[:, diagonal, diagonal] += 1.0 / variance
        for output, matrix in enumerate(precision):  # an inverse of NumPy's takes twice as long
            root, _ = dpotrf(matrix.T, lower=1, clean=0, overwrite_a=1)
            found[output] = dpotrs(root, towards[output], lower=1)[0]
            own[output] = np.diagonal(dpotri(root, lower=1, overwrite_c=1)[0])
        found /= noise[:, None]
        freedom = (1.0 - own / variance).sum(axis=1)
        variance = np.maximum((found**2 + own) / tuning.shrink, least)
        left = power - ((2.0 * towards - (gram @ found[:, :, None])[:, :, 0]) * found).sum(axis=1)
        noise = np.maximum(left / np.maximum(n - freedom, n / 4), 1e-6 * mean)
    return found
