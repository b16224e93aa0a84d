"""The one value that says where and how runs are made."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import supac
from supac.running.execution import Execution


def test_workers_are_enough() -> None:
    assert Execution.of(None) == Execution()
    assert Execution.of(8) == Execution(workers=8)
    assert Execution.of("tcp://127.0.0.1:8786").workers == "tcp://127.0.0.1:8786"
    with ThreadPoolExecutor(1) as threads:
        assert Execution.of(threads).workers is threads
    given = Execution(4, timeout=60.0)
    assert Execution.of(given) is given


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "fast"}, 'mode must be "batch" or "async"'),
        ({"mode": "async"}, "needs workers"),
        ({"timeout": 0.0}, "timeout must be a positive number of seconds"),
        ({"timeout": "1 h"}, "timeout must be a positive number of seconds"),
        ({"retries": -1}, "retries"),
        ({"on_failure": "ignore"}, "on_failure must be"),
        ({"max_failures": 1.5}, "max_failures must be a share"),
    ],
)
def test_mistakes_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Execution(**options)


def test_true_is_no_number_of_workers() -> None:
    with pytest.raises(TypeError, match="execution must be"):
        Execution.of(True)


def test_a_failed_run_counts_as_the_ceiling_only_where_it_is_penalised() -> None:
    bound = supac.Catoni(0.1, ceiling=3.0)
    assert Execution().failure_risk(bound) is None
    assert Execution(on_failure="drop").failure_risk(bound) is None
    assert Execution(on_failure="penalise").failure_risk(bound) == 3.0
    with pytest.raises(ValueError, match="no attribute `ceiling`"):
        Execution(on_failure="penalise").failure_risk(object())
