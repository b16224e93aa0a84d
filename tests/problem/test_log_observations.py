"""Measurements compared by their logarithms, and how they are drawn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import supac
from supac.codec import from_spec, to_spec
from supac.guarantee.basis import basis_of
from supac.problem import LogObservations

BOUND = supac.Catoni(0.1, ceiling=3.0)
OBSERVED = np.array([[1.0, 10.0], [np.nan, 20.0], [3.0, 30.0]])
DATA = LogObservations(
    ("A", "B"), np.log(OBSERVED + 1e-8).ravel(), np.array([1.0, 2.0, 4.0]), ("g", "bar")
)


def test_columns_are_drawn_one_after_the_other() -> None:
    seen, drawn = DATA.table(np.arange(6.0)[None])
    assert (seen.labels, seen.noise_known, seen.time_label) == (("A (g)", "B (bar)"), False, "day")
    np.testing.assert_allclose(seen.values, OBSERVED.T.ravel(), rtol=1e-12)
    assert drawn is not None
    assert drawn.tolist() == [[0.0, 2.0, 4.0, 1.0, 3.0, 5.0]]
    assert DATA.table(None)[1] is None


def test_residuals_belong_to_their_columns_and_rows() -> None:
    outputs = 1.1 * OBSERVED.ravel()[None]
    outputs[0, 2] = 7.0  # where nothing was measured
    residuals = DATA.residuals(outputs)[0]
    assert residuals.shape == (5,)
    assert [len(each) for each in DATA.series(residuals)] == [2, 3]
    assert DATA.blocks_of_measured.tolist() == [0.0, 0.0, 1.0, 2.0, 2.0]
    assert (residuals > 0.09).all()


def test_files_hold_them() -> None:
    again = from_spec(to_spec(DATA))
    np.testing.assert_array_equal(again.log_observed, DATA.log_observed)
    assert (again.columns, again.units) == (DATA.columns, DATA.units)


KNOWN = replace(DATA, noise=(0.08, 0.04))


def test_known_noise_tells_misfits_and_leaves_residuals_as_they_are() -> None:
    outputs = OBSERVED.ravel()[None] * np.exp([[0.16, 0.04] * 3])
    outputs[0, 2] = -7.0  # where nothing was measured
    np.testing.assert_array_equal(KNOWN.residuals(outputs), DATA.residuals(outputs))
    seen, drawn = KNOWN.table(outputs)
    assert (seen.noise_known, seen.logarithmic) == (True, True)
    assert drawn is not None
    np.testing.assert_allclose(seen.residuals(drawn), [[2.0, 2.0, 1.0, 1.0, 1.0]])
    assert not DATA.noise_known


def test_a_number_of_noises_is_a_residual_and_a_relative_error() -> None:
    """A root mean square that weighs all data alike has one such number."""
    outputs = OBSERVED.ravel()[None] * np.exp([[3 * 0.08, 3 * 0.04] * 3])
    outputs[0, 2] = 7.0
    np.testing.assert_allclose(KNOWN.noises(3.0), KNOWN.residuals(outputs)[0], rtol=1e-6)
    assert KNOWN.in_units(3.0) == pytest.approx(
        {"A (relative)": np.expm1(0.24), "B (relative)": np.expm1(0.12)}
    )
    basis = basis_of(supac.Composite(lambda x: x, supac.RootMeanSquare(), KNOWN), BOUND)
    assert basis.residual(supac.RootMeanSquare()(KNOWN.noises(3.0)[None])[0], KNOWN.noises) == (
        pytest.approx(3.0)
    )


def test_noise_is_kept_and_checked() -> None:
    assert from_spec(to_spec(KNOWN)).noise == (0.08, 0.04)
    assert "noise" not in to_spec(DATA)  # as files of before have it
    for wrong in ((0.1,), (0.1, 0.0), (0.1, np.inf)):
        with pytest.raises(ValueError, match="a positive number for each of A, B"):
            replace(DATA, noise=wrong)
