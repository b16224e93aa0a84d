"""Scores of priors: fresh runs of what each task reaches from scratch."""

from __future__ import annotations

import numpy as np
import pytest

import supac
from supac import marginals
from supac.arrays import FloatArray
from supac.meta.scores import fresh_mean_risk

PLANE = supac.gaussian(np.zeros(2), np.eye(2))
BOUND = supac.Catoni(0.1, ceiling=1.0)


def bump(x: FloatArray) -> float:
    return float(np.tanh((x - 1.0) @ (x - 1.0)))


def test_the_mean_risk_is_that_of_the_points() -> None:
    x = PLANE.sample(50, 3)
    task = supac.Task(bump, BOUND)
    expected = np.mean([bump(each) for each in x])
    assert fresh_mean_risk(task, x, None, supac.Execution()) == pytest.approx(expected)
    many = supac.Task(lambda x: np.array([bump(each) for each in x]), BOUND, vectorized=True)
    assert fresh_mean_risk(many, x, None, supac.Execution()) == pytest.approx(expected)


def test_points_are_latent_and_the_risk_in_the_users_units() -> None:
    house = supac.Parameters({"a": marginals.LogNormal(2.0, 0.5), "b": marginals.Uniform(0.0, 4.0)})
    x = house.prior.sample(30, 1)
    expected = np.mean([bump(each) for each in house.from_latent(x)])
    found = fresh_mean_risk(supac.Task(bump, BOUND), x, house, supac.Execution())
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(("policy", "expected"), [("penalise", 1.0), ("drop", None)])
def test_failed_runs_count_as_the_policy_says(policy: str, expected: float | None) -> None:
    def fragile(x: FloatArray) -> float:
        return np.nan if x[0] > 0.0 else 0.25

    x = PLANE.sample(40, 5)
    where = supac.Execution(on_failure=policy)  # type: ignore[arg-type]
    share = float((x[:, 0] > 0.0).mean())
    wanted = 0.25 if expected is None else 0.25 * (1.0 - share) + expected * share
    assert fresh_mean_risk(supac.Task(fragile, BOUND), x, None, where) == pytest.approx(wanted)
    nothing = fresh_mean_risk(supac.Task(lambda x: np.nan, BOUND), x, None, where)
    assert np.isnan(nothing) if expected is None else nothing == 1.0


def test_a_prior_around_the_truth_is_better() -> None:
    near = supac.gaussian(np.ones(2), 0.1 * np.eye(2))
    tasks = [supac.Task(bump, BOUND)]
    scores = supac.evaluate_priors([PLANE, near], tasks, budget=30, draws=300, progress=False)
    assert scores.objective.shape == (2, 1)
    assert scores.mean[1] < scores.mean[0]
    assert scores.quantiles(0.5)[0].tolist() == scores.objective[:, 0].tolist()
    assert not scores.notes
