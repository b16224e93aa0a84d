"""Measurements compared by their logarithms, and how they are drawn."""

from __future__ import annotations

import numpy as np

from supac.codec import from_spec, to_spec
from supac.problem import LogObservations

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
