"""`make bench-outside` on a cheap problem, and the score that it rests on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import supac

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
if TYPE_CHECKING:
    from outside.problem import Gaussian

pytest.importorskip("numba", reason="the simulators need the extra adm1")
pytest.importorskip("matplotlib", reason="the picture needs the extra plot")


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import outside.problems  # noqa: PLC0415

    return outside


def bench(folder: Path, *options: str) -> str:
    """Return what the benchmark says."""
    script = str(BENCHMARKS / "outside" / "run.py")
    command = [sys.executable, script, "--folder", str(folder), *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_benchmark_runs_and_does_not_repeat_itself(tmp_path: Path) -> None:
    options = ("--methods", "ours", "--problems", "growth", "--seeds", "0")
    assert "[1/1] growth ours seed 0" in bench(tmp_path, *options)
    outcome = json.loads((tmp_path / "outside.jsonl").read_text())
    known = json.loads((BENCHMARKS / "results" / "outside-best.json").read_text())["growth"]
    found = outcome["objectives"]
    assert known["best"] * 0.999 < found["100"] <= found["30"] <= known["prior"] * 1.001
    assert "0 runs to make" in bench(tmp_path, *options)
    assert "| growth |" in (tmp_path / "outside.md").read_text()
    assert (tmp_path / "outside.png").stat().st_size > 0


def test_scores_are_those_of_the_library(outside: Any) -> None:
    problem = outside.problems.problem("banana")
    posterior: Gaussian = outside.problem.Gaussian(
        problem.reference, 0.01 * np.eye(4) + 0.002 * np.ones((4, 4))
    )
    same = supac.gaussian(posterior.mean, posterior.covariance)
    assert posterior.kl(problem.prior) == pytest.approx(same.kl(problem.parameters.prior))
    x = problem.parameters.from_latent(same.sample(20_000, 0))
    risks = problem.loss(np.array([problem.simulate(each, 0) for each in x]))
    error = 4.0 * risks.std() / np.sqrt(len(risks))
    expected = problem.bound(float(risks.mean()), same.kl(problem.parameters.prior))
    assert problem.objective(posterior) == pytest.approx(expected, abs=error)
