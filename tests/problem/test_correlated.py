"""Errors that are correlated in time: their likelihood by SciPy, and its derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from supac.arrays import FloatArray
from supac.codec import from_spec, to_spec
from supac.problem.columns import ColumnLoss, Likelihood
from supac.problem.correlated import Autoregressive, CorrelatedErrors, Discrepancy, Spread
from supac.problem.correlations import Correlation
from supac.problem.fields import COVARIANCES
from supac.problem.losses import MeanSquare
from supac.problem.shared_factors import SharedFactors

ROWS = 7
RNG = np.random.default_rng(0)
T = RNG.permutation(np.sort(RNG.uniform(0.0, 5.0, ROWS)))
CELLS = 2 * ROWS  # two columns
SERIES, TIMES = np.repeat([0, 1], ROWS), np.tile(T, 2)
VALUES, NOISE = RNG.standard_normal(CELLS), RNG.uniform(0.2, 0.4, CELLS)
VALUES[4] = np.nan
SEEN = np.isfinite(VALUES)
Z = np.column_stack([RNG.uniform(0.5, 2.0, (5, 4)), RNG.standard_normal(5)])
"""At five points: noise level, memory or amplitude, length, scale, offset."""
NONE = np.full(CELLS, -1)
FIRST = np.where(SERIES == 0, 1, -1)  # the errors of the second column are independent


def ar() -> Autoregressive:
    return Autoregressive(series=SERIES, times=TIMES, memories=FIRST)


def discrepancy(covariance: str = "squared-exponential") -> Discrepancy:
    lengths = np.where(SERIES == 0, 2, -1)
    return Discrepancy(
        series=SERIES, times=TIMES, amplitudes=FIRST, lengths=lengths, covariance=covariance
    )


ERRORS = [ar(), *(discrepancy(each) for each in COVARIANCES)]
NAMES = ["autoregressive", *COVARIANCES]


def columns(errors: CorrelatedErrors, *, logarithmic: bool = False) -> ColumnLoss:
    return ColumnLoss(
        Likelihood(),
        np.full(CELLS, 3),
        NONE if logarithmic else np.full(CELLS, 4),
        np.zeros(CELLS, dtype=int),
        np.abs(VALUES) if logarithmic else VALUES,
        NOISE,
        logarithmic,
        errors,
    )


def ones(u: FloatArray) -> Spread:
    return Spread(np.ones(u.shape[1]), np.ones_like(u))


def covariance_of(errors: CorrelatedErrors, z: FloatArray) -> FloatArray:
    """Of the measured values, from the definition."""
    apart = np.abs(TIMES[:, None] - TIMES)
    together = (SERIES[:, None] == SERIES) & (SERIES == 0)
    spread = NOISE * z[0]
    noise = np.diag(spread**2)
    if isinstance(errors, Autoregressive):
        alike = np.where(together, np.exp(-apart / z[1]), np.eye(CELLS))
        whole = spread[:, None] * spread * alike
    else:
        assert isinstance(errors, Discrepancy)
        alike = COVARIANCES[errors.covariance](apart / z[2])
        whole = noise + np.where(together, z[1] ** 2 * alike, 0.0)
    return np.asarray(whole[np.ix_(SEEN, SEEN)])


@pytest.mark.parametrize("errors", ERRORS, ids=NAMES)
def test_the_loss_is_minus_the_mean_log_likelihood(errors: CorrelatedErrors) -> None:
    """Up to the constant that that of independent errors leaves out."""
    loss, simulated = columns(errors), RNG.standard_normal((5, CELLS))
    found = loss(((simulated - VALUES) / NOISE)[:, SEEN], Z)
    m = int(SEEN.sum())
    constant = 0.5 * np.log(2.0 * np.pi) + np.log(NOISE[SEEN]).mean()
    for i, z in enumerate(Z):
        mean = (z[3] * simulated[i] + z[4])[SEEN]
        law = multivariate_normal(mean, covariance_of(errors, z))
        assert found[i] + constant == pytest.approx(-law.logpdf(VALUES[SEEN]) / m)


@pytest.mark.parametrize("logarithmic", [False, True])
@pytest.mark.parametrize("errors", ERRORS, ids=NAMES)
def test_its_derivatives_are_those_of_differences(
    errors: CorrelatedErrors, logarithmic: bool
) -> None:
    loss = columns(errors, logarithmic=logarithmic)
    residuals, step = RNG.standard_normal((5, int(SEEN.sum()))), 1e-6
    told = loss.slopes(residuals, Z)
    assert told is not None
    by_residual, by_z = told
    for i in range(residuals.shape[1]):
        ahead = step * np.eye(residuals.shape[1])[i]
        numeric = (loss(residuals + ahead, Z) - loss(residuals - ahead, Z)) / (2.0 * step)
        assert np.allclose(by_residual[:, i], numeric, atol=1e-7, rtol=1e-5)
    for j in range(Z.shape[1] - logarithmic):
        ahead = step * np.eye(Z.shape[1])[j]
        numeric = (loss(residuals, Z + ahead) - loss(residuals, Z - ahead)) / (2.0 * step)
        assert np.allclose(by_z[:, j], numeric, atol=1e-7, rtol=1e-5)


@pytest.mark.parametrize("errors", ERRORS, ids=NAMES)
def test_without_memory_or_amplitude_errors_are_independent(errors: CorrelatedErrors) -> None:
    plain = columns(errors).__class__(
        Likelihood(), np.full(CELLS, 3), np.full(CELLS, 4), np.zeros(CELLS, int), VALUES, NOISE
    )
    residuals, z = RNG.standard_normal((5, int(SEEN.sum()))), Z.copy()
    z[:, 1] = 1e-9
    assert np.allclose(columns(errors)(residuals, z), plain(residuals, z))


def test_ten_years_of_days_cost_little() -> None:
    """An AR(1) of 3,650 data at a hundred points: the same as point by point, and fast."""
    days = np.arange(3650.0)
    errors = Autoregressive(series=np.zeros(3650, int), times=days, memories=np.zeros(3650, int))
    u, z = RNG.standard_normal((100, 3650)), RNG.uniform(1.0, 9.0, (100, 1))
    every = errors.value(u, ones(u), z)
    assert np.array_equal(every[7:8], errors.value(u[7:8], ones(u[7:8]), z[7:8]))


def test_measurements_at_the_same_time_break_nothing() -> None:
    errors = Autoregressive(
        series=np.zeros(3, int), times=np.array([0.0, 0.0, 1.0]), memories=np.zeros(3, int)
    )
    u, z = np.array([[0.1, 0.1, 0.2]]), np.array([[2.0]])
    assert np.isfinite(errors.value(u, ones(u), z)).all()
    assert all(np.isfinite(each).all() for each in errors.slopes(u, ones(u), z))


def test_they_are_kept_in_stores_and_need_a_likelihood() -> None:
    for errors in ERRORS:
        loss = columns(errors)
        again = from_spec(to_spec(loss))
        residuals = RNG.standard_normal((5, int(SEEN.sum())))
        assert np.array_equal(again(residuals, Z), loss(residuals, Z))
    with pytest.raises(ValueError, match="errors need a likelihood"):
        ColumnLoss(MeanSquare(), NONE, NONE, NONE, VALUES, NOISE, errors=ar())


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_shared_decompositions_are_the_dense_form(covariance: str) -> None:
    """Values and derivatives from the grid of lengths, beside those from C itself."""
    rng, n, m = np.random.default_rng(1), 20, 25
    place = np.zeros(m, dtype=int)
    errors = Discrepancy(
        series=place,
        times=rng.uniform(0.0, 6.0, m),
        amplitudes=place,
        lengths=place + 1,
        covariance=covariance,
    )
    u, noise = rng.standard_normal((n, m)), rng.uniform(0.5, 2.0, m)
    z = np.exp(rng.uniform(np.log([0.05, 0.02]), np.log([5.0, 200.0]), (n, 2)))
    level = np.tile(rng.uniform(0.5, 2.0, (n, 1)), m)
    spread, whole, every = Spread(noise, level), np.arange(m), np.arange(n)
    [part] = errors._parts()
    dense = errors._dense_value(part, every, u[:, part], spread, z)
    assert np.allclose(errors.value(u, spread, z), 0.5 * dense / m, rtol=1e-6, atol=1e-7)
    found, wanted = (
        errors.slopes(u, spread, z),
        errors._dense_slopes(part, every, u[:, part], spread, z),
    )
    assert np.allclose(found.by_residual[:, part], wanted.by_residual / m, atol=1e-5)
    assert np.allclose(found.by_z, wanted.by_z / m, rtol=1e-4, atol=1e-5)
    by_level = wanted.by_level.sum(axis=1) / m
    assert np.allclose(found.by_level[:, whole].sum(axis=1), by_level, rtol=1e-4, atol=1e-5)


def test_many_measurements_have_eigenvectors_among_polynomials() -> None:
    """Values at 310 unevenly spaced times, and solutions, beside those from C itself."""
    rng, n, m = np.random.default_rng(2), 5, 310
    t, w = rng.uniform(0.0, 6.0, m), rng.uniform(0.5, 2.0, m)
    factors = SharedFactors(t, w, Correlation("squared-exponential"))
    u, ratio = rng.standard_normal((n, m)), rng.uniform(0.1, 3.0, n)
    length = np.array([0.05, 0.3, 1.2, 8.0, 100.0])
    found = factors.terms(u, ratio, length).value
    for i in range(n):
        smooth = COVARIANCES["squared-exponential"](np.abs(t[:, None] - t) / length[i])
        whole = np.eye(m) + ratio[i] ** 2 * smooth / np.outer(w, w)
        solved = np.linalg.solve(whole, u[i])
        assert found[i] == pytest.approx(u[i] @ solved + np.linalg.slogdet(whole)[1], rel=1e-7)
        one = factors.solve(u[i][:, None], float(ratio[i]), float(length[i]))[:, 0]
        assert np.allclose(one, solved, atol=1e-8)


@pytest.mark.parametrize("covariance", ["matern32", "matern52", "squared-exponential"])
def test_a_discrepancy_that_is_known_somewhere(covariance: str) -> None:
    """Correlations are those of b given b(c) ≈ 0 and a small difference quotient of it there."""
    own = Correlation(covariance, (1.0,), (0.5,))
    t, length, step = np.array([0.0, 0.5, 0.6, 1.0, 2.0]), 0.9, 1e-4
    far = np.concatenate([t, [1.0, 0.5 + step, 0.5 - step]])
    plain = COVARIANCES[covariance](np.abs(far[:, None] - far) / length)
    known = np.zeros((2, len(far)))
    known[0, 5], known[1, 6], known[1, 7] = 1.0, 0.5 / step, -0.5 / step
    cross = plain @ known.T
    wanted = plain - cross @ np.linalg.solve(known @ cross, cross.T)
    assert np.allclose(own.between(t, t, length), wanted[:5, :5], atol=1e-4)
    assert np.allclose(own.variance(t, length), np.diag(wanted)[:5], atol=1e-4)
    assert own.variance(np.array([1.0]), length)[0] == pytest.approx(0.0, abs=1e-8)


def test_what_is_known_of_it_is_in_the_likelihood() -> None:
    """Shared decompositions, of few and of many data, and C itself; kept in stores."""
    for rows in (20, 310):
        t, zero = np.linspace(0.2, 4.0, rows), np.zeros(rows, dtype=int)
        errors = Discrepancy(
            series=zero, times=t, amplitudes=zero, lengths=zero + 1, zero_at=(0.0,), flat_at=(0.0,)
        )
        again = from_spec(to_spec(errors))
        u = np.random.default_rng(1).standard_normal((3, rows))
        z = np.array([[0.5, 1.0], [2.0, 3.0], [0.1, 0.4]])
        spread = ones(u)
        [part] = errors._parts()
        dense = errors._dense_value(part, np.arange(3), u, spread, z) * 0.5 / rows
        assert np.allclose(again.value(u, spread, z), dense, rtol=1e-6)
        found = errors.slopes(u, spread, z)
        wanted = errors._dense_slopes(part, np.arange(3), u, spread, z)
        assert np.allclose(found.by_z, wanted.by_z / rows, rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match="flat_at needs a covariance with slopes"):
        Discrepancy(
            series=zero,
            times=t,
            amplitudes=zero,
            lengths=zero,
            flat_at=(0,),
            covariance="exponential",
        )
