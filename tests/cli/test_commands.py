"""The commands that run problem files, as their users meet them."""

from __future__ import annotations

import csv
import inspect
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from typer.testing import CliRunner

import supac
from commands import call, ended, start
from supac.arrays import FloatArray
from supac.cli import app
from supac.cli.app import COMMANDS
from supac.problem_file import StarterKind, starter_files
from supac.record.store.file import lock, unlock
from waiting import until

DOCS = Path(__file__).parents[2] / "docs"
SLOW = """
import time
from math import exp

TIMES = [0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 5, 6, 8, 10]


def simulate(initial, k1, k2):
    time.sleep(0.02)
    a = [initial * exp(-k1 * t) for t in TIMES]
    b = [initial * k1 * (exp(-k1 * t) - exp(-k2 * t)) / (k2 - k1) for t in TIMES]
    return {"A": a, "B": b}
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run, which nobody changes."""
    folder = tmp_path_factory.mktemp("finished")
    call("init", folder)
    call("run", folder / "problem.toml")
    return folder


@pytest.fixture
def study(finished: Path, tmp_path: Path) -> Path:
    """A copy of it to work on."""
    for path in finished.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """A problem whose runs take long enough to be interrupted."""
    for name, text in starter_files("python").items():
        (tmp_path / name).write_text(text)
    (tmp_path / "model.py").write_text(SLOW)
    return tmp_path


def made(store: Path) -> int:
    try:
        return len(supac.read_store(store).made)
    except (supac.StoreError, FileNotFoundError):
        return 0


def same(store: Path, other: Path) -> bool:
    mine, yours = supac.read_store(store), supac.read_store(other)
    objective = yours.estimate.objective
    return mine.posterior == yours.posterior and mine.estimate.objective == objective


def test_init_overwrites_nothing(tmp_path: Path) -> None:
    said = call("init", tmp_path / "new" / "study", "--simulator", "python").output
    assert "supac run" in said
    assert sorted(path.name for path in (tmp_path / "new" / "study").iterdir()) == [
        "data.csv", "model.py", "problem.toml",
    ]  # fmt: skip
    mine = tmp_path / "data.csv"
    mine.write_text("mine")
    assert "data.csv already exists" in call("init", tmp_path, code=1).output.replace("\n", "")
    assert mine.read_text() == "mine"
    assert not (tmp_path / "problem.toml").exists()
    call("init", tmp_path, "--force")
    assert mine.read_text() != "mine"


def test_the_starter_finds_what_made_its_data(finished: Path) -> None:
    run = supac.read_store(finished / "run.supac")
    assert run.stop_reason is supac.StopReason.CONVERGED
    assert run.parameters is not None
    # The truth is (2, 0.9, 0.35), within three standard deviations of the posterior.
    draws = run.sample(2_000, 0)
    assert (abs(draws.mean(axis=0) - [2.0, 0.9, 0.35]) < 3.0 * draws.std(axis=0)).all()


def test_show_fits_eighty_columns(finished: Path) -> None:
    said = call("show", finished / "run.supac").output
    assert max(map(len, said.splitlines())) <= 80
    assert "…" not in said
    assert re.search(r"^parameter +unit +prior +posterior +width$", said, flags=re.M)
    assert re.search(r"^k1 +1/h +0\.5 \(0\.134 to 1\.86\) +0\.9", said, flags=re.M)
    assert re.search(r"^runs +49 of 60, 15 of them to validate", said, flags=re.M)
    assert said == call("show", finished / "problem.toml").output  # its problem file will do


def test_bands_are_shown_and_written(finished: Path, tmp_path: Path) -> None:
    store, bands = finished / "run.supac", supac.read_store(finished / "run.supac").bands(0.8)
    shown = " ".join(call("show", store).output.split())
    assert f"prediction {bands.statement}, if {bands.assumption}" in shown
    assert bands.statement in " ".join(call("certify", store).output.split())
    told = json.loads(call("show", store, "--json").output)["bands"]
    assert told["half_width"] == pytest.approx(bands.in_units)
    call("export", store, tmp_path / "bands.csv", "--bands", 0.8)
    rows = list(csv.DictReader((tmp_path / "bands.csv").read_text().splitlines()))
    assert list(rows[0]) == ["column", "time", "measured", "predicted", "lower", "upper"]
    assert [row["column"] for row in rows] == ["A"] * 12 + ["B"] * 12
    assert [float(row["upper"]) for row in rows] == bands.upper.tolist()
    few = call("export", store, tmp_path / "few.csv", "--bands", 0.9, code=1).output
    assert "need at least 19 measurements of a column, not 12" in " ".join(few.split())


def test_machines_read_json(finished: Path) -> None:
    def no_nan(word: str) -> Any:
        raise AssertionError(word)

    said = json.loads(call("show", finished / "run.supac", "--json").stdout, parse_constant=no_nan)
    run = supac.read_store(finished / "run.supac")
    assert said["objective"] == run.estimate.objective
    assert (said["queries"], said["budget"]) == (49, 60)
    assert [row["name"] for row in said["parameters"]] == ["initial", "k1", "k2"]
    assert said["parameters"][1]["posterior"]["median"] == pytest.approx(0.91, abs=0.1)
    assert 0.05 < said["parameters"][1]["width"] < 0.15
    assert said["best_objective"] <= said["objective"]


def test_run_does_not_lose_an_earlier_one(study: Path) -> None:
    store, problem = study / "run.supac", study / "problem.toml"
    before = store.read_bytes()
    said = call("run", problem, code=1).output
    assert "supac resume" in said
    assert "--force" in said
    assert store.read_bytes() == before
    said = call("run", problem, "--force", "--budget", "40", "--json").stdout
    assert json.loads(said)["budget"] == 40
    assert not (study / "run.supac.replaced").exists()
    other = study / "other.supac"
    assert call("run", problem, "--store", other, "--quiet").output == ""
    assert other.exists()
    stranger = study / "notes.txt"
    stranger.write_text("mine")
    assert "not a store" in call("run", problem, "--store", stranger, "--force", code=1).output
    assert stranger.read_text() == "mine"


def test_a_run_that_comes_to_nothing_gives_the_old_store_back(study: Path) -> None:
    store, problem = study / "run.supac", study / "problem.toml"
    before, text = store.read_bytes(), problem.read_text()
    said = call("run", problem, "--force", "--budget", "5", code=1).output
    assert "--budget 5 is less than the first batch of 10 runs" in " ".join(said.split())
    assert store.read_bytes() == before
    (study / "model.py").write_text("def simulate(x):\n    raise RuntimeError('no licence')\n")
    for simulator, words in (
        ('umbridge = "http://localhost:1"', "no UM-Bridge server answers|needs umbridge"),
        ('python = "model:simulate"', "More of the runs failed than max_failures allows"),
    ):
        problem.write_text(text.replace('builtin = "reaction"', simulator))
        said = " ".join(call("run", problem, "--force", code=1).output.split())
        assert re.search(words, said)
        assert "run.supac is the earlier one again" in said
        assert store.read_bytes() == before
    assert sorted(path.name for path in study.iterdir() if path.is_file()) == [
        "data.csv", "model.py", "problem.toml", "run.supac",
    ]  # fmt: skip


def test_an_interrupted_run_leaves_the_old_store_to_be_had_back(slow: Path) -> None:
    call("run", slow / "problem.toml", "-q", "--budget", "30")
    before = (slow / "run.supac").read_bytes()
    process = start(slow, "run", "problem.toml", "--force", "-q")
    until(lambda: 12 <= made(slow / "run.supac") < 30)
    process.send_signal(signal.SIGINT)
    code, _, complained = process.end()
    assert code == 3
    assert (slow / "run.supac.replaced").read_bytes() == before
    assert 12 <= made(slow / "run.supac") < 60
    advice = " ".join(complained.split()).partition("to have it back: ")[2]
    subprocess.run(advice, shell=True, cwd=slow, check=True)
    assert made(slow / "run.supac") == 30


def test_a_killed_run_leaves_the_old_store_to_be_had_back(slow: Path) -> None:
    """With the log of the new one still there, which is not that of the old."""
    call("run", slow / "problem.toml", "-q", "--budget", "30")
    process = start(slow, "run", "problem.toml", "--force", "-q")
    until(lambda: 12 <= made(slow / "run.supac") < 30)
    process.kill()
    process.end()
    advice = re.search(r"To\s+restore it: `(.*?)`", (DOCS / "command-line.md").read_text())
    assert advice is not None
    subprocess.run(advice[1], shell=True, cwd=slow, check=True)
    assert made(slow / "run.supac") == 30


def test_a_check_asks_about_units_where_nothing_is_near(study: Path) -> None:
    problem = study / "problem.toml"
    problem.write_text(problem.read_text().replace("noise = 0.05", "noise = 0.0001"))
    said = call("run", problem, "--check").output
    assert re.search(r"typically off by +[\d,]+ noises: are data and simulator in the same", said)


def test_check_says_where_runs_cannot_be_kept(study: Path) -> None:
    problem = study / "problem.toml"
    problem.write_text(problem.read_text().replace('"run.supac"', '"data.csv"'))
    said = " ".join(call("run", problem, "--check", code=1).output.split())
    assert "run.store: data.csv exists and is not a store: choose another name" in said
    call("run", problem, "--check", "--store", study / "other.supac")


def test_check_makes_one_run(study: Path) -> None:
    (study / "run.supac").unlink()
    said = call("run", study / "problem.toml", "--check").output
    assert "no mistake found" in said
    assert "outputs compared  24" in said
    assert not (study / "run.supac").exists()
    model = study / "model.py"
    model.write_text("def simulate(x):\n    raise RuntimeError('no licence')\n")
    text = (study / "problem.toml").read_text()
    text = text.replace('builtin = "reaction"', 'python = "model:simulate"')
    (study / "problem.toml").write_text(text)
    said = call("run", study / "problem.toml", "--check", code=1).output
    assert "the run failed: RuntimeError: no licence (model.py, line 2)" in said
    assert "no mistake found" not in said
    bare = re.sub(r"\[data\].*?\[bound\].*?\[run\]", "[bound]\nn = 9\n[run]", text, flags=re.S)
    (study / "problem.toml").write_text(bare.replace("model:", "other:"))
    (study / "other.py").write_text("def simulate(x):\n    return [1.0] * 24\n")
    said = call("run", study / "problem.toml", "--check", code=1).output
    assert "must return one number a point, not a list of length 24" in " ".join(said.split())


def test_check_makes_a_cheap_run_twice_and_says_if_they_differ(study: Path) -> None:
    text = (study / "problem.toml").read_text()
    text = text.replace('builtin = "reaction"', 'python = "model:simulate"')
    (study / "problem.toml").write_text(text)
    model = "import numpy as np\nrng = np.random.default_rng()\ndef simulate(x):\n    return "
    for answer, differs in (("rng.normal(size=24)", True), ("np.ones(24)", False)):
        (study / "model.py").write_text(f"{model}{answer}\n")
        said = " ".join(call("run", study / "problem.toml", "--check").output.split())
        assert ("the same run differs: the simulator is noisy" in said) == differs


def test_init_says_that_a_pest_case_needs_no_problem_file(tmp_path: Path) -> None:
    said = " ".join(call("init", tmp_path / "new", "--pest", "case.pst", code=1).output.split())
    assert "a PEST case needs no problem file: supac run case.pst" in said
    assert not (tmp_path / "new").exists()


def test_a_wrong_file_is_an_error_not_a_traceback(study: Path) -> None:
    text = (study / "problem.toml").read_text()
    (study / "problem.toml").write_text(text.replace("seed =", "sead ="))
    said = call("run", study / "problem.toml", code=1).output
    assert 'run.sead: is not known in [run]; did you mean "seed"?' in said


def test_a_simulator_that_always_fails_says_why(slow: Path) -> None:
    (slow / "model.py").write_text(
        "def simulate(initial, k1, k2):\n    return {'A': [1], 'B': [2]}\n"
    )
    said = call("run", slow / "problem.toml", code=1).output
    words = " ".join(said.split())
    assert "More of the runs failed than max_failures allows" in words
    assert "1 numbers for A, but the data have 12 rows" in words
    (slow / "model.py").write_text(SLOW)
    for target in ("run.supac", "problem.toml"):
        words = " ".join(call("resume", slow / target, "-q", code=1).output.split())
        assert "all 10 runs in" in words
        assert "1 numbers for A, but the data have 12 rows" in words
        assert "not made again. When the simulator is repaired, start again: supac run" in words
    ended(start(slow, "run", "problem.toml", "-q"))  # there is nothing that --force could lose
    assert not supac.read_store(slow / "run.supac").failures
    assert not list(slow.glob("*.replaced*"))


def test_a_store_without_runs_is_no_obstacle(slow: Path) -> None:
    text = (slow / "problem.toml").read_text()
    broken = text.replace('python = "model:simulate"', 'umbridge = "http://localhost:1"')
    (slow / "problem.toml").write_text(broken.replace("arguments", "# arguments"))
    said = call("run", slow / "problem.toml", code=1).output
    assert re.search("no UM-Bridge server answers|needs umbridge", " ".join(said.split()))
    assert (slow / "run.supac").exists()
    (slow / "problem.toml").write_text(text)
    call("run", slow / "problem.toml", "-q")


def test_a_killed_run_is_resumed_to_the_same_bits(slow: Path) -> None:
    call("run", slow / "problem.toml", "--store", slow / "whole.supac", "-q")
    killed = start(slow, "run", "problem.toml", "-q")
    until(lambda: made(slow / "run.supac") >= 25)
    os.killpg(killed.pid, signal.SIGKILL)
    ended(killed, code=-signal.SIGKILL)
    said = call("show", slow / "run.supac").output
    assert "stopped before its end; `supac resume" in said
    call("resume", slow / "run.supac", "--workers", "2", "-q")
    assert same(slow / "run.supac", slow / "whole.supac")


def test_resume_has_the_workers_of_before(slow: Path) -> None:
    killed = start(slow, "run", "problem.toml", "-q", "--workers", "2")
    until(lambda: made(slow / "run.supac") >= 12)
    os.killpg(killed.pid, signal.SIGKILL)
    ended(killed, code=-signal.SIGKILL)
    before = len(supac.read_store(slow / "run.supac").made)
    said = call("resume", slow / "run.supac").output
    assert "2 workers, as before; --workers takes another number" in said
    run = supac.read_store(slow / "run.supac")
    later = [run.timeline[each.task, each.id].worker for each in run.made[before:]]
    assert set(later) == {"1", "2"}
    said = call("resume", slow / "run.supac", "--budget", 62, "--workers", 1).output
    assert "as before" not in said


def test_nobody_has_to_read_to_the_end(finished: Path) -> None:
    for words in (["certify"], ["certify", "--json"], ["show"], ["show", "--json"]):
        reader, writer = os.pipe()
        os.close(reader)
        process = subprocess.run(
            [sys.executable, "-m", "supac", words[0], finished / "run.supac", *words[1:]],
            stdout=writer,
            stderr=subprocess.PIPE,
            check=False,
        )
        os.close(writer)
        assert (process.returncode, process.stderr) == (1, b""), words


def test_an_interrupted_run_exits_with_three(slow: Path) -> None:
    process = start(slow, "run", "problem.toml")
    until(lambda: made(slow / "run.supac") >= 12)
    process.send_signal(signal.SIGINT)
    said = ended(process, code=3)
    assert "interrupted; `supac resume" in said
    assert "has not ended" in call("certify", slow / "run.supac", "--draws", "5").output
    call("resume", slow / "problem.toml", "-q")
    assert supac.read_store(slow / "run.supac").stop_reason is supac.StopReason.CONVERGED
    call("certify", slow / "run.supac", "--draws", "5")  # the five before were of another posterior
    process = start(slow, "certify", "run.supac", "--draws", "2000")
    assert re.fullmatch(
        r"1,995 fresh runs of about \d+ ms: [\d.]+ (s|min); 5 more are in the store",
        process.complaint(),
    )
    process.send_signal(signal.SIGINT)
    ended(process, code=130)  # which nothing goes on with


def test_a_follower_waits_for_a_store_that_is_being_made(
    slow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its first bytes and its tables, a new store is no store yet."""
    store = slow / "run.supac"
    lock(store)
    db = sqlite3.connect(store)
    db.execute("PRAGMA journal_mode = WAL")
    assert store.stat().st_size > 0
    waits = []

    def meanwhile(seconds: float) -> None:
        waits.append(seconds)
        db.close()
        unlock(store)
        store.unlink()
        monkeypatch.undo()
        call("run", slow / "problem.toml", "-q")

    monkeypatch.setattr("supac.cli.following.time.sleep", meanwhile)
    assert json.loads(call("show", store, "--follow", "--json").stdout)["queries"] == 49
    assert len(waits) == 1
    store.unlink()
    sqlite3.connect(store).execute("PRAGMA journal_mode = WAL").connection.close()
    said = call("show", store, "--follow", code=1).output  # nobody is making it
    assert "not a store of supac" in " ".join(said.split())


def test_show_looks_at_a_run_on_its_way(slow: Path) -> None:
    follower = start(slow, "show", "run.supac", "--follow", "--json")
    process = start(slow, "run", "problem.toml", "-q")
    until(lambda: made(slow / "run.supac") >= 12)
    now = json.loads(call("show", slow / "run.supac", "--json").stdout)
    assert now["running"]
    assert now["stop_reason"] is None
    assert 12 <= now["queries"] < 60
    assert "being written" in call("resume", slow / "run.supac", code=1).output
    ended(process)
    said = json.loads(ended(follower))
    assert not said["running"]
    assert said["stop_reason"] == "converged"


def test_logs_get_a_line_a_round(slow: Path) -> None:
    follower = start(slow, "show", "run.supac", "--follow")
    process = start(slow, "run", "problem.toml")
    seen = follower.complaint("time left: ")
    assert re.match(r"[\d:]{8} \d+ of 60 runs: objective [\d.]+, mean risk [\d.]+, KL ", seen)
    _, _, log = process.end()
    *lines, validating, commands = log.splitlines()
    assert re.fullmatch(r"[\d:]{8} validating the posterior with \d+ fresh runs", validating)
    assert commands.startswith("The fit: supac report run.supac")
    assert len(lines) == len(supac.read_store(slow / "run.supac").rounds)
    first = r"[\d:]{8} 10 of 60 runs: objective [\d.]+, mean risk [\d.]+, KL 0, [\d.]+ (ms|s) left"
    assert re.fullmatch(first, lines[0])
    assert all(re.search(r"KL [\d.]+, [\d.]+ (ms|s) left$", line) for line in lines[1:])
    assert follower.end()[0] == 0


def test_resume_goes_on_with_a_larger_budget(study: Path) -> None:
    store = study / "run.supac"
    assert "nothing is left to do" in call("resume", store).output
    said = " ".join(call("resume", store, "--budget", "64").output.split())
    assert re.search("64 of 64, .* and 15 that validated an earlier posterior", said)
    few, once = study / "few.supac", study / "once.supac"
    call("run", study / "problem.toml", "--store", few, "--budget", "20", "-q")
    said = call("resume", few, "--budget", "30").output
    assert "30 of 30" in said
    call("run", study / "problem.toml", "--store", once, "--budget", "30", "-q")
    assert same(few, once)


def test_resume_notices_what_has_changed(slow: Path) -> None:
    call("run", slow / "problem.toml", "-q", "--workers", "2")
    store, model, data = slow / "run.supac", slow / "model.py", slow / "data.csv"
    model.write_text(model.read_text().replace("time.sleep(0.02)", "time.sleep(0.01)"))
    said = call("resume", store, "--budget", "62", "-q", "--changed-simulator").output
    assert "the simulator has changed" in " ".join(said.split())
    before = data.read_text()
    data.write_text(before.replace("1.597", "1.7"))
    for words in (
        ("resume", store),
        ("resume", slow / "problem.toml"),
        ("certify", store, "--posterior"),
    ):
        assert "the data have changed since" in call(*words, code=1).output
    said = " ".join(call("certify", slow / "problem.toml").output.split())  # that of the search
    assert "about the problem as it was: the data have changed since" in said
    data.write_text(before)
    text = (slow / "problem.toml").read_text()
    (slow / "problem.toml").write_text(text.replace("seed = 0", "seed = 1"))
    again = ("--budget", "64", "--changed-simulator")
    said = call("resume", slow / "problem.toml", *again, code=1).output
    assert "seed: 0 in the store, 1 now" in said


def test_a_store_runs_nothing_that_is_not_on_the_disk(tmp_path: Path) -> None:
    store, problem = tmp_path / "run.supac", tmp_path / "problem.toml"
    call("init", tmp_path)
    call("run", problem, "-q")
    text = problem.read_text()
    problem.write_text(text.replace("# timeout = ", "timeout = "))
    assert problem.read_text() != text
    for words in (("resume", store, "--budget", "62"), ("certify", store, "--draws", "5")):
        said = " ".join(call(*words, code=1).output.split())
        assert "has changed since the last run of" in said
        assert "--as-begun" in said
    call("certify", store, "--draws", "5", "--problem", problem)
    call("certify", store, "--draws", "5", "--as-begun")
    call("resume", problem, "--budget", "62", "-q")  # its present text
    call("resume", store, "--budget", "64", "-q")  # which the store now knows
    assert supac.read_store(store).budget == 64


def test_certify_says_what_is_guaranteed(study: Path) -> None:
    store, out = study / "run.supac", study / "certificate.json"
    said = " ".join(call("certify", store).output.split())
    assert "the mean true risk of these 15 parameter sets is at most" in said
    assert "go with --posterior or --draws" in call("certify", store, "--n", "9", code=1).output
    said = call("certify", store, "--posterior", "--draws", "50", "--out", out).output
    assert "With probability at least 0.95" in said
    assert max(map(len, said.splitlines())) <= 80
    kept = json.loads(out.read_text())
    assert (kept["n"], kept["draws"], kept["bound"]) == (24, 50, "PooledBetting")
    assert "exists already" in call("certify", store, "--out", out, code=1).output
    options = ("--n", "12", "--delta", "0.2", "--bound", "catoni", "--draws", "50", "--json")
    other = json.loads(call("certify", store, *options).stdout)
    assert (other["n"], other["delta"], other["bound"]) == (12, 0.2, "Betting")
    assert "must be one of catoni" in call("certify", store, "--bound", "x", code=2).output
    again = ("--posterior", "--draws", "50", "--quiet", "--force")
    assert call("certify", store, *again, "-o", out).output == ""
    assert "give --out or --json" in call("certify", store, "--quiet", code=1).output
    assert json.loads(out.read_text()) == kept


def test_new_sets_are_exported_with_the_names_of_the_data(study: Path) -> None:
    store, table = study / "run.supac", study / "sets.csv"
    words = ("export", store, table, "--ensemble", "--draws", "5")
    assert "has 0 runs of these 5 draws" in " ".join(call(*words, code=1).output.split())
    certified = json.loads(call("certify", store, "--draws", "5", "--json").stdout)
    call(*words)
    rows = list(csv.DictReader(table.read_text().splitlines()))
    times = ["0.25", "0.5", "0.75", "1", "1.5", "2", "3", "4", "5", "6", "8", "10"]
    names = [f"{column}@{time}" for column in "AB" for time in times]
    assert list(rows[0]) == ["initial", "k1", "k2", "risk", "log_ratio", *names, "origin"]
    for name, mean in (("risk", certified["mean_risk"]), ("log_ratio", certified["kl"])):
        assert sum(float(row[name]) for row in rows) / 5 == pytest.approx(mean)
    said = call("export", store, study / "runs.csv", "--draws", "5", code=1).output
    assert "--draws goes with --ensemble" in said


def test_a_precision_that_was_not_reached_is_told(study: Path) -> None:
    options = ("--posterior", "--draws", "20", "--precision")
    said = " ".join(call("certify", study / "run.supac", *options, "0.001").output.split())
    assert re.search(r"up to 20 fresh runs of about [\d.]+ .?s: up to [\d.]+ .?s", said)
    assert "the precision was not reached with 20 runs" in said
    said = " ".join(call("certify", study / "run.supac", *options, "0.9").output.split())
    assert "precision was not" not in said


def test_show_tells_machines_what_is_guaranteed(study: Path) -> None:
    told = json.loads(call("show", study / "run.supac", "--json").stdout)
    certificate = supac.read_store(study / "run.supac").certificate
    assert certificate is not None
    assert told["certificate"] == json.loads(certificate.to_json())
    assert (told["held_out"], told["uncertified"]) == (None, "")


def test_a_certificate_is_not_lost_where_it_cannot_be_written(study: Path) -> None:
    store = study / "run.supac"
    said = call("certify", store, "--out", study / "nodir" / "c.json", code=1).output
    assert "create the folder" in said
    assert "fresh runs" not in said  # they were not even begun
    said = call("certify", store, "--out", study, code=1).output
    assert "is a folder" in said
    if Path("/dev/full").exists():
        full = ("--out", "/dev/full", "--force")
        said = call("certify", store, "--draws", "5", *full, code=1).output
        assert "With probability at least 0.95" in said
        assert "o space left on device" in said


def test_without_n_every_measurement_counts(study: Path) -> None:
    text = (study / "problem.toml").read_text()
    bare = re.sub(r"\[bound\].*?\[run\]", "[bound]\ntemperature = 0.01\n[run]", text, flags=re.S)
    (study / "problem.toml").write_text(bare)
    call("run", study / "problem.toml", "--force", "-q")
    said = call("certify", study / "run.supac", "--json").stdout
    assert (json.loads(said)["bound"], json.loads(said)["n"]) == ("Betting", 24)
    certify = ("certify", study / "run.supac", "--n", "24", "--draws", "20", "--json")
    assert json.loads(call(*certify).stdout)["bound"] == "Betting"
    with_n = bare.replace("temperature = 0.01", "temperature = 0.01\nn = 24\ndelta = 0.1")
    (study / "problem.toml").write_text(with_n)
    said = " ".join(call("certify", study / "run.supac", "--posterior", code=1).output.split())
    assert f"give this command problem.toml in place of {study / 'run.supac'}" in said
    assert "([bound])" in said
    said = call("certify", study / "problem.toml", "--draws", "20").output
    assert "With probability at least 0.9," in said
    assert "--out certificate.json keeps it" in said


def test_export_writes_every_run(study: Path) -> None:
    table = study / "runs.csv"
    assert "wrote 49 runs" in call("export", study / "run.supac", table).output
    with table.open() as file:
        purposes = [row["purpose"] for row in csv.DictReader(file)]
    assert purposes == ["search"] * 34 + ["validation"] * 15
    assert "--force replaces it" in call("export", study / "run.supac", table, code=1).output
    call("export", study / "run.supac", table, "--force")
    said = call("export", study / "run.supac", study / "runs.xlsx", code=1).output
    assert "must be a .csv, a .parquet or a .json" in said


def test_what_the_system_says_is_said_in_words(study: Path) -> None:
    words = ("report", study / "run.supac", "--certificate", study / "none.json")
    said = call(*words, code=1).output
    assert said.replace("\n", "") == f"{study / 'none.json'}: no such file or directory"
    result = CliRunner().invoke(app, list(map(str, words)), env={"SUPAC_TRACEBACK": "1"})
    assert "Traceback" in result.stderr
    assert result.exit_code == 1
    said = call("export", study / "run.supac", study / "nodir" / "runs.csv", code=1).output
    assert "create the folder" in said


def test_a_path_is_shown_as_it_is(study: Path) -> None:
    said = call("init", study / "a[bold]b:bug:").output.replace("\n", "")
    assert "a[bold]b:bug:/problem.toml" in said
    page = study / "a[b].html"
    assert str(page) in call("report", study / "run.supac", "-o", page).output.replace("\n", "")


def test_a_report_lies_beside_its_store(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (study / "elsewhere").mkdir()
    monkeypatch.chdir(study / "elsewhere")
    call("report", study / "run.supac")
    assert (study / "run-report.html").exists()
    assert not list((study / "elsewhere").iterdir())


def test_the_report_of_a_stopped_search_has_no_verdict_yet(study: Path) -> None:
    problem = supac.read_problem(study / "problem.toml")

    def stop(iteration: supac.Iteration) -> None:
        raise KeyError

    with pytest.raises(KeyError):
        problem.minimize(store=study / "stopped.supac", callback=stop)
    said = call("report", study / "stopped.supac").output
    assert "verdict: preliminary. This run was stopped before its end: 10 of 60" in said
    assert "trust" not in said


def test_what_is_no_store_is_named(study: Path) -> None:
    assert "no store" in call("show", study / "none.supac", code=1).output
    assert "is not a store" in call("show", study / "data.csv", code=1).output
    call("show", code=2)
    call("nonsense", code=2)


def test_every_command_has_help_with_an_example() -> None:
    for command, (module, sentence) in COMMANDS.items():
        said = call(command, "--help").output
        function = vars(import_module(f"supac.cli.{module}"))[command]
        assert inspect.getdoc(function).partition("\n\n")[0] == sentence  # type: ignore[union-attr]
        assert f"supac {command}" in said
        assert re.search("Examples?:", said)
        assert "Exit codes" in said
    assert ".yaml or a PEST .pst" in call("run", "--help").output


def test_shells_complete_commands() -> None:
    environment = os.environ | {
        "_SUPAC_COMPLETE": "complete_bash", "COMP_WORDS": "supac re", "COMP_CWORD": "1",
    }  # fmt: skip
    code = "import sys; sys.argv = ['supac']; from supac.cli import app; app(prog_name='supac')"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["resume", "report"]
    environment |= {"COMP_WORDS": "supac show --f", "COMP_CWORD": "2"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["--follow"]


def test_there_is_a_starter_for_every_kind_of_simulator(tmp_path: Path) -> None:
    for kind in get_args(StarterKind):
        call("init", tmp_path / kind, "--simulator", kind)
        files = {path.name: path.read_text() for path in (tmp_path / kind).iterdir()}
        assert files == starter_files(kind)
    said = call("init", tmp_path / "other", "--simulator", "fortran", code=2).output
    assert all(f"'{kind}'" in said for kind in get_args(StarterKind))
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda y: y, "a known run again comes out as in runs.csv, line "),
        (lambda y: 1000.0 * y, "All are 0.001 times as large now: is the table in another unit?"),
        (lambda y: np.roll(y, len(y) // 2), "Are its columns in other units or another order"),
    ],
    ids=["as they are", "another unit", "another order"],
)
def test_a_check_makes_a_known_run_again(
    study: Path, spoil: Callable[[FloatArray], FloatArray], said: str
) -> None:
    call("export", study / "run.supac", study / "all.csv")
    with (study / "all.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    outputs = [name for name in rows[0] if name.startswith("output_")]
    header = ["initial", "k1", "k2", *outputs]
    with (study / "runs.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        for row in rows:
            y = spoil(np.array([float(row[name]) for name in outputs]))
            writer.writerow([*(row[name] for name in header[:3]), *map(repr, y.tolist())])
    text = (study / "problem.toml").read_text()
    text = text.replace('store = "run.supac"', 'store = "new.supac"\nknown = "runs.csv"')
    (study / "new.toml").write_text(text)
    told = " ".join(call("run", study / "new.toml", "--check").output.split())
    assert said in told
    assert ("no other mistake found" in told) == ("otherwise" in told)


def test_a_known_run_is_made_again_by_a_check_alone(study: Path) -> None:
    said = call("run", study / "problem.toml", "--repeat-known", code=1).output
    assert "--repeat-known goes with --check" in said
