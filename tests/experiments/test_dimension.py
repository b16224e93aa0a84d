"""The problems of `make bench-dimension`, and the score that the table rests on."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from extras import needs

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

needs("numba", "matplotlib")


@pytest.fixture
def dimension(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import dimension.chain  # noqa: PLC0415
    import dimension.optimum  # noqa: PLC0415
    import dimension.problems  # noqa: PLC0415

    return dimension


def test_the_poisson_model_gives_the_published_outputs(dimension: Any) -> None:
    physics = dimension.problems.physics
    if not physics.POISSON_DATA.is_dir():
        pytest.skip(f"the data of the benchmark are not at {physics.POISSON_DATA}")
    model = physics.poisson_model()
    for case in range(3):
        coefficients = np.loadtxt(physics.POISSON_DATA / f"input.{case}.txt")
        published = np.loadtxt(physics.POISSON_DATA / f"output.{case}.z.txt").ravel()
        found = model.simulate(np.log(coefficients)[None])[0]
        assert found == pytest.approx(published, abs=1e-11)


@pytest.mark.parametrize("name", ["poisson-64-b", "groundwater-64", "darcy-200", "nonlinear-64"])
def test_derivatives_are_those_of_the_residuals(dimension: Any, name: str) -> None:
    problem = dimension.problems.problem(name)
    x, direction = 0.3 * problem.truth, problem.prior.root[:, 3]
    step = 1e-5
    ahead, behind = problem.residuals(np.array([x + step * direction, x - step * direction]))
    found = problem.jacobian(x) @ direction
    assert found == pytest.approx((ahead - behind) / (2.0 * step), abs=1e-6 * np.abs(found).max())


def test_the_optimum_of_a_linear_problem_is_stationary_and_known(dimension: Any) -> None:
    """No change of mean or covariance lowers the objective, and the table's best is its value."""
    problem = dimension.problems.problem("linear-64")
    best = dimension.optimum.linear_optimum(problem)
    value = problem.objective(best)
    rng = np.random.default_rng(0)
    for size in (1e-3, 1e-2):
        shift = size * rng.standard_normal(problem.dim)
        change = size * rng.standard_normal((problem.dim, problem.dim))
        factor = np.eye(problem.dim) + change
        other = type(best)(best.mean + shift, factor @ best.covariance @ factor.T)
        assert problem.objective(other) > value
    assert value == pytest.approx(dimension.problems.known()["linear-64"].best, rel=1e-9)


def test_scores_agree_with_plain_draws(dimension: Any) -> None:
    """The control variate changes the variance of a score, not what it estimates."""
    problem = dimension.problems.problem("groundwater-64")
    posterior = type(problem.prior)(0.5 * problem.truth, 0.1 * problem.covariance)
    z = np.random.default_rng(1).standard_normal((20_000, problem.dim))
    risks = (problem.residuals(posterior.mean + z @ posterior.root.T) ** 2).mean(axis=1)
    error = 4.0 * risks.std() / np.sqrt(len(risks))
    assert problem.mean_risk(posterior) == pytest.approx(risks.mean(), abs=error)


def test_the_benchmark_runs_skips_missing_peers_and_does_not_repeat_itself(tmp_path: Path) -> None:
    """Gauss–Newton finds the optimum of a linear problem as soon as it has all differences."""
    missing = find_spec("iterative_ensemble_smoother") is None
    methods = "Gauss–Newton,ESMDA 50" if missing else "Gauss–Newton"
    script = str(BENCHMARKS / "dimension" / "run.py")
    options = ("--methods", methods, "--problems", "linear-64", "--folder", str(tmp_path))
    said = _output(script, *options, "--seeds", "0")
    assert "linear-64 Gauss–Newton seed 0: 100: " in said
    assert not missing or "skipped: No module named 'iterative_ensemble_smoother'" in said
    (outcome,) = map(json.loads, (tmp_path / "dimension.jsonl").read_text().splitlines())
    assert outcome["runs"]["100"] == 66
    assert outcome["gaps"] == pytest.approx({"100": 0.0, "200": 0.0, "400": 0.0}, abs=1e-3)
    text = (tmp_path / "dimension.md").read_text()
    assert "| Gauss–Newton (1) | – | 0.00 (0.00) | 0.00 (0.00) | 0.00 (0.00) |" in text
    assert (tmp_path / "dimension.png").stat().st_size > 0
    again = _output(script, "--methods", "Gauss–Newton", *options[2:], "--seeds", "0")
    assert "0 runs to make" in again


def _output(*command: str) -> str:
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=True
    ).stdout


def test_the_chain_climbs_the_gradient_of_its_target(dimension: Any) -> None:
    problem = dimension.problems.problem("poisson-64-b")
    data = np.random.default_rng(2).uniform(0.1, 0.8, 169)
    model = dimension.problems.physics.poisson_model()
    target = dimension.chain.Target(model, data, problem.prior)
    z, direction = np.random.default_rng(3).standard_normal((2, 64))
    _, gradient = target(z)
    ahead, behind = (target(z + sign * 1e-5 * direction)[0] for sign in (1.0, -1.0))
    assert gradient @ direction == pytest.approx((ahead - behind) / 2e-5, rel=1e-6)


def test_effective_sizes_are_those_of_an_autoregression(dimension: Any) -> None:
    """n (1 − ρ)/(1 + ρ) draws of four chains with correlation ρ = 0.8."""
    rng = np.random.default_rng(4)
    x = np.empty((4, 20_000, 2))
    x[:, 0] = rng.standard_normal((4, 2))
    for i in range(1, x.shape[1]):
        x[:, i] = 0.8 * x[:, i - 1] + 0.6 * rng.standard_normal((4, 2))
    sizes = dimension.chain.effective_sizes(x)
    assert sizes == pytest.approx(80_000 * 0.2 / 1.8, rel=0.15)
    assert dimension.chain.scale_reduction(x).max() < 1.01
    x[0] += 1.0
    assert dimension.chain.effective_sizes(x).max() < 100
    assert dimension.chain.scale_reduction(x).min() > 1.05
