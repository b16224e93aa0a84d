"""Stores that version 0.1 wrote are read, shown, reported, exported and gone on with."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import supac
from supac import marginals
from supac.arrays import FloatArray
from supac.cli import app
from supac.record.store.schema import VERSION
from supac.report.account import account_of

STORES = Path(__file__).parents[1] / "stores"
SEARCHES = {  # number of runs, and the objective at the end or after the last round
    "scalar-ended": (40, 0.06444791298),
    "composite-ended": (40, 0.05659624353),
    "composite-killed": (33, 0.05567509459),
    "problem-killed": (30, 0.51263576244),
}
ALL = [*SEARCHES, "meta-killed"]


def bowl(x: FloatArray) -> float:
    if x[0] > 1.2:
        raise RuntimeError("the reactor has frozen")
    return float(np.tanh(0.3 * (x - 0.4) @ (x - 0.4) + 0.1 * np.sin(3.0 * x[0])) ** 2)


def decay(x: FloatArray) -> FloatArray:
    times = np.linspace(0.0, 5.0, 10)
    return (x[0] * np.exp(-x[1] * times) - 2.0 * np.exp(-0.7 * times)) / 0.1


def pump(wear: float) -> Callable[[FloatArray], float]:
    best = np.array([1.5, wear, 0.5 * wear - 1.0])
    return lambda x: float(np.tanh(0.2 * np.sum((x - best) ** 2)))


DECAY = supac.Composite(decay, supac.Welsch())
NORMAL = supac.gaussian(np.zeros(3), np.eye(3))
RATES = supac.Parameters(
    {
        "initial": marginals.Uniform(0.0, 5.0, unit="mol/L"),
        "rate": marginals.LogNormal(median=1.0, log_sd=0.5, unit="1/h"),
    }
)


def minimize_decay(budget: int, **options: Any) -> supac.Result:
    bound = supac.Catoni(0.01)
    return supac.minimize(DECAY, RATES, bound, budget=budget, seed=1, **options)


def minimize_bowl(**options: Any) -> supac.Result:
    bound, policy = supac.Catoni(0.02, ceiling=1.0), supac.Execution(on_failure="penalise")
    return supac.minimize(bowl, NORMAL, bound, budget=40, execution=policy, seed=3, **options)


def learn(**options: Any) -> supac.MetaResult:
    tasks = [
        supac.Task(pump(wear), supac.Catoni(0.05), name=f"pump {wear:g}")
        for wear in (-0.5, 0.2, 0.9)
    ]
    return supac.meta_learn(tasks, NORMAL, passes=2, seed=5, **options)


def copied(name: str, folder: Path) -> Path:
    return Path(shutil.copy(STORES / f"{name}.supac", folder / f"{name}.supac"))


def call(*words: object, code: int = 0) -> Result:
    result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "80"})
    assert result.exit_code == code, result.output + str(result.exception)
    return result


def assert_same(result: supac.Result, other: supac.Result) -> None:
    assert result.posterior == other.posterior
    assert str(result) == str(other)
    for name in ("x", "risk", "drawn", "outputs"):
        mine, yours = getattr(result.evaluations, name), getattr(other.evaluations, name)
        np.testing.assert_array_equal(mine, yours)


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_is_read_shown_and_reported_without_a_change(name: str, tmp_path: Path) -> None:
    store, (runs, objective) = copied(name, tmp_path), SEARCHES[name]
    before = store.read_bytes()
    record = supac.read_store(store)
    assert (len(record.made), record.queries) == (runs, runs)
    assert record.made_with.startswith("supac 0.1.0")
    assert record.estimate.objective == pytest.approx(objective, rel=1e-9)
    assert f"runs         {runs} of {record.budget}" in call("show", store).output
    page = supac.write_report(record, tmp_path / "report.html").read_text()
    assert f"{objective:.3g}" in page
    assert (record.stop_reason is None) == name.endswith("killed")
    assert store.read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted([store.name, "report.html"])


@pytest.mark.parametrize("name", ALL)
def test_runs_are_exported(name: str, tmp_path: Path) -> None:
    store, table = copied(name, tmp_path), tmp_path / "table.csv"
    db = sqlite3.connect(store)
    risks = db.execute("SELECT risk FROM runs WHERE risk IS NOT NULL").fetchall()
    db.close()
    record = supac.read_store(store)
    assert supac.export(store, table) == len(record.runs) > 0
    known = supac.read_csv(table, record.parameters or [f"x{i}" for i in range(3)])
    assert sorted(known.risk[~np.isnan(known.risk)]) == sorted(risk for (risk,) in risks)
    width = record.told_width()
    assert (known.outputs is None) == (width is None) == (name in ("scalar-ended", "meta-killed"))
    if known.outputs is not None:
        assert known.outputs.shape == (len(record.runs), width)


def test_tasks_of_meta_learning_are_told_apart(tmp_path: Path) -> None:
    store = copied("meta-killed", tmp_path)
    frame = supac.read_store(store).to_pandas()
    assert sorted(set(frame["task"])) == [0, 1, 2]
    assert not frame.duplicated(["task", "id"]).any()
    assert frame.groupby("task")["iteration"].min().tolist() == [0, 0, 0]
    said = call("show", store, code=1).output
    assert "is a store of `meta_learn`, not of one search" in " ".join(said.split())
    with pytest.raises(ValueError, match="not of one search"):
        supac.write_report(supac.read_store(store), tmp_path / "report.html")


@pytest.mark.parametrize("name", ["scalar-ended", "composite-ended"])
def test_a_result_is_what_the_search_gave(name: str, tmp_path: Path) -> None:
    result = supac.read_store(copied(name, tmp_path)).result()
    runs, objective = SEARCHES[name]
    assert len(result.evaluations) == runs
    assert result.objective == pytest.approx(objective, rel=1e-9)
    assert result.failed == (2 if name == "scalar-ended" else 0)
    risk = bowl if name == "scalar-ended" else DECAY
    x = result.evaluations.x[result.evaluations.ok]
    points = x if result.parameters is None else result.parameters.from_latent(x)
    np.testing.assert_allclose(
        [risk(each) for each in points], result.evaluations.risk[result.evaluations.ok]
    )


@pytest.mark.parametrize(("name", "budget"), [("composite-killed", 60), ("composite-ended", 60)])
def test_a_search_is_gone_on_with_by_today_s_rules(name: str, budget: int, tmp_path: Path) -> None:
    """From the state that it was left in: the same bits however it is gone on with."""
    store, made = copied(name, tmp_path), []
    before = supac.read_store(store)
    (tmp_path / "other").mkdir()
    other = copied(name, tmp_path / "other")

    def counting(x: FloatArray) -> FloatArray:
        made.append(x)
        return decay(x)

    told = sum(len(each.ids) for each in supac.read_store(store).rounds)
    risk = supac.Composite(counting, supac.Welsch())
    result = supac.resume(store, risk, budget=budget)
    minimize_decay(budget - 15, store=other)
    assert_same(result, minimize_decay(budget, store=other))
    np.testing.assert_array_equal(result.evaluations.x[:told], before.evaluations.x[:told])
    assert result.objective < SEARCHES[name][1] + 3.0 * result.mean_risk_error
    assert told == 30
    assert result.queries > 55  # it may converge before the budget is spent
    assert len(made) == result.queries - (33 if name == "composite-killed" else told)
    assert_same(supac.read_store(store).result(), result)
    with pytest.raises(supac.StoreMismatchError, match="loss: Welsch in the store"):
        supac.resume(store, supac.Composite(decay, supac.MeanSquare()))


def test_blocks_of_data_count_although_the_file_has_residuals(tmp_path: Path) -> None:
    store, times = copied("composite-ended", tmp_path), np.linspace(0.0, 5.0, 10)
    blocks = np.repeat(np.arange(5.0), 2)
    data = supac.Observations(("y",), 2.0 * np.exp(-0.7 * times), np.full(10, 0.1), blocks=blocks)
    risk = supac.Composite(lambda x: x[0] * np.exp(-x[1] * times), supac.Welsch(), data)
    result = supac.resume(store, risk, budget=60)
    sets = result.certify(risk, subject="ensemble", draws=5, store=store)
    for certificate in (result.certificate, sets):
        assert certificate is not None
        assert certificate.n == 5
        assert certificate.in_units["y"] > 0.0
    tested = supac.Composite(risk.simulate, risk.loss, *data.split(blocks == 4.0))
    with pytest.raises(supac.StoreMismatchError, match="held_out"):
        supac.resume(store, tested, budget=60)
    with pytest.raises(ValueError, match="keeps residuals, not outputs"):
        supac.reoptimize(result, tested, budget=20)


def test_reports_show_the_outputs_behind_the_residuals_of_a_file(tmp_path: Path) -> None:
    """With the data of the problem file beside it, as what was measured is drawn."""
    for name in ("problem-killed.supac", "problem.toml", "data.csv", "model.py"):
        shutil.copy(STORES / name, tmp_path)
    record = supac.read_store(tmp_path / "problem-killed.supac")
    account, runs = account_of(record), [run for run in record.runs if run.ok]
    data, shown = account.observations, account.outputs_of([run.id for run in runs])
    assert data is not None
    assert shown is not None
    kept = np.array([run.outputs for run in runs])
    np.testing.assert_allclose(data.residuals(shown), kept, atol=1e-12)
    assert not np.allclose(shown, kept)


def test_the_same_call_finds_its_runs_again(tmp_path: Path) -> None:
    """Also that of an ended search: nothing is run."""

    def none(x: FloatArray) -> float:
        raise AssertionError("a run was made")

    store = copied("scalar-ended", tmp_path)
    before = supac.read_store(store).result()
    result = supac.resume(store, none)
    # Its end is told anew: the standard error now knows of failures that its fresh runs met not.
    assert (result.posterior, result.objective) == (before.posterior, before.objective)
    assert result.mean_risk_error > before.mean_risk_error
    np.testing.assert_array_equal(result.evaluations.risk, before.evaluations.risk)
    assert_same(minimize_bowl(store=store), result)


def test_a_problem_file_is_gone_on_with_by_the_command(tmp_path: Path) -> None:
    for folder in ("then", "now"):
        (tmp_path / folder).mkdir()
        for name in ("problem.toml", "model.py", "data.csv"):
            shutil.copy(STORES / name, tmp_path / folder / name)
    store = tmp_path / "then" / "run.supac"
    shutil.copy(STORES / "problem-killed.supac", store)
    call("resume", store)
    call("run", tmp_path / "now" / "problem.toml")
    then, now = (supac.read_store(tmp_path / each / "run.supac") for each in ("then", "now"))
    error = then.estimate.mean_risk_error + now.estimate.mean_risk_error
    assert then.estimate.objective == pytest.approx(now.estimate.objective, abs=4.0 * error)
    assert "60 of 60, " in call("show", store).output
    page = supac.write_report(then, tmp_path / "report.html").read_text()
    assert "Two reactions in a row" in page
    assert 'aria-labelledby="fit-1-title"' in page  # outputs again, from residuals and data
    frame = then.to_pandas()  # residuals still, as the file has them
    width = now.told_width()
    assert sum(column.startswith("output_") for column in frame) == then.told_width() == width


def assert_same_numbers(record: supac.Record, other: supac.Record) -> None:
    assert record.posterior == other.posterior
    assert record.estimate.objective == other.estimate.objective
    np.testing.assert_array_equal(record.evaluations.x, other.evaluations.x)
    np.testing.assert_array_equal(record.evaluations.risk, other.evaluations.risk)
    np.testing.assert_array_equal(record.evaluations.outputs, other.evaluations.outputs)


def test_meta_learning_is_gone_on_with_by_today_s_rules(tmp_path: Path) -> None:
    store = copied("meta-killed", tmp_path)
    runs = len(supac.read_store(store).runs)
    resumed, now = learn(store=store), learn()
    assert resumed.queries == len(supac.read_store(store).runs) > runs == 150
    assert resumed.history["objective"][-1] == pytest.approx(now.history["objective"][-1], rel=0.05)
    again = learn(store=store)
    assert resumed.priors == again.priors
    for mine, yours in zip(resumed.tasks, again.tasks, strict=True):
        assert mine.posterior == yours.posterior
        np.testing.assert_array_equal(mine.evaluations.risk, yours.evaluations.risk)
    with pytest.raises(
        supac.StoreMismatchError, match="a store of `meta_learn`, not of `minimize`"
    ):
        minimize_bowl(store=store)


DAMAGES = {
    "UPDATE runs SET risk = risk + 1.0 WHERE id = 3": "runs",
    "UPDATE runs SET outputs = x WHERE id = 3": "runs",
    "UPDATE rounds SET info = '{}'": "rounds",
    "UPDATE state SET value = '{}'": "state",
    "UPDATE meta SET value = replace(value, '0.01', '0.02') WHERE key = 'config'": "configuration",
    "UPDATE meta SET value = '[]' WHERE key = 'config'": "configuration",
    "DELETE FROM meta": "configuration",
    "DELETE FROM runs WHERE id = 3": "run 3 of round 0 is missing",
    "ALTER TABLE runs RENAME TO others": "its tables",
}


@pytest.mark.parametrize("change", DAMAGES)
def test_damage_is_noticed_before_anything_is_upgraded(change: str, tmp_path: Path) -> None:
    store = copied("composite-killed", tmp_path)
    db = sqlite3.connect(store)
    db.execute(change)
    db.commit()
    db.close()
    for way in (
        lambda: supac.read_store(store),
        lambda: supac.resume(store, DECAY),
        lambda: minimize_decay(60, store=store),
    ):
        with pytest.raises(supac.StoreDamagedError, match=DAMAGES[change]):
            way()
    assert format_of(store) == 1


def test_a_store_is_upgraded_by_its_own_search_only(tmp_path: Path) -> None:
    store = copied("composite-killed", tmp_path)
    with pytest.raises(supac.StoreMismatchError, match="loss: Welsch in the store"):
        supac.resume(store, supac.Composite(decay, supac.MeanSquare()))
    assert format_of(store) == 1
    minimize_decay(60, store=store)
    assert format_of(store) == VERSION


def format_of(store: Path) -> int:
    db = sqlite3.connect(store)
    (found,) = db.execute("PRAGMA user_version").fetchone()
    db.close()
    return int(found)
