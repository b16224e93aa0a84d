"""`supac run` with 200 parameters and a program: killed, resumed, certified, reported, in 1 GB."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np

import supac
from waiting import until

# Sums along the rows of a field, without NumPy, which takes longer to import than all of a run.
MODEL = """
import json, math
point = json.load(open("input.json"))
sums = [sum(map(math.log, row)) / len(row) for row in point["k"]]
json.dump({"sum": [each + point["shift"] for each in sums]}, open("output.json", "w"))
"""
PROBLEM = """
[parameters]
k = { field = [20, 10], length = 0.3, prior = "lognormal", median = 1.0, log_sd = 1.0 }
shift = { prior = "normal", mean = 0.0, sd = 0.1 }
[simulator]
command = ["{python}", "-S", "-E", "model.py"]
[data]
file = "data.csv"
observed = "sum"
noise = 0.2
[bound]
n = 20
[run]
budget = 36
validation = 4
"""
MEGABYTE = 1024  # in units of ru_maxrss


def _write(folder: Path) -> None:
    (folder / "model.py").write_text(MODEL)
    (folder / "problem.toml").write_text(PROBLEM)
    measured = [f"{0.5 * np.sin(i / 4.0):.3f}" for i in range(20)]
    (folder / "data.csv").write_text("\n".join(["sum", *measured]) + "\n")


def _start(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "supac", *words]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=quiet, stderr=quiet)


def _peak(folder: Path, *words: str) -> float:
    """Run a command to its end, and return its peak memory in MB."""
    process = _start(folder, *words)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss / MEGABYTE


def _runs(store: Path) -> int:
    try:
        with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as db:
            return int(db.execute("SELECT count(*) FROM runs").fetchone()[0])
    except sqlite3.OperationalError:
        return 0  # not made yet


def test_a_field_of_200_points_by_a_program(tmp_path: Path) -> None:
    _write(tmp_path)
    store = tmp_path / "problem.supac"
    process = _start(tmp_path, "run", "problem.toml", "--quiet")
    until(lambda: _runs(store) >= 24, unless=lambda: process.poll() is not None)
    process.kill()
    process.wait()
    before = supac.read_store(store)
    assert before.stop_reason is None
    peaks = [
        _peak(tmp_path, "resume", "problem.toml", "--quiet"),
        _peak(tmp_path, "certify", "problem.supac", "--draws", "4", "--out", "certificate.json"),
        _peak(tmp_path, "report", "problem.supac", "--certificate", "certificate.json"),
    ]
    assert max(peaks) < 1_000.0
    after = supac.read_store(store)
    assert after.stop_reason is supac.StopReason.BUDGET
    assert len(before.light_runs) < after.queries <= 36
    for old, new in zip(before.light_runs, after.light_runs, strict=False):
        assert (old.id, old.risk, old.seconds) == (new.id, new.risk, new.seconds)
    assert after.parameters is not None
    assert len(after.parameters) == 201
    assert "The field k" in (tmp_path / "problem-report.html").read_text()
    # A round keeps θ, (201 + 201·202/2) doubles in base64, once, and the last state three times.
    theta = 4 / 3 * 8 * (201 + 201 * 202 // 2)
    assert store.stat().st_size < (len(after.rounds) + 9) * theta + 1e6
