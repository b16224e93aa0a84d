"""Ids of runs, and runs of an earlier process found by their points."""

from __future__ import annotations

import numpy as np

from supac.record.run import Purpose, Round, Run, RunIndex, Status
from supac.search.algorithm import Info

POINTS = np.arange(10.0).reshape(5, 2)


def run(number: int, row: int, purpose: Purpose = "search", task: int = 0) -> Run:
    return Run(number, POINTS[row], Status.OK, 0.1, purpose=purpose, task=task)


def index_of(*runs: Run, told: tuple[int, ...] = (), task: int = 0) -> RunIndex:
    rounds = [Round(told, None, Info(0.1, 0.1, 0.1), task)]
    return RunIndex(runs, rounds if told else [], task)


def test_ids_begin_after_the_runs_that_were_told() -> None:
    index = index_of(run(0, 0), run(1, 1), told=(0, 1))
    assert [index.reserve() for _ in range(3)] == [2, 3, 4]
    assert index.reserve() == 5


def test_an_id_that_is_taken_is_not_given_twice() -> None:
    index = index_of(run(0, 0), run(1, 1), run(7, 2, "certificate"), told=(0,))
    assert [index.reserve() for _ in range(3)] == [8, 2, 3]


def test_a_run_is_found_once_by_point_and_purpose() -> None:
    index = index_of(run(0, 0), run(1, 1), run(2, 1), run(3, 1, "validation"), told=(0,))
    assert index.find(POINTS[0], "search") is None  # it was learnt from
    found = [index.find(POINTS[1], "search") for _ in range(3)]
    assert [None if each is None else each.id for each in found] == [1, 2, None]
    kept = index.find(POINTS[1], "validation")
    assert kept is not None
    assert kept.id == 3


def test_a_point_that_another_machine_rounded_otherwise_is_found() -> None:
    index = index_of(run(0, 1, "validation"), run(1, 2, "validation"))
    assert index.find(POINTS[1] * (1.0 + 1e-9), "validation") is None  # another point
    assert index.find(POINTS[1] * (1.0 + 1e-15), "search") is None
    found = index.find(POINTS[1] * (1.0 + 1e-15), "validation")
    assert found is not None
    assert found.id == 0
    assert index.find(POINTS[1], "validation") is None


def test_all_searches_are_taken_at_once_in_their_order() -> None:
    index = index_of(run(4, 1), run(2, 2), run(3, 3, "validation"))
    assert [each.id for each in index.take_searches()] == [2, 4]
    assert index.take_searches() == []


def test_tasks_have_ids_of_their_own() -> None:
    runs = run(0, 0), run(0, 1, task=1), run(1, 2, task=1)
    assert index_of(*runs, task=0).find(POINTS[1], "search") is None
    other = index_of(*runs, task=1)
    found = other.find(POINTS[1], "search")
    assert found is not None
    assert (found.task, found.id) == (1, 0)


def test_imported_runs_are_adopted_once() -> None:
    old = Run(0, POINTS[0], Status.OK, 0.2, source="table.csv")
    index = index_of(old)
    again = Run(-1, POINTS[0], Status.OK, 0.2, source="table.csv")
    new = Run(-1, POINTS[1], Status.OK, 0.3, source="table.csv")
    assert [(each.id, each.risk) for each in index.adopt([again, new])] == [(0, 0.2), (1, 0.3)]
    assert index.adopt([]) == []
