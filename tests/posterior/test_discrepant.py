"""Predictions with the discrepancy of the model: bands by closed forms, data and beyond them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

import supac
from supac import marginals
from supac.arrays import FloatArray
from supac.posterior.discrepant import PredictedDiscrepancy
from supac.problem.columns import ColumnLoss, Likelihood
from supac.problem.correlated import Discrepancy
from supac.record.store.file import StoreMismatchError
from supac.report.account import account_of
from supac.report.page import make_page

TIMES, NOISE, LENGTH = np.arange(1.0, 11.0), 0.05, 2.0
TRUTH = 0.5 * TIMES + 0.5 * np.sin(TIMES)
Y = TRUTH + NOISE * np.random.default_rng(0).standard_normal(10)


def line(x: FloatArray, times: FloatArray = TIMES) -> FloatArray:
    return x[0] * times


def later(x: FloatArray) -> FloatArray:
    return line(x, np.array([3.0, 10.5, 11.0, 30.0]))


@pytest.fixture(scope="module")
def result() -> supac.Result:
    """A line through a wave; the amplitude is sought, the length is nearly known."""
    zero, none = np.zeros(10, dtype=int), np.full(10, -1)
    errors = Discrepancy(series=zero, times=TIMES, amplitudes=zero, lengths=zero + 1)
    noise = np.full(10, NOISE)
    loss = ColumnLoss(Likelihood(), none, none, none, Y, noise, errors=errors)
    data = supac.Observations(("A",), Y, noise, times=TIMES)
    prior = supac.Parameters(
        {
            "k": marginals.Normal(0.5, 0.5),
            "a": marginals.LogNormal(0.5, 0.5),
            "l": marginals.LogNormal(LENGTH, 0.01),
        }
    )
    risk = supac.Composite(line, loss, data, observation=2)
    return supac.minimize(risk, prior, supac.Catoni(0.1), budget=14, seed=0)


def conditioned(k: float, a: float, length: float, time: float) -> tuple[float, float]:
    """Mean and deviation from the joint normal of the data and of b at a time."""
    every = np.append(TIMES, time)
    joint = a**2 * np.exp(-0.5 * ((every[:, None] - every) / length) ** 2)
    noisy = joint[:-1, :-1] + NOISE**2 * np.eye(10)
    weights = np.linalg.inv(noisy) @ joint[:-1, -1]
    return float(weights @ (Y - k * TIMES)), float(
        np.sqrt(joint[-1, -1] - weights @ joint[:-1, -1])
    )


def test_it_follows_from_the_residuals_and_fades_beyond_the_data(result: supac.Result) -> None:
    times = [3.0, 10.5, 11.0, 30.0]
    made = result.predict(later, 8, times=times, outputs="A", continues=True)
    found = made.discrepancy
    assert found is not None
    for i, x in enumerate(made.x):
        wanted = np.array([conditioned(x[0], x[1], x[2], time) for time in times])
        # What is simulated for the data is emulated.
        assert np.allclose(found.mean[i], wanted[:, 0], atol=5e-3)
        assert np.allclose(found.deviation[i], wanted[:, 1], atol=1e-6)
    assert np.allclose(found.mean[:, -1], 0.0, atol=1e-12)
    assert np.allclose(found.deviation[:, -1], made.x[:, 1])
    bands = made.bands()
    width = bands.corrected_upper - bands.corrected_lower
    assert (np.diff(width) > 0.0).all()
    assert (width < bands.measured_upper - bands.measured_lower).all()
    assert bands.corrected_lower[0] < 1.5 + 0.5 * np.sin(3.0) < bands.corrected_upper[0]


def test_new_conditions_carry_its_amplitude(result: supac.Result) -> None:
    made = result.predict(later, 8, times=[3.0, 10.5, 11.0, 30.0], outputs="A")
    found = made.discrepancy
    assert found is not None
    assert not found.mean.any()
    assert np.allclose(found.deviation, made.x[:, [1]])
    other = result.predict(lambda x: x[:1], 3, outputs="B").bands()
    assert np.isnan(other.corrected_lower).all()
    assert np.isnan(other.measured_lower).all()


def test_files_keep_it_and_the_report_tells_the_bands_apart(
    result: supac.Result, tmp_path: Path
) -> None:
    store = tmp_path / "later.supac"

    def predicted(*, continues: bool) -> supac.Prediction:
        times = [3.0, 10.5, 11.0, 30.0]
        return result.predict(later, 6, times=times, outputs="A", continues=continues, store=store)

    made = predicted(continues=True)
    again = supac.read_prediction(store)
    for name in ("corrected_lower", "corrected_median", "measured_upper"):
        np.testing.assert_array_equal(getattr(again.bands(), name), getattr(made.bands(), name))
    with pytest.raises(StoreMismatchError, match="one continues the calibration"):
        predicted(continues=False)
    assert "corrected_upper" in made.to_table()
    page = make_page(account_of(result, predictions=[made]))
    assert "90 % of simulations with the discrepancy of the model" in page
    assert "90 % of new measurements: these plus their noise" in page


def test_bands_with_a_discrepancy_have_closed_forms() -> None:
    draws, z = 4000, norm.ppf(0.95)
    outputs = np.full((draws, 2), 2.0)
    smooth = PredictedDiscrepancy(
        np.zeros((draws, 1)), np.full((draws, 2), 0.1), np.tile([0.3, 0.0], (draws, 1))
    )
    for logarithmic in (False, True):

        def shown(y: float, logarithmic: bool = logarithmic) -> float:
            return 2.0 * np.exp(y) if logarithmic else 2.0 + y

        table = supac.Outputs(("A", "B"), 1, noise=np.array([0.4, 0.4]), logarithmic=logarithmic)
        made = supac.Prediction(np.zeros((draws, 1)), outputs, table=table, discrepancy=smooth)
        bands = made.bands(0.9)
        assert bands.lower == pytest.approx([2.0, 2.0])
        ends = [shown(0.1 + 0.3 * z), shown(0.1)]
        assert bands.corrected_upper == pytest.approx(ends, rel=1e-6)
        ends = [shown(0.1 - 0.5 * z), shown(0.1 - 0.4 * z)]
        assert bands.measured_lower == pytest.approx(ends, rel=1e-6)
