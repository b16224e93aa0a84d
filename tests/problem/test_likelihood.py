from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

import supac
from supac.arrays import FloatArray
from supac.codec import from_spec, to_spec
from supac.problem import Measurements
from supac.problem.combined import CombinedMeasurements
from supac.problem.losses import SquareLoss

NONE = np.full(4, -1)


def measurements(**changes: object) -> Measurements:
    made: dict[str, object] = {
        "names": ("a", "b"),
        "series": np.array([0, 0, 1, 1]),
        "times": np.array([0.0, 1.0, 1.0, 1.0]),
        "values": np.array([1.0, 2.0, 3.0, 4.0]),
        "noise": np.array([0.5, 0.5, 0.2, 0.2]),
        "levels": NONE,
        "log_scale": np.zeros(4),
        "laplace": np.zeros(4, bool),
    }
    return Measurements(**{**made, **changes})  # type: ignore[arg-type]


def risk(data: Measurements, outputs: list[float]) -> float:
    rows = np.array([outputs, outputs])
    return float(data.loss(data.residuals(rows))[0])


Y = [1.3, 1.8, 3.1, 3.7]


def test_normal_noise_is_a_loss_of_squares() -> None:
    data = measurements()
    exact = -np.mean(stats.norm.logpdf(data.values, Y, data.noise))
    assert risk(data, Y) == pytest.approx(exact)
    assert isinstance(data.loss, SquareLoss)


def test_simulated_laplace_and_logarithmic_noise() -> None:
    data = measurements(
        levels=np.array([0, 0, 1, -1]),
        noise=np.array([np.nan, np.nan, np.nan, 0.2]),
        log_scale=np.array([0.0, 0.0, 1.0, 1.0 / np.log(10.0)]),
        laplace=np.array([False, True, False, False]),
    )
    exact = [
        stats.norm.logpdf(1.0, 1.3, 0.4),
        stats.laplace.logpdf(2.0, 1.8, 0.4),
        stats.lognorm.logpdf(3.0, 0.3, scale=3.1),
        stats.lognorm.logpdf(4.0, 0.2 * np.log(10.0), scale=3.7),
    ]
    assert risk(data, [*Y, 0.4, 0.3]) == pytest.approx(-np.mean(exact))


@pytest.mark.parametrize("known", [True, False])
def test_far_residuals_have_a_long_tail(known: bool) -> None:
    data = measurements() if known else measurements(levels=np.zeros(4, int))
    levels = [] if known else [0.5]

    def at(first: float) -> float:
        rest = [2.0, 3.0, 4.0]
        return 4.0 * risk(data, [1.0 + 0.5 * first, *rest, *levels])

    middle = at(0.0)
    assert at(9.9) - middle == pytest.approx(0.5 * 9.9**2)
    assert at(10.001) - at(9.999) == pytest.approx(10.0 * 0.002, rel=1e-2)  # the slope is kept
    assert at(1e8) - middle == pytest.approx(50.0 * (1.0 + 2.0 * np.log(1e7)))
    assert np.isfinite(at(1e300))


def test_measurements_as_a_table() -> None:
    data = measurements(levels=np.array([0, 0, -1, -1]))
    outputs = np.array([[*Y, 0.4], [*Y, 0.6]])
    seen, drawn = data.table(outputs)
    assert drawn is not None
    # The third and fourth measurement are of one series at one time.
    assert seen.rows == 3
    assert seen.measured == 4
    assert seen.noise[seen.needed].tolist() == [0.5, 0.5, 0.2, 0.2]
    assert seen.times is not None
    assert seen.times.tolist() == [0.0, 1.0, 1.0]
    assert drawn[0][seen.needed].tolist() == Y


def test_they_come_back_from_a_store() -> None:
    data = measurements(levels=np.array([0, 0, -1, -1]))
    again = from_spec(to_spec(data))
    assert to_spec(again) == to_spec(data)
    assert from_spec(to_spec(data.loss)) == data.loss


def test_a_likelihood_is_not_certified() -> None:
    data = measurements()
    composite = supac.Composite(lambda x: np.array(Y) + x[0], data.loss, data)
    parameters = supac.Parameters({"x": supac.marginals.Normal(0.0, 1.0)})
    result = supac.minimize(composite, parameters, supac.Catoni(0.25), budget=40)
    assert result.certificate is None
    with pytest.raises(ValueError, match="a likelihood has no largest value"):
        result.certify(composite, n=4, delta=0.05, draws=5)


@pytest.mark.parametrize("noisy", [True, False])
def test_slopes_are_differences(noisy: bool) -> None:
    levels = np.array([0, 0, 1, -1]) if noisy else NONE
    laplace = np.array([noisy, False, noisy, False])
    loss = measurements(levels=levels, laplace=laplace).loss
    residuals = np.random.default_rng(2).normal(0.0, 3.0, (50, 6 if noisy else 4))
    residuals[:10, :4] *= 20.0  # beyond the limit, too
    slopes = loss.slopes(residuals)
    assert slopes is not None
    for column in range(residuals.shape[1]):
        step = np.zeros(residuals.shape[1])
        step[column] = 1e-6
        difference = (loss(residuals + step) - loss(residuals - step)) / 2e-6
        assert slopes[:, column] == pytest.approx(difference, rel=1e-4, abs=1e-5)


def combined(noisy: bool) -> CombinedMeasurements:
    """Scales 0 and 1, an offset and noise levels of two terms, one emulated as a logarithm."""
    return CombinedMeasurements(
        measurements(
            levels=np.array([0, 0, 1, -1]) if noisy else NONE,
            laplace=np.array([noisy, False, False, False]),
            log_scale=np.array([0.0, 1.0, 0.0, 1.0 / np.log(10.0)]),
        ),
        places=np.array([0, 0, 1, 2, 2, 3, *((4, 5) if noisy else ())]),
        terms=np.array([0, -1, 1, 0, 1, 2, *((-1, 2) if noisy else ())]),
        factors=np.array([1.0, 2.0, 0.5, 1.0, -1.0, 1.0, *((1.0, 0.3) if noisy else ())]),
        products=np.array([0, 1, 2, 2, 3, 4, *((1, 0) if noisy else ())]),
        powers=np.array([[1.0, 0, 0], [0, 1.0, 0], [1.0, 0, 2.0], [0, 0, 0], [0, 0, -1.0]]),
        floors=np.array([1e-3, 0.0, 1e-3]),
    )


@pytest.mark.parametrize("noisy", [True, False])
def test_slopes_of_combined_measurements_are_differences(noisy: bool) -> None:
    data, rng = combined(noisy), np.random.default_rng(3)
    terms = data.residuals(np.exp(rng.normal(0.0, 1.0, (40, 3))))
    z = np.exp(rng.normal(0.0, 0.5, (40, 3)))
    found = data.loss.slopes(terms, z)
    assert found is not None
    _compare(lambda each: data.loss(each, z), terms, found[0])
    _compare(lambda each: data.loss(terms, each), z, found[1])


def _compare(
    function: Callable[[FloatArray], FloatArray], at: FloatArray, slopes: FloatArray
) -> None:
    for column in range(at.shape[1]):
        step = np.zeros(at.shape[1])
        step[column] = 1e-6
        difference = (function(at + step) - function(at - step)) / 2e-6
        assert slopes[:, column] == pytest.approx(difference, rel=1e-4, abs=1e-5)


def test_outputs_are_named_by_series_and_time_or_label() -> None:
    levels = np.array([0, 0, 1, -1])
    assert measurements().output_names == ["a@0", "a@1", "b@1", "b@1 #2"]
    assert measurements(levels=levels).output_names[4:] == ["noise level 1", "noise level 2"]
    labelled = measurements(labels=("p", "q", "r", "s"))
    assert labelled.output_names == ["p", "q", "r", "s"]
    assert combined(noisy=False).output_names == ["a@0", "a@1", "b@1 #2"]


def test_rows_without_times_are_counted_in_a_table() -> None:
    seen, _ = measurements(labels=("p", "q", "r", "s"), times=np.array([0.0, 1.0, 0.0, 1.0])).table(
        None
    )
    assert seen.times is None
    assert np.array_equal(seen.values, [1.0, 2.0, 3.0, 4.0])
