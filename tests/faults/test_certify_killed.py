"""`supac certify --posterior` killed at random moments, and stopped by Ctrl-C."""

from __future__ import annotations

import json
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import supac
from drivers import COMMAND, Driver
from supac.cli import app
from supac.problem_file import starter_files
from waiting import until

DRAWS = 120
MODEL = """
import time
from math import exp
from pathlib import Path

TIMES = [0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 5, 6, 8, 10]
LEDGER = Path(__file__).with_name("ledger")


def simulate(initial, k1, k2):
    with LEDGER.open("a") as file:
        file.write(f"{initial!r} {k1!r} {k2!r}\\n")
    if LEDGER.with_name("slowly").exists():
        time.sleep(0.01)
    a = [initial * exp(-k1 * t) for t in TIMES]
    b = [initial * k1 * (exp(-k1 * t) - exp(-k2 * t)) / (k2 - k1) for t in TIMES]
    return {"A": a, "B": b}
"""


def start(folder: Path, *words: str) -> Driver:
    """Start `supac certify run.supac --posterior --json` with further words."""
    return Driver(COMMAND, "certify", folder / "run.supac", "--posterior", "--json", *words)


def certificate(folder: Path, *words: str) -> Any:
    """Return what it prints."""
    code, said, complained = start(folder, *words).end()
    assert code == 0, complained
    return json.loads(said)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished search, which nobody changes."""
    folder = tmp_path_factory.mktemp("finished")
    for name, text in starter_files("python").items():
        (folder / name).write_text(text.replace("budget = 60", "budget = 30\nvalidation = 8"))
    (folder / "model.py").write_text(MODEL)
    result = CliRunner().invoke(app, ["run", str(folder / "problem.toml"), "-q"])
    assert result.exit_code == 0, result.output
    (folder / "ledger").write_text("")
    return folder


@pytest.fixture
def study(finished: Path, tmp_path: Path) -> Path:
    """A copy of it to break, whose runs take time."""
    folder = shutil.copytree(finished, tmp_path / "study")
    (folder / "slowly").touch()
    return folder


@pytest.fixture
def unbroken(finished: Path, tmp_path: Path) -> Path:
    """A copy to certify at one go."""
    return shutil.copytree(finished, tmp_path / "unbroken")


def begun(folder: Path) -> list[str]:
    return (folder / "ledger").read_text().splitlines()


def stored(folder: Path) -> int:
    runs = supac.read_store(folder / "run.supac").light_runs
    return sum(run.purpose == "certificate" for run in runs)


@pytest.mark.parametrize(
    ("kills", "words"), [(20, ()), (10, ("--precision", "0.15"))], ids=["draws", "precision"]
)
def test_killed_at_random_moments(
    kills: int, words: tuple[str, ...], study: Path, unbroken: Path
) -> None:
    options = ("--draws", str(DRAWS), *words)
    expected = certificate(unbroken, *options)
    assert (expected["draws"] < DRAWS) is ("--precision" in words), expected["draws"]
    rng, kept, in_runs = np.random.default_rng(4), 0, 0
    # As long as all kills together leave runs to make.
    life = 0.01 * expected["draws"] / kills
    for _ in range(kills):
        before = len(begun(study))
        command = start(study, *options)
        time.sleep(life * rng.uniform())
        if rng.uniform() < 0.5:  # else often before the first run
            _wait_for_runs(study, before + 1, command)
        command.kill()
        assert command.end()[0] == -signal.SIGKILL, "it ended too early to be killed"
        more = len(begun(study)) - before
        now = stored(study)
        assert more - 1 <= now - kept <= more, "more than the run in progress was lost"
        in_runs, kept = in_runs + (more > 0), now
    assert in_runs >= kills // 4
    before = len(begun(study))
    assert certificate(study, *options) == expected
    assert len(begun(study)) - before == expected["draws"] - kept
    assert set(begun(study)) == set(begun(unbroken))


def test_ctrl_c_certifies_the_runs_made_until_then(study: Path, unbroken: Path) -> None:
    options = ("--draws", str(DRAWS))
    command = start(study, *options)
    _wait_for_runs(study, 30, command)
    command.send_signal(signal.SIGINT)
    code, said, complained = command.end()
    assert code == 3, complained
    early = json.loads(said)
    assert 30 <= early["draws"] == stored(study) < DRAWS
    expected = certificate(unbroken, *options)
    assert early["mean_risk_upper"] >= expected["mean_risk_upper"]
    # It is the certificate of so many draws, and the same command continues.
    assert certificate(study, "--draws", str(early["draws"])) == early
    assert certificate(study, *options) == expected
    assert sorted(begun(study)) == sorted(begun(unbroken))


def test_ctrl_c_during_the_first_run_exits_with_130(study: Path) -> None:
    model = study / "model.py"
    model.write_text(model.read_text().replace("sleep(0.01)", "sleep(60)"))
    command = start(study, "--draws", str(DRAWS), "--as-begun")
    _wait_for_runs(study, 1, command)
    command.send_signal(signal.SIGINT)
    command.complaint("Ctrl-C again")
    command.send_signal(signal.SIGINT)
    code, said, _ = command.end()
    assert code == 130
    assert stored(study) == 0
    assert not said


def _wait_for_runs(folder: Path, number: int, command: Driver) -> None:
    until(
        lambda: len(begun(folder)) >= number,
        unless=lambda: command.poll() is not None,
        every=0.002,
    )
