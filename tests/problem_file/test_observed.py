"""Scales, offsets and noise levels of observed columns as parameters of a problem file."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.codec import from_spec, to_spec
from supac.problem import ColumnLoss, Composite
from supac.problem.columns import Likelihood
from supac.problem.observation import ObservationLoss
from supac.problem_file import make_problem, read_scenario, starter_files
from supac.report import write_report
from supac.report.account import account_of

PROBLEM = """
[parameters]
gain = { prior = "lognormal", median = 1.0, log_sd = 1.0, unit = "mV" }
k1 = { prior = "lognormal", median = 0.5, log_sd = 0.8 }
base = { prior = "normal", mean = 0.0, sd = 0.5 }
k2 = { prior = "lognormal", median = 0.5, log_sd = 0.8 }
sigma = { prior = "lognormal", median = 0.1, log_sd = 1.0 }
[simulator]
python = "model:simulate"
arguments = "names"
[data]
file = "data.csv"
observed = ["A", "B"]
scale = "gain"
offset = { B = "base" }
noise = "sigma"
[bound]
temperature = 0.0417
[run]
budget = 40
"""
MODEL = """
import numpy as np

def simulate(k1, k2):
    t = np.arange(1.0, 13.0)
    b = k1 / (k2 - k1 + 1e-9) * (np.exp(-k1 * t) - np.exp(-k2 * t))
    return {"A": np.exp(-k1 * t), "B": b}
"""
TRUTH = {"k1": 0.3, "k2": 0.1, "gain": 3.0, "base": 0.2, "sigma": 0.05}
KNOWN_NOISE = (
    PROBLEM.replace('noise = "sigma"', "noise = 0.05")
    .replace('sigma = { prior = "lognormal", median = 0.1, log_sd = 1.0 }\n', "")
    .replace("temperature = 0.0417", "n = 24")
)


def write(folder: Path) -> Path:
    (folder / "model.py").write_text(MODEL)
    t, rng = np.arange(1.0, 13.0), np.random.default_rng(1)
    a, b = np.exp(-0.3 * t), 0.3 / -0.2 * (np.exp(-0.3 * t) - np.exp(-0.1 * t))
    noise = 0.05 * rng.standard_normal((2, 12))
    rows = zip(t, 3.0 * a + noise[0], 3.0 * b + 0.2 + noise[1], strict=True)
    lines = [",".join(f"{value:.4f}" for value in row) for row in rows]
    (folder / "data.csv").write_text("\n".join(["time,A [mV],B [mV]", *lines]))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path)


def read(folder: Path, text: str = PROBLEM) -> supac.ProblemFile:
    (folder / "problem.toml").write_text(text)
    return make_problem(text, folder / "problem.toml")


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> supac.ProblemFile:
    """The problem with a store whose search has ended, which nobody changes."""
    problem = read(write(tmp_path_factory.mktemp("observed")))
    problem.minimize()
    return problem


def test_they_are_found_and_cost_no_run(ended: supac.ProblemFile) -> None:
    problem, result = ended, supac.read_store(ended.store).result()
    assert problem.parameters.names == ("k1", "k2", "gain", "base", "sigma")
    assert isinstance(problem.risk, Composite)
    assert problem.risk.observation == 3
    low, high = np.quantile(result.sample(4_000), [0.001, 0.999], axis=0)
    for i, name in enumerate(problem.parameters.names):
        assert low[i] < TRUTH[name] < high[i]
    assert (high - low)[2] < 1.0  # of the gain, of which the prior goes from 0.05 to 20


def test_the_risk_is_that_of_the_observed_values(folder: Path) -> None:
    risk = read(folder).risk
    assert isinstance(risk, Composite)
    x = np.array([0.25, 0.12, 2.0, 0.1, 0.08])
    t = np.arange(1.0, 13.0)
    table = np.loadtxt(folder / "data.csv", delimiter=",", skiprows=1)
    b = 0.25 / (0.12 - 0.25 + 1e-9) * (np.exp(-0.25 * t) - np.exp(-0.12 * t))
    values = np.concatenate([2.0 * np.exp(-0.25 * t), 2.0 * b + 0.1])
    residuals = (values - table[:, 1:].T.ravel()) / 0.08
    assert risk(x) == pytest.approx(0.5 * np.mean(residuals**2) + np.log(0.08))


def test_a_search_goes_on_where_it_ended_and_is_reported(
    folder: Path, ended: supac.ProblemFile
) -> None:
    problem, record = read(folder), supac.read_store(ended.store)
    problem.minimize(budget=25, store=folder / "two.supac")
    resumed = problem.minimize(store=folder / "two.supac")
    np.testing.assert_array_equal(resumed.posterior.mean, record.result().posterior.mean)
    loss = record.settings.loss
    assert isinstance(loss, ObservationLoss)
    assert isinstance(loss.loss, ColumnLoss)
    write_report(record, folder / "report.html")
    page = (folder / "report.html").read_text()
    assert "Misfit by observed column" in page
    assert "sigma" in page


def test_before_the_end_the_noise_is_that_of_the_latest_runs(ended: supac.ProblemFile) -> None:
    record = supac.read_store(ended.store)
    record.ending = None  # as while the search goes on
    seen = account_of(record).observations
    assert seen is not None
    assert 0.01 < seen.noise.max() < 0.3  # sigma is 0.05


def test_scales_and_offsets_are_certified(folder: Path) -> None:
    problem = read(folder, KNOWN_NOISE)
    result = problem.minimize()
    assert result.certificate is not None
    assert result.certificate.value < 0.8
    again = problem.certify(supac.read_store(problem.store), subject="ensemble", draws=20)
    assert again.value < 0.85
    assert list(again.in_units) == ["A (mV)", "B (mV)"]


def test_a_scenario_predicts_what_is_measured(folder: Path, ended: supac.ProblemFile) -> None:
    problem = read(folder)
    shutil.copy(ended.store, problem.store)
    (folder / "again.toml").write_text("draws = 20\n")
    made = read_scenario(folder / "again.toml", problem).predict(supac.read_store(problem.store))
    t, (k1, _, gain, _, sigma) = np.arange(1.0, 13.0), made.x.T
    np.testing.assert_allclose(made.output("A"), gain[:, None] * np.exp(-k1[:, None] * t))
    bands = made.bands(0.9)
    wider = bands.measured_upper - bands.measured_lower
    assert (wider < 3.3 * sigma.max() + bands.upper - bands.lower + 0.05).all()


def test_held_out_data_have_them_too(folder: Path) -> None:
    text = KNOWN_NOISE.replace("n = 24", "n = 12").replace(
        'scale = "gain"', 'scale = "gain"\ntest = "B"'
    )
    problem = read(folder, text)
    risk = problem.risk
    assert isinstance(risk, Composite)
    assert risk.tested is not None
    x = np.array([0.3, 0.1, 3.0, 0.2])
    assert risk.tested(x) < 0.3
    assert risk.tested(np.array([0.3, 0.1, 1.0, 0.2])) > 0.9  # another gain


def test_experiments_may_have_their_own(folder: Path) -> None:
    second = (folder / "data.csv").read_text().replace("time,A [mV],B [mV]", "time,A,B")
    (folder / "other.csv").write_text(second)
    head, _, rest = PROBLEM.partition("[data]")
    tables = (
        '[[data]]\nfile = "data.csv"\nobserved = ["A", "B"]\nscale = "gain"\nnoise = "sigma"\n'
        'units = "mV"\n[[data]]\nfile = "other.csv"\nobserved = ["A", "B"]\nnoise = 0.1\n'
        'offset = { A = "base" }\nunits = "mV"\n[loss]\nkind = "likelihood"\n'
    )
    model = MODEL.replace(
        '{"A": np.exp(-k1 * t), "B": b}', '{"A": np.tile(np.exp(-k1 * t), 2), "B": np.tile(b, 2)}'
    )
    (folder / "model.py").write_text(model)
    problem = read(folder, head + tables + "[bound]" + rest.partition("[bound]")[2])
    loss = problem.risk.loss.loss  # type: ignore[attr-defined]
    one, none, twelve = np.ones(12, int), np.full(12, -1), np.zeros(12, int)
    np.testing.assert_array_equal(loss.scales, np.concatenate([twelve, none] * 2))
    np.testing.assert_array_equal(loss.offsets, np.concatenate([none, one, none, none]))
    np.testing.assert_array_equal(loss.levels, np.concatenate([2 * one, none] * 2))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('scale = "gain"', 'scale = "gian"', "line 14, data.scale: gian is no parameter; did you"),
        ("{ B =", "{ C =", "line 15, data.offset.C: C is not observed"),
        ('scale = "gain"', "scale = 2.0", "line 14, data.scale: must be a text"),
        ('gain = { prior = "lognormal", median = 1.0, log_sd = 1.0, unit = "mV" }', "gain = 2.0",
         "data.scale: gain must have a prior"),
        ('sigma = { prior = "lognormal", median = 0.1, log_sd = 1.0 }',
         'sigma = { prior = "normal", mean = 0.1, sd = 1.0 }',
         "line 7, parameters.sigma: may be negative, but is a noise in"),
        ("[bound]", '[loss]\nkind = "welsch"\n[bound]', 'noise: .* needs kind = "likelihood" in'),
        ("[bound]", '[constraints]\na = "gain < k1"\n[bound]', "constraints.a: gain is a scale"),
        ("[bound]\n", '[bound]\nn = 24\n', "bound.n: a likelihood has no largest value.* in place "
         r"of n and delta, write kind = \"catoni\" and temperature = 0.0417 \(1/24, one over"),
        ('scale = "gain"', 'scale = "gain"\ncompare = "log"', "offset.B: goes without compare"),
    ],
)  # fmt: skip
def test_errors_name_line_key_and_fix(folder: Path, old: str, new: str, words: str) -> None:
    with pytest.raises(supac.ProblemFileError, match=words):
        read(folder, PROBLEM.replace(old, new, 1))


def test_the_starter_s_comment_on_noise_can_be_followed(tmp_path: Path) -> None:
    for name, text in starter_files("builtin").items():
        (tmp_path / name).write_text(text)
    text = (tmp_path / "problem.toml").read_text()
    assert 'noise = "sigma"' in text
    assert "temperature = 0.042" in text
    prior = 'sigma = { prior = "lognormal", median = 0.1, log_sd = 1.0 }'
    text = text.replace("[parameters]", f"[parameters]\n{prior}", 1)
    text = text.replace("noise = 0.05 ", 'noise = "sigma" ', 1)
    head, end = text.partition("\n[loss]\n")[0], text.partition("\n[run]\n")[2]
    made = read(tmp_path, f"{head}\n[bound]\ntemperature = 0.042\n[run]\n{end}")
    assert made.parameters.names[-1] == "sigma"


def test_a_column_of_the_same_name_is_told(folder: Path) -> None:
    table = (folder / "data.csv").read_text().replace("B [mV]", "B,sigma")
    (folder / "data.csv").write_text(table.replace("\n", ",1\n").replace("sigma,1", "sigma") + ",1")
    with pytest.raises(supac.ProblemFileError, match="sigma is a parameter and a column of data"):
        read(folder)


@pytest.mark.parametrize("logarithmic", [False, True])
@pytest.mark.parametrize("loss", [Likelihood(), supac.Welsch(3.0), supac.MeanSquare()])
def test_slopes_are_differences_and_stores_give_it_back(
    logarithmic: bool, loss: supac.problem.Loss
) -> None:
    rng = np.random.default_rng(0)
    values = np.append(rng.uniform(1.0, 2.0, 5), np.nan)
    made = ColumnLoss(
        loss,
        scales=np.array([0, 0, 1, -1, -1, 0]),
        offsets=np.full(6, -1) if logarithmic else np.array([2, -1, -1, 2, -1, -1]),
        levels=np.array([3, 3, -1, -1, -1, 3]),
        values=values,
        noise=np.array([1.0, 1.0, 0.3, 0.5, 0.2, 1.0]),
        logarithmic=logarithmic,
    )
    simulated, z = rng.standard_normal((20, 5)), np.exp(0.3 * rng.standard_normal((20, 4)))
    found = made.slopes(simulated, z)
    assert found is not None
    _compare(lambda each: made(each, z), simulated, found[0])
    _compare(lambda each: made(simulated, each), z, found[1])
    again = from_spec(to_spec(made))
    np.testing.assert_array_equal(again(simulated, z), made(simulated, z))


def _compare(
    function: Callable[[FloatArray], FloatArray], at: FloatArray, slopes: FloatArray
) -> None:
    for column in range(at.shape[1]):
        step = np.zeros(at.shape[1])
        step[column] = 1e-6
        difference = (function(at + step) - function(at - step)) / 2e-6
        assert slopes[:, column] == pytest.approx(difference, rel=1e-3, abs=1e-5)


def test_runs_of_a_table_need_not_repeat_them(folder: Path, ended: supac.ProblemFile) -> None:
    problem, result = ended, supac.read_store(ended.store).result()
    assert result.ensemble is not None
    assert result.ensemble.outputs is not None
    names = problem.parameters.names
    head = [*names, *(f"output_{i}" for i in range(24))]
    rows = np.hstack([result.ensemble.x, result.ensemble.outputs[:, :24]])
    np.savetxt(folder / "old.csv", rows, delimiter=",", header=",".join(head), comments="")
    text = PROBLEM.replace("budget = 40", 'budget = 40\nknown = "old.csv"')
    known = read(folder, text).options["known"]
    np.testing.assert_array_equal(known.outputs[:, 24:], rows[:, 2:5])


def test_a_field_of_too_many_points_is_named_by_its_key(folder: Path) -> None:
    field = (
        'k2 = { field = [40, 40], length = 0.2, prior = "lognormal", median = 0.5, log_sd = 0.8 }'
    )
    text = PROBLEM.replace('k2 = { prior = "lognormal", median = 0.5, log_sd = 0.8 }', field)
    words = "line 6, parameters.k2.field: has 1,600 points, and at most 1,000"
    with pytest.raises(supac.ProblemFileError, match=words):
        read(folder, text)
