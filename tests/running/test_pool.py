from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.record.run import Status
from supac.running import Answer, InProcessPool, Request, Simulator, WorkerPool, open_pool
from supac.running.futures import FuturesPool

POINTS = np.arange(5.0)[:, None]


def rows(x: FloatArray) -> FloatArray:
    return 10.0 * x[:, 0]


def squares(x: FloatArray) -> float:
    return float(x[0] ** 2)


def collected(pool: WorkerPool) -> list[Answer]:
    found = []
    while len(pool):
        found += pool.collect(1.0)
    pool.close()
    return found


def values(answers: list[Answer]) -> dict[int, float]:
    return {answer.id: float(np.asarray(answer.values)) for answer in answers}


@pytest.mark.parametrize(("workers", "timeout"), [(None, None), (None, 30.0), (2, None)])
def test_the_task_of_a_request_chooses_the_simulator(workers: Any, timeout: float | None) -> None:
    simulators = [Simulator(rows, "risk", 0, vectorized=True), Simulator(squares, "risk", 0)]
    pool = open_pool(supac.Execution(workers, timeout=timeout, retries=0), simulators)
    for number, x in enumerate(POINTS):
        pool.submit(Request(100 + number, x, task=number % 2))
    assert len(pool) == 5
    assert values(collected(pool)) == {100: 0.0, 101: 1.0, 102: 20.0, 103: 9.0, 104: 40.0}


def test_a_vectorized_simulator_is_called_once_for_all_points_of_its_task() -> None:
    calls = []

    def counted(x: FloatArray) -> FloatArray:
        calls.append(len(x))
        return rows(x)

    simulators = [Simulator(counted, "risk", 0, vectorized=True), Simulator(squares, "risk", 0)]
    pool = InProcessPool(simulators)
    for number, x in enumerate(POINTS):
        pool.submit(Request(number, x, task=int(number == 1)))
    assert values(pool.collect(0.0)) == {0: 0.0, 2: 20.0, 3: 30.0, 4: 40.0}
    assert len(pool) == 1
    assert values(pool.collect(0.0)) == {1: 1.0}
    assert calls == [4]
    assert pool.collect(0.0) == []


@pytest.mark.parametrize(("one_by_one", "good"), [(False, 0), (True, 4)])
def test_a_batch_that_raises_is_tried_one_by_one_if_asked(one_by_one: bool, good: int) -> None:
    def fragile(x: FloatArray) -> FloatArray:
        if (x == 3.0).any():
            raise ValueError("three")
        return rows(x)

    simulators = [Simulator(fragile, "risk", 0, vectorized=True)]
    pool = open_pool(supac.Execution(on_failure="drop" if one_by_one else "raise"), simulators)
    for number, x in enumerate(POINTS):
        pool.submit(Request(number, x))
    statuses = [answer.status for answer in collected(pool)]
    assert statuses.count(Status.OK) == good
    assert statuses[3] is Status.RAISED


@pytest.mark.parametrize("workers", [None, 1])
def test_a_simulator_that_cannot_be_loaded_is_an_answer(workers: Any) -> None:
    def load() -> Any:
        raise RuntimeError("no licence")

    simulators = [Simulator(supac.PerWorker(load), "risk", 0), Simulator(squares, "risk", 0)]
    pool = open_pool(supac.Execution(workers, retries=0), simulators)
    pool.submit(Request(7, POINTS[0]))
    pool.submit(Request(8, POINTS[2], task=1))
    bad, good = sorted(collected(pool), key=lambda answer: answer.id)
    assert bad.unloaded
    assert bad.id == 7
    assert "could not be loaded: RuntimeError: no licence" in bad.message
    assert values([good]) == {8: 4.0}


def test_loading_does_not_count_against_the_timeout_of_any_task() -> None:
    def load() -> Any:
        import time  # noqa: PLC0415

        time.sleep(2.5)
        return squares

    simulators = [Simulator(supac.PerWorker(load), "risk", 0) for _ in range(2)]
    pool = open_pool(supac.Execution(1, timeout=2.0, retries=0), simulators)
    for task in range(2):
        pool.submit(Request(task, POINTS[2], task=task))
    answers = collected(pool)
    assert values(answers) == {0: 4.0, 1: 4.0}
    assert all(answer.seconds < 2.0 for answer in answers)


def test_what_has_not_begun_is_taken_back() -> None:
    pool = InProcessPool([Simulator(squares, "risk", 0)])
    for number, x in enumerate(POINTS):
        pool.submit(Request(number, x))
    assert values(pool.collect(0.0)) == {0: 0.0}
    pool.cancel()
    assert len(pool) == 0
    assert pool.collect(0.0) == []


def mixed_up(retries: int, times: int) -> tuple[FuturesPool, list[int]]:
    """A pool whose workers answer with the id of another run, the first times."""
    asked: list[int] = []

    def start(request: Request) -> Future[Answer]:
        asked.append(request.id)
        number = request.id + (len(asked) <= times)
        future: Future[Answer] = Future()
        future.set_result(Answer(Status.OK, np.array(float(request.x[0])), id=number))
        return future

    return FuturesPool(start, lambda: 1, lambda: None, retries), asked


def test_an_answer_to_another_request_is_not_taken() -> None:
    pool, asked = mixed_up(retries=1, times=1)
    pool.submit(Request(3, POINTS[3]))
    assert values(collected(pool)) == {3: 3.0}
    assert asked == [3, 3]


def test_a_worker_that_only_answers_others_is_lost() -> None:
    pool, asked = mixed_up(retries=1, times=9)
    pool.submit(Request(3, POINTS[3]))
    (answer,) = collected(pool)
    assert (answer.id, answer.status, answer.values) == (3, Status.CRASHED, None)
    assert "it answered run 4 instead" in answer.message
    assert asked == [3, 3]


def test_answers_come_in_the_order_of_their_ids() -> None:
    futures: dict[int, Future[Answer]] = {}

    def start(request: Request) -> Future[Answer]:
        return futures.setdefault(request.id, Future())

    pool = FuturesPool(start, lambda: 2, lambda: None)
    for number in range(4):
        pool.submit(Request(number, POINTS[number]))
    for number in (3, 1):
        futures[number].set_result(Answer(Status.OK, np.array(0.0), id=number))
    assert [answer.id for answer in pool.collect(0.0)] == [1, 3]
    assert len(pool) == 2
    futures[0].set_running_or_notify_cancel()
    pool.cancel()
    assert len(pool) == 1  # it has begun
