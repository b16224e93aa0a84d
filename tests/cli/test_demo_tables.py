"""The tables that the demo writes."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import supac
from supac.cli import demo


def test_tables_hold_every_digit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = demo._synthetic_job()
    many = supac.Execution(vectorized=True)
    result = supac.minimize(job.risk, job.parameters, job.bound, budget=60, execution=many)
    monkeypatch.setattr(demo, "drawing_is_possible", lambda: False)
    written = demo._write(job, result, tmp_path)
    assert [path.name for path in written] == ["report.html", "history.csv", "evaluations.csv"]
    with written[2].open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["risk"]) for row in rows] == result.evaluations.risk.tolist()
    assert [float(row["x3"]) for row in rows] == result.x[:, 3].tolist()
