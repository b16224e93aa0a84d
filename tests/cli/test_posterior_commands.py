"""The commands that use a posterior, as their users meet them."""

from __future__ import annotations

import csv
import json
import re
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

import supac
from drivers import COMMAND, Driver
from supac.cli import app
from supac.cli.posterior_tables import next_table, sensitivity_tables
from supac.posterior.candidates import Candidate
from supac.posterior.next_measurement import Choice, NextMeasurements
from supac.posterior.outputs import Outputs
from supac.posterior.sensitivity import Indices, Sensitivity
from supac.problem_file import starter_files
from supac.record.many_parameters import Directions
from waiting import until

SCENARIO = """
title = "Once more"
draws = 30
"""
MODEL = """
import time
from math import exp
from pathlib import Path

TIMES = [0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 5, 6, 8, 10]


def simulate(initial, k1, k2, times=TIMES):
    a = [initial * exp(-k1 * t) for t in times]
    b = [initial * k1 * (exp(-k1 * t) - exp(-k2 * t)) / (k2 - k1) for t in times]
    return {"A": a, "B": b}


def slowly(initial, k1, k2):
    with Path("calls.txt").open("a") as file:
        file.write(f"{initial!r} {k1!r} {k2!r}\\n")
    time.sleep(0.1)
    return simulate(initial, k1, k2, [12, 20])
"""
SLOW = """
draws = 30
[simulator]
python = "model:slowly"
[outputs]
times = [12.0, 20.0]
"""


def call(*words: object, code: int = 0) -> Result:
    """A command in this process."""
    result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "100"})
    assert result.exit_code == code, result.output + str(result.exception)
    assert "Traceback" not in result.output
    return result


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run, which nobody changes."""
    folder = tmp_path_factory.mktemp("finished")
    for name, text in starter_files("python").items():
        (folder / name).write_text(text)
    (folder / "model.py").write_text(MODEL)
    (folder / "scenario.toml").write_text(SCENARIO)
    (folder / "slow.toml").write_text(SLOW)
    call("run", folder / "problem.toml", "--quiet")
    return folder


@pytest.fixture
def study(finished: Path, tmp_path: Path) -> Path:
    """A copy of it to work on."""
    for path in finished.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def test_predict_prints_and_writes_bands(study: Path) -> None:
    said = call("predict", study / "run.supac", study / "scenario.toml", "-o", study / "b.csv")
    assert "Once more: 30 draws of the posterior" in said.output
    assert "90 % of measurements" in said.output
    with (study / "b.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["output"] for row in rows} == {"A", "B"}
    made = supac.read_prediction(study / "run.scenario.supac")
    assert [float(row["upper"]) for row in rows] == made.bands().upper.tolist()
    told = json.loads(
        call("predict", study / "run.supac", study / "scenario.toml", "--json").stdout
    )
    assert (told["draws"], told["failed"]) == (30, 0)
    assert told["bands"]["median"] == made.bands().median.tolist()
    call("predict", study / "run.supac", study / "scenario.toml", "-o", study / "b.csv", code=1)
    call("predict", study / "run.supac", study / "scenario.toml", "-o", study / "b.txt", code=1)
    call("predict", study / "problem.toml", study / "scenario.toml", "-q", "-o", study / "b.nc")
    assert (study / "b.nc").stat().st_size > 0


def test_certified_sets_are_not_told_as_draws(study: Path) -> None:
    (study / "sets.toml").write_text("ensemble = true\n")
    said = call("predict", study / "run.supac", study / "sets.toml").output
    count = len(supac.read_store(study / "run.supac").ensemble_runs())
    assert f"sets: {count} certified sets\n" in said
    assert "draws of the posterior" not in said
    assert supac.read_prediction(study / "run.sets.supac").ensemble


def test_parameters_that_are_left_out_of_a_combination_are_hinted_at() -> None:
    """The fourth of four equal shares is hinted at, but not three of 0.4 % together."""
    loadings = np.array([[0.5, 0.5, 0.5, 0.5], [0.998, 0.05, 0.03, 0.02]])
    none = np.zeros((1, 4))
    found = Sensitivity(
        "prior",
        ("a", "b", "c", "d"),
        Outputs(("A",), 1),
        *(Indices(("A",), none, none, none, none),) * 2,
        np.zeros(1),
        20,
        Directions(np.array([0.1, 0.2]), np.zeros(2), loadings),
        ("a", "b", "c", "d"),
    )
    console = Console(width=100)
    with console.capture() as captured:
        console.print(sensitivity_tables(found))
    assert "a (25 %) + b (25 %) + c (25 %) + …" in captured.get()
    assert "a (100 %)  " in captured.get()


def test_long_names_of_columns_fit_a_narrow_terminal() -> None:
    """They are broken at their spaces; what does not fit even then is counted."""
    names = ("Level of the upper tank", "Level of the lower tank", "all outputs", "risk")
    values = np.full((4, 2), 0.25)
    indices = Indices(names, values, values, values, values)
    found = Sensitivity(
        "prior", ("a", "b"), Outputs(names[:2], 1), indices, indices, np.zeros(2), 20, None, ()
    )

    def printed(width: int) -> str:
        console = Console(width=width, color_system=None)
        with console.capture() as captured:
            console.print(sensitivity_tables(found, width))
        return captured.get()

    assert "leaves less than 0.1 % unexplained" in " ".join(printed(100).split())
    useless = replace(found, unexplained=np.array([5.0, 1.4]))  # worse than the mean of the runs
    with (console := Console(width=100, color_system=None)).capture() as captured:
        console.print(sensitivity_tables(useless, 100))
    assert "leaves all of the variance unexplained" in " ".join(captured.get().split())
    assert printed(100).count("0.25 0.25") == 2 * 4
    assert "Level of the upper tank  Level of the lower tank  all outputs" in printed(100)
    assert printed(65).count("0.25 0.25") == 2 * 4
    assert "Level of the" not in printed(65)
    assert printed(50).count("0.25 0.25") == 2 * 3
    assert "what does not fit here: 1 of the columns" in " ".join(printed(50).split())
    assert "fit here" not in printed(65)


def test_the_report_shows_predictions_of_its_posterior(study: Path) -> None:
    call("predict", study / "run.supac", study / "scenario.toml", "--quiet")
    call("report", study / "run.supac")
    page = (study / "run-report.html").read_text()
    assert "What is predicted" in page
    assert "Once more" in page
    assert "90 % of new measurements" in page
    # That of another posterior is not shown, nor continued.
    call("resume", study / "run.supac", "--budget", 100, "--quiet")
    call("report", study / "run.supac", "--force")
    assert "What is predicted" not in (study / "run-report.html").read_text()
    said = call("predict", study / "run.supac", study / "scenario.toml", code=1)
    assert "the posterior is another one" in said.output.replace("\n", " ")
    call("predict", study / "run.supac", study / "scenario.toml", "--quiet", "--force")
    call("report", study / "run.supac", "--force")
    assert "What is predicted" in (study / "run-report.html").read_text()


def test_a_changed_scenario_begins_anew_with_force_alone(study: Path) -> None:
    call("predict", study / "run.supac", study / "scenario.toml", "--quiet")
    text = (study / "scenario.toml").read_text()
    (study / "scenario.toml").write_text(text.replace("draws = 30", "draws = 40"))
    call("predict", study / "run.supac", study / "scenario.toml", "--quiet")
    assert len(supac.read_prediction(study / "run.scenario.supac").x) == 40
    (study / "scenario.toml").write_text(text + "\n[outputs]\nnoise = 0.5\n")
    said = call("predict", study / "run.supac", study / "scenario.toml", code=1)
    assert "the scenario has changed" in said.output.replace("\n", " ")
    assert "--force" in said.output
    call("predict", study / "run.supac", study / "scenario.toml", "--quiet", "--force")
    noise = supac.read_prediction(study / "run.scenario.supac").columns.noise
    assert noise is not None
    np.testing.assert_array_equal(noise, 0.5)


LONGER = "draws = 30\n[outputs]\ntimes = { start = 0, stop = 48, step = 1 }\n"


def test_the_starter_predicts_a_longer_horizon(tmp_path: Path) -> None:
    call("init", tmp_path, "--simulator", "python")
    call("run", tmp_path / "problem.toml", "--quiet")
    (tmp_path / "longer.toml").write_text(LONGER)
    call("predict", tmp_path / "run.supac", tmp_path / "longer.toml", "--quiet")
    made = supac.read_prediction(tmp_path / "run.longer.supac")
    assert (made.outputs.shape, len(made.failures)) == ((30, 2 * 49), 0)
    initial, k1 = made.x[:, :1], made.x[:, 1:2]
    np.testing.assert_allclose(
        made.output("A"), initial * np.exp(-k1 * np.arange(49.0)), rtol=1e-3, atol=1e-4
    )


@pytest.mark.parametrize("workers", [[], ["--workers", "2"]])
def test_another_number_of_outputs_ends_a_prediction_at_once(
    study: Path, workers: list[str]
) -> None:
    model = (study / "model.py").read_text()
    old = model.replace("k2, times=TIMES):", "k2):").replace("in times]", "in TIMES]")
    (study / "model.py").write_text(old)
    (study / "longer.toml").write_text(LONGER)
    words = ["predict", study / "run.supac", study / "longer.toml"]
    said = " ".join(call(*words, *workers, code=1).output.split())
    assert "the simulator returned 12 numbers for A, but the scenario has 49 times" in said
    assert "def simulate(..., times=TIMES)" in said
    kept = supac.read_store(study / "run.longer.supac").runs
    assert 1 <= len(kept) <= 4
    # Nothing is lost with these runs, so that nobody is asked to replace them.
    (study / "model.py").write_text(model)
    call(*words, *workers, "--quiet")
    assert not supac.read_prediction(study / "run.longer.supac").failures


def test_mistakes_are_told_by_line_and_key(study: Path) -> None:
    (study / "wrong.toml").write_text("draws = 10\n[settings]\nk1 = 2.0\n")
    said = call("predict", study / "run.supac", study / "wrong.toml", code=1)
    assert "wrong.toml, line 3, settings.k1: is calibrated" in said.output
    said = call("predict", study / "run.supac", study / "nothing.toml", code=1)
    assert "there is no such file" in said.output


def test_sensitivity(study: Path) -> None:
    said = call("sensitivity", study / "run.supac", "-o", study / "s.csv").output
    assert "The data determine 3 of 3 combinations" in said
    assert "Shares of the variance over the posterior" in said
    with (study / "s.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["parameter"] for row in rows} == {"initial", "k1", "k2"}
    assert {"A", "B", "all outputs", "risk", "A at 0.25"} <= {row["output"] for row in rows}
    told = json.loads(call("sensitivity", study / "run.supac", "--prior", "--json").stdout)
    assert told["under"] == "prior"
    assert len(told["directions"]) == 3
    call("sensitivity", study / "run.supac", "-o", study / "s.csv", code=1)
    call("sensitivity", study / "run.supac", "-o", study / "s.txt", code=1)


def test_next(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(study)  # where the simulator writes
    said = call("next", study / "run.supac", "--quantity", "k2").output
    assert re.search(r"the uncertainty of k2, now ± [\d.]+ 1/h", said)
    assert re.search(r"standard\s+deviation\s.*\(1/h\)", said, flags=re.S)
    assert "scenario" not in said
    (study / "candidates.toml").write_text(
        'quantity = "B at 20"\nprediction = "slow.toml"\n'
        '[[candidate]]\noutput = "B"\ntimes = [2.0, 12.0, 20.0]\nnoise = 0.01\n'
    )
    said = call("next", study / "run.supac", study / "candidates.toml", code=1).output
    assert "supac predict" in said.replace("\n", " ")
    call("predict", study / "run.supac", study / "slow.toml", "--quiet", "--draws", 20)
    said = call("next", study / "run.supac", study / "candidates.toml", code=1).output
    assert "has 20 draws, and at least 50 are needed" in said.replace("\n", " ")
    assert "`supac predict --draws 50`" in said.replace("\n", " ")
    call("predict", study / "run.supac", study / "slow.toml", "--quiet", "--draws", 60)
    told = json.loads(call("next", study / "run.supac", study / "candidates.toml", "--json").stdout)
    assert set(told["candidates"]["candidate"]) == {"B at 2", "B at 12", "B at 20"}
    assert told["candidates"]["remaining"] == sorted(told["candidates"]["remaining"])
    out = study / "next.csv"
    both = ("--together", 2, "-o", out)
    said = call("next", study / "run.supac", study / "candidates.toml", *both).output
    assert "together: B at" in said
    assert re.search(r"the uncertainty of B at 20, now ± [\d.]+ mol/L", said)
    assert "are measured in its scenario" in said.replace("\n", " ")
    assert out.read_text().startswith("candidate,output,time,remaining,error,method,")
    said = call(
        "next", study / "run.supac", "--quantity", "k2", "--by-time", "-o", study / "t.csv"
    ).output
    lines = [line.split()[:3] for line in said.splitlines() if line.startswith(("A at", "B at"))]
    order = [(name, float(time)) for name, _, time in lines]
    assert len(order) == 15
    assert order == sorted(order)
    with (study / "t.csv").open() as file:
        rows = [(row["output"], float(row["time"])) for row in csv.DictReader(file)]
    assert len(rows) == 24
    assert rows == sorted(rows)
    said = call("next", study / "run.supac", "--quantity", "k3", code=1).output
    assert "'k3' is neither a parameter nor an output" in said.replace("\n", " ")
    said = call("next", study / "run.supac", study / "scenario.toml", code=1).output
    assert "is a scenario, not a file of candidates: give it as --scenario" in said
    call("resume", study / "run.supac", "--budget", 100, "--quiet")
    said = call("next", study / "run.supac", study / "candidates.toml", code=1).output
    assert "is one of another posterior" in said.replace("\n", " ")


def test_names_of_measurements_stay_on_one_line() -> None:
    name = "Level of the upper tank"
    one = Choice(Candidate.of((name, 3.0)), 0.4, 0.1, 0.4, np.nan, (1.0,))
    found = NextMeasurements((one,), ("k1",), np.array([1.6]), 100, units=("cm^0.5/min",))
    console = Console(width=72, color_system=None)
    with console.capture() as captured:
        console.print(next_table(found))
    assert f"{name} at 3 " in captured.get()
    assert "(cm^0.5/min)" in captured.get()


def test_the_error_of_a_share_is_never_0() -> None:
    one = Choice(Candidate.of(("A", 3.0)), 0.4, 0.0012, 0.4, np.nan, (1.0,))
    console = Console(width=100, color_system=None)
    with console.capture() as captured:
        console.print(next_table(NextMeasurements((one,), ("k1",), np.array([1.6]), 100)))
    assert "40 % ± 1 " in captured.get()


def wait_for_calls(calls: Path, number: int, command: Driver) -> None:
    until(
        lambda: calls.exists() and len(calls.read_text().splitlines()) >= number,
        unless=lambda: command.poll() is not None,
    )


@pytest.mark.slow
def test_an_interrupted_prediction_does_not_cost_the_earlier_one(study: Path) -> None:
    calls, store = study / "calls.txt", study / "run.slow.supac"
    first = Driver(COMMAND, "predict", "run.supac", "slow.toml", "--quiet", cwd=study)
    assert first.end()[0] == 0
    kept = supac.read_prediction(store)
    again = Driver(COMMAND, "predict", "run.supac", "slow.toml", "-q", "--force", cwd=study)
    wait_for_calls(calls, 30 + 5, again)
    again.send_signal(signal.SIGINT)
    code, _, complaint = again.end()
    words = " ".join(complaint.split())
    assert code == 3  # resumable
    assert "to continue: supac predict run.supac slow.toml" in words
    assert "--force" not in words
    assert "the earlier store is kept as run.slow.supac.replaced" in words
    np.testing.assert_array_equal(
        supac.read_prediction(study / "run.slow.supac.replaced").outputs, kept.outputs
    )
    assert 0 < len(supac.read_prediction(store).x) < 30
    call("report", study / "run.supac")
    assert (
        "of 30 runs at draws of the posterior, not finished"
        in (study / "run-report.html").read_text()
    )


@pytest.mark.slow
def test_a_killed_prediction_goes_on_to_the_same_bits(study: Path) -> None:
    """SIGKILL twice, then two workers: no run that has ended is made again."""
    calls, store = study / "calls.txt", study / "run.slow.supac"
    kept: list[int] = []
    for enough in (5, 12):
        driver = Driver(COMMAND, "predict", "run.supac", "slow.toml", "--quiet", cwd=study)
        wait_for_calls(calls, enough, driver)
        driver.kill()
        driver.end()
        kept.append(len(supac.read_store(store).light_runs))
    assert 0 < kept[0] < kept[1] < 30
    before = {run.id: run.x.tobytes() for run in supac.read_store(store).light_runs}
    last = Driver(COMMAND, "predict", "run.supac", "slow.toml", "--workers", "2", "-q", cwd=study)
    assert last.end()[0] == 0
    made = supac.read_prediction(store)
    assert len(made.x) == 30
    # Lost are the runs that were in progress at the two kills.
    lines = calls.read_text().splitlines()
    assert len(set(lines)) == 30
    assert len(lines) <= 32
    after = {run.id: run.x.tobytes() for run in supac.read_store(store).light_runs}
    assert before.items() <= after.items()
    unbroken = study / "unbroken"
    unbroken.mkdir()
    for name in ("problem.toml", "data.csv", "model.py", "run.supac", "slow.toml"):
        (unbroken / name).write_bytes((study / name).read_bytes())
    assert Driver(COMMAND, "predict", "run.supac", "slow.toml", "-q", cwd=unbroken).end()[0] == 0
    whole = supac.read_prediction(unbroken / "run.slow.supac")
    np.testing.assert_array_equal(whole.outputs, made.outputs)
    np.testing.assert_array_equal(whole.x, made.x)


def test_mistakes_of_beginners_are_told_with_what_to_do(finished: Path, tmp_path: Path) -> None:
    store, problem = finished / "run.supac", finished / "problem.toml"
    said = call("predict", store, code=1).output
    assert "which scenario?" in said
    assert "times = [0, 24, 48]" in said
    scenario = tmp_path / "later.toml"
    scenario.write_text("[parameters]\nk1 = 2.0\n")
    assert "the store comes first" in call("predict", scenario, store, code=1).output
    said = call("predict", store, scenario, code=1).output
    assert "calibrated ones come from the posterior" in " ".join(said.split())
    assert "is a problem file, not a scenario" in call("predict", store, problem, code=1).output
    said = call("next", store, problem, code=1).output
    assert "is a problem file, not one of candidates" in said
    said = " ".join(call("next", store, "--quantity", "A", code=1).output.split())
    assert "An output is written with its time, 'A at 10'" in said
