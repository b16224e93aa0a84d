"""Vector instructions of the compiled model."""

from __future__ import annotations

from collections.abc import Callable

import numba
import numpy as np
import pytest
from numba.core.registry import cpu_target

from supac.arrays import FloatArray
from supac.simulators.adm1.kernel import load
from supac.simulators.adm1.vectors import FAST, routine, uncounted

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
    far = exponential(np.array([709.78, 709.0, 708.5, 708.0, -np.inf, -1e300, -709.0, -708.0]))
    exact = np.exp([709.78, 709.0, 708.5, 708.0, -708.0, -708.0, -708.0, -708.0])
    np.testing.assert_allclose(far, exact, rtol=1e-15)


def test_an_exponential_that_overflows_is_infinite(
    exponential: Callable[[FloatArray], FloatArray],
) -> None:
    found = exponential(np.array([np.inf, 1e300, 1e4, 710.0, 709.79, 709.78, -1e4, 0.0]))
    np.testing.assert_array_equal(np.isposinf(found), [True] * 5 + [False] * 3)


def test_the_exponential_of_no_number_is_none(
    exponential: Callable[[FloatArray], FloatArray],
) -> None:
    found = exponential(np.array([np.nan, -np.nan, 0.0, 1.0, np.nan, 2.0, 3.0, 4.0]))
    np.testing.assert_array_equal(np.isnan(found), [True, True, False, False, True, *[False] * 3])
    assert found[2] == 1.0


def test_functions_that_count_no_references_cannot_allocate() -> None:
    """All but the outermost are such, so that an array that one of them makes is noticed."""
    functions = vars(load("dae")).values()
    compiled = [each for each in functions if hasattr(each, "targetoptions")]
    counting = [each.__name__ for each in compiled if each.targetoptions.get("_nrt", True)]
    assert counting == ["simulate"]

    def allocate(n: int) -> float:
        return float(np.zeros(n)[0])

    with pytest.raises(numba.TypingError, match="Only accept returning of array passed"):
        numba.njit(**uncounted())(allocate)(3)


def test_a_numba_without_that_option_is_not_given_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def one() -> int:
        return 1

    before = uncounted()
    for base in cpu_target.options.__mro__:
        if "_nrt" in vars(base):
            monkeypatch.delattr(base, "_nrt")
    with pytest.raises(KeyError, match="_nrt"):
        numba.njit(**before)(one)()
    assert numba.njit(**uncounted())(one)() == 1
