"""A Gaussian process of outputs and of their derivatives.

The kernel is that of `process.py`: a constant, linear, quadratic and squared-exponential part. Its
metric is the active subspace of the derivatives seen: the inputs, turned to the directions along
which outputs change most, have lengths by how much they do. So four numbers of the kernel, two of
the metric, are left to fit, however many inputs there are, and one factorisation serves all
outputs. Derivatives along directions that hardly change any output are left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.linalg.blas import dtrmm

from supac.arrays import FloatArray, IntArray
from supac.emulator.process import CONSTANT, Process, ScoreFunction, factor_of_covariance

# Logarithms of: factor on all lengths, share of the metric that all directions have, and standard
# deviations of the squared-exponential, linear, quadratic part and of the noise.
CENTRE = np.array([0.0, np.log(0.1), 0.0, 0.0, np.log(0.22), np.log(0.02)])
_SPREAD = np.array([1.0, 1.5, 1.0, 1.0, 1.0, 1.5])
_LOWER = np.array([-3.0, np.log(1e-3), -4.0, -4.0, -5.5, np.log(1e-4)])
_UPPER = np.array([3.0, 0.0, 4.0, 4.0, 2.5, np.log(0.3)])
_FIRST_STEPS = np.array([0.4, 1.0, 0.7, 0.7, 0.7, 1.0])
_FLOOR = 1e-4  # least noise
_FITTED = 400  # values and derivatives that hyperparameters are fitted to
_MANY_STEPS = 10  # steps of a thorough fit; others have fewer evaluations
_EVALUATIONS, _FEWER = 60, 25
_ROWS = 200  # predicted at a time
_EVIDENCE = 300.0  # numbers that values and slopes count as, at most
_LENGTH = 0.25  # sum of the squared inverse lengths of the centre


@dataclass(frozen=True, eq=False)
class GradientProcess(Process):
    """Condition a process on y (n, k) at u (n, dim), and on slopes (s, r, k) at s of these."""

    at: IntArray
    """Rows of u with slopes: (s,)."""
    turn: FloatArray
    """Directions of the inputs, those along which outputs change most first: (dim, dim)."""
    energy: FloatArray
    """Mean squared slope along each of them: (dim,)."""
    slopes: FloatArray
    """Along the leading r: (s, r, k)."""

    @property
    def leading(self) -> int:
        """Return the number of directions with slopes, r."""
        return self.slopes.shape[1]

    @cached_property
    def lengths(self) -> FloatArray:
        """Compute the length along each direction: (dim,)."""
        equal = np.exp(self.hyperparameters[1])
        weight = (1.0 - equal) * self.energy / self.energy.mean() + equal
        weight = _LENGTH * weight / weight.sum()
        return np.asarray(np.exp(self.hyperparameters[0]) / np.sqrt(weight))

    @cached_property
    def metric(self) -> FloatArray:
        """Compute A with v = A·u: (dim, dim)."""
        return np.asarray(self.turn.T / self.lengths[:, None])

    def _scaled(self, u: FloatArray) -> FloatArray:
        return u @ self.metric.T

    @cached_property
    def variances(self) -> tuple[float, float, float]:
        """Return the variances of the squared-exponential, linear and quadratic parts."""
        smooth, linear, quadratic = np.exp(2.0 * self.hyperparameters[2:5])
        return float(smooth), float(linear), float(quadratic)

    @cached_property
    def noise(self) -> float:
        """Return the noise variance of a run that is not inflated."""
        return float(np.exp(2.0 * self.hyperparameters[5])) + _FLOOR**2

    def _cross_with_runs(self, v: FloatArray) -> FloatArray:
        """Compute covariances of values at v (m, dim) with values and slopes: (m, n + s·r)."""
        _, linear, quadratic = self.variances
        gram, at, r = v @ self.v.T, self.at, self.leading
        rbf = self._rbf(gram, np.einsum("ij,ij->i", v, v), self._squares)
        found = np.empty((len(v), gram.shape[1] + len(at) * r))
        found[:, : gram.shape[1]] = CONSTANT + rbf + (linear + quadratic * gram) * gram
        along = (rbf[:, at] + linear + 2.0 * quadratic * gram[:, at])[:, :, None] * v[:, None, :r]
        along -= rbf[:, at, None] * self.v[at, :r]
        found[:, gram.shape[1] :] = along.reshape(len(v), -1)
        return found

    def _rbf(self, gram: FloatArray, left: FloatArray, right: FloatArray) -> FloatArray:
        distance = np.minimum(gram - 0.5 * left[:, None] - 0.5 * right, 0.0)
        return np.asarray(self.variances[0] * np.exp(distance))

    def _covariance_of_slopes(self) -> FloatArray:
        """Compute the covariances of all slopes: (s·r, s·r).

        ∂²k/∂v_a∂w_b = (e + l + 2q v·w) δ_ab − e (v − w)_a (v − w)_b + 2q w_a v_b.
        """
        _, linear, quadratic = self.variances
        s, r = len(self.at), self.leading
        all_of_it = self.v[self.at]
        w, gram = all_of_it[:, :r], all_of_it @ all_of_it.T
        squares = np.diag(gram)
        rbf = self._rbf(gram, squares, squares)
        apart = np.ascontiguousarray((w[:, None] - w).transpose(0, 2, 1))  # i, a, j
        block = np.empty((s, r, s, r))
        np.multiply(-rbf[:, None, :, None] * apart[:, :, :, None], 1.0, out=block)
        block *= apart.transpose(0, 2, 1)[:, None]
        block += (2.0 * quadratic) * w.T[None, :, :, None] * w[:, None, None, :]
        own = np.arange(r)
        block[:, own, :, own] += rbf + linear + 2.0 * quadratic * gram
        return block.reshape(s * r, s * r)

    @cached_property
    def root(self) -> FloatArray:
        """Compute the Cholesky factor of the covariances of all values and slopes."""
        top, n = self._cross_with_runs(self.v), len(self.u)
        whole = np.empty((top.shape[1], top.shape[1]))
        whole[:n], whole[n:, :n] = top, top[:, n:].T
        whole[n:, n:] = self._covariance_of_slopes()
        inflation = np.repeat(self.inflation[self.at], self.leading)
        own = self.noise * np.concatenate([self.inflation, inflation])
        whole[np.diag_indices(len(whole))] += own
        return factor_of_covariance(whole, float(np.trace(whole)))

    @cached_property
    def data(self) -> FloatArray:
        """Return values and slopes, in v: (n + s·r, k)."""
        scaled = self.slopes * self.lengths[: self.leading, None]
        return np.concatenate([self.y, scaled.reshape(-1, self.y.shape[1])])

    @cached_property
    def misfit(self) -> float:
        """Compute minus the log-evidence of values and slopes, with the prior.

        Slopes in v are those in u times lengths, so that their density has that factor. Thousands
        of slopes of few runs are not independent: together they count as a few hundred numbers,
        or the process is so sure of itself that steps on it are disasters.
        """
        white = solve_triangular(self.root, self.data, lower=True, check_finite=False)
        n, k = self.data.shape
        total = max(float(np.vdot(white, white)), 1e-300)
        log_det = float(np.log(np.diagonal(self.root)).sum())
        log_det -= len(self.at) * float(np.log(self.lengths[: self.leading]).sum())
        standard = (self.hyperparameters - CENTRE) / _SPREAD
        penalty = 0.5 * float(standard @ standard)
        evidence = k * log_det + 0.5 * n * k * float(np.log(total / (n * k)))
        return min(1.0, _EVIDENCE / (n * k)) * evidence + penalty

    def fit(self, steps: int, *, own_lengths: bool = True, power: float = 1.0) -> GradientProcess:
        """Increase the evidence of the values and of the slopes that change outputs most."""
        if not steps:
            return self
        from scipy.optimize import minimize  # noqa: PLC0415 - slow to import

        most = max((_FITTED - len(self.u)) // max(len(self.at), 1), 1)
        some = replace(self, slopes=self.slopes[:, :most])

        def value(hyperparameters: FloatArray) -> float:
            inside = np.clip(hyperparameters, _LOWER, _UPPER)
            try:
                return replace(some, hyperparameters=inside).misfit
            except np.linalg.LinAlgError:
                return 1e10

        start = np.clip(self.hyperparameters, _LOWER, _UPPER)
        simplex = np.concatenate([start[None], start + np.diag(_FIRST_STEPS)])
        evaluations = _EVALUATIONS if steps >= _MANY_STEPS else _FEWER
        options: Any = {"maxfev": evaluations, "initial_simplex": simplex}
        found = minimize(value, start, method="Nelder-Mead", options=options).x
        return replace(self, hyperparameters=np.clip(found, _LOWER, _UPPER))

    @cached_property
    def solved(self) -> FloatArray:
        """Compute K⁻¹ of values and slopes: (n + s·r, k)."""
        return np.asarray(cho_solve((self.root, True), self.data, check_finite=False))

    @cached_property
    def amplitude(self) -> float:
        """Compute the factor on all variances that has the largest evidence."""
        return max(float((self.data * self.solved).mean()), 1e-300)

    @cached_property
    def _left_out(self) -> tuple[FloatArray, FloatArray]:
        """Predict each run from all others, its own slopes left out too: (n, k) and (n,)."""
        n, r = len(self.u), self.leading
        means, variances = np.empty_like(self.y), np.empty(n)
        place = {int(row): i for i, row in enumerate(self.at)}
        for i in range(n):
            rows = [i]
            if i in place:
                rows += range(n + place[i] * r, n + (place[i] + 1) * r)
            part = self._inverse_root[:, rows]
            covariance = np.linalg.inv(part.T @ part)
            means[i] = self.y[i] - covariance[0] @ self.solved[rows]
            variances[i] = covariance[0, 0]
        return means, variances

    @cached_property
    def leave_one_out(self) -> FloatArray:
        """Predict each run from all others, its own slopes left out too: (n, k)."""
        return self._left_out[0]

    @cached_property
    def leave_one_out_variance(self) -> FloatArray:
        """Compute the variance of that, noise included, in units of the amplitude: (n,)."""
        return self._left_out[1]

    def leave_out(self, folds: IntArray) -> FloatArray:
        """Compute the errors of predicting each run from all others: (n, k)."""
        return self.y - self.leave_one_out

    def predict(self, u: FloatArray) -> FloatArray:
        """Predict the mean at new inputs: (m, dim) → (m, k)."""
        v = self._scaled(u)
        parts = [v[start : start + _ROWS] for start in range(0, len(v), _ROWS)]
        found = [self._cross_with_runs(part) @ self.solved for part in parts]
        return np.concatenate([np.empty((0, self.y.shape[1])), *found])

    def predict_with_variance(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Predict the mean (m, k), and the variance without noise over the amplitude (m,)."""
        v = self._scaled(u)
        means, variances = np.empty((len(u), self.y.shape[1])), np.empty(len(u))
        for start in range(0, len(u), _ROWS):
            rows = slice(start, start + _ROWS)
            cross = self._cross_with_runs(v[rows])
            means[rows] = cross @ self.solved
            white = dtrmm(1.0, self._inverse_root, cross.T, lower=1)
            squares = np.einsum("ij,ij->i", v[rows], v[rows])
            variances[rows] = self._diagonal(squares) - np.einsum("ij,ij->j", white, white)
        return means, np.maximum(variances, 0.0)

    def whitened(self, u: FloatArray) -> FloatArray:
        """Compute L⁻¹K of K between values and slopes of the runs and inputs u: (n + s·r, m)."""
        return np.asarray(
            dtrmm(1.0, self._inverse_root, self._cross_with_runs(self._scaled(u)).T, lower=1)
        )

    def value_and_gradient(
        self, u: FloatArray, function: ScoreFunction
    ) -> tuple[FloatArray, FloatArray]:
        """Compute a function of the prediction at new inputs (m,), and its gradient (m, dim)."""
        v = self._scaled(u)
        values, gradients = np.empty(len(u)), np.empty_like(v)
        _, linear, quadratic = self.variances
        for start in range(0, len(u), _ROWS):
            rows = slice(start, start + _ROWS)
            cross = self._cross_with_runs(v[rows])
            white = dtrmm(1.0, self._inverse_root, cross.T, lower=1)
            squares = np.einsum("ij,ij->i", v[rows], v[rows])
            variance = self._diagonal(squares) - np.einsum("ij,ij->j", white, white)
            mean = cross @ self.solved
            values[rows], by_mean, by_variance = function(rows, mean, np.maximum(variance, 0.0))
            weight = dtrmm(1.0, self._inverse_root, white, lower=1, trans_a=1, overwrite_b=1).T
            weight *= (-2.0 * by_variance)[:, None]
            weight += by_mean @ self.solved.T
            gradients[rows] = self._pull_back(v[rows], weight)
            own = 2.0 * by_variance * (linear + 2.0 * quadratic * squares)
            gradients[rows] += own[:, None] * v[rows]
        return values, gradients @ self.metric

    def _pull_back(self, v: FloatArray, weight: FloatArray) -> FloatArray:
        """Compute the gradient in v (m, dim) of Σ weight·(covariances with values and slopes)."""
        _, linear, quadratic = self.variances
        n, s, r, at = len(self.u), len(self.at), self.leading, self.at
        gram = v @ self.v.T
        rbf = self._rbf(gram, np.einsum("ij,ij->i", v, v), self._squares)
        slope = linear + 2.0 * quadratic * gram
        of_values, of_slopes = weight[:, :n], weight[:, n:].reshape(len(v), s, r)
        by_rbf = of_values * rbf
        pulled = (by_rbf + of_values * slope) @ self.v
        along = -by_rbf.sum(axis=1)
        w = self.v[at]
        here = np.einsum("md,msd->ms", v[:, :r], of_slopes)
        there = np.einsum("sd,msd->ms", w[:, :r], of_slopes)
        pulled[:, :r] += np.einsum("ms,msd->md", rbf[:, at] + slope[:, at], of_slopes)
        apart = rbf[:, at] * (here - there)
        pulled += (apart + 2.0 * quadratic * here) @ w
        along -= apart.sum(axis=1)
        return np.asarray(pulled + along[:, None] * v)
