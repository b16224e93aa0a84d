"""Jacobians: split from answers, checked, and converted to what an emulator takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import supac
from supac import marginals
from supac.arrays import FloatArray
from supac.jacobian import checked_jacobian, finite_jacobian, rounded, split_answer
from supac.problem import Parameters
from supac.problem.jacobians import in_latent, of_residuals
from supac.problem.likelihood import Measurements

Y, J = np.arange(1.0, 4.0), np.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize(
    ("raw", "many", "has"),
    [
        ((Y, J), False, True),
        ((Y.tolist(), J.tolist()), False, True),
        ((Y, None), False, False),
        ((2.0, J[0]), False, True),
        (({"A": Y}, {"A": J}), False, True),
        ((np.stack([Y, Y]), np.stack([J, J])), True, True),
        ((np.stack([Y, Y]), [J, None]), True, True),
        ((np.stack([Y, Y]), [None, None]), True, True),
        ((np.stack([Y, Y]), None), True, False),
    ],
)
def test_a_pair_is_split(raw: Any, many: bool, has: bool) -> None:
    outputs, jacobian = split_answer(raw, many=many)
    assert outputs is raw[0]
    assert (jacobian is not None) == has


@pytest.mark.parametrize(
    ("raw", "many"),
    [
        ((1.0, 2.0), False),
        (Y, False),
        ((Y.tolist(), Y.tolist()), True),
        ((Y, Y), True),
        (3.0, False),
    ],
)
def test_outputs_that_are_no_pair_stay_as_they_are(raw: Any, many: bool) -> None:
    assert split_answer(raw, many=many) == (raw, None) or split_answer(raw, many=many)[0] is raw


@pytest.mark.parametrize(
    ("jacobian", "words"),
    [
        (J.T, r"shape \(3, 4\), and was an array of shape \(4, 3\): it is transposed"),
        (J[:2], r"shape \(3, 4\), and was an array of shape \(2, 4\)"),
        ("none", "something else"),
    ],
)
def test_a_jacobian_of_another_shape_is_refused(jacobian: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        checked_jacobian(jacobian, 3, 4, None)


def test_a_jacobian_with_nan_is_refused_but_where_nothing_was_measured() -> None:
    odd = J.copy()
    odd[1, 2] = np.nan
    with pytest.raises(ValueError, match=r"NaN or infinity, first in row 1 .* column 2"):
        finite_jacobian(odd, None)
    kept = finite_jacobian(odd, np.array([True, False, True]))
    assert kept[1, 2] == 0.0
    np.testing.assert_array_equal(kept[[0, 2]], J[[0, 2]])


def test_rounding_keeps_seven_digits_of_any_size() -> None:
    values = np.array([[1.0 / 3.0, -1e-30 / 7.0, 1e200 / 3.0, 0.0]])
    np.testing.assert_allclose(rounded(values), values, rtol=2.0**-24)
    np.testing.assert_array_equal(rounded(rounded(values)), rounded(values))


def test_by_name_and_of_one_output() -> None:
    data = supac.Observations(("A", "B"), np.zeros(4), np.ones(4))
    by_name = {"B": J[1:], "A": J[:2]}
    found = checked_jacobian(by_name, 4, 4, data.flat)
    np.testing.assert_array_equal(found, np.concatenate([J[:2], J[1:]]))
    np.testing.assert_array_equal(checked_jacobian(J[0], 1, 4, None), J[:1])


PARAMETERS = Parameters(
    {
        "a": marginals.Normal(1.0, 2.0),
        "b": marginals.LogNormal(3.0, 0.5),
        "c": marginals.Uniform(-1.0, 4.0),
        "k": supac.Field(marginals.LogNormal(1e-4, 1.0), grid=3, length=0.3),
    }
)


def simulate(x: FloatArray) -> FloatArray:
    a, b, c = x[:3]
    k = 1e4 * x[3:]
    return np.array([10.0 + a * b, np.exp(0.2 * c) * b, 5.0 + k @ k, 3.0 + np.cos(a) + k[1]])


def jacobian(x: FloatArray) -> FloatArray:
    a, b, c = x[:3]
    k, e = 1e4 * x[3:], np.exp(0.2 * c)
    return np.array(
        [
            [b, a, 0.0, 0.0, 0.0, 0.0],
            [0.0, e, 0.2 * e * b, 0.0, 0.0, 0.0],
            [0.0, 0.0, 0.0, *(2e4 * k)],
            [-np.sin(a), 0.0, 0.0, 0.0, 1e4, 0.0],
        ]
    )


class Squares:
    """Data of a user, whose residuals are a function of all outputs."""

    def residuals(self, outputs: FloatArray) -> FloatArray:
        return np.stack([outputs[..., 0] * outputs[..., 1], outputs[..., 2] ** 2], axis=-1)


DATA = {
    "none": None,
    "plain": supac.Observations(("A",), np.array([9.0, np.nan, 5.0, 4.0]), np.full(4, 0.3)),
    "log": supac.Observations(
        ("A", "B"), np.array([9.0, 3.0, np.nan, 4.0]), np.full(4, 0.1), logarithmic=True
    ),
    "own": Squares(),
}


@pytest.mark.parametrize("name", DATA)
def test_the_chain_rule_is_that_of_differences(name: str) -> None:
    data = DATA[name]
    residuals: Callable[[FloatArray], FloatArray] = (
        (lambda y: y) if data is None else data.residuals
    )
    u = np.array([0.3, -0.7, 1.2, 0.4, -0.9, 0.1])

    def of_latent(points: FloatArray) -> FloatArray:
        return residuals(simulate(PARAMETERS.from_latent(points[None])[0]))

    step = 1e-6 * np.eye(6)
    expected = np.column_stack([(of_latent(u + s) - of_latent(u - s)) / 2e-6 for s in step])
    x = PARAMETERS.from_latent(u[None])[0]
    found = of_residuals(data, simulate(x), in_latent(jacobian(x), u, PARAMETERS))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("laplace", [False, True])
def test_changes_of_likelihoods_are_those_of_differences(laplace: bool) -> None:
    values = np.array([1.0, 2.0, 3.0])
    data = Measurements(
        ("A", "B", "C"),
        np.arange(3),
        np.zeros(3),
        values,
        noise=np.array([0.1, 0.2, 0.3]),
        log_scale=np.array([0.0, 1.0, 0.0]),
        laplace=np.array([laplace, False, laplace]),
        levels=np.full(3, -1),
    )
    outputs, change = np.array([1.3, 1.7, 4.0]), 1e-6 * np.array([[1.0, -2.0, 0.5]])
    ahead, behind = (data.residuals((outputs + s * change[0])[None]) for s in (1.0, -1.0))
    np.testing.assert_allclose(data.tangents(outputs, change), 0.5 * (ahead - behind), rtol=1e-6)
