"""The scheduler: order, ids, purposes, tasks, interruptions, and what an error hands over."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.problem import Planned, Role
from supac.record.record import Record
from supac.record.run import Run, Status
from supac.running.interrupt import Interrupt, Interrupted
from supac.running.runner import Runner
from waiting import PATIENCE, until

X = np.linspace(-1.0, 1.0, 14).reshape(7, 2)


def square(x: FloatArray) -> float:
    return float(x @ x)


def runner_of(risk: Any = square, **options: Any) -> Runner:
    where = supac.Execution.of(options.pop("execution", None))
    record = options.pop("record", None) or Record.of_runs(risk, 2)
    return Runner([risk], where, record, **options)


def test_runs_come_back_in_the_order_of_asking_whatever_ends_first() -> None:
    def uneven(x: FloatArray) -> float:
        time.sleep(0.05 * float(x[0] < 0.0))
        return square(x)

    with ThreadPoolExecutor(4) as threads:
        runner = runner_of(uneven, execution=threads)
        runs = runner.run(X)
    assert [run.id for run in runs] == list(range(7))
    np.testing.assert_array_equal([run.x for run in runs], X)
    np.testing.assert_array_equal([run.risk for run in runs], [square(x) for x in X])


def test_ids_go_on_where_they_ended() -> None:
    runner = runner_of()
    assert [run.id for run in runner.run(X[:3])] == [0, 1, 2]
    assert [run.id for run in runner.run(X[3:], "validation")] == [3, 4, 5, 6]


def test_every_run_is_in_the_record_before_anybody_learns_of_it() -> None:
    record = Record.of_runs(square, 2)
    seen: list[int] = []

    def watch(runs: Any) -> None:
        known = {run.id for run in record.light_runs}
        seen.extend(run.id for run in runs)
        assert all(run.id in known for run in runs)

    runner_of(record=record, watch=watch).run(X)
    assert seen == list(range(7))


def test_a_long_failure_message_is_cut() -> None:
    def wordy(x: FloatArray) -> float:
        raise ArithmeticError("1 " * 10**6)

    runner = runner_of(wordy, execution=supac.Execution(on_failure="drop"))
    (run,) = runner.run(X[:1])
    assert len(run.message) == 2_000
    assert run.message.startswith("ArithmeticError: 1 1 ")


def test_tasks_have_points_ids_and_risks_of_their_own() -> None:
    def cube(x: FloatArray) -> float:
        return float(x[0] ** 3)

    for workers in (None, 2):
        runner = Runner(
            [square, cube], supac.Execution(workers), Record.of_runs(square, 2),
            ceilings=[None, None],
        )  # fmt: skip
        runs = runner.run_tasks(
            {task: [Planned(x) for x in points] for task, points in ((1, X[:4]), (0, X[2:]))}
        )
        runner.close()
        np.testing.assert_array_equal([run.risk for run in runs[0]], [square(x) for x in X[2:]])
        np.testing.assert_array_equal([run.risk for run in runs[1]], [cube(x) for x in X[:4]])
        assert [(run.task, run.id) for run in runs[1]] == [(1, i) for i in range(4)]


def test_a_vectorized_risk_is_called_once() -> None:
    shapes = []

    def many(x: FloatArray) -> FloatArray:
        shapes.append(x.shape)
        return (x**2).sum(axis=1)

    runner = runner_of(many, execution=supac.Execution(vectorized=True))
    assert len(runner.run(X)) == 7
    assert shapes == [(7, 2)]


def test_a_purpose_finds_only_its_own_runs(tmp_path: Path) -> None:
    calls: list[FloatArray] = []

    def counted(x: FloatArray) -> float:
        calls.append(x)
        return square(x)

    path = tmp_path / "runs.supac"
    for purpose in ("certificate", "prediction", "certificate"):
        with Record.of_runs(counted, 2, path) as record:
            runs = runner_of(counted, record=record).run(X, purpose)
        assert {run.purpose for run in runs} == {purpose}
    assert len(calls) == 14  # those of the last time were there


def test_a_stop_leaves_undone_what_has_not_begun() -> None:
    interrupt, begun = Interrupt(), []

    def slow(x: FloatArray) -> float:
        begun.append(x)
        if len(begun) == 3:
            interrupt._asked = True
        return square(x)

    record = Record.of_runs(slow, 2)
    with pytest.raises(Interrupted):
        runner_of(slow, record=record, interrupt=interrupt).run(X)
    assert len(begun) == len(record.light_runs) == 3


def test_a_stop_waits_for_what_has_begun(tmp_path: Path) -> None:
    interrupt = Interrupt()

    def slow(x: FloatArray) -> float:
        (tmp_path / str(x)).touch()
        time.sleep(1.0)
        return square(x)

    def stop() -> None:
        until(lambda: len(list(tmp_path.iterdir())) == 2)
        interrupt._asked = True

    record = Record.of_runs(slow, 2)
    with ThreadPoolExecutor(2) as threads:
        runner = runner_of(slow, record=record, execution=threads, interrupt=interrupt)
        threading.Thread(target=stop).start()
        with pytest.raises(Interrupted):
            runner.run(X)
    assert 2 <= len(record.light_runs) <= 4


def test_an_error_hands_over_the_runs_that_were_made() -> None:
    def fragile(x: FloatArray) -> float:
        if x[0] > 0.5:
            raise RuntimeError("too hot")
        return square(x)

    prior = supac.gaussian(np.zeros(2), np.eye(2))
    with pytest.raises(supac.EvaluationError, match="too hot") as caught:
        supac.minimize(fragile, prior, supac.Catoni(0.1), budget=40)
    made = caught.value.runs
    assert made
    assert all(isinstance(run, Run) and run.ok for run in made)
    np.testing.assert_array_equal([run.risk for run in made], [square(run.x) for run in made])


def test_an_unloadable_simulator_is_said_before_any_run() -> None:
    def load() -> Any:
        raise OSError("no licence")

    for workers in (None, 2):
        runner = runner_of(supac.PerWorker(load), execution=workers)
        with pytest.raises(supac.EvaluationError, match=r"no licence.*no run can be made"):
            runner.run(X)
        runner.close()


def test_a_run_that_hangs_among_quick_ones_is_noted(tmp_path: Path) -> None:
    go_on, record = tmp_path / "go_on", Record.of_runs(square, 2)

    def one_hangs(x: FloatArray) -> float:
        deadline = time.monotonic() + PATIENCE
        while x[0] == 9.0 and not go_on.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.02)
        return square(x)

    def open_ends() -> set[int]:
        return {i for (_, i), span in record.timeline.items() if np.isnan(span.ended)}

    with ThreadPoolExecutor(2) as threads:
        runner = runner_of(one_hangs, execution=threads, record=record)
        runner.queue(Planned(np.zeros(2)))
        while not runner.collect():  # the first are noted: nobody knows yet how long runs take
            pass
        hung, deadline = runner.queue(Planned(np.array([9.0, 0.0]))), time.monotonic() + PATIENCE
        noted: set[int] = set()
        while hung not in noted and time.monotonic() < deadline:
            runner.queue(Planned(np.zeros(2)))
            runner.collect(2)
            noted |= open_ends()
        go_on.touch()
        while runner.under_way:
            runner.collect()
    assert hung in noted
    assert record.timeline[0, hung].ended - record.timeline[0, hung].started > 1.0


def test_imported_runs_are_refused_by_the_constraints_of_here() -> None:
    """A point that was refused elsewhere and is allowed here was never simulated."""

    class Allowed:
        def refuses(self, x: FloatArray) -> str:
            return "too hot" if x[0] > 0.8 else ""

        def __call__(self, x: FloatArray) -> float:
            return square(x)

    known = replace(
        supac.KnownRuns.of_arrays(X, risk=np.array([square(x) for x in X])),
        statuses=(Status.REFUSED, *[Status.OK] * 5, Status.REFUSED),
        messages=("too cold", *[""] * 5, "too hot there, too"),
    )
    runs = runner_of(Allowed()).adopt(known, 3)
    np.testing.assert_array_equal([run.x for run in runs], X[1:])
    assert [run.status for run in runs] == [*[Status.OK] * 5, Status.REFUSED]
    assert runs[-1].message == "too hot"
    assert {(run.role, run.step) for run in runs} == {(Role.KNOWN, 3)}
