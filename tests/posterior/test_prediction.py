"""Predictions: a simulator at draws of a posterior, kept and resumed like any other runs."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from supac import marginals
from supac.arrays import FloatArray
from supac.record.store.file import digest

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
    assert repr(prediction) == "Prediction(output_0, output_1, 30 draws)"
    named = supac.predict(result, later, 3, outputs="A", times=[7.0, 9.0])
    assert str(named) == "Prediction(A at 2 times, 3 draws)"
    assert prediction.x.shape == (30, 2)
    np.testing.assert_array_equal(prediction.outputs, [later(x) for x in prediction.x])
    low, middle, high = prediction.quantiles(0.05, 0.5, 0.95)
    assert (low < middle).all()
    assert (middle < high).all()


def test_the_certified_sets_predict_without_new_draws(result: supac.Result) -> None:
    prediction = supac.predict(result, later, ensemble=True)
    assert prediction.ensemble
    assert f"{len(result.ensemble.x)} certified sets" in repr(prediction)
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


def test_ten_failed_runs_at_the_beginning_are_enough(result: supac.Result) -> None:
    calls: list[int] = []

    def failing(good: int, x: FloatArray) -> FloatArray:
        calls.append(0)
        if len(calls) != good:
            raise RuntimeError("boils over")
        return later(x)

    with pytest.raises(ValueError, match=r"the first 10 runs all failed, .* boils over"):
        supac.predict(result, partial(failing, 0), 30)
    assert len(calls) == 10
    calls.clear()
    made = supac.predict(result, partial(failing, 10), 30)
    assert (len(calls), len(made.failures)) == (30, 29)
    calls.clear()
    with pytest.raises(ValueError, match="all 30 runs failed"):
        supac.predict(result, partial(failing, 0), 30, execution=supac.Execution(max_failures=1.0))
    assert len(calls) == 30


def test_only_the_first_run_decides_how_many_outputs_there_are(
    result: supac.Result, tmp_path: Path
) -> None:
    calls: list[int] = []

    def shorter_from(number: int, x: FloatArray) -> FloatArray:
        calls.append(number)
        return later(x)[: 1 if len(calls) >= number else 2]

    asked: dict[str, Any] = {"outputs": "A", "times": [7.0, 9.0]}
    with pytest.raises(ValueError, match="returned 1 numbers, but the scenario has 2 times of A"):
        supac.predict(result, partial(shorter_from, 1), 20, **asked)
    assert len(calls) == 1
    # A simulator that gives up now and then has failed runs; also one that goes on with a file.
    for n in (10, 20):
        calls.clear()
        start = 6 if n == 10 else 1
        made = supac.predict(
            result, partial(shorter_from, start), n, store=tmp_path / "a.supac", **asked
        )
        assert len(calls) == 10
        assert len(made.failures) == n - 5


def test_what_is_in_the_file_is_not_run_again(
    result: supac.Result, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    log = supac.Execution(progress="log")
    supac.predict(result, counted, 20, store=store, execution=log)
    assert "later.supac: all 20 runs are there already" in capsys.readouterr().err


def test_a_record_on_the_way_has_nothing_to_predict_with(tmp_path: Path) -> None:
    store = tmp_path / "run.supac"

    def never(x: FloatArray) -> float:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        supac.minimize(never, RATES, supac.Catoni(0.01), budget=40, store=store)
    with pytest.raises(ValueError, match="has no posterior yet"):
        supac.predict(supac.read_store(store), later, 5)


def test_names_times_and_noise(result: supac.Result) -> None:
    named = result.predict(later, 30, outputs={"A": "mol/L"}, times=[7.0, 9.0])
    assert named.columns.labels == ("A (mol/L)",)
    assert named.columns.cells == [("A", 7.0), ("A", 9.0)]
    # Column A was measured with a noise of 0.1 in every row.
    np.testing.assert_array_equal(named.columns.deviations(named.outputs), 0.1)
    # They are the measured columns, unless others are named.
    same = result.predict(later, 30, times=[7.0, 9.0])
    assert same.columns.cells == named.columns.cells
    np.testing.assert_array_equal(same.bands().measured_upper, named.bands().measured_upper)
    other = result.predict(later, 30, outputs="C", times=[7.0, 9.0])
    assert np.isnan(other.bands().measured_lower).all()
    np.testing.assert_array_equal(other.output("C"), named.output("A"))
    with pytest.raises(ValueError, match="there is no output 'B'; they are A"):
        named.output("B")


def test_a_simulator_may_return_its_outputs_by_name(result: supac.Result) -> None:
    def by_name(x: FloatArray) -> dict[str, FloatArray]:
        return {"B": -later(x), "A": later(x)}

    prediction = result.predict(by_name, 10, outputs=("A", "B"), times=(7.0, 9.0))
    np.testing.assert_array_equal(prediction.output("A"), -prediction.output("B"))
    np.testing.assert_array_equal(prediction.output("A"), [later(x) for x in prediction.x])
    with pytest.raises(ValueError, match="by name: pass outputs="):
        result.predict(by_name, 10)


def test_bands_of_simulations_and_of_measurements() -> None:
    """For normal outputs with normal noise both bands have closed forms."""
    rng = np.random.default_rng(0)
    draws = 4_000
    outputs = np.column_stack([rng.normal(3.0, 0.3, draws), np.full(draws, 2.0)])
    table = supac.Outputs(("A", "B"), 1, noise=np.array([0.4, 0.1]))
    bands = supac.Prediction(np.zeros((draws, 1)), outputs, table=table).bands(0.9)
    z = 1.6449
    error = 4.0 * 0.5 / np.sqrt(draws)  # of a quantile at 5 %: √(p(1 − p)/n)/density, in sd
    assert bands.lower[0] == pytest.approx(3.0 - 0.3 * z, abs=0.3 * 2.1 * error)
    assert bands.measured_lower[0] == pytest.approx(3.0 - 0.5 * z, abs=0.5 * 2.1 * error)
    assert bands.measured_upper[0] == pytest.approx(3.0 + 0.5 * z, abs=0.5 * 2.1 * error)
    np.testing.assert_allclose(
        [bands.measured_lower[1], bands.measured_upper[1]],
        [2.0 - 0.1 * z, 2.0 + 0.1 * z],
        rtol=1e-4,
    )
    share = supac.Outputs(("A", "B"), 1, noise=np.zeros(2), share=np.array([0.1, 0.05]))
    bands = supac.Prediction(np.zeros((draws, 1)), outputs, table=share).bands(0.9)
    assert bands.measured_upper[1] == pytest.approx(2.0 * (1.0 + 0.05 * z), rel=1e-4)
    logarithms = supac.Outputs(("A", "B"), 1, noise=np.array([0.1, 0.1]), logarithmic=True)
    bands = supac.Prediction(np.zeros((draws, 1)), outputs, table=logarithms).bands(0.9)
    assert bands.measured_upper[1] == pytest.approx(2.0 * np.exp(0.1 * z), rel=1e-4)


def test_a_file_tells_what_it_is_a_prediction_of(result: supac.Result, tmp_path: Path) -> None:
    store = tmp_path / "later.supac"
    made = result.predict(
        later, 12, outputs={"A": "mol/L"}, times=[7.0, 9.0], title="later", store=store
    )
    again = supac.read_prediction(store)
    np.testing.assert_array_equal(again.outputs, made.outputs)
    np.testing.assert_array_equal(again.x, made.x)
    assert (again.title, again.columns.labels) == ("later", ("A (mol/L)",))
    assert again.parameters is not None
    assert again.parameters.names == RATES.names
    longer = result.predict(later, 20, outputs={"A": "mol/L"}, times=[7.0, 9.0], store=store)
    np.testing.assert_array_equal(longer.outputs[:12], made.outputs)
    with pytest.raises(supac.StoreMismatchError, match="the seed is another one"):
        result.predict(later, 20, seed=1, store=store)
    with pytest.raises(supac.StoreMismatchError, match="of new draws, the other of the certified"):
        result.predict(later, ensemble=True, store=store)
    moved = supac.minimize(
        supac.Composite(
            decay, supac.Welsch(), supac.Observations(("A",), 2.0 * TIMES, np.full(10, 0.5))
        ),
        RATES,
        supac.Catoni(0.01),
        budget=30,
        store=tmp_path / "search.supac",
    )
    with pytest.raises(supac.StoreMismatchError, match="the posterior is another one"):
        moved.predict(later, 20, store=store)
    with pytest.raises(ValueError, match="is not a prediction"):
        supac.read_prediction(tmp_path / "search.supac")


def test_runs_keep_their_names_and_times(result: supac.Result, tmp_path: Path) -> None:
    store = tmp_path / "later.supac"
    result.predict(later, 12, outputs="A", times=[7.0, 9.0], store=store)
    for outputs, times, reason in (
        ("B", [7.0, 9.0], "other names"),
        ("A", [7.0, 8.0], "at other times"),
        (("A", "B"), None, "other names; the outputs have another number of rows"),
        (None, None, "other names"),
    ):
        with pytest.raises(supac.StoreMismatchError, match=reason):
            result.predict(later, 12, outputs=outputs, times=times, store=store)
    assert supac.read_prediction(store).columns.cells == [("A", 7.0), ("A", 9.0)]
    other_unit = result.predict(later, 12, outputs={"A": "mol/L"}, times=[7.0, 9.0], store=store)
    assert other_unit.columns.labels == ("A (mol/L)",)


def test_an_unfinished_prediction_knows_it(result: supac.Result, tmp_path: Path) -> None:
    calls: list[FloatArray] = []

    def stopped(x: FloatArray) -> FloatArray:
        calls.append(x)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return later(x)

    store = tmp_path / "later.supac"
    with pytest.raises(KeyboardInterrupt):
        result.predict(stopped, 20, store=store)
    part = supac.read_prediction(store)
    assert (len(part.x), part.asked, part.finished) == (7, 20, False)
    assert result.predict(stopped, 20, store=store).finished
    assert supac.read_prediction(store).finished


@pytest.mark.parametrize(
    "module", ["calibration.predict", "calibration.fresh", "posterior.prediction"]
)
def test_a_file_of_an_earlier_version_is_continued(
    result: supac.Result, tmp_path: Path, module: str
) -> None:
    """Earlier files have the place of a function in place of the loss, and not the number asked."""
    store = tmp_path / "later.supac"
    result.predict(later, 5, outputs="A", times=[7.0, 9.0], store=store)
    with closing(sqlite3.connect(store)) as db, db:
        (text,) = db.execute("SELECT value FROM meta WHERE key = 'config'").fetchone()
        config = json.loads(text)
        assert config["loss"] == {"class": "NoLoss"}
        config["loss"] = {"other": f"supac.{module}._no_loss"}
        earlier = json.dumps(config)
        for key, value in (("config", earlier), ("checksum", digest(earlier).hex())):
            db.execute("UPDATE meta SET value = ? WHERE key = ?", (value, key))
    kept = supac.read_prediction(store)
    made = result.predict(later, 8, outputs="A", times=[7.0, 9.0], store=store)
    assert len(made.x) == 8
    np.testing.assert_array_equal(made.outputs[:5], kept.outputs)


def test_csv_and_netcdf(result: supac.Result, tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    made = result.predict(later, 12, outputs={"A": "mol/L"}, times=[7.0, 9.0], title="later")
    lines = made.to_csv(tmp_path / "bands.csv").read_text().splitlines()
    assert lines[0] == "output,unit,time,lower,median,upper,measured_lower,measured_upper"
    assert lines[1].startswith("A,mol/L,7.0,")
    assert float(lines[1].split(",")[4]) == made.bands().median[0]
    with pytest.raises(FileExistsError, match="already exists"):
        made.to_csv(tmp_path / "bands.csv")
    with xarray.open_dataset(made.to_netcdf(tmp_path / "all.nc")) as dataset:
        np.testing.assert_array_equal(dataset["A"], made.outputs)
        np.testing.assert_array_equal(dataset["rate"], made.x[:, 1])
        np.testing.assert_array_equal(dataset["A_upper"], made.bands().upper)
        assert dataset["A"].attrs["units"] == "mol/L"
        assert dataset["time"].values.tolist() == [7.0, 9.0]
    assert list(made.to_pandas()["time"]) == [7.0, 9.0]


def level(residuals: FloatArray, z: FloatArray) -> FloatArray:
    return np.asarray((0.5 * (residuals - z) ** 2).mean(axis=1))


def test_parameters_that_need_no_run_are_not_passed_on(tmp_path: Path) -> None:
    """The scenario is called as the calibrated simulator was, also after reading the store."""
    data = supac.Observations(("A",), decay(np.array([2.0, 0.7])), np.full(10, 0.1))
    prior = supac.Parameters({**RATES.marginals, "offset": marginals.Normal(0.0, 0.1)})
    risk = supac.Composite(decay, level, data, observation=1)
    found = supac.minimize(risk, prior, supac.Catoni(0.1), budget=30, store=tmp_path / "run.supac")
    seen: list[int] = []

    def scenario(x: FloatArray) -> FloatArray:
        seen.append(len(x))
        return later(x)

    for posterior in (found, supac.read_store(tmp_path / "run.supac")):
        made = posterior.predict(scenario, 8)
        assert made.x.shape == (8, 3)
        np.testing.assert_array_equal(made.outputs, [later(x) for x in made.x])
    assert set(seen) == {2}
    assert found.predict(risk, 8).outputs.shape == (8, len(TIMES))
