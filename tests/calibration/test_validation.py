"""Validation: half of the reserve decides, and what comes of either answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.calibration.ending import FreshRisks, validate
from supac.record.record import Record
from supac.running.runner import Runner

PLANE = supac.gaussian(np.zeros(2), np.eye(2))
BOUND = supac.Catoni(0.05)
QUICK = supac.SuPAC(supac.Importance(), first=20, batch=10)


def risk(x: FloatArray) -> float:
    return float(np.tanh(0.3 * (x - 0.5) @ (x - 0.5)))


def validated(predicted: float, function: Any = risk, reserve: int = 21) -> tuple[Any, Any, Any]:
    """After one round: the state before, what validation made of it, and the runs."""
    where = supac.Execution(on_failure="drop")
    problem, record = supac.Problem.within(PLANE, BOUND), Record.of_runs(function, 2)
    state = QUICK.init(problem, 0)
    x = QUICK.ask(problem, state)
    state, _ = QUICK.tell(problem, state, x, np.array([risk(each) for each in x]))
    runner = Runner([function], where, record)
    return state, validate(problem, QUICK, state, runner, reserve, predicted), record


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


def test_where_every_fresh_run_fails_nothing_is_said_of_the_posterior() -> None:
    def broken(x: FloatArray) -> float:
        raise RuntimeError("no licence")

    _, found, _ = validated(predicted=0.1, function=broken)
    assert found.fresh is None
    assert "could not be checked" in found.notes[0]


def test_too_few_fresh_runs_have_no_standard_error() -> None:
    one = FreshRisks(PLANE, 0.0, np.array([0.3]))
    assert one.mean_risk == 0.3
    assert np.isnan(one.error)
    none = FreshRisks(PLANE, 0.0, np.empty(0))
    assert np.isnan(none.mean_risk)
    assert none.objective(supac.Problem.within(PLANE, BOUND)) == np.inf
