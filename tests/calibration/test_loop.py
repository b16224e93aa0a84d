"""The loop: when it stops, what a callback is given, and how it goes on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.calibration.loop import Loop
from supac.problem import Planned, Role
from supac.record.run import Run, Status

PLANE = supac.gaussian(np.zeros(2), np.eye(2))
BOUND = supac.Catoni(0.05)
QUICK = supac.SuPAC(supac.Importance(), first=20, batch=10)


def risk(x: FloatArray) -> float:
    return float(np.tanh(0.3 * (x - 0.5) @ (x - 0.5)))


def search(**options: Any) -> supac.Result:
    settings: dict[str, Any] = {"budget": 60, "algorithm": QUICK, **options}
    return supac.minimize(settings.pop("risk", risk), PLANE, BOUND, **settings)


def test_batches_are_never_cut() -> None:
    assert search(budget=58, validation=0).history["queries"].tolist() == [20, 30, 40, 50]


def test_a_callback_hears_of_every_round_and_may_stop() -> None:
    seen: list[supac.Iteration] = []

    def stop_at_forty(iteration: supac.Iteration) -> bool:
        seen.append(iteration)
        return iteration.queries >= 40

    result = search(callback=stop_at_forty)
    assert result.stop_reason is supac.StopReason.USER
    assert [each.queries for each in seen] == [20, 30, 40]
    for before, after in pairwise(seen):
        assert after.posterior == before.next_posterior
    assert seen[-1].next_posterior == result.posterior
    assert [each.objective for each in seen] == result.history["objective"].tolist()
    assert result.validated == 0


def test_steps_that_have_become_small_are_the_end() -> None:
    result = search(algorithm=supac.SuPAC(supac.Importance(), first=20, tolerance=1e9))
    assert result.stop_reason is supac.StopReason.CONVERGED
    assert len(result.history["queries"]) == 1


@pytest.mark.parametrize(("share", "reason"), [(0.0, "too many failures"), (1.0, "budget")])
def test_failures_stop_it_beyond_their_share(share: float, reason: str) -> None:
    def fragile(x: FloatArray) -> float:
        return np.nan if x[0] > 0.7 else risk(x)

    where = supac.Execution(on_failure="penalise", max_failures=share)
    result = search(risk=fragile, execution=where)
    assert str(result.stop_reason) == reason


def test_asynchronous_searches_spend_the_budget_and_no_more() -> None:
    calls: list[FloatArray] = []

    def counted(x: FloatArray) -> float:
        return risk(x)

    with ThreadPoolExecutor(3) as threads:
        where = supac.Execution(threads, mode="async")
        result = search(risk=counted, execution=where, callback=lambda e: calls.append(e.info))
    assert len(result.evaluations) == 60
    assert result.history["queries"][-1] + result.validated == 60
    assert len(calls) == len(result.history["queries"])


def test_late_runs_of_an_early_format_are_no_draws() -> None:
    """They were not drawn after the step that the next batch tests, and would try another one."""
    problem = supac.Problem.within(PLANE, BOUND)
    state = QUICK.init(problem, 0)
    planned, queued = QUICK.ask(problem, state).planned, list[Planned]()
    runs = [
        Run(0, planned[0].x, Status.OK, 0.1),
        Run(1, np.array([5.0, 5.0]), Status.OK, 0.2),
        Run(2, np.array([6.0, 6.0]), Status.OK, 0.2, role=Role.MEAN, step=0),
    ]
    runner: Any = SimpleNamespace(
        take_untold=lambda: runs, queue=lambda each, jacobian: queued.append(each)
    )
    loop = Loop(problem, QUICK, runner, state, 60, 0.0, supac.Execution(), runner)
    loop._take_up()
    assert [run.role for run in loop._ended] == [planned[0].role, Role.TELLS, Role.MEAN]
    assert [run.role.drawn for run in loop._ended] == [True, False, True]
    assert [each.x.tolist() for each in queued] == [each.x.tolist() for each in planned[1:]]


def test_a_larger_budget_goes_on_with_the_same_beginning(tmp_path: Path) -> None:
    store = tmp_path / "run.supac"
    short = search(store=store)
    longer = search(store=store, budget=100)
    whole = search(budget=100)
    assert str(longer) == str(whole)
    rounds = len(short.history["queries"])
    for name, column in short.history.items():
        np.testing.assert_array_equal(longer.history[name][:rounds], column)
