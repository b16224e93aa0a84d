"""The job of the demo, checked with draws that it has never seen."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from supac.cli import jobs


@pytest.fixture(scope="module")
def outcome() -> jobs.Outcome:
    return jobs.run(jobs.synthetic_job(), budget=60, seed=0, checks=4_000)


def test_the_check_is_of_fresh_draws(outcome: jobs.Outcome) -> None:
    fresh = outcome.job.risk(outcome.result.sample(40_000, 99))
    error = np.hypot(outcome.checked_error, fresh.std() / np.sqrt(len(fresh)))
    assert outcome.checked_risk == pytest.approx(fresh.mean(), abs=4.0 * error)
    assert outcome.true_risk < outcome.checked_risk < outcome.prior_risk
    assert outcome.checked_objective == pytest.approx(
        outcome.checked_risk + 0.1 * outcome.result.kl
    )


def test_tables_hold_every_digit(
    outcome: jobs.Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "drawing_is_possible", lambda: False)
    written = jobs.write_outcome(outcome, tmp_path)
    assert [path.name for path in written] == ["history.csv", "evaluations.csv"]
    with written[1].open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["risk"]) for row in rows] == outcome.result.evaluations.risk.tolist()
    assert [float(row["x3"]) for row in rows] == outcome.result.x[:, 3].tolist()
