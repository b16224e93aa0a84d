"""The likelihood of outputs that depend on a few numbers, beside that of the outputs themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from supac.arrays import FloatArray
from supac.problem.columns import ColumnLoss, Likelihood
from supac.problem.correlated import Autoregressive, CorrelatedErrors, Discrepancy
from supac.problem.reduced import reduced

ROWS, NUMBERS, POINTS = 40, 3, 4
CELLS = 2 * ROWS
RNG = np.random.default_rng(3)
DAYS = np.tile(RNG.permutation(np.delete(np.arange(ROWS + 2.0), [7, 20])), 2)
SERIES = np.repeat([0, 1], ROWS)
VALUES, NOISE = RNG.uniform(1.0, 2.0, CELLS), RNG.uniform(0.2, 0.4, CELLS)
VALUES[4] = np.nan
SEEN = np.isfinite(VALUES)
ORIGIN, BASIS = RNG.standard_normal(SEEN.sum()), RNG.standard_normal((SEEN.sum(), NUMBERS))
C, VARIANCE = RNG.standard_normal((POINTS, NUMBERS)), RNG.uniform(0.1, 1.0, POINTS)
Z = RNG.uniform(0.5, 2.0, (POINTS, 5))
"""Noise level, memory or amplitude, length, scale, offset."""
FIRST = np.where(SERIES == 0, 1, -1)
ERRORS = {
    "independent": None,
    "autoregressive": Autoregressive(series=SERIES, times=DAYS, memories=FIRST),
    "discrepancy": Discrepancy(
        series=SERIES, times=DAYS, amplitudes=FIRST, lengths=np.where(SERIES == 0, 2, -1)
    ),
}


def loss_of(errors: CorrelatedErrors | None, *, logarithmic: bool = False) -> ColumnLoss:
    every = np.arange(CELLS)
    offsets = np.full(CELLS, -1 if logarithmic else 4)
    return ColumnLoss(
        Likelihood(), 0 * every + 3, offsets, 0 * every, VALUES, NOISE, logarithmic, errors
    )


@pytest.mark.parametrize("logarithmic", [False, True])
@pytest.mark.parametrize("name", ERRORS)
def test_it_is_that_of_the_outputs(name: str, logarithmic: bool) -> None:
    loss = loss_of(ERRORS[name], logarithmic=logarithmic)
    own = reduced(loss, ORIGIN, BASIS)

    def direct(c: FloatArray) -> FloatArray:
        return loss(ORIGIN + c @ BASIS.T, Z)

    found = own.risk_and_slopes(C, np.zeros(POINTS), Z)
    assert np.allclose(found.risk, direct(C), rtol=1e-9)
    # A quadratic function: its expectation is half its Laplacian times the variance away.
    bend = sum(direct(C + e) + direct(C - e) - 2.0 * direct(C) for e in np.eye(NUMBERS))
    noisy = own.risk_and_slopes(C, VARIANCE, Z)
    assert np.allclose(noisy.risk, direct(C) + 0.5 * VARIANCE * bend, rtol=1e-9)
    assert np.allclose(noisy.by_variance, 0.5 * bend, rtol=1e-9)


@pytest.mark.parametrize("logarithmic", [False, True])
@pytest.mark.parametrize("name", ERRORS)
def test_its_derivatives_are_those_of_differences(name: str, logarithmic: bool) -> None:
    own = reduced(loss_of(ERRORS[name], logarithmic=logarithmic), ORIGIN, BASIS)
    found, step = own.risk_and_slopes(C, VARIANCE, Z), 1e-6
    for told, place in ((found.by_numbers, 0), (found.by_z, 1)):
        for i in range(told.shape[1]):
            ends = []
            for sign in (1.0, -1.0):
                moved = [C, Z]
                moved[place] = moved[place] + sign * step * np.eye(told.shape[1])[i]
                ends.append(own.risk_and_slopes(moved[0], VARIANCE, moved[1]).risk)
            assert np.allclose(told[:, i], (ends[0] - ends[1]) / (2.0 * step), atol=1e-7, rtol=1e-5)


def test_smooth_correlations_of_many_measurements() -> None:
    """With eigenvectors among polynomials, and lengths from a fiftieth to all of the time."""
    rows = 400
    times, none = np.arange(float(rows)), np.full(rows, -1)
    values, zero = np.cos(times), np.zeros(rows, dtype=int)
    errors = Discrepancy(series=zero, times=times, amplitudes=zero, lengths=zero + 1)
    loss = ColumnLoss(Likelihood(), none, none, zero + 2, values, np.full(rows, 0.3), errors=errors)
    rng = np.random.default_rng(1)
    origin, basis = rng.standard_normal(rows), rng.standard_normal((rows, 2))
    c, z = rng.standard_normal((3, 2)), np.array([[0.3, 8.0, 1.0], [2.0, 60.0, 0.7], [1, 400, 2.0]])
    found = reduced(loss, origin, basis).risk_and_slopes(c, np.zeros(3), z)
    assert np.allclose(found.risk, loss(origin + c @ basis.T, z), rtol=1e-9)


def test_parameters_that_differ_within_a_series_are_not_reduced() -> None:
    ar = ERRORS["autoregressive"]
    assert loss_of(ar).measured.is_reducible
    assert loss_of(None).measured.is_reducible
    split = replace(loss_of(ar), levels=np.where(np.arange(CELLS) < 9, 0, 1))
    assert not split.measured.is_reducible
    assert replace(split, errors=None).measured.is_reducible
    uneven = Autoregressive(series=SERIES, times=RNG.uniform(0, 9, CELLS), memories=FIRST)
    assert not loss_of(uneven).measured.is_reducible
