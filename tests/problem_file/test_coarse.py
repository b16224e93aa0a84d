"""The table [simulator.coarse]: a coarse model beside the fine one, without programming."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fmu_files
import supac
from drivers import COMMAND, Driver
from servers import serving
from supac.arrays import FloatArray
from supac.problem.composite import coarse_ones
from supac.problem_file import make_problem
from supac.problem_file.errors import ProblemFileError, Source
from supac.problem_file.problem import named_files
from supac.record.record import read_store
from supac.record.store.file import StoreError
from supac.search.algorithm import State
from supac.search.levels import CoarseFirst
from waiting import until

HEAD = """
[parameters]
k = { prior = "lognormal", median = 1.0, log_sd = 0.5 }
b = { prior = "normal", mean = 0.0, sd = 1.0 }
[data]
file = "data.csv"
observed = "y"
noise = 0.05
[bound]
temperature = 0.1
[run]
budget = 20
validation = 0
"""
PYTHON = HEAD + '[simulator]\npython = "m:fine"\narguments = "names"\n'
COARSE = '[simulator.coarse]\npython = "m:coarse"\ncost = 0.05\n'
MODEL = """
from math import exp

def fine(k, b):
    return {"y": [exp(-k * t) + b for t in (1, 2, 3)]}

def coarse(k, b):
    return {"y": [(1 - 0.05 * k) ** (20 * t) + b for t in (1, 2, 3)]}
"""
PROGRAM = """
import json, sys
x = json.load(open("input.json"))
level = int(sys.argv[1])
json.dump({"y": [x["k"] * t + x["b"] + level for t in (1, 2, 3)]}, open("output.json", "w"))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data.csv").write_text("time,y\n1,0.6\n2,0.4\n3,0.3\n")
    (tmp_path / "m.py").write_text(MODEL)
    (tmp_path / "p.py").write_text(PROGRAM)
    (tmp_path / "p.tpl").write_text('{ "k": {k}, "b": {b}, "level": {level} }')
    return tmp_path


def toml(text: str, folder: Path) -> supac.ProblemFile:
    return make_problem(text, folder / "problem.toml")


def outputs(ready: supac.ProblemFile) -> list[list[float]]:
    """Outputs of the fine and the coarse model at k = 1, b = 2."""
    fine, coarse = ready.risk, coarse_ones([ready.risk])[0]
    assert isinstance(fine, supac.Composite)
    assert coarse is not None
    return [np.asarray(each.simulate(np.array([1.0, 2.0]))).tolist() for each in (fine, coarse)]


def test_another_function(folder: Path) -> None:
    ready = toml(PYTHON + COARSE, folder)
    fine, coarse = outputs(ready)
    assert ready.risk.coarse.cost == 0.05  # type: ignore[attr-defined]
    np.testing.assert_allclose(fine, np.exp([-1.0, -2.0, -3.0]) + 2.0)
    np.testing.assert_allclose(coarse, 0.95 ** np.array([20.0, 40.0, 60.0]) + 2.0)


PROGRAMS = [
    'command = ["{python}", "p.py", "0"]\n[simulator.coarse]\ncommand = ["{python}", "p.py", "1"]',
    'command = ["{python}", "p.py", "{level}"]\n[simulator.coarse]\ncost = 0.1',
]


@pytest.mark.parametrize("simulator", PROGRAMS)
def test_a_command_of_its_own_or_the_level_in_it(simulator: str, folder: Path) -> None:
    ready = toml(f"{HEAD}[simulator]\n{simulator}\n", folder)
    assert outputs(ready) == [[3.0, 4.0, 5.0], [4.0, 5.0, 6.0]]


def test_the_level_in_a_template(folder: Path) -> None:
    (folder / "q.py").write_text(
        'import json\nx = json.load(open("p"))\n'
        'json.dump({"y": [x["k"] + x["b"], x["level"], 0]}, open("output.json", "w"))\n'
    )
    words = 'command = ["{python}", "q.py"]\ntemplate = "p.tpl"\n[simulator.coarse]\ncost = 0.1'
    ready = toml(f"{HEAD}[simulator]\n{words}\n", folder)
    assert outputs(ready) == [[3.0, 0.0, 0.0], [3.0, 1.0, 0.0]]


def test_an_fmu_with_a_longer_step(folder: Path) -> None:
    fmu_files.van_der_pol(folder / "fmu").rename(folder / "oscillator.fmu")
    text = """
[parameters]
mu = { prior = "lognormal", median = 1.0, log_sd = 0.3 }
[data]
file = "data.csv"
observed = "x"
noise = 0.05
[bound]
temperature = 0.1
[run]
budget = 20
[simulator]
fmu = "oscillator.fmu"
step = 0.01
"""
    (folder / "data.csv").write_text("time,x\n1,0.6\n2,0.4\n3,0.3\n")
    ready = toml(text + "[simulator.coarse]\nstep = 0.5\n", folder)
    coarse = coarse_ones([ready.risk])[0]
    assert isinstance(ready.risk, supac.Composite)
    assert coarse is not None
    found = [np.asarray(each.simulate(np.array([2.0]))) for each in (ready.risk, coarse)]
    np.testing.assert_allclose(found, [van_der_pol(2.0, 0.01), van_der_pol(2.0, 0.5)], rtol=1e-9)


def van_der_pol(mu: float, h: float) -> list[float]:
    """The oscillator's x at the times 1, 2 and 3, by Runge and Kutta's method with steps of h."""
    y, seen = np.array([2.0, 0.0]), []

    def rates(y: FloatArray) -> FloatArray:
        return np.array([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]])

    for _ in range(3):
        for _ in range(round(1 / h)):
            k1 = rates(y)
            k2 = rates(y + h / 2 * k1)
            k3 = rates(y + h / 2 * k2)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + rates(y + h * k3))
        seen.append(float(y[0]))
    return seen


def test_a_server_with_another_config(folder: Path) -> None:
    (folder / "data.csv").write_text("time,y\n1,0.6\n")
    with serving() as (url, _):
        told = f'umbridge = "{url}"\nmodel = "wave"\nconfig = {{ height = 0.2 }}\n'
        text = f"{HEAD}[simulator]\n{told}[simulator.coarse]\nconfig = {{ height = 0.1 }}\n"
        fine, coarse = outputs(toml(text, folder))
    waves = np.sin(1.0) + np.sin(2.0)
    np.testing.assert_allclose([*fine, *coarse], 0.5 + waves * np.array([0.2, 0.1]))


@pytest.mark.slow
def test_programs_of_both_levels_are_searched_from_the_command_line(folder: Path) -> None:
    head = HEAD.replace("budget = 20", "budget = 14\nstore = 'run.supac'")
    simulator = PROGRAMS[1].replace("0.1", "0.05")
    (folder / "problem.toml").write_text(f"{head}[simulator]\n{simulator}\n")
    code, said, wrong = Driver(COMMAND, "run", "problem.toml", cwd=folder).end()
    assert code == 0, wrong
    record = read_store(folder / "run.supac")
    assert record.coarse_runs
    for run in record.runs:
        k, b = record.points([run])[0]
        assert run.outputs is not None
        np.testing.assert_allclose(run.outputs, k * np.array([1, 2, 3]) + b + run.level)
    assert record.coarse_use is not None
    assert f"{len(record.coarse_runs)} coarse ones" in " ".join(said.split())


REFUSED = [
    (
        '[simulator.coarse]\npython = "m:nothing"',
        "simulator.coarse.python: m has no function nothing",
    ),
    ("[simulator.coarse]\ncost = 0.1", "simulator.coarse: is the same as .simulator.: give it"),
    ('[simulator.coarse]\npython = "m:coarse"\ncost = 2', "simulator.coarse.cost: must be"),
    ('[simulator.coarse]\npyton = "m:coarse"', "simulator.coarse.pyton: .*did you mean"),
    ("coarse = 3", "simulator.coarse: must be a table"),
    ('[simulator.coarse]\npython = "m:coarse"\nkeep = "all"', "goes with command"),
    (COARSE + '[execution]\nmode = "async"\nworkers = 2', "does not go with mode = "),
]


@pytest.mark.parametrize(("more", "message"), REFUSED)
def test_errors_name_table_and_key(more: str, message: str, folder: Path) -> None:
    with pytest.raises(ProblemFileError, match=message):
        toml(f"{PYTHON}{more}\n", folder)


def test_the_store_tells_its_own_checksum(folder: Path) -> None:
    def sums() -> dict[str, str]:
        return named_files(Source(PYTHON + COARSE, folder / "problem.toml"))

    before = sums()
    (folder / "m.py").write_text(MODEL.replace("0.05", "0.04"))
    changed = {name for name, each in sums().items() if before[name] != each}
    assert changed == {"coarse", "coarse code", "simulator"}  # of that, no code that matters


def test_the_check_runs_both(folder: Path) -> None:
    (folder / "problem.toml").write_text(PYTHON + COARSE)
    code, said, _ = Driver(COMMAND, "run", "problem.toml", "--check", cwd=folder).end()
    assert code == 0
    assert "counts as 0.05 fine runs" in said
    (folder / "m.py").write_text(MODEL.replace("(20 * t)", "(20 * t) / 0"))
    code, _, wrong = Driver(COMMAND, "run", "problem.toml", "--check", cwd=folder).end()
    assert code == 1
    assert "the run of the coarse model of [simulator.coarse] failed" in wrong


class StopError(Exception):
    """Ends a search after a round."""


def search(folder: Path, store: Path, rounds: int | None = None) -> None:
    """Go on with a search, and stop it after so many rounds."""
    left = [rounds]

    def stop(_: object) -> None:
        if left[0] is not None:
            left[0] -= 1
            if not left[0]:
                raise StopError

    problem = toml(PYTHON + COARSE, folder)
    if rounds is None:
        problem.minimize(store=store)
        return
    with pytest.raises(StopError):
        problem.minimize(store=store, callback=stop)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, 4])
def test_a_changed_coarse_model_begins_anew_and_fine_runs_stay(
    rounds: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After one round the coarse model is searched; after four, fine runs are made beside it."""
    learnt: list[tuple[int, int]] = []
    restored = CoarseFirst.restored

    def watched(algorithm: CoarseFirst, state: State) -> State:
        made = restored(algorithm, state)
        assert made.coarse is not None
        learnt.append((len(made.evaluations), len(made.coarse.runs)))
        return made

    monkeypatch.setattr(CoarseFirst, "restored", watched)
    store, other = folder / "run.supac", folder / "other.supac"
    search(folder, store, rounds)
    before = read_store(store)
    fine, coarse = {run.id for run in before.made}, before.coarse_ids
    (folder / "m.py").write_text(MODEL.replace("0.05 * k) ** (20", "0.1 * k) ** (10"))
    shutil.copy(store, other)
    search(folder, store)
    after = read_store(store)
    assert json.loads(after.description)["coarse_since"] == rounds
    assert fine <= {run.id for run in after.made}
    assert coarse < after.coarse_ids
    assert learnt == [(len(fine), 0)]
    search(folder, other, 1)  # stopped again: the change is remembered
    told = read_store(other)
    search(folder, other)
    assert learnt[1] == (len(fine), 0)
    assert learnt[2] == (len(told.made), len(told.coarse_ids - coarse))
    same = read_store(other)
    np.testing.assert_array_equal(same.known_posterior().theta, after.known_posterior().theta)


def coarse_runs(store: Path) -> int:
    """Number of coarse runs in a store that another process may be creating."""
    try:
        return len(read_store(store).coarse_ids)
    except (OSError, StoreError):
        return 0


@pytest.mark.slow
def test_a_kill_while_the_coarse_model_is_searched_loses_nothing(folder: Path) -> None:
    store, head = folder / "run.supac", HEAD.replace("budget = 20", "budget = 12")
    text = head + '[simulator]\npython = "m:fine"\narguments = "names"\n' + COARSE
    slow = MODEL.replace("def coarse(k, b):\n", "def coarse(k, b):\n    time.sleep(0.1)\n")
    (folder / "m.py").write_text(f"import time\n{slow}")
    (folder / "problem.toml").write_text(
        text.replace("budget = 12", "budget = 12\nstore = 'run.supac'")
    )
    driver = Driver(COMMAND, "run", "problem.toml", cwd=folder)
    until(lambda: coarse_runs(store) >= 7, unless=lambda: driver.poll() is not None)
    driver.kill()
    driver.end()
    before: Any = read_store(store)
    assert before.state["coarse"]["stage"] == "search"
    made = {run.id for run in before.runs}
    code, _, wrong = Driver(COMMAND, "resume", "run.supac", cwd=folder).end()
    assert code == 0, wrong
    after, whole = read_store(store), toml(text, folder).minimize()
    assert made < {run.id for run in after.runs}
    pairs = zip(after.runs, whole.record.runs, strict=True)
    assert all((a.id, a.level, a.x.tobytes()) == (b.id, b.level, b.x.tobytes()) for a, b in pairs)
    np.testing.assert_array_equal(after.known_posterior().theta, whole.posterior.theta)


def test_a_store_with_one_does_not_go_on_without(folder: Path) -> None:
    store = folder / "run.supac"
    search(folder, store, 1)
    with pytest.raises(ValueError, match=r"was begun with .simulator.coarse.: leave it as it was"):
        toml(PYTHON, folder).minimize(store=store)
