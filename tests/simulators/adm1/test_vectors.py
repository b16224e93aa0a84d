"""Vector instructions of the compiled model."""

from __future__ import annotations

from collections.abc import Callable

import numba
import numpy as np
import pytest

from supac.arrays import FloatArray
from supac.simulators.adm1.vectors import FAST, routine

LANES = 8


@pytest.fixture(scope="module")
def exponential() -> Callable[[FloatArray], FloatArray]:
    in_all_lanes = routine("W", ["W[1] = math.exp(W[0])"], LANES)

    @numba.njit(fastmath=set(FAST), error_model="numpy")
    def compiled(W: FloatArray) -> None:
        in_all_lanes(W)

    def of(x: FloatArray) -> FloatArray:
        W = np.zeros(2 * LANES)
        W[:LANES] = x
        compiled(W)
        return W[LANES:]

    return of


@pytest.mark.parametrize("size", [1e-9, 1.0, 30.0, 708.0])
def test_the_exponential_is_exact_to_a_unit_in_the_last_place(
    exponential: Callable[[FloatArray], FloatArray], size: float
) -> None:
    for x in np.random.default_rng(0).uniform(-size, size, (500, LANES)):
        exact = np.exp(x.astype(np.longdouble))
        error = np.abs(exponential(x) - exact) / np.spacing(np.exp(x))
        assert error.max() < 1.0


def test_the_exponential_has_a_largest_and_a_least_value(
    exponential: Callable[[FloatArray], FloatArray],
) -> None:
    far = exponential(np.array([np.inf, 1e300, 709.0, 708.0, -np.inf, -1e300, -709.0, -708.0]))
    np.testing.assert_allclose(far, np.exp(np.repeat([708.0, -708.0], 4)), rtol=1e-15)


def test_the_exponential_of_no_number_is_none(
    exponential: Callable[[FloatArray], FloatArray],
) -> None:
    found = exponential(np.array([np.nan, -np.nan, 0.0, 1.0, np.nan, 2.0, 3.0, 4.0]))
    np.testing.assert_array_equal(np.isnan(found), [True, True, False, False, True, *[False] * 3])
    assert found[2] == 1.0
