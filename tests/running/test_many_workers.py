"""Batches for many workers: chosen once, kept in the store, and told."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray

PLANE = supac.gaussian([0.0, 0.0], np.eye(2))


def outputs(x: FloatArray) -> FloatArray:
    return np.array([x[0] - 1.0, x[1] + 0.5, x[0] * x[1]])


def quick(x: FloatArray) -> FloatArray:
    time.sleep(0.05)
    return outputs(x)


RISK = supac.Composite(quick, supac.Welsch(3.0))


def minimize(execution: Any, **options: Any) -> supac.Result:
    settings: dict[str, Any] = {"budget": 160, **options}
    return supac.minimize(RISK, PLANE, supac.Catoni(0.05), execution=execution, **settings)


def test_batches_follow_many_workers_and_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A resume on another number of workers goes on with the same batches, to the same bits."""
    whole, broken = tmp_path / "whole.supac", tmp_path / "broken.supac"
    with ThreadPoolExecutor(40) as many, ThreadPoolExecutor(3) as few:
        where = supac.Execution(many, progress="log")
        expected = minimize(where, store=whole)
        said = capsys.readouterr().err
        assert "batches of 32 runs for many workers" in said
        assert "% of 40 workers busy" in said
        minimize(many, store=broken, callback=lambda done: done.queries >= 32)
        again = supac.resume(broken, RISK, execution=few)
    record = supac.read_store(whole)
    assert record.batches == (32, 32)
    assert [len(each.ids) for each in record.rounds][:2] == [32, 32]
    assert again.posterior == expected.posterior
    assert record.ending is not None
    (fresh,) = record.ending.validation  # at once: two halves would keep half of them busy
    assert len(fresh.ids) == 20


def test_few_workers_or_a_size_of_ones_own_leave_batches_alone() -> None:
    with ThreadPoolExecutor(16) as some, ThreadPoolExecutor(40) as many:
        alone = minimize(None, budget=40)
        assert minimize(some, budget=40).posterior == alone.posterior
        four = supac.SuPAC(batch=4)
        one = minimize(None, budget=40, algorithm=four)
        assert minimize(many, budget=40, algorithm=four).posterior == one.posterior
