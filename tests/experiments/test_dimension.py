"""The problems of `make bench-dimension`, and the score that the table rests on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

pytest.importorskip("numba", reason="the simulators need the extra adm1")


@pytest.fixture
def dimension(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
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
