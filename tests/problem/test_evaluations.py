"""Runs as columns: appended, selected, and what failed ones count as."""

from __future__ import annotations

import numpy as np
import pytest

import supac
from supac.problem import Evaluations, Role

LINE = supac.gaussian([0.0], [1.0])
SHIFTED = supac.gaussian([1.0], [1.0])


def some() -> Evaluations:
    """Three runs in two batches, the second of which failed."""
    first = Evaluations.none(1).append(np.array([[0.0], [1.0]]), np.array([0.5, np.nan]), LINE)
    return first.append(np.array([[2.0]]), np.array([0.8]), SHIFTED, role=Role.TELLS)


def test_every_run_knows_what_it_was_drawn_from() -> None:
    runs = some()
    assert len(runs) == 3
    assert runs.failed == 1
    assert runs.proposals == (LINE, SHIFTED)
    assert runs.iteration.tolist() == [0, 0, 1]
    assert runs.drawn.tolist() == [True, True, False]
    assert runs.ok.tolist() == [True, False, True]


def test_columns_are_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        some().risk[0] = 0.0


def test_a_failed_run_is_left_out_or_counts_as_the_worst() -> None:
    runs = some()
    assert runs.usable(None).risk.tolist() == [0.5, 0.8]
    assert runs.usable(1.0).risk.tolist() == [0.5, 1.0, 0.8]
    assert runs.usable(0.1).risk.tolist() == [0.5, 0.8, 0.8]  # failing is never rewarded
    assert runs.usable(None).usable(1.0).risk.tolist() == [0.5, 0.8]


def test_a_run_without_outputs_has_failed_whatever_its_risk() -> None:
    outputs = np.array([[1.0, 2.0], [np.nan, np.nan]])
    runs = Evaluations.none(1).append(np.zeros((2, 1)), np.array([0.5, 3.0]), LINE, outputs)
    assert runs.ok.tolist() == [True, False]
    assert runs.usable(None).risk.tolist() == [0.5, 3.0]
    with pytest.raises(ValueError, match="give outputs for every batch or for none"):
        runs.append(np.zeros((1, 1)), np.zeros(1), LINE)


def test_some_of_the_runs() -> None:
    runs = some()
    assert runs.latest(9) is runs
    assert runs.latest(2).x.tolist() == [[1.0], [2.0]]
    assert runs.select(np.array([2, 0])).risk.tolist() == [0.8, 0.5]
    assert runs.minus(np.array([0.1, 0.1, 0.2])).risk.tolist() == pytest.approx(
        [0.4, np.nan, 0.6], nan_ok=True
    )
