"""Scores of priors: fresh runs of what each task reaches from scratch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
    scores = supac.evaluate_priors([PLANE, near], tasks, budget=30, draws=300)
    assert scores.objective.shape == (2, 1)
    assert scores.mean[1] < scores.mean[0]
    assert scores.quantiles(0.5)[0].tolist() == scores.objective[:, 0].tolist()
    assert not scores.notes


def test_a_folder_keeps_the_runs(tmp_path: Path) -> None:
    calls: list[FloatArray] = []

    def judge(last: int, **options: Any) -> supac.PriorScores:
        def risk(x: FloatArray) -> float:
            if len(calls) == last:
                raise KeyboardInterrupt
            calls.append(x)
            return bump(x)

        tasks = [supac.Task(risk, BOUND)] * 2
        return supac.evaluate_priors([PLANE], tasks, budget=20, draws=30, **options)

    expected, store = judge(-1), tmp_path / "new" / "scores"
    assert len(calls) == 2 * 50
    for last in (110, 135, 180):  # in the first search, its fresh draws, and the second search's
        with pytest.raises(KeyboardInterrupt):
            judge(last, store=store)
    assert judge(200, store=store).objective.tolist() == expected.objective.tolist()
    assert sorted(each.name for each in store.iterdir()) == [
        "prior-0-task-0.supac",
        "prior-0-task-1.supac",
    ]
    again = judge(200, store=store)
    assert (len(calls), again.queries.tolist()) == (200, expected.queries.tolist())
