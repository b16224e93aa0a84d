"""`make bench-outside` on a cheap problem, and the score that it rests on."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import supac
from extras import needs

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
if TYPE_CHECKING:
    from outside.problem import Gaussian

needs("numba", "matplotlib")


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


def test_the_benchmark_runs_skips_missing_peers_and_does_not_repeat_itself(tmp_path: Path) -> None:
    missing = "CMA-ES" if find_spec("cma") is None else ""
    methods = f"ours,{missing}" if missing else "ours"
    options = ("--methods", methods, "--problems", "growth", "--seeds", "0")
    said = bench(tmp_path, *options)
    assert "growth ours seed 0: 30: " in said
    assert not missing or "growth CMA-ES seed 0:  (0.0 s) skipped: No module named 'cma'" in said
    (outcome,) = map(json.loads, (tmp_path / "outside.jsonl").read_text().splitlines())
    known = json.loads((BENCHMARKS / "results" / "outside-best.json").read_text())["growth"]
    found = outcome["objectives"]
    assert known["best"] * 0.999 < found["100"] < known["best"] * 1.01
    assert found["100"] < found["30"] * 1.001 < known["prior"]
    options = ("--methods", "ours", *options[2:])
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


def test_problems_are_what_their_sources_say(outside: Any) -> None:
    """Robertson at t = 40, and uniform flow in an aquifer, p = x(1 − x)/2."""
    life, physics = outside.problems.life, outside.problems.physics
    found = life.robertson_reaction.py_func(life.ROBERTSON, np.array([0.4, 4.0, 40.0]), 200)[-1]
    assert found == pytest.approx([0.7158270688, 9.185534765e-6, 0.2841637457], rel=1e-5)
    x = (np.arange(25) + 0.5) / 25
    head = physics.darcy.py_func(np.zeros(25), np.ones((1, 25)))[0]
    assert head == pytest.approx(0.5 * x * (1.0 - x), abs=0.125 / 25**2 * 1.001)


def test_all_forms_of_outputs_have_the_same_risk(outside: Any) -> None:
    import outside.studies  # noqa: PLC0415

    problem = outside.problems.problem("growth")
    x = problem.parameters.from_latent(np.zeros((1, 2)))[0]
    whole = problem.composite(0)
    expected = whole.loss(np.asarray(whole.simulate(x))[None])[0]
    forms = outside.studies.STUDIES["expressions"].variants
    for name in ("outputs", "logarithms", "asinh"):
        risk = forms[name].risk(problem, 0)
        found = risk.loss(np.asarray(risk.simulate(x))[None])[0]
        assert found == pytest.approx(expected, rel=1e-9), name


@pytest.mark.parametrize("rows", ["studies", "stopping", "outside"])
def test_every_row_names_the_version_that_made_it(rows: str) -> None:
    lines = (BENCHMARKS / "results" / f"{rows}.jsonl").read_text().splitlines()
    assert all(json.loads(each)["commit"] for each in lines)
