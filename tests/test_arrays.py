"""The checks that arrays of users pass, and what their errors name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from supac.arrays import covariance_matrix, finite, frozen, points, positive, vector, whole

WRONG: list[tuple[Any, tuple[Any, ...], str]] = [
    (finite, ([1.0, np.nan],), "a contains NaN or infinity"),
    (finite, (["one"],), "a must be made of numbers"),
    (vector, ([[1.0]],), r"a must be a vector of shape \(n,\), not \(1, 1\)"),
    (vector, ([1.0, 2.0], 3), r"a must be a vector of shape \(3,\), not \(2,\)"),
    (points, ([1.0, 2.0], 2), r"a must hold one point a row, shape \(n, 2\)"),
    (covariance_matrix, ([[1.0, 0.0]],), "a must be a square matrix"),
    (covariance_matrix, ([[1.0, 0.2], [0.1, 1.0]],), "a is not symmetric"),
    (covariance_matrix, ([[1.0, 2.0], [2.0, 1.0]],), "a is not positive definite"),
    (covariance_matrix, ([[0.0, 0.0], [0.0, 1.0]],), "a is not positive definite"),
    (positive, (0.0,), "a must be a positive number, not 0.0"),
    (positive, ([1.0],), "a must be a positive number"),
    (whole, (2.0, 1), "a must be a whole number, 1 or more, not 2.0"),
    (whole, (True, 1), "a must be a whole number"),
    (whole, (0, 1), "a must be a whole number, 1 or more, not 0"),
]


@pytest.mark.parametrize(("check", "arguments", "words"), WRONG)
def test_errors_name_the_argument(check: Any, arguments: tuple[Any, ...], words: str) -> None:
    value, *rest = arguments
    with pytest.raises(ValueError, match=words):
        check(value, "a", *rest)


def test_whole_numbers_of_any_kind_become_floats() -> None:
    for value in ([1, 2], np.array([1, 2], np.int8), np.array([True, False])):
        assert finite(value, "a").dtype == np.float64
    assert whole(np.int64(3), "a", 1) == 3


def test_units_may_be_far_apart() -> None:
    scales = np.array([1e-9, 1e9])
    given = np.outer(scales, scales) * [[1.0, 0.5], [0.5, 1.0]]
    np.testing.assert_array_equal(covariance_matrix(given, "a"), given)


def test_a_frozen_copy_is_nobody_s_to_change() -> None:
    given = np.zeros(3)
    kept = frozen(given)
    given[0] = 1.0
    assert kept[0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        kept[0] = 2.0
