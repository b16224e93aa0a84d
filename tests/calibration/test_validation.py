"""Validation: half of the reserve decides, and what comes of either answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.calibration.ending import EarlierPosterior, FreshRisks, Halves, validate
from supac.record.record import Record
from supac.record.run import Round
from supac.running.runner import Runner
from supac.search.algorithm import Info

PLANE = supac.gaussian(np.zeros(2), np.eye(2))
BOUND = supac.Catoni(0.05)
QUICK = supac.SuPAC(supac.Importance(), first=20, batch=10)


def risk(x: FloatArray) -> float:
    return float(np.tanh(0.3 * (x - 0.5) @ (x - 0.5)))


def validated(
    predicted: float,
    function: Any = risk,
    reserve: int = 21,
    earlier: EarlierPosterior | None = None,
    halves: Halves | None = None,
) -> tuple[Any, Any, Any]:
    """After one round: the state before, what validation made of it, and the runs."""
    where = supac.Execution(on_failure="drop")
    problem, record = supac.Problem.within(PLANE, BOUND), Record.of_runs(function, 2)
    state = QUICK.init(problem, 0)
    batch = QUICK.ask(problem, state)
    x = batch.x
    state, _ = QUICK.tell(problem, state, batch, np.array([risk(each) for each in x]))
    runner = Runner([function], where, record)
    told = problem, QUICK, state, runner, halves or Halves.of(reserve), predicted, "auto"
    return state, validate(*told, earlier), record


def test_a_posterior_that_keeps_its_promise_is_returned_with_all_fresh_runs() -> None:
    state, found, record = validated(predicted=np.inf)
    assert found.fresh.posterior == state.posterior
    assert [len(each.ids) for each in found.batches] == [11, 10]
    assert {each.posterior for each in found.batches} == {state.posterior}
    assert not found.notes
    risks = [run.risk for run in record.runs]
    assert found.fresh.mean_risk == pytest.approx(np.mean(risks))
    assert found.fresh.error == pytest.approx(np.std(risks, ddof=1) / np.sqrt(21))
    assert len(found.state.evaluations) == 20 + 21
    assert {run.purpose for run in record.runs} == {"validation"}


def test_many_workers_make_nearly_all_fresh_runs_at_once() -> None:
    """The others are for another posterior, where the first one disappoints."""
    halves = Halves.at_once(100)
    assert (halves.first, halves.second, halves.shown) == (88, 12, 88)
    assert Halves.at_once(20) == Halves(10, 10, always=False)
    state, found, record = validated(predicted=np.inf, halves=halves)
    assert [len(each.ids) for each in found.batches] == [88]
    assert len(record.runs) == len(found.fresh.risk) == 88
    assert found.fresh.posterior == state.posterior
    _, found, record = validated(predicted=-1.0, halves=halves)
    assert [len(each.ids) for each in found.batches] == [88, 12]
    assert len(record.runs) == 100


def test_a_posterior_that_disappoints_is_learnt_from_and_the_better_one_returned() -> None:
    state, found, record = validated(predicted=-1.0)
    first, second = found.batches
    assert (len(first.ids), len(second.ids)) == (11, 10)
    assert first.posterior == state.posterior != second.posterior
    assert "after learning from them" in found.notes[0]
    risks = {run.id: run.risk for run in record.runs}
    objectives = {
        each.posterior: BOUND(
            float(np.mean([risks[i] for i in each.ids])), each.posterior.kl(PLANE)
        )
        for each in (first, second)
    }
    assert found.fresh.posterior == min(objectives, key=lambda each: objectives[each])


GOOD = supac.gaussian(np.full(2, 0.5), 0.04 * np.eye(2))
"""Around the minimum, where the toy search has not come to after one round."""


@pytest.mark.parametrize("predicted", [np.inf, -1.0])
def test_an_earlier_posterior_that_was_clearly_better_is_tried_and_returned(
    predicted: float,
) -> None:
    """Whether or not the last one keeps its promise."""
    state, found, _ = validated(
        predicted, lambda x: 20.0 * risk(x), earlier=EarlierPosterior(GOOD, 0.4)
    )
    first, second = found.batches
    assert (first.posterior, second.posterior) == (state.posterior, GOOD)
    assert found.fresh.posterior == GOOD
    assert found.state.posterior == GOOD  # a resume goes on from it
    assert "those of an earlier one, whose runs had been better" in found.notes[0]


def test_an_earlier_posterior_that_was_better_by_luck_is_not_returned() -> None:
    """Its fresh runs decide, not what the search had seen of it."""
    far = supac.gaussian(np.full(2, -3.0), 0.04 * np.eye(2))
    state, found, _ = validated(
        np.inf, lambda x: 20.0 * risk(x), earlier=EarlierPosterior(far, 0.0)
    )
    assert found.batches[1].posterior == far
    assert found.fresh.posterior == state.posterior


def test_an_earlier_posterior_that_was_hardly_better_costs_nothing() -> None:
    state, found, _ = validated(np.inf)
    seen = BOUND(found.fresh.mean_risk, found.fresh.kl)
    again, same, _ = validated(np.inf, earlier=EarlierPosterior(GOOD, seen - 0.1))
    assert again.posterior == state.posterior
    assert same.fresh.mean_risk == found.fresh.mean_risk
    assert {each.posterior for each in same.batches} == {state.posterior}


def test_the_earlier_posterior_is_that_of_the_lowest_objective_that_runs_cover() -> None:
    def made(objective: float, k_hat: float, mean: float) -> Round:
        info = Info(objective=objective, k_hat=k_hat)
        return Round((0,), supac.gaussian([mean], np.eye(1)), info)

    rounds = [made(0.5, 0.3, 0.0), made(0.3, np.nan, 1.0), made(0.1, 0.9, 2.0)]
    best = EarlierPosterior.best_of([*rounds, made(np.nan, 0.1, 3.0)])
    assert best is not None
    assert (best.objective, best.posterior.mean.tolist()) == (0.3, [1.0])
    assert EarlierPosterior.best_of([]) is None


def test_where_every_fresh_run_fails_nothing_is_said_of_the_posterior() -> None:
    def broken(x: FloatArray) -> float:
        raise RuntimeError("no licence")

    _, found, _ = validated(predicted=0.1, function=broken)
    assert found.fresh is None
    assert "could not be checked" in found.notes[0]


def test_too_few_fresh_runs_have_no_standard_error() -> None:
    one = FreshRisks(PLANE, 0.0, np.zeros((1, 2)), np.array([0.3]))
    assert one.mean_risk == 0.3
    assert np.isnan(one.error)
    none = FreshRisks(PLANE, 0.0, np.empty((0, 2)), np.empty(0))
    assert np.isnan(none.mean_risk)
    assert none.objective(supac.Problem.within(PLANE, BOUND)) == np.inf
