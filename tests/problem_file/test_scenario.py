"""Scenario files: other inputs, times and settings of a problem, and what is wrong with them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

from supac.posterior.outputs import Outputs
from supac.problem_file import ProblemFile, ProblemFileError, Scenario, read_problem, read_scenario

PROBLEM = """
[parameters]
rate = { prior = "lognormal", median = 0.5, log_sd = 0.5, unit = "1/h" }
start = 2.0
feed = { value = 1.0, unit = "g/h" }
twice = "2 * start"
[simulator]
python = "model:simulate"
arguments = "names"
[data]
file = "data.csv"
observed = ["A", "B"]
noise = { A = 0.1, B = "5 % + 0.02" }
[bound]
temperature = 0.01
[run]
budget = 30
"""
MODEL = """
import numpy as np

TIMES = np.arange(6.0)

def simulate(rate, start, feed, twice, times=TIMES):
    return {"A": start * np.exp(-rate * times), "B": feed * times + twice}

def longer(rate, start, feed, twice):
    return simulate(rate, start, feed, twice, np.array([0.0, 10.0, 20.0]))

def fixed(rate, start, feed, twice):
    return simulate(rate, start, feed, twice)
"""


@pytest.fixture
def problem(tmp_path: Path) -> ProblemFile:
    rows = "\n".join(f"{t},{2.0 * np.exp(-0.5 * t)},{t + 4.0}" for t in range(6))
    (tmp_path / "data.csv").write_text(f"time [h],A [g],B [g/L]\n{rows}\n")
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "problem.toml").write_text(PROBLEM)
    return read_problem(tmp_path / "problem.toml")


def scenario(problem: ProblemFile, text: str, folder: Path | None = None) -> Scenario:
    place = (folder or problem.path.parent) / "scenario.toml"
    place.write_text(text)
    return read_scenario(place, problem)


def wrong(problem: ProblemFile, text: str) -> str:
    with pytest.raises(ProblemFileError) as caught:
        scenario(problem, text)
    return str(caught.value)


def outputs_of(made: Scenario) -> Outputs:
    assert made.outputs is not None
    return made.outputs


def test_an_empty_file_is_the_calibrated_problem(problem: ProblemFile) -> None:
    made = scenario(problem, "")
    outputs = outputs_of(made)
    assert (made.title, made.draws, made.seed, made.coverage) == ("scenario", 100, 0, 0.9)
    assert outputs.columns == ("A", "B")
    assert outputs.units == ("g", "g/L")
    assert outputs.time_label == "time (h)"
    simulated = np.asarray(made.simulate(np.array([0.5])))
    np.testing.assert_array_equal(simulated, problem.risk.simulate(np.array([0.5])))  # type: ignore[attr-defined]
    errors = outputs.deviations(simulated[None])[0]
    np.testing.assert_allclose(errors[:6], 0.1)
    np.testing.assert_allclose(errors[6:], 0.02 + 0.05 * simulated[6:])


def test_units_that_disagree_with_the_data_need_their_own_noise(problem: ProblemFile) -> None:
    """Otherwise bands of measurements would add the noise of one unit to outputs in another."""
    words = wrong(problem, '[outputs]\nunits = { A = "mg" }\n')
    assert "line 2, outputs.units: the data have A in g, not in mg, and nothing is conv" in words
    both = scenario(problem, '[outputs]\nunits = { A = "mg" }\nnoise = { A = 100.0 }\n')
    assert outputs_of(both).units == ("mg", "g/L")
    assert outputs_of(scenario(problem, '[outputs]\nunits = { A = "g" }\n')).units == ("g", "g/L")


def test_settings_times_and_another_function(problem: ProblemFile) -> None:
    made = scenario(
        problem,
        'draws = 7\nseed = 3\n[simulator]\npython = "model:longer"\n[settings]\nfeed = 5.0\n'
        "[outputs]\ntimes = [0.0, 10.0, 20.0]\nnoise = { A = 0.3 }\n",
    )
    outputs = outputs_of(made)
    simulated = np.asarray(made.simulate(np.array([0.1])))
    np.testing.assert_allclose(simulated[:3], 2.0 * np.exp([0.0, -1.0, -2.0]))
    np.testing.assert_allclose(simulated[3:], [4.0, 54.0, 104.0])
    assert outputs.noise is not None
    np.testing.assert_allclose(outputs.noise, [0.3, 0.02])
    assert (made.draws, made.seed) == (7, 3)
    assert outputs_of(scenario(problem, "[outputs]\nnames = 'A'\n")).columns == ("A",)
    steps = "[outputs]\ntimes = { start = 0, stop = 0.3, step = 0.1 }\n"
    np.testing.assert_allclose(outputs_of(scenario(problem, steps)).clock, [0.0, 0.1, 0.2, 0.3])


def test_a_function_with_an_argument_times_is_given_them(problem: ProblemFile) -> None:
    made = scenario(problem, "[outputs]\ntimes = [0.0, 10.0]\n")
    simulated = np.asarray(made.simulate(np.array([0.1])))
    np.testing.assert_allclose(simulated, [2.0, 2.0 * np.exp(-1.0), 4.0, 14.0])
    made.simulate.set_up()  # type: ignore[attr-defined]
    without = '[simulator]\npython = "model:fixed"\n[outputs]\ntimes = [0.0, 10.0]\n'
    with pytest.raises(ValueError, match="returned 6 numbers for A"):
        scenario(problem, without).simulate(np.array([0.1]))


REACTOR = """
import numpy as np

def simulate(rate, start, feed, twice, cooling=1, *, mode="batch", times=np.arange(6.0)):
    assert isinstance(cooling, int) and mode in ("batch", "fed"), (cooling, mode)
    return {"A": start * np.exp(-rate * times), "B": cooling * times + (mode == "fed")}

def at(rate, start, feed, twice, pressure):
    return simulate(rate, start, feed, twice, times=np.full(6, pressure))

def with_options(rate, start, feed, twice, **options):
    return simulate(rate, start, feed, twice, **options)

def of_array(x, /, cooling=1, times=np.arange(6.0)):
    return simulate(*x, cooling, times=times)
"""


def test_arguments_of_the_function_may_be_set(problem: ProblemFile, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(REACTOR)
    os.utime(tmp_path / "model.py", (1, 1))
    point = np.array([0.0])
    made = scenario(problem, '[settings]\ncooling = 3\nmode = "fed"\nstart = 5.0\n')
    outputs = np.asarray(made.simulate(point))
    np.testing.assert_array_equal(outputs, [5.0] * 6 + [1.0, 4.0, 7.0, 10.0, 13.0, 16.0])
    at_times = "[settings]\ncooling = 3\n[outputs]\ntimes = [2.0, 4.0]\n"
    np.testing.assert_array_equal(
        scenario(problem, at_times).simulate(point), [2.0, 2.0, 6.0, 12.0]
    )
    assert made.identity != scenario(problem, "[settings]\ncooling = 4\n").identity
    assert "can be set: start, feed, cooling, mode." in wrong(problem, "[settings]\nwind = 1.0\n")
    # Another function may have an argument without a default, or take whatever it is given.
    other = '[simulator]\npython = "model:at"\n'
    outputs = np.asarray(scenario(problem, f"{other}[settings]\npressure = 7.0\n").simulate(point))
    np.testing.assert_array_equal(outputs[6:], np.full(6, 7.0))
    assert "at(rate, start, feed, twice, pressure) needs pressure" in wrong(problem, other)
    options = '[simulator]\npython = "model:with_options"\n[settings]\ncooling = 2\n'
    assert np.asarray(scenario(problem, options).simulate(point))[7] == 2.0
    array = '[simulator]\npython = "model:of_array"\narguments = "array"\n[settings]\ncooling = 2\n'
    assert np.asarray(scenario(problem, array).simulate(point))[7] == 2.0


def test_a_scenario_may_lie_elsewhere(problem: ProblemFile, tmp_path: Path) -> None:
    folder = tmp_path / "plans"
    folder.mkdir()
    made = scenario(problem, "[settings]\nstart = 1.0\n", folder)
    assert np.asarray(made.simulate(np.array([0.5])))[0] == 1.0
    # What it is tied to follows.
    assert np.asarray(made.simulate(np.array([0.5])))[6] == 2.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("titel = 'x'", 'line 1, titel: is not known in a scenario; did you mean "title"'),
        ("\ndraws = 0", "line 2, draws: must be a whole number, 1 or more, not 0"),
        ("draws = 3\nensemble = true", "line 1, draws: goes without ensemble"),
        ("simulator = 3", "must be a table: write \\[simulator\\] on a line of its own"),
        ("[simulator]\ntemplate = 'x'", "simulator.template: goes with command, not with python"),
        ("[settings]\nrate = 2.0", "line 2, settings.rate: is calibrated"),
        ("[settings]\ntwice = 2.0", "settings.twice: has a formula in \\[parameters\\]"),
        ("[settings]\nfed = 2.0", 'line 2, settings.fed: is no setting; .*; did you mean "feed"'),
        ("[settings]\nwind = 2.0", "can be set: start, feed. For wind, give simulate an argu"),
        ("[settings]\nwind = 2.0", r'\[simulator\] of the scenario, python = "model:simulate_2"'),
        ("[settings]\ntimes = 2.0", "settings.times: belongs in \\[outputs\\]"),
        ("[settings]\nvectorized = 1", "settings.vectorized: belongs in \\[simulator\\]"),
        ("[outputs]\nnames = ['A', 'A']", "line 2, outputs.names: has a name twice"),
        ("[outputs]\ntimes = { start = 0, step = 1 }", "outputs.times: must be a list of numbers"),
        ("[outputs]\ntimes = [6, 3]", r"line 2, outputs.times: must not .* in order, \[3, 6\]"),
        ("[outputs]\ntimes = [1.0]\nrows = 1", "line 3, outputs.rows: goes without times"),
        ("[outputs]\nnoise = { C = 1.0 }", "outputs.noise.C: C is no output; they are A, B"),
        ("[outputs]\nnoise = 'large'", 'outputs.noise: is no noise as in "5 %"'),
        ("[simulator]\npython = 'model:nothing'", "line 2, simulator.python: "),
        ("times = [1.0]", "line 1, times: belongs in .outputs.: write .outputs. above"),
        ("[outputs]\ntimes = [1, '2']", "write numbers without quotes"),
        ("[outputs]\ntimes = 2", "not 2; write .2."),
        ("[execution]\nworkers = 0", "line 2, execution.workers: must be a whole number"),
    ],
)  # fmt: skip
def test_errors_name_line_key_and_fix(problem: ProblemFile, text: str, message: str) -> None:
    assert re.search(message, wrong(problem, text)), wrong(problem, text)


def test_experiments_need_their_settings(problem: ProblemFile, tmp_path: Path) -> None:
    several = PROBLEM.replace("[data]", "[[data]]").replace(
        'feed = { value = 1.0, unit = "g/h" }\n', ""
    )
    table = several[several.index("[[data]]") : several.index("[bound]")]
    two = several.replace(
        table,
        "".join(
            table.rstrip() + f'\nname = "{name}"\nsettings = {{ feed = {feed} }}\n'
            for name, feed in (("low", 1.0), ("high", 2.0))
        ),
    )
    (tmp_path / "two.toml").write_text(two)
    ready = read_problem(tmp_path / "two.toml")
    assert "needs feed, which each [[data]]" in wrong(ready, "[outputs]\ntimes = [1.0]\n")
    assert "needs feed" in wrong(ready, "title = 'x'\n")
    alike = scenario(ready, "[settings]\nfeed = 3.0\n")  # both experiments have the same times
    assert outputs_of(alike).times.tolist() == list(range(6))  # type: ignore[union-attr]
    said = wrong(ready, "[settings]\nwind = 3.0\n")
    assert "feed, feed" not in said  # of both experiments
    said = wrong(ready, '[settings]\nfeed = "3"\n')
    assert "line 2, settings.feed: must be a number, as in the problem; write it without" in said
    (tmp_path / "more.csv").write_text((tmp_path / "data.csv").read_text() + "9,0.1,13\n")
    (tmp_path / "apart.toml").write_text(two.replace('"data.csv"', '"more.csv"', 1))
    said = wrong(read_problem(tmp_path / "apart.toml"), "title = 'x'\n")
    assert "[outputs] needs times" in said
    assert "needs feed" in said  # all at once
    times = "times = { start = 0, stop = 5, step = 1 }"
    made = scenario(ready, f"[settings]\nfeed = 3.0\n[outputs]\n{times}\n")
    assert np.asarray(made.simulate(np.array([0.5])))[7] == 7.0
    assert ready.path.name == "two.toml"
    assert problem.path.name == "problem.toml"


def test_times_of_a_scenario_may_be_dates_where_the_data_have_them(problem: ProblemFile) -> None:
    folder = problem.path.parent
    rows = "\n".join(f"2024-03-0{t + 1},{2.0 * np.exp(-0.5 * t)},{t + 4.0}" for t in range(6))
    (folder / "data.csv").write_text(f"time,A,B\n{rows}\n")
    dated = read_problem(problem.path)
    for text in (
        "times = [2024-03-02, 2024-03-03T12:00:00]",
        'times = ["2024-03-02", "2024-03-03 12:00"]',
        "times = { start = 2024-03-02, stop = 2024-03-04, step = 1.5 }",
        "times = [1.0, 2.5]",
    ):
        made = scenario(dated, f"[outputs]\n{text}")
        assert made.outputs is not None
        assert made.outputs.times is not None
        assert made.outputs.times.tolist() == [1.0, 2.5]
        assert made.outputs.time_label == "days since 2024-03-01"
    with pytest.raises(ProblemFileError, match=r"outputs.times: must not decrease"):
        scenario(dated, "[outputs]\ntimes = [2024-03-03, 2024-03-02]")


def test_dates_of_a_scenario_need_a_clock(problem: ProblemFile) -> None:
    with pytest.raises(ProblemFileError, match=r"has dates, but the data have time \(h\): write"):
        scenario(problem, "[outputs]\ntimes = [2024-03-02]")
