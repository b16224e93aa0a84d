"""Predictions: a simulator at draws of a posterior, kept and resumed like any other runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import supac
from supac import marginals
from supac.arrays import FloatArray

TIMES = np.linspace(0.0, 5.0, 10)
RATES = supac.Parameters(
    {
        "initial": marginals.Uniform(0.0, 5.0, unit="mol/L"),
        "rate": marginals.LogNormal(median=1.0, log_sd=0.5, unit="1/h"),
    }
)


def decay(x: FloatArray) -> FloatArray:
    return x[0] * np.exp(-x[1] * TIMES)


def later(x: FloatArray) -> FloatArray:
    """A scenario that was not measured."""
    return x[0] * np.exp(-x[1] * np.array([7.0, 9.0]))


@pytest.fixture(scope="module")
def result() -> supac.Result:
    truth = decay(np.array([2.0, 0.7]))
    data = supac.Observations(("A",), truth, np.full(10, 0.1))
    risk = supac.Composite(decay, supac.Welsch(), data)
    return supac.minimize(risk, RATES, supac.Catoni(0.01), budget=40)


def test_outputs_belong_to_the_draws(result: supac.Result) -> None:
    prediction = supac.predict(result, later, 30)
    assert prediction.x.shape == (30, 2)
    np.testing.assert_array_equal(prediction.outputs, [later(x) for x in prediction.x])
    low, middle, high = prediction.quantiles(0.05, 0.5, 0.95)
    assert (low < middle).all()
    assert (middle < high).all()


def test_the_certified_sets_predict_without_new_draws(result: supac.Result) -> None:
    prediction = supac.predict(result, later, ensemble=True)
    np.testing.assert_array_equal(prediction.x, result.ensemble.x)
    np.testing.assert_array_equal(prediction.outputs, [later(x) for x in result.ensemble.x])
    with pytest.raises(ValueError, match="or ensemble=True"):
        supac.predict(result, later, 30, ensemble=True)


def test_the_same_seed_gives_the_same_draws_on_any_workers(result: supac.Result) -> None:
    one = supac.predict(result, later, 12, seed=4)
    two = supac.predict(result, later, 12, seed=4, execution=2)
    np.testing.assert_array_equal(one.outputs, two.outputs)
    other = supac.predict(result, later, 12, seed=5)
    assert not np.array_equal(one.x, other.x)


def test_failed_runs_are_left_out_and_told(result: supac.Result) -> None:
    def fragile(x: FloatArray) -> FloatArray:
        if x[0] > np.median(result.sample(200)[:, 0]):
            raise RuntimeError("boils over")
        return later(x)

    prediction = supac.predict(result, fragile, 30)
    assert len(prediction.x) + len(prediction.failures) == 30
    assert 0 < len(prediction.failures) < 30
    assert "boils over" in prediction.failures[0].message
    np.testing.assert_array_equal(prediction.outputs, [later(x) for x in prediction.x])


def test_a_prediction_without_a_good_run_is_an_error(result: supac.Result) -> None:
    with pytest.raises(ValueError, match=r"all 5 runs failed, the first with: .*NaN"):
        supac.predict(result, lambda x: np.full(2, np.nan), 5)


def test_what_is_in_the_file_is_not_run_again(result: supac.Result, tmp_path: Path) -> None:
    calls: list[FloatArray] = []

    def counted(x: FloatArray) -> FloatArray:
        calls.append(x)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return later(x)

    store = tmp_path / "later.supac"
    with pytest.raises(KeyboardInterrupt):
        supac.predict(result, counted, 20, store=store)
    prediction = supac.predict(result, counted, 20, store=store)
    assert len(calls) == 8 + 13  # seven were kept
    plain = supac.predict(result, later, 20)
    np.testing.assert_array_equal(prediction.outputs, plain.outputs)
    more = supac.predict(result, counted, 20, store=store)
    np.testing.assert_array_equal(more.outputs, plain.outputs)
    assert len(calls) == 21


def test_a_record_on_the_way_has_nothing_to_predict_with(tmp_path: Path) -> None:
    store = tmp_path / "run.supac"

    def never(x: FloatArray) -> float:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        supac.minimize(never, RATES, supac.Catoni(0.01), budget=40, store=store)
    with pytest.raises(ValueError, match="has no posterior yet"):
        supac.predict(supac.read_store(store), later, 5)
