"""Predictions of PEtab problems: values as they are measured, with the noise of each draw."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import laplace, norm

import petab_example as example
import supac
from extras import needs
from supac.arrays import FloatArray
from supac.exchange.table import table_of_ensemble
from supac.posterior.candidates import Draws, Measurement
from supac.posterior.observed import SIMULATED
from supac.posterior.outputs import Outputs
from supac.posterior.predicted_bands import mixture_quantile
from supac.posterior.prediction import predictions_beside
from supac.posterior.prediction_file import Description
from supac.posterior.sobol import PickFreeze, indices_of
from supac.problem import CombinedMeasurements
from supac.problem_file import ProblemFileError, read_scenario
from supac.problem_file.problem import ProblemFile
from supac.problem_file.scenario import Scenario

needs("roadrunner", "petab")

NAMES = tuple(
    f"{observable} ({experiment})@{time:g}"
    for experiment in ("plain", "after")
    for time in example.TIMES
    for observable in ("logged", "shifted")
)
LOGGED = np.array([name.startswith("logged") for name in NAMES])


def measured(x: FloatArray) -> FloatArray:
    """Measured values without noise at k, p, scale, sd: (n, 4) → (n, 16)."""
    rows = []
    for k, p, scale, _ in x:
        parts = [example.simulated(each, k, p) for each in ("plain", "after")]
        rows.append([f for a in np.concatenate(parts) for f in (scale * a, a + example.OFFSET)])
    return np.array(rows)


def noise_of(x: FloatArray) -> FloatArray:
    """Noise of the values, or of natural logarithms: (n, 16)."""
    return np.where(LOGGED, x[:, 3:] * np.log(10.0), example.KNOWN_NOISE)


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> ProblemFile:
    made = supac.read_problem(example.write(tmp_path_factory.mktemp("petab")))
    made.minimize(budget=20)
    return made


@pytest.fixture(scope="module")
def record(problem: ProblemFile) -> supac.Record:
    return supac.read_store(problem.store)


def scenario(problem: ProblemFile, text: str, name: str = "later.toml") -> Scenario:
    path = problem.path.parent / name
    path.write_text(text)
    return read_scenario(path, problem)


def test_predicted_values_are_those_of_the_formulas(
    problem: ProblemFile, record: supac.Record
) -> None:
    """Each draw has its own scale and noise level; `logged` has log-normal noise."""
    made = scenario(problem, "draws = 20").predict(record)
    assert made.columns.columns == NAMES
    np.testing.assert_allclose(made.outputs, measured(made.x), rtol=1e-4, atol=1e-6)
    assert made.noise is not None
    np.testing.assert_allclose(made.noise, noise_of(made.x), rtol=1e-12)
    bands, rng = made.bands(0.9), np.random.default_rng(0)
    noise = made.noise * rng.standard_normal((4_000, *made.noise.shape))
    drawn = np.where(LOGGED, made.outputs * np.exp(np.where(LOGGED, noise, 0.0)), 0.0)
    drawn = np.where(LOGGED, drawn, made.outputs + noise).reshape(-1, len(NAMES))
    low, high = np.quantile(drawn, [0.05, 0.95], axis=0)
    assert bands.measured_lower == pytest.approx(low, rel=0.02, abs=0.01)
    assert bands.measured_upper == pytest.approx(high, rel=0.02, abs=0.01)


def test_files_give_them_back_and_those_of_earlier_versions_are_completed(
    problem: ProblemFile, record: supac.Record
) -> None:
    place = problem.store.with_name(f"{problem.store.stem}.plain.supac")
    made = scenario(problem, "draws = 10", "plain.toml").predict(record, store=place)
    again = supac.read_prediction(place)
    np.testing.assert_array_equal(again.outputs, made.outputs)
    np.testing.assert_array_equal(again.bands().measured_upper, made.bands().measured_upper)
    kept, data = supac.read_store(place), record.settings.data
    about, old = Description.of(kept), Outputs.of_simulation(data)
    assert isinstance(data, CombinedMeasurements)
    assert old is not None
    kept.describe(replace(about, table=old).to_json())
    (found,) = predictions_beside(record)
    np.testing.assert_array_equal(found.outputs, made.outputs)
    other = replace(old, columns=tuple(f"{name} of another file" for name in old.columns))
    kept.describe(replace(about, table=other).to_json())
    (found,) = predictions_beside(record)
    assert found.columns.labels[0].endswith(f"({SIMULATED})")
    place.unlink()


def test_emulated_noise_levels_are_those_of_the_run(tmp_path: Path) -> None:
    from supac.simulators import petab  # noqa: PLC0415

    problem = petab.load(example.write(tmp_path), observation=False)
    result = supac.minimize(problem.risk, problem.parameters, problem.bound, budget=20)
    made = result.predict(problem.risk, 5)
    assert made.columns.columns == NAMES
    np.testing.assert_allclose(made.outputs, measured(made.x), rtol=1e-4, atol=1e-6)
    assert made.noise is not None
    np.testing.assert_allclose(made.noise, noise_of(made.x), rtol=1e-12)


def test_another_petab_problem_is_a_scenario(problem: ProblemFile, record: supac.Record) -> None:
    folder = problem.path.parent
    rows = (folder / "measurements.tsv").read_text().splitlines()
    wanted = [row.split("\t") for row in (rows[1], rows[2])]
    lines = ["\t".join([*row[:3], "1", "3", *row[5:]]) for row in wanted]
    (folder / "later.tsv").write_text("\n".join([rows[0], *lines, ""]))
    text = example.PROBLEM.replace("measurements.tsv", "later.tsv")
    (folder / "later.yaml").write_text(text)
    made = scenario(problem, 'draws = 5\n[simulator]\npetab = "later.yaml"\n').predict(record)
    assert made.columns.columns == ("logged@3", "shifted@3")
    k, p, scale = made.x[:, :3].T
    true = p / k + (example.START - p / k) * np.exp(-3.0 * k)
    expected = np.column_stack([scale * true, true + example.OFFSET])
    np.testing.assert_allclose(made.outputs, expected, rtol=1e-4)
    assert np.isfinite(made.bands().measured_upper).all()


def test_a_scenario_of_other_parameters_is_refused(problem: ProblemFile) -> None:
    folder = problem.path.parent
    text = example.PARAMETERS.replace("k log10 0.01 10 0.4 1\n", "") + "k log10 0.01 10 0.4 1\n"
    (folder / "order.tsv").write_text(text.replace(" ", "\t"))
    (folder / "order.yaml").write_text(example.PROBLEM.replace("parameters.tsv", "order.tsv"))
    words = r"order\.yaml must have the calibrated parameters in their order, k, p"
    with pytest.raises(ProblemFileError, match=words):
        scenario(problem, '[simulator]\npetab = "order.yaml"\n')


def test_tables_of_a_scenario_are_answered_with_the_way_that_works(problem: ProblemFile) -> None:
    for table in ("[outputs]\ntimes = [1, 2]\n", "[settings]\non = 2\n"):
        with pytest.raises(ProblemFileError, match=r'\[simulator\] and petab = "later\.yaml"'):
            scenario(problem, table)


def test_quantiles_of_laplace_noise() -> None:
    centres, scale = np.array([[1.0, 1.0]]), np.array([[2.0, 2.0]])
    for level in (1e-6, 0.05, 0.5, 0.99):
        found = mixture_quantile(centres, scale, level, np.array([True, False]))
        expected = [laplace.ppf(level, 1.0, 2.0), norm.ppf(level, 1.0, 2.0)]
        assert found == pytest.approx(expected, rel=1e-9)


def test_exported_sets_have_measured_values_and_what_the_simulator_returned(
    record: supac.Record,
) -> None:
    ensemble = record.ensemble
    table = table_of_ensemble(record, ensemble)
    found = np.array([table[name] for name in NAMES]).T
    np.testing.assert_allclose(found, measured(ensemble.x), rtol=1e-4, atol=1e-6)
    data = record.settings.data
    assert isinstance(data, CombinedMeasurements)
    returned = [table[f"output_{i}"] for i in range(len(data.output_names))]
    assert ensemble.outputs is not None
    np.testing.assert_array_equal(np.array(returned).T, ensemble.outputs[:, : len(returned)])


def test_candidates_have_the_noise_of_the_file(record: supac.Record) -> None:
    """Each is an observable in an experiment at a time; errors name how they are written."""
    found = record.next_measurements(quantity="k")
    every = {each.candidate.words for each in found.choices}
    assert {"logged (plain) at 0", "shifted (after) at 5"} < every
    assert len(every) == len(NAMES)
    assert found.left_out == ()
    drawn = Draws.of(record, None, 500, 0)
    for written in (
        Measurement("shifted (after)", 2.0),
        Measurement("shifted", 2.0, experiment="after"),
        Measurement("shifted (after)@2"),
    ):
        values, errors, noise = drawn.output(written)
        truth = measured(drawn.x)[:, NAMES.index("shifted (after)@2")]
        assert (np.abs(values - truth) < 6.0 * errors + 0.05).mean() > 0.95
        assert noise == example.KNOWN_NOISE
    _, _, noise = drawn.output(Measurement("logged (plain)", 1.0))
    assert noise == pytest.approx(np.median(drawn.x[:, 3]) * np.log(10.0))
    np.testing.assert_array_equal(drawn.quantity("shifted (after) at 2"), values)
    with pytest.raises(ValueError, match=r"there are logged \(plain\), .* written as 'shifted \("):
        drawn.output(Measurement("shifted", 2.0))


def test_candidates_of_a_prediction_have_the_noise_of_its_draws(
    problem: ProblemFile, record: supac.Record
) -> None:
    made = scenario(problem, "draws = 60").predict(record)
    drawn = Draws.of(record, made, None, 0)
    values, errors, noise = drawn.output(Measurement("logged (plain)", 1.0))
    np.testing.assert_allclose(np.exp(values), made.output("logged (plain)@1")[:, 0])
    assert errors.max() == 0.0
    assert noise == pytest.approx(np.median(made.x[:, 3]) * np.log(10.0))


def test_indices_are_of_the_measured_values(problem: ProblemFile) -> None:
    """Scales count, values that are compared by logarithms do so here, series are columns."""
    record = supac.read_store(problem.store)
    found = record.sensitivity(points=4_096)
    assert set(found.indices.outputs) <= set(NAMES)
    series = {name.partition("@")[0] for name in NAMES}
    assert set(found.columns.outputs) == {*series, "all outputs", "risk"}

    over, parameters = record.known_posterior(), record.parameters
    assert parameters is not None
    points = PickFreeze.draw(
        over, [np.array([i]) for i in range(over.dim)], 2_000, np.random.default_rng(0)
    )
    values = measured(parameters.from_latent(points.points))
    exact = indices_of(points.parts(np.where(LOGGED, np.log(values), values)))
    for name in found.indices.outputs:
        row, place = found.indices.row(name), NAMES.index(name)
        for kind, mine in zip(("first", "total"), np.split(exact[:, place], 2), strict=True):
            assert np.abs(row[kind] - mine).max() < 0.1 + 3.0 * row[f"{kind}_error"].max()
    scale = list(found.parameters).index("scale")
    assert found.columns.row("logged (plain)")["total"][scale] > 0.01
    assert abs(found.columns.row("shifted (plain)")["total"][scale]) < 0.01
