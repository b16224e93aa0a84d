"""Predictions, sensitivities and candidates where scales, offsets and noise are parameters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.exchange.other_runs import known_runs
from supac.exchange.table import table_of_ensemble, write_table
from supac.posterior.candidates import Draws, Measurement
from supac.posterior.observed import SIMULATED, ObservedData
from supac.posterior.outputs import Outputs
from supac.posterior.prediction import predictions_beside
from supac.posterior.prediction_file import Description
from supac.posterior.sobol import PickFreeze, indices_of
from supac.problem_file import make_problem, read_scenario
from supac.problem_file.problem import ProblemFile
from supac.problem_file.scenario import Scenario

PROBLEM = """
[parameters]
gain = { prior = "lognormal", median = 1.0, log_sd = 1.0, unit = "mV" }
k = { prior = "lognormal", median = 0.5, log_sd = 0.8 }
base = { prior = "normal", mean = 0.0, sd = 0.5 }
sigma = { prior = "lognormal", median = 0.1, log_sd = 1.0 }
[simulator]
python = "model:simulate"
arguments = "names"
[data]
file = "data.csv"
observed = ["A", "B"]
scale = { A = "gain" }
offset = { B = "base" }
noise = { A = "sigma", B = 0.02 }
[bound]
temperature = 0.0417
[run]
budget = 40
"""
MODEL = """
import numpy as np

def simulate(k, times=tuple(range(1, 13))):
    decayed = np.exp(-k * np.array(times))
    return {"A": decayed, "B": 1.0 - decayed}
"""
SCENARIO = "draws = 30\n[outputs]\ntimes = [14.0, 16.0]\n"
CLOCK = np.arange(1.0, 13.0)


def observed(x: FloatArray, times: FloatArray) -> FloatArray:
    """A and B as they are measured, of k, gain, base, sigma: (n, 4) → (n, 2·times)."""
    decayed = np.exp(-x[:, :1] * times)
    return np.hstack([x[:, 1:2] * decayed, 1.0 - decayed + x[:, 2:3]])


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> ProblemFile:
    folder = tmp_path_factory.mktemp("observed")
    (folder / "model.py").write_text(MODEL)
    rng = np.random.default_rng(1)
    a, b = observed(np.array([[0.3, 3.0, 0.2, 0.05]]), CLOCK).reshape(2, 12)
    a, b = a + 0.05 * rng.standard_normal(12), b + 0.02 * rng.standard_normal(12)
    rows = [f"{t},{u:.4f},{v:.4f}" for t, u, v in zip(CLOCK, a, b, strict=True)]
    (folder / "data.csv").write_text("\n".join(["time,A [mV],B", *rows]))
    (folder / "problem.toml").write_text(PROBLEM)
    made = make_problem(PROBLEM, folder / "problem.toml")
    made.minimize()
    return made


@pytest.fixture(scope="module")
def record(problem: ProblemFile) -> supac.Record:
    return supac.read_store(problem.store)


def scenario(problem: ProblemFile, text: str, name: str = "later.toml") -> Scenario:
    path = problem.path.parent / name
    path.write_text(text)
    return read_scenario(path, problem)


def test_predicted_columns_are_as_they_are_measured(
    problem: ProblemFile, record: supac.Record
) -> None:
    made = scenario(problem, SCENARIO).predict(record)
    assert made.columns.labels == ("A (mV)", "B")
    times = np.array([14.0, 16.0])
    np.testing.assert_allclose(made.outputs, observed(made.x, times), rtol=1e-12)
    noise = made.columns.deviations(made.outputs, made.x)
    np.testing.assert_array_equal(noise[:, :2], np.tile(made.x[:, 3:], 2))
    np.testing.assert_array_equal(noise[:, 2:], 0.02)
    bands, rng = made.bands(0.9), np.random.default_rng(0)
    drawn = made.outputs + noise * rng.standard_normal((4_000, *noise.shape))
    low, high = np.quantile(drawn.reshape(-1, 4), [0.05, 0.95], axis=0)
    assert bands.measured_lower == pytest.approx(low, abs=0.003)
    assert bands.measured_upper == pytest.approx(high, abs=0.003)


def test_an_empty_scenario_is_that_of_the_data(problem: ProblemFile, record: supac.Record) -> None:
    made = scenario(problem, "draws = 5").predict(record)
    np.testing.assert_allclose(made.outputs, observed(made.x, CLOCK), rtol=1e-12)
    again = record.predict(problem.risk, 5)
    np.testing.assert_array_equal(again.outputs, made.outputs)
    np.testing.assert_array_equal(again.bands().measured_upper, made.bands().measured_upper)


def test_noise_of_the_scenario_replaces_the_level(
    problem: ProblemFile, record: supac.Record
) -> None:
    made = scenario(problem, SCENARIO + "noise = { A = 0.3 }\n").predict(record)
    noise = made.columns.deviations(made.outputs, made.x)
    np.testing.assert_array_equal(noise, np.tile([0.3, 0.3, 0.02, 0.02], (30, 1)))


def test_files_give_it_back_and_those_without_it_are_completed(
    problem: ProblemFile, record: supac.Record
) -> None:
    asked, place = scenario(problem, SCENARIO), problem.store.with_name("problem.later.supac")
    made = asked.predict(record, store=place)
    np.testing.assert_array_equal(supac.read_prediction(place).outputs, made.outputs)
    kept = supac.read_store(place)
    about = Description.of(kept)
    assert about.table is not None
    kept.describe(replace(about, table=replace(about.table, observed=None)).to_json())
    (found,) = predictions_beside(record)
    np.testing.assert_array_equal(found.outputs, made.outputs)
    np.testing.assert_array_equal(found.bands().measured_upper, made.bands().measured_upper)


def test_scales_that_differ_between_experiments_leave_simulated_outputs(
    problem: ProblemFile,
) -> None:
    assert problem.observations is not None
    known = ObservedData.of(problem.risk.loss, problem.observations)  # type: ignore[attr-defined]
    assert known is not None
    scales = known.cells.scales.copy()
    scales[:6] = -1
    mixed = replace(known, cells=replace(known.cells, scales=scales))
    table = Outputs(("A", "B"), 2, np.array([14.0, 16.0]), ("mV", ""), noise=np.ones(2))
    found = mixed.describe(table)
    assert found.units == (SIMULATED, "")
    assert found.noise is not None
    assert np.isnan(found.noise).tolist() == [True, False]
    x = np.array([[0.3, 3.0, 0.2, 0.05]])
    np.testing.assert_allclose(found.as_observed(np.ones((1, 4)), x), [[1.0, 1.0, 1.2, 1.2]])


def test_sensitivities_are_those_of_measured_values(
    problem: ProblemFile, record: supac.Record
) -> None:
    found = record.sensitivity()
    over, rng = record.known_posterior(), np.random.default_rng(3)
    points = PickFreeze.draw(over, [np.array([i]) for i in range(4)], 20_000, rng)
    values = observed(problem.parameters.from_latent(points.points), CLOCK)
    expected = indices_of(points.parts(values))
    for place, name in enumerate(found.indices.outputs):
        mine = found.indices.row(name)
        for kind, truth in (("first", expected[:4]), ("total", expected[4:])):
            wrong = np.abs(mine[kind] - truth[:, place])
            assert (wrong < 0.03 + 4.0 * mine[f"{kind}_error"]).all(), (name, kind)
    assert found.columns.row("A")["total"][1] > 0.05  # the gain, which no run was given
    assert found.columns.row("B")["total"][2] > 0.05  # the offset
    assert np.abs(found.indices.total[:, 3]).max() < 0.02  # noise is in no output


def test_candidates_are_measured_values_with_the_fitted_noise(record: supac.Record) -> None:
    drawn = Draws.of(record, None, 500, 0)
    truth = observed(drawn.x, np.array([3.0]))
    for i, name in enumerate("AB"):
        values, errors, noise = drawn.output(Measurement(name, 3.0))
        assert (np.abs(values - truth[:, i]) < 5.0 * errors + 0.01).all()
        assert noise == pytest.approx((np.median(drawn.x[:, 3]), 0.02)[i])
    np.testing.assert_array_equal(drawn.quantity("A at 3"), drawn.output(Measurement("A", 3.0))[0])
    best = record.next_measurements([("A", 1.0, 0.001), ("B", 1.0, 0.001)], "base").choices[0]
    assert best.candidate.words == "B at 1"


def test_a_loss_of_ones_own_leaves_the_noise_of_measurements_unknown() -> None:
    """What it does with its parameters is its own affair."""
    data = supac.Observations(("A",), np.exp(-0.3 * CLOCK), np.full(12, 0.1))
    marginals = supac.marginals
    prior = {"k": marginals.LogNormal(0.5, 0.8), "offset": marginals.Normal(0.0, 0.1)}
    risk = supac.Composite(_decay, _shifted, data, observation=1)
    found = supac.minimize(risk, supac.Parameters(prior), supac.Catoni(0.1), budget=20)
    assert np.isnan(found.predict(risk, 8).bands().measured_upper).all()
    own = Outputs(("A",), 12, noise=np.array([0.2]))
    assert np.isfinite(found.predict(risk, 8, outputs=own).bands().measured_upper).all()


def _decay(x: FloatArray) -> FloatArray:
    return np.asarray(np.exp(-x[0] * CLOCK))


def _shifted(residuals: FloatArray, z: FloatArray) -> FloatArray:
    return np.asarray((0.5 * (residuals - z) ** 2).mean(axis=1))


def test_exported_sets_are_as_they_are_measured_and_can_be_known_runs(
    problem: ProblemFile, record: supac.Record
) -> None:
    """What the simulator returned stands beside them, and is what further searches read."""
    ensemble, count = record.ensemble, 2 * len(CLOCK)
    table = table_of_ensemble(record, ensemble)
    assert problem.observations is not None
    found = np.array([table[name] for name in problem.observations.cell_names]).T
    own = ensemble.x[:, [problem.parameters.names.index(n) for n in ("k", "gain", "base", "sigma")]]
    np.testing.assert_allclose(found, observed(own, CLOCK), rtol=1e-12)
    returned = np.array([table[f"output_{i}"] for i in range(count)]).T
    assert ensemble.outputs is not None
    np.testing.assert_array_equal(returned, ensemble.outputs[:, :count])
    path = problem.path.with_name("ensemble.csv")
    write_table(path, table)
    for given in (path, (path, path)):
        known = known_runs(given, problem.parameters, problem.risk)
        assert known is not None
        np.testing.assert_array_equal(known.outputs, ensemble.outputs)
