"""Weighted least squares on the statistics, in coordinates whitened by a distribution."""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dtrmm
from scipy.linalg.lapack import dpocon, dpotrf, dpotrs, dtrtri

from supac.arrays import FloatArray
from supac.families import Distribution
from supac.problem import Function
from supac.surrogate.estimator import Surrogate

# Reciprocal condition number of the normal equations below which a fit counts as rank-deficient:
# the square of 1e-7, the smallest relative singular value that float64 still resolves with digits
# to spare. In whitened coordinates a well-posed fit is far from it.
_SINGULAR = 1e-14

# What rounding leaves of the variance of features that are all the same.
_NOTHING = 1e-28


def project(
    x: FloatArray,
    values: FloatArray,
    weights: FloatArray,
    at: Distribution,
    *,
    leave_one_out: bool = True,
) -> Surrogate:
    """Compute argmin over η, C of Σ wᵢ (η·T(xᵢ) + C − valuesᵢ)², with weights that represent `at`.

    The features are the statistics made orthonormal under `at`, so the problem is well
    conditioned whatever the scales of x, and the constant of the fit is the surrogate's mean.
    `leave_one_out=False` leaves `loo_error` unknown, which takes a third of the time.
    """
    # By their numbers: a mask takes several times as long, of rows and of entries.
    kept = np.flatnonzero(weights > 0.0)
    w, y = weights.take(kept), values.take(kept)
    w = w / w.sum()
    whitening = at.whiten()
    design = whitening.features(x.take(kept, axis=0))
    centre, mean = w @ design, float(w @ y)
    root = np.sqrt(w)
    design -= centre
    design *= root[:, None]
    target = (y - mean) * root
    beta, residual, leverage, ridge = _solve(design, target, leave_one_out=leave_one_out)
    total = float(target @ target)
    return Surrogate(
        eta=whitening.coefficients(beta),
        mean=mean - float(centre @ beta),
        at=at,
        deviation=float(np.linalg.norm(beta)),
        r_squared=1.0 - float(residual @ residual) / total if total > 0.0 else 1.0,
        effective_size=1.0 / float(w @ w),
        loo_error=np.nan if leverage is None else _left_out(residual, leverage, w),
        ridge=ridge,
    )


def _left_out(residual: FloatArray, leverage: FloatArray, weights: FloatArray) -> float:
    """Compute the weighted root mean square error of predicting each point from the others."""
    spare = 1.0 - leverage - weights  # the mean takes a leverage of its weight each
    return float(np.linalg.norm(residual / spare)) if (spare > 1e-9).all() else np.inf


def project_known(
    function: Function, at: Distribution, rng: np.random.Generator | int
) -> Surrogate:
    """Project a function that costs nothing, from many fresh draws."""
    x = at.sample(2_000 + 50 * at.family.size, rng)
    return project(x, np.asarray(function(x), dtype=np.float64), np.ones(len(x)), at)


_Fit = tuple[FloatArray, FloatArray, FloatArray | None, float]
"""Coefficients, residual and leverage of each row, and the ridge: 0 if the design determines the
fit. Leverages may be None if nobody wants them."""


def _solve(design: FloatArray, target: FloatArray, *, leave_one_out: bool) -> _Fit:
    """Solve least squares by Cholesky, regularised if the design does not determine the fit.

    The design may be overwritten: it is large, and a copy of it would cost as much as the solution.
    """
    rows, columns = design.shape
    if rows <= columns + 1:  # with the constant, no point would be left to judge the fit by
        return _solve_deficient(design, target)
    gram = design.T @ design
    # LAPACK directly: of a small fit SciPy's checks would take longer than the solution.
    root, failed = dpotrf(gram, lower=1)
    if failed:
        return _solve_deficient(design, target)
    reciprocal, _ = dpocon(root, np.abs(gram).sum(axis=0).max(), uplo="L")
    if reciprocal < _SINGULAR:
        return _solve_deficient(design, target)
    beta = dpotrs(root, design.T @ target, lower=1)[0]
    # One refinement step gives the accuracy of a QR factorisation at a third of its cost.
    beta = beta + dpotrs(root, design.T @ (target - design @ beta), lower=1)[0]
    residual = target - design @ beta
    if not leave_one_out:
        return np.asarray(beta), residual, None, 0.0
    # By the inverse of the small factor in less than half the time of as many solutions with it.
    inverse = dtrtri(root, lower=1)[0]
    scores = dtrmm(1.0, inverse, design, side=1, lower=1, trans_a=1, overwrite_b=1)
    return np.asarray(beta), residual, np.einsum("ij,ij->i", scores, scores), 0.0


def _solve_deficient(design: FloatArray, target: FloatArray) -> _Fit:
    """Solve ridge regression with the ridge of largest evidence.

    With β ~ N(0, σ²/ρ) and noise σ², profiled over σ²: m·log(residual(ρ)) + Σ log(1 + s²/ρ).
    """
    left, singular, right = np.linalg.svd(design, full_matrices=False)
    power, scores = singular**2, left.T @ target
    total = float(target @ target)
    if total == 0.0 or power[0] < _NOTHING:
        return np.zeros(design.shape[1]), target, np.zeros(len(target)), np.inf

    def misfit(log_ridge: float) -> float:
        ridge = np.exp(log_ridge)
        unexplained = total - float((scores**2 * power / (power + ridge)).sum())
        fit = (len(target) - 1) * np.log(max(unexplained, 1e-300))
        return float(fit + np.log1p(power / ridge).sum())

    # The evidence may have several peaks: scan first, then refine around the best.
    grid = np.log(power[0]) + np.arange(-20.0, 10.0)
    best = grid[int(np.argmin([misfit(point) for point in grid]))]
    from scipy.optimize import minimize_scalar  # noqa: PLC0415 - slow to import

    refined = minimize_scalar(misfit, bounds=(best - 1.0, best + 1.0), method="bounded")
    ridge = float(np.exp(refined.x))
    shrunk = power / (power + ridge)
    beta = right.T @ (
        scores * np.divide(shrunk, singular, where=singular > 0.0, out=0.0 * singular)
    )
    return beta, target - design @ beta, (left**2) @ shrunk, ridge
