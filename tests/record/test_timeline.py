"""When and where each run was made is in the file, also while it is being made."""

from __future__ import annotations

import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from drivers import Driver
from old_formats import downgrade
from slow_risks import hanging, risk
from supac.record.record import Record, read_store
from supac.record.run import Status
from waiting import until

PLANE = supac.gaussian(np.zeros(2), np.eye(2))
BOUND = supac.Catoni(0.05)


def search(store: Path, function: Any = risk, **options: Any) -> supac.Result:
    return supac.minimize(function, PLANE, BOUND, budget=24, store=store, **options)


def check_spans(record: Record, workers: int) -> None:
    """Every run has a span; those of a worker do not overlap, and hold the run's own seconds."""
    assert set(record.timeline) == {(0, run.id) for run in record.light_runs}
    lanes: dict[str, list[tuple[float, float]]] = {}
    for run in record.light_runs:
        span = record.timeline[0, run.id]
        assert span.ended - span.started >= run.seconds - 0.01
        lanes.setdefault(span.worker, []).append((span.started, span.ended))
    assert len(lanes) == workers
    for spans in lanes.values():
        spans.sort()
        assert all(a[1] <= b[0] for a, b in pairwise(spans))


def test_each_run_has_its_times_and_its_worker(tmp_path: Path) -> None:
    before = time.time()
    results = [search(tmp_path / f"{n}.supac", execution=n) for n in (None, 1, 2)]
    for count, name in ((1, "None"), (1, "1"), (2, "2")):
        record = read_store(tmp_path / f"{name}.supac")
        check_spans(record, count)
        starts = [span.started for span in record.timeline.values()]
        assert before <= min(starts) <= max(starts) <= time.time()
    assert len({str(each) for each in results}) == 1  # no result depends on it


def test_runs_of_an_executor_and_of_a_vectorized_simulator(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as threads:
        search(tmp_path / "a.supac", execution=threads)
    check_spans(read_store(tmp_path / "a.supac"), 2)
    many = supac.Execution(vectorized=True)
    search(tmp_path / "b.supac", lambda x: np.tanh(0.1 * np.sum(x**2, axis=1)), execution=many)
    check_spans(read_store(tmp_path / "b.supac"), 1)


def test_a_run_that_was_killed_has_its_span(tmp_path: Path) -> None:
    execution = supac.Execution(2, timeout=3.0, on_failure="penalise")
    search(tmp_path / "run.supac", hanging, execution=execution)
    record = read_store(tmp_path / "run.supac")
    killed = [run for run in record.light_runs if run.status is Status.TIMED_OUT]
    assert killed
    for run in killed:
        span = record.timeline[0, run.id]
        assert 2.95 < span.ended - span.started < 60.0  # it hangs for longer


DRIVER = """
import sys
import supac
from slow_risks import hanging, slow

store, workers = sys.argv[1], int(sys.argv[2]) or None
plane, bound = supac.gaussian([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]]), supac.Catoni(0.05)
risk = hanging if workers else slow
supac.minimize(risk, plane, bound, budget=24, store=store, execution=workers)
"""


def watched(store: Path) -> tuple[Record, list[tuple[int, int]]]:
    """Wait for a run in progress: return the record, and the runs that have no end yet."""
    seen: list[tuple[Record, list[tuple[int, int]]]] = []

    def look() -> bool:
        with suppress(supac.StoreError, FileNotFoundError):  # it is just being created
            record = read_store(store)
            begun = [key for key, span in record.timeline.items() if np.isnan(span.ended)]
            if begun and record.light_runs:
                seen.append((record, begun))
        return bool(seen)

    until(look)
    return seen[0]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_in_progress_is_seen_by_another_process(tmp_path: Path, workers: int) -> None:
    store = tmp_path / "run.supac"
    driver = Driver(DRIVER, store, workers)
    try:
        record, begun = watched(store)
        assert record.running
        made = {(run.task, run.id) for run in record.light_runs}
        assert not made & set(begun)
        for key in begun:  # its point is known before it has ended
            point = record.timeline[key].x
            assert point is not None
            assert point.shape == (2,)
    finally:
        driver.kill()
        driver.end()
    again = read_store(store)
    assert not again.running
    execution = supac.Execution(2, timeout=3.0, on_failure="penalise")
    search(store, hanging, execution=execution)
    assert all(span.ended > span.started for span in read_store(store).timeline.values())


def test_a_file_without_a_timeline_is_read_and_gone_on_with(tmp_path: Path) -> None:
    store = tmp_path / "run.supac"
    told = str(search(store))
    downgrade(store, 2)
    record = read_store(store)
    assert record.timeline == {}
    assert str(record.result()) == told
    longer = supac.minimize(risk, PLANE, BOUND, budget=40, store=store)
    assert str(longer) == str(supac.minimize(risk, PLANE, BOUND, budget=40))
    record = read_store(store)
    assert 0 < len(record.timeline) < len(record.light_runs)


def changed(store: Path, statement: str) -> None:
    db = sqlite3.connect(store)
    db.execute(statement)
    db.commit()
    db.close()


@pytest.mark.parametrize("change", ["started = started + 1", "started = 'noon'", "worker = x'ff'"])
def test_a_damaged_timeline_is_left_out_and_begins_again(tmp_path: Path, change: str) -> None:
    store = tmp_path / "run.supac"
    told = str(search(store))
    changed(store, f"UPDATE timeline SET {change} WHERE id = 3")
    record = read_store(store)
    assert record.timeline == {}
    assert str(record.result()) == told
    supac.minimize(risk, PLANE, BOUND, budget=40, store=store)
    record = read_store(store)
    assert 0 < len(record.timeline) < len(record.light_runs)


@pytest.mark.parametrize("table", ["runs", "rounds"])
def test_a_damaged_run_or_round_is_an_error(tmp_path: Path, table: str) -> None:
    store = tmp_path / "run.supac"
    search(store)
    changed(store, f"UPDATE {table} SET checksum = x'00' WHERE task = 0")
    with pytest.raises(supac.StoreDamagedError, match=r"run \d|round \d"):
        read_store(store)


def test_runs_in_progress_of_a_killed_process_are_forgotten(tmp_path: Path) -> None:
    store = tmp_path / "run.supac"
    driver = Driver(DRIVER, store, 2)
    try:
        _, begun = watched(store)
    finally:
        driver.kill()
        driver.end()
    assert set(begun) <= set(read_store(store).timeline)
    settings = read_store(store).settings
    with Record.of_search(store, settings, PLANE.family, kind="minimize", proxy=None):
        pass  # it makes no run
    assert all(span.ended > 0.0 for span in read_store(store).timeline.values())
