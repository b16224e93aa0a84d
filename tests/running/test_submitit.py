"""Executors of submitit, whose jobs are no futures: here those of its local executor."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from extras import needs
from supac.arrays import FloatArray

needs("submitit")
PLANE = supac.gaussian([0.0, 0.0], np.eye(2))
QUICK = supac.SuPAC(supac.Voronoi(draws=200), supac.FixedStep(), first=3, batch=2)


def minimize(risk: Any, execution: Any = None) -> supac.Result:
    options: dict[str, Any] = {"budget": 3, "algorithm": QUICK, "validation": 0}
    return supac.minimize(risk, PLANE, supac.Catoni(0.05), execution=execution, **options)


def local(folder: Path) -> Any:
    from submitit import LocalExecutor  # noqa: PLC0415

    return LocalExecutor(folder)


def test_runs_are_jobs_of_submitit_and_a_killed_one_is_made_again(tmp_path: Path) -> None:
    """The bits of one process, though the machine takes a job once."""
    first = tmp_path / "first"

    def risk(x: FloatArray) -> float:
        if not first.exists():
            first.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return 0.5 + 0.3 * float(np.sin(x).mean())

    where = supac.Execution(local(tmp_path / "jobs"), capacity=1)
    result = minimize(risk, where)
    assert result.posterior == minimize(risk).posterior
    assert len(list((tmp_path / "jobs").glob("*_result.pkl"))) == 3
    (loss,) = result.record.losses
    assert "ended without an answer" in loss.reason


def test_how_many_jobs_there_may_be_is_asked_for(tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match=r"LocalExecutor does not say how many .*capacity=N"):
        pool = supac.running.open_pool(supac.Execution(local(tmp_path)), [])
    assert pool.capacity == 8
    pool.close()
