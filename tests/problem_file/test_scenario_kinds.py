"""Scenarios of simulators of other kinds: FMUs, programs, and models that bring their own data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fmu_files
import petab_example
import supac
from supac.problem_file import ProblemFileError, fmu_starter_files, read_scenario, starter_files


def test_an_fmu_with_other_inputs_and_a_longer_horizon(tmp_path: Path) -> None:
    fmu = fmu_files.ball(tmp_path)
    for name, text in fmu_starter_files(fmu, tmp_path).items():
        (tmp_path / name).write_text(text)
    rows = "".join(f"{time},0.5,0.2,0\n" for time in (0.5, 1.0, 1.5, 2.0))
    (tmp_path / "data.csv").write_text(f"time,h,lag.x,count\n{rows}")
    text = (tmp_path / "problem.toml").read_text().replace("n = 30", "n = 12")
    (tmp_path / "problem.toml").write_text(text)
    problem = supac.read_problem(tmp_path / "problem.toml")
    (tmp_path / "up.csv").write_text("time,lag.u\n0,0\n4,4\n")
    (tmp_path / "scenario.toml").write_text(
        '[simulator]\ninput_file = "up.csv"\n[outputs]\nnames = "lag.x"\ntimes = [1.0, 2.0, 4.0]\n'
    )
    made = read_scenario(tmp_path / "scenario.toml", problem)
    t, tau = np.array([1.0, 2.0, 4.0]), 0.5
    outputs = np.asarray(made.simulate(np.array([9.81, 0.7, tau])))
    # x' = (u − x)/τ with u = t from x = 0.
    assert outputs == pytest.approx(t - tau + tau * np.exp(-t / tau), abs=1e-5)
    before = made.files
    (tmp_path / "up.csv").write_text("time,lag.u\n0,0\n4,8\n")
    assert read_scenario(tmp_path / "scenario.toml", problem).files != before
    (tmp_path / "scenario.toml").write_text('[outputs]\nnames = "wind"\n')
    with pytest.raises(ProblemFileError, match=r"line 2, outputs.names: ball.fmu has no variable"):
        read_scenario(tmp_path / "scenario.toml", problem)


PROGRAM = """
import json

with open("input.json") as file:
    x = json.load(file)
with open("output.json", "w") as file:
    times = [float(i) for i in range(int(x.get("hours", 6)) + 1)]
    json.dump({"time": times, "A": [x["k"] * t for t in times]}, file)
"""


def test_a_program_with_another_setting(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(PROGRAM)
    (tmp_path / "data.csv").write_text("time,A\n1,0.5\n3,1.5\n")
    (tmp_path / "problem.toml").write_text(
        "[parameters]\nk = { prior = 'lognormal', median = 0.5, log_sd = 0.5 }\nhours = 6\n"
        "[simulator]\ncommand = ['{python}', 'model.py']\ntimes = 'time'\n"
        "[data]\nfile = 'data.csv'\nobserved = 'A'\nnoise = 0.1\n"
        "[bound]\ntemperature = 0.1\n[run]\nbudget = 20\n"
    )
    problem = supac.read_problem(tmp_path / "problem.toml")
    (tmp_path / "longer.toml").write_text(
        "[settings]\nhours = 48\n[outputs]\ntimes = [1.0, 12.5, 48.0]\n"
    )
    made = read_scenario(tmp_path / "longer.toml", problem)
    assert np.asarray(made.simulate(np.array([2.0]))).tolist() == [2.0, 25.0, 96.0]


DECK = """
from pathlib import Path

k, hours = (float(line.split()[1]) for line in Path("deck.in").read_text().splitlines())
Path("output.json").write_text(f'{{"A": [{k}, {hours}]}}')
"""


def test_a_template_of_the_scenario_has_places_for_settings(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(DECK)
    (tmp_path / "data.csv").write_text("time,A\n1,0.5\n3,1.5\n")
    (tmp_path / "deck.in.tpl").write_text("k {k}\nhours 6\n")
    (tmp_path / "problem.toml").write_text(
        "[parameters]\nk = { prior = 'lognormal', median = 0.5, log_sd = 0.5 }\n"
        "[simulator]\ncommand = ['{python}', 'model.py']\ntemplate = 'deck.in.tpl'\n"
        "[data]\nfile = 'data.csv'\nobserved = 'A'\nnoise = 0.1\n"
        "[bound]\ntemperature = 0.1\n[run]\nbudget = 20\n"
    )
    problem = supac.read_problem(tmp_path / "problem.toml")
    path = tmp_path / "longer.toml"
    path.write_text("[settings]\nhours = 48\n")
    with pytest.raises(ProblemFileError, match=r"nothing can be set\. For hours, name ano"):
        read_scenario(path, problem)
    (tmp_path / "plan").mkdir()
    (tmp_path / "plan" / "deck.in.tpl").write_text("k {k}\nhours {hours}\n")
    path.write_text("[simulator]\ntemplate = 'plan/deck.in.tpl'\n[settings]\nhours = 48\n")
    made = read_scenario(path, problem)
    assert np.asarray(made.simulate(np.array([2.0]))).tolist() == [2.0, 48.0]
    words = "command = ['{python}', 'model.py', '--hours', '{hours}', '{k}']\ninputs = 'arguments'"
    path.write_text(f"[simulator]\n{words}\n[settings]\nhour = 48\n")
    with pytest.raises(ProblemFileError, match=r"can be set: hours; did you mean \"hours\"\?"):
        read_scenario(path, problem)


@pytest.mark.slow
def test_a_complete_model_brings_its_own_outputs(tmp_path: Path) -> None:
    pytest.importorskip("petab")
    path = petab_example.write(tmp_path)
    problem = supac.read_problem(path if isinstance(path, Path) else tmp_path / "problem.yaml")
    (tmp_path / "scenario.toml").write_text("draws = 5\n")
    made = read_scenario(tmp_path / "scenario.toml", problem)
    assert made.draws == 5
    (tmp_path / "scenario.toml").write_text("[outputs]\nnames = 'A'\n")
    with pytest.raises(ProblemFileError, match="brings its own: remove this table"):
        read_scenario(tmp_path / "scenario.toml", problem)
    result = problem.minimize(budget=15, store=tmp_path / "run.supac")
    prediction = made.predict(result, store=tmp_path / "run.scenario.supac")
    assert len(prediction.x) == 5
    assert prediction.x.shape[1] == len(problem.parameters)


def test_the_starter_of_programs(tmp_path: Path) -> None:
    for name, text in starter_files("command").items():
        (tmp_path / name).write_text(text)
    problem = supac.read_problem(tmp_path / "problem.toml")
    (tmp_path / "scenario.toml").write_text("draws = 3\n")
    made = read_scenario(tmp_path / "scenario.toml", problem)
    point = np.array([2.0, 0.8, 0.3])
    same = problem.risk.simulate(point)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(made.simulate(point), same)
