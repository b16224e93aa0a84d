"""Gaussian processes for small numbers of expensive runs.

The kernel is a constant, a linear, a quadratic and a squared-exponential part on a learnt linear
metric; all outputs share it and one amplitude, which has a closed form. Working in units of the
prior, the hyperparameters have informative priors: a few dozen runs are enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.linalg.blas import dsyrk, dtrmm
from scipy.linalg.lapack import dlauum, dpotrf, dtrtri, dtrtrs

from supac.arrays import BoolArray, FloatArray, IntArray
from supac.emulator.tuning import DEFAULT, Expected, HyperpriorTuning
from supac.surrogate.regime import Regime

ScoreFunction = Callable[[slice, FloatArray, FloatArray], tuple[FloatArray, FloatArray, FloatArray]]
"""Of some rows, their mean (m, k) and variance (m,): values (m,), and the slopes in both."""

_ROWS = 200  # predicted at a time: what stays in a core's cache
_BY_HALVES = 64  # size from which a triangle is inverted by halves
_LEAST_SHARE = 1e-9
CONSTANT = 4.0
"""Variance of the kernel's constant, in units of the amplitude."""


@dataclass(frozen=True, eq=False)
class Hyperprior:
    """Hold the prior and the limits of the hyperparameters.

    Their vector holds the logarithms of the length scales, the off-diagonal entries of the metric,
    and the logarithms of the squared-exponential, linear, quadratic and noise standard deviations.
    All are normal but the off-diagonals, which are Cauchy: most are small, a few are not. So are
    the lengths of many inputs around the expected ones: most are equal, a few are not.
    """

    rows: IntArray
    columns: IntArray
    centre: FloatArray
    spread: FloatArray
    lower: FloatArray
    upper: FloatArray
    noise_floor: float
    cauchy: slice
    """The hyperparameters that are Cauchy."""
    tuning: HyperpriorTuning = DEFAULT.hyperprior

    @classmethod
    def build(
        cls,
        coupled: BoolArray,
        expected: Expected,
        tuning: HyperpriorTuning = DEFAULT.hyperprior,
    ) -> Hyperprior:
        """Build the prior for a family with these `coupled` pairs of parameters.

        The metric of many parameters is diagonal.
        """
        dim = len(coupled)
        many = Regime.of(dim).is_many
        rows, columns = np.nonzero(np.tril(coupled, -1) & (not many))
        pairs = len(rows)
        log_length = 0.5 * np.log(dim) + tuning.log_length
        parts = np.log(expected.deviations)
        centre = np.concatenate([np.full(dim, log_length), np.zeros(pairs), parts])
        spread = np.full(len(centre), tuning.log_spread)
        spread[dim : dim + pairs] = min(tuning.most_oblique, expected.oblique / max(pairs, 1))
        spread[-1] = tuning.log_noise_spread
        lower, upper = centre - 4.0 * spread, centre + 4.0 * spread
        lower[dim : dim + pairs], upper[dim : dim + pairs] = -6.0, 6.0
        lower[-1], upper[-1] = np.log(expected.noise_limits)
        if many:
            spread[:dim] = tuning.unequal
        cauchy = slice(0 if many else dim, dim + pairs)
        floor = expected.noise_floor
        return cls(rows, columns, centre, spread, lower, upper, floor, cauchy, tuning)

    def best_of(self, spectrum: FloatArray, u: FloatArray, y: FloatArray) -> Hyperprior:
        """Return the prior with lengths by a power of the inputs' variances, by its evidence.

        Components of a field with little variance move the outputs little, or less than others:
        how much less depends on the simulator.
        """
        dim = self.dim

        def with_power(power: float) -> Hyperprior:
            share = spectrum**power
            centre = self.centre.copy()
            least = np.maximum(share / share.sum(), _LEAST_SHARE)
            centre[:dim] = self.tuning.log_length - 0.5 * np.log(least)
            shift = np.zeros_like(centre)
            shift[:dim] = centre[:dim] - self.centre[:dim]
            lower, upper = self.lower + shift, self.upper + shift
            return replace(self, centre=centre, lower=lower, upper=upper)

        candidates = [with_power(power) for power in self.tuning.powers]
        return min(candidates, key=lambda each: each.expected_misfit(u)(y))

    def expected_misfit(self, u: FloatArray) -> Callable[[FloatArray], float]:
        """Return how to compute minus the log-evidence of y (n, k) at the inputs u (n, dim).

        It is that of the expected hyperparameters, so one factor of the kernel serves any y.
        """
        found = _factorise(self.centre, u, np.ones(len(u)), self)
        penalty = self.penalty(self.centre)[0]
        if found is None:
            return lambda y: 1e10
        return lambda y: _misfit_of(found[-1], y - y.mean(axis=0)) + penalty

    @property
    def dim(self) -> int:
        """Return the number of inputs."""
        return len(self.centre) - len(self.rows) - 4

    @property
    def inputs_that_count(self) -> int:
        """Return (Σ l⁻²)²/Σ l⁻⁴ of the expected lengths l: all inputs, of a field a few."""
        weight = np.exp(-2.0 * (self.centre[: self.dim] - self.centre[: self.dim].min()))
        return round(float(weight.sum() ** 2 / (weight**2).sum()))

    def unpack(self, hyperparameters: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return length scales (dim,), unit-diagonal metric, and variances of the parts (4,)."""
        dim = self.dim
        metric = np.eye(dim)
        metric[self.rows, self.columns] = hyperparameters[dim:-4]
        return np.exp(hyperparameters[:dim]), metric, np.exp(2.0 * hyperparameters[-4:])

    def penalty(self, hyperparameters: FloatArray) -> tuple[float, FloatArray]:
        """Compute minus the log-density, up to a constant, and its gradient."""
        standard = (hyperparameters - self.centre) / self.spread
        value, slope = 0.5 * standard**2, standard.copy()
        heavy = self.cauchy
        value[heavy] = np.log1p(standard[heavy] ** 2)
        slope[heavy] = 2.0 * standard[heavy] / (1.0 + standard[heavy] ** 2)
        return float(value.sum()), slope / self.spread


def misfit(
    hyperparameters: FloatArray,
    u: FloatArray,
    y: FloatArray,
    inflation: FloatArray,
    prior: Hyperprior,
    power: float = 1.0,
) -> tuple[float, FloatArray]:
    """Compute minus the log-evidence of y (n, k) at inputs u (n, dim), and its gradient.

    k·½ log det K + ½nk·log(tr(yᵀK⁻¹y)/nk) + penalty, the amplitude profiled; the noise of run i is
    inflated by `inflation[i]`. The evidence, without the penalty, counts `power` times.
    """
    found = _factorise(hyperparameters, u, inflation, prior)
    if found is None:
        return 1e10, np.zeros_like(hyperparameters)
    v, gram, rbf, root = found
    inverse_root = _inverse_of_factor(root)
    whitened = dtrmm(1.0, inverse_root, y, lower=1)
    total = _square(whitened)
    value = _minus_log_evidence(root, total, y.shape)
    solved = dtrmm(1.0, inverse_root, whitened, lower=1, trans_a=1, overwrite_b=1)
    lengths, _, (_, linear, quadratic, noise) = prior.unpack(hyperparameters)
    (n, outputs), diagonal = y.shape, np.diag_indices(len(y))

    inverse, _ = dlauum(inverse_root, lower=1, overwrite_c=1)  # its upper triangle is zero
    share = 0.5 * power * outputs
    half = dsyrk(-share * n / total, solved, beta=share, c=inverse, lower=1, overwrite_c=1)
    weight = half + half.T  # ∂value/∂K
    weight[diagonal] *= 0.5

    penalty, gradient = prior.penalty(hyperparameters)
    by_rbf, by_gram = np.multiply(weight, rbf, out=rbf), weight * gram
    by_product = (2.0 * quadratic) * by_gram
    by_product += linear * weight
    by_product += by_rbf
    pull = 2.0 * (by_product @ v - by_rbf.sum(axis=1)[:, None] * v)  # ∂value/∂v
    dim = prior.dim
    gradient[:dim] -= np.einsum("ij,ij->j", pull, v)
    if len(prior.rows):
        gradient[dim:-4] += ((pull / lengths).T @ u)[prior.rows, prior.columns]
    gradient[-4:] += 2.0 * np.array(
        [
            by_rbf.sum(),
            linear * by_gram.sum(),
            quadratic * np.vdot(by_gram, gram),
            noise * float(weight[diagonal] @ inflation),
        ]
    )
    return power * value + penalty, gradient


def _factorise(
    hyperparameters: FloatArray, u: FloatArray, inflation: FloatArray, prior: Hyperprior
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray] | None:
    """Return the scaled inputs v, vvᵀ, the squared-exponential part and the factor of the kernel.

    None if the kernel is not positive definite.
    """
    lengths, metric, (smooth, linear, quadratic, noise) = prior.unpack(hyperparameters)
    v = (u @ metric.T if len(prior.rows) else u) / lengths
    gram = v @ v.T
    rbf, kernel = np.empty_like(gram), np.empty_like(gram)
    squares = np.diag(gram)
    _kernel(gram, squares, squares, (smooth, linear, quadratic), rbf, kernel)
    kernel[np.diag_indices(len(kernel))] += (noise + prior.noise_floor**2) * inflation
    root, failed = dpotrf(kernel, lower=1, overwrite_a=1)
    return None if failed else (v, gram, rbf, root)


def factor_of_covariance(covariance: FloatArray, size: float) -> FloatArray:
    """Compute the Cholesky factor of covariances, positive definite but for errors of rounding.

    Points that coincide may leave so little that these show. Then shares of `size`, the trace of
    what was rounded, are added to the diagonal, in place.
    """
    diagonal, jitter = np.diag_indices(len(covariance)), 0.0
    while True:
        root, failed = dpotrf(covariance, lower=1)
        if not failed:
            return np.asarray(root)
        jitter = 10.0 * jitter or 1e-12 * size
        if not jitter < size:
            raise np.linalg.LinAlgError("not covariances: more than rounding is negative")
        covariance[diagonal] += jitter


def _inverse_of_factor(root: FloatArray) -> FloatArray:
    """Compute L⁻¹ by halves, of which LAPACK takes longer the larger they are: (n, n)."""
    n = len(root)
    if n <= _BY_HALVES:
        return np.asarray(dtrtri(root, lower=1)[0])
    half, found = n // 2, np.zeros((n, n), order="F")
    first, second = _inverse_of_factor(root[:half, :half]), _inverse_of_factor(root[half:, half:])
    found[:half, :half], found[half:, half:] = first, second
    corner = dtrmm(1.0, first, root[half:, :half], side=1, lower=1)
    found[half:, :half] = dtrmm(-1.0, second, corner, lower=1, overwrite_b=1)
    return found


def _misfit_of(root: FloatArray, y: FloatArray) -> float:
    """Compute minus the log-evidence of y (n, k) with K = LLᵀ."""
    return _minus_log_evidence(root, _square(dtrtrs(root, y, lower=1)[0]), y.shape)


def _square(whitened: FloatArray) -> float:
    """Compute tr(yᵀK⁻¹y) from L⁻¹y."""
    return max(float(np.vdot(whitened, whitened)), 1e-300)


def _minus_log_evidence(root: FloatArray, total: float, shape: tuple[int, ...]) -> float:
    """Compute k·½ log det K + ½nk·log(tr(yᵀK⁻¹y)/nk) for y of a shape (n, k)."""
    n, outputs = shape
    log_det = float(np.log(np.diagonal(root)).sum())
    return outputs * log_det + 0.5 * n * outputs * float(np.log(total / (n * outputs)))


def _kernel(
    gram: FloatArray,
    left: FloatArray,
    right: FloatArray,
    variances: tuple[float, float, float],
    rbf: FloatArray,
    whole: FloatArray,
) -> None:
    """Write the squared-exponential part and the whole kernel, from inner products and squares.

    Into buffers of the caller: fresh memory costs more than all the arithmetic. `rbf` may be
    `gram` itself.
    """
    smooth, linear, quadratic = variances
    np.multiply(gram, quadratic, out=whole)
    whole += linear
    whole *= gram
    np.subtract(gram, 0.5 * left[:, None], out=rbf)
    rbf -= 0.5 * right
    np.minimum(rbf, np.zeros(rbf.shape[1]), out=rbf)  # a row is faster than a number
    np.exp(rbf, out=rbf)
    rbf *= smooth
    whole += rbf
    whole += CONSTANT


@dataclass(frozen=True, eq=False)
class Process:
    """Condition a Gaussian process on y (n, k) at inputs u (n, dim), in standardised units."""

    hyperparameters: FloatArray
    prior: Hyperprior
    u: FloatArray
    y: FloatArray
    inflation: FloatArray

    def fit(self, steps: int, *, own_lengths: bool = True, power: float = 1.0) -> Process:
        """Increase the evidence by at most `steps` of L-BFGS on the hyperparameters.

        The lengths remain the expected ones unless `own_lengths`. Against the prior of the
        hyperparameters the evidence counts `power` times.
        """
        if not steps:
            return self
        from scipy.optimize import fmin_l_bfgs_b  # noqa: PLC0415 - slow to import

        prior, lower, upper = self.prior, self.prior.lower, self.prior.upper
        if not own_lengths:
            fixed = np.arange(len(lower)) < prior.dim
            lower, upper = (np.where(fixed, prior.centre, each) for each in (lower, upper))
        found, value, _ = fmin_l_bfgs_b(
            misfit,
            np.clip(self.hyperparameters, lower, upper),
            args=(self.u, self.y, self.inflation, prior, power),
            bounds=list(zip(lower, upper, strict=True)),
            m=20,
            maxiter=steps,
        )
        return replace(self, hyperparameters=np.asarray(found)) if np.isfinite(value) else self

    @cached_property
    def misfit(self) -> float:
        """Compute minus the log-evidence."""
        found = _factorise(self.hyperparameters, self.u, self.inflation, self.prior)
        penalty = self.prior.penalty(self.hyperparameters)[0]
        return 1e10 if found is None else _misfit_of(found[-1], self.y) + penalty

    @cached_property
    def metric(self) -> FloatArray:
        """Compute A with v = A·u the inputs in units of the learnt length scales: (dim, dim)."""
        lengths, metric, _ = self.prior.unpack(self.hyperparameters)
        return metric / lengths[:, None]

    def _scaled(self, u: FloatArray) -> FloatArray:
        """Express inputs in units of the learnt length scales: (m, dim) → (m, dim)."""
        if len(self.prior.rows):
            return u @ self.metric.T
        return u * np.diag(self.metric)

    @cached_property
    def v(self) -> FloatArray:
        """Compute the training inputs in units of the learnt length scales."""
        return self._scaled(self.u)

    @cached_property
    def variances(self) -> tuple[float, float, float]:
        """Return the variances of the squared-exponential, linear and quadratic parts."""
        smooth, linear, quadratic, _ = self.prior.unpack(self.hyperparameters)[2]
        return float(smooth), float(linear), float(quadratic)

    @cached_property
    def noise(self) -> float:
        """Return the noise variance of a run that is not inflated."""
        return float(np.exp(2.0 * self.hyperparameters[-1])) + self.prior.noise_floor**2

    @cached_property
    def _squares(self) -> FloatArray:
        return np.einsum("ij,ij->i", self.v, self.v)

    @cached_property
    def root(self) -> FloatArray:
        """Compute the Cholesky factor of the kernel matrix."""
        gram = self.v @ self.v.T
        kernel = np.empty_like(gram)
        _kernel(gram, self._squares, self._squares, self.variances, gram, kernel)
        diagonal = np.diag_indices(len(kernel))
        kernel[diagonal] += self.noise * self.inflation
        return factor_of_covariance(kernel, float(np.trace(kernel)))

    @cached_property
    def _inverse_root(self) -> FloatArray:
        """Compute L⁻¹ once, for the variance at thousands of points."""
        return _inverse_of_factor(self.root)

    @cached_property
    def solved(self) -> FloatArray:
        """Compute K⁻¹y: (n, k)."""
        return np.asarray(cho_solve((self.root, True), self.y, check_finite=False))

    @cached_property
    def amplitude(self) -> float:
        """Compute the factor on all variances that has the largest evidence."""
        return max(float((self.y * self.solved).mean()), 1e-300)

    @cached_property
    def _inverse_diagonal(self) -> FloatArray:
        return np.einsum("ij,ij->j", self._inverse_root, self._inverse_root)

    @cached_property
    def leave_one_out(self) -> FloatArray:
        """Predict each run from all others: (n, k)."""
        return self.y - self.solved / self._inverse_diagonal[:, None]

    @cached_property
    def explained(self) -> float:
        """Compute the share of the variance of y that predictions from other runs explain."""
        error = float(((self.y - self.leave_one_out) ** 2).sum())
        return 1.0 - error / (float(((self.y - self.y.mean(axis=0)) ** 2).sum()) + 1e-300)

    @cached_property
    def leave_one_out_variance(self) -> FloatArray:
        """Compute the variance of that, noise included, in units of the amplitude: (n,)."""
        return 1.0 / self._inverse_diagonal

    def leave_out(self, folds: IntArray) -> FloatArray:
        """Compute the errors of predicting the runs of each fold from all others: (n, k)."""
        found = np.empty_like(self.y)
        inverse = self._inverse_root
        for fold in np.unique(folds):
            rows = folds == fold
            part = inverse[:, rows]
            found[rows] = np.linalg.solve(part.T @ part, self.solved[rows])
        return found

    def predict(self, u: FloatArray) -> FloatArray:
        """Predict the mean at new inputs: (m, dim) → (m, k)."""
        means = np.empty((len(u), self.y.shape[1]))
        for rows, cross, _ in self._cross(u):
            np.matmul(cross, self.solved, out=means[rows])
        return means

    def predict_with_variance(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Predict the mean (m, k), and the variance without noise over the amplitude (m,)."""
        means, variances = np.empty((len(u), self.y.shape[1])), np.empty(len(u))
        for rows, cross, squares in self._cross(u):
            np.matmul(cross, self.solved, out=means[rows])
            explained = dtrmm(1.0, self._inverse_root, cross.T, lower=1, overwrite_b=1)
            variances[rows] = self._diagonal(squares) - np.einsum("ij,ij->j", explained, explained)
        return means, np.maximum(variances, 0.0)

    def kernel(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Compute the kernel between inputs a (m, dim) and b (k, dim): (m, k)."""
        v, w = self._scaled(a), self._scaled(b)
        gram = v @ w.T
        whole = np.empty_like(gram)
        left, right = (np.einsum("ij,ij->i", each, each) for each in (v, w))
        _kernel(gram, left, right, self.variances, gram, whole)
        return whole

    def kernel_diagonal(self, u: FloatArray) -> FloatArray:
        """Compute the kernel of each of the inputs u (m, dim) with itself: (m,)."""
        v = self._scaled(u)
        return self._diagonal(np.einsum("ij,ij->i", v, v))

    def _diagonal(self, squares: FloatArray) -> FloatArray:
        smooth, linear, quadratic = self.variances
        return CONSTANT + smooth + (linear + quadratic * squares) * squares

    def whitened(self, u: FloatArray) -> FloatArray:
        """Compute L⁻¹K of the kernel K between the runs and inputs u (m, dim): (n, m)."""
        cross = self.kernel(u, self.u).T
        return np.asarray(dtrmm(1.0, self._inverse_root, cross, lower=1, overwrite_b=1))

    def covariance(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Compute the covariance between inputs a (m, dim) and b (k, dim), over the amplitude."""
        return np.asarray(self.kernel(a, b) - self.whitened(a).T @ self.whitened(b))

    def value_and_gradient(
        self, u: FloatArray, function: ScoreFunction
    ) -> tuple[FloatArray, FloatArray]:
        """Compute a function of the prediction at new inputs (m,), and its gradient (m, dim)."""
        values, gradients = np.empty(len(u)), np.empty((len(u), self.prior.dim))
        _, linear, quadratic = self.variances
        v, root = self._scaled(u), self._inverse_root
        squares = np.einsum("ij,ij->i", v, v)
        for start in range(0, len(u), _ROWS):
            rows = slice(start, start + _ROWS)
            gram = v[rows] @ self.v.T
            rbf, cross = np.empty_like(gram), np.empty_like(gram)
            _kernel(gram, squares[rows], self._squares, self.variances, rbf, cross)
            mean = cross @ self.solved
            explained = dtrmm(1.0, root, cross.T, lower=1, overwrite_b=1)
            own = squares[rows]
            variance = self._diagonal(own) - np.einsum("ij,ij->j", explained, explained)
            values[rows], by_mean, by_variance = function(rows, mean, np.maximum(variance, 0.0))
            # ∂/∂cross, in the memory of the kernel: fresh memory costs more than the arithmetic.
            weight = dtrmm(1.0, root, explained, lower=1, trans_a=1, overwrite_b=1).T
            weight *= (-2.0 * by_variance)[:, None]
            weight += by_mean @ self.solved.T
            rbf *= weight
            gram *= 2.0 * quadratic
            gram += linear
            gram *= weight
            gram += rbf
            along = 2.0 * by_variance * (linear + 2.0 * quadratic * own) - rbf.sum(axis=1)
            gradients[rows] = gram @ self.v + along[:, None] * v[rows]
        return values, gradients @ self.metric if len(self.prior.rows) else self._scaled(gradients)

    def mean_and_gradient(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute the first output's mean at new inputs (m,), and its gradient (m, dim)."""
        values, gradients = np.empty(len(u)), np.empty((len(u), self.prior.dim))
        _, linear, quadratic = self.variances
        v, weights = self._scaled(u), self.solved[:, 0]
        squares = np.einsum("ij,ij->i", v, v)
        for start in range(0, len(u), _ROWS):
            rows = slice(start, start + _ROWS)
            gram = v[rows] @ self.v.T
            rbf, cross = np.empty_like(gram), np.empty_like(gram)
            _kernel(gram, squares[rows], self._squares, self.variances, rbf, cross)
            np.matmul(cross, weights, out=values[rows])
            gram *= 2.0 * quadratic
            gram += linear
            gram += rbf
            gram *= weights
            gradients[rows] = gram @ self.v - (rbf @ weights)[:, None] * v[rows]
        return values, gradients @ self.metric if len(self.prior.rows) else self._scaled(gradients)

    def _cross(self, u: FloatArray) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
        """Yield rows of u, their kernel with the training inputs, and their squares."""
        v = self._scaled(u)
        squares = np.einsum("ij,ij->i", v, v)
        gram, kernel = np.empty((2, min(len(u), _ROWS), len(self.y)))
        for start in range(0, len(u), _ROWS):
            rows = slice(start, start + _ROWS)
            few = len(v[rows])
            np.matmul(v[rows], self.v.T, out=gram[:few])
            _kernel(
                gram[:few], squares[rows], self._squares, self.variances, gram[:few], kernel[:few]
            )
            yield rows, kernel[:few], squares[rows]

    def expectation(
        self, mean: FloatArray, covariance: FloatArray
    ) -> tuple[float, FloatArray, FloatArray]:
        """Compute E[m], E[∇m] and E[∇²m] of the first output's mean m under N(mean, covariance).

        A squared exponential averaged over a Gaussian is a wider one; the polynomials are exact.
        """
        smooth, linear, quadratic = self.variances
        weights = self.solved[:, 0]
        centre, spread = self.metric @ mean, self.metric @ covariance @ self.metric.T
        root = np.linalg.cholesky(spread + np.eye(len(spread)))
        offset = self.v - centre
        scaled = solve_triangular(root, offset.T, lower=True)  # (dim, n)
        shrink = -np.log(np.diag(root)).sum()
        heights = weights * smooth * np.exp(shrink - 0.5 * np.einsum("ij,ij->j", scaled, scaled))
        pulled = solve_triangular(root, scaled, lower=True, trans="T")  # (S + I)⁻¹(v − c)
        slope = pulled @ heights
        curvature = (pulled * heights) @ pulled.T
        curvature -= heights.sum() * cho_solve((root, True), np.eye(len(root)))
        by_linear = linear * (weights @ self.v)
        hessian = 2.0 * quadratic * (self.v * weights[:, None]).T @ self.v
        value = heights.sum() + CONSTANT * weights.sum()
        value += by_linear @ centre + 0.5 * (centre @ hessian @ centre + np.vdot(hessian, spread))
        slope = slope + by_linear + hessian @ centre
        back = self.metric.T
        return float(value), back @ slope, back @ (curvature + hessian) @ self.metric
