"""A store much larger than what a reader asks for: no more than that is read."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray

RUNS, OUTPUTS = 160, 1_000
ALL_OUTPUTS = 8 * RUNS * OUTPUTS  # bytes


def simulate(x: FloatArray) -> FloatArray:
    return np.resize(x, OUTPUTS) * np.linspace(0.0, 1.0, OUTPUTS)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "run.supac"
    prior = supac.gaussian(np.zeros(2), np.eye(2))
    quick = supac.SuPAC(supac.FreshDraws(), supac.FixedStep(), first=RUNS // 2, batch=RUNS // 2)
    risk = supac.Composite(simulate, supac.Welsch())
    supac.minimize(
        risk, prior, supac.Catoni(0.05), budget=RUNS, algorithm=quick, validation=0, store=path
    )
    supac.export(path, path.with_name("first.csv"))  # imports what it needs
    return path


def peak(work: Callable[[], Any]) -> tuple[Any, int]:
    """Return the answer, and the largest memory in bytes besides what was there before."""
    tracemalloc.start()
    try:
        return work(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_outputs_are_read_when_they_are_asked_for(store: Path) -> None:
    record, most = peak(lambda: supac.read_store(store))
    assert record.queries == RUNS
    assert most < 0.5 * ALL_OUTPUTS
    evaluations, most = peak(lambda: record.evaluations)
    assert evaluations.outputs.shape == (RUNS, OUTPUTS)
    assert most > ALL_OUTPUTS  # as it must be, so the measure sees them


def test_tables_are_written_row_by_row(store: Path) -> None:
    rows, most = peak(lambda: supac.export(store, store.with_name("runs.csv")))
    assert rows == RUNS
    assert most < 0.5 * ALL_OUTPUTS
    with store.with_name("runs.csv").open() as table:
        widths = [len(line.split(",")) for line in table]
    assert len(widths) == RUNS + 1
    assert set(widths) == {widths[0]}
    assert widths[0] > OUTPUTS
