"""Where and how runs are made, as one value."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import supac


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "fast"}, 'mode must be "batch" or "async", not \'fast\''),
        ({"mode": "async"}, r'mode="async" needs workers, such as Execution\(4, mode="async"\)'),
        ({"timeout": 0.0}, "timeout must be a positive number of seconds, not 0.0"),
        ({"timeout": np.nan}, "timeout must be a positive number of seconds, not nan"),
        ({"timeout": "1 min"}, "timeout must be a positive number of seconds, not '1 min'"),
        ({"retries": -1}, "retries must be a whole number, 0 or more, not -1"),
        ({"retries": 1.5}, "retries must be a whole number, 0 or more, not 1.5"),
        ({"on_failure": "ignore"}, 'on_failure must be "raise", "penalise" or "drop", not'),
        ({"max_failures": 1.1}, "max_failures must be a share from 0 to 1, not 1.1"),
        ({"max_failures": np.nan}, "max_failures must be a share from 0 to 1, not nan"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        supac.Execution(**options)


def test_workers_are_a_shorthand() -> None:
    assert supac.Execution.of(None) == supac.Execution()
    assert supac.Execution.of(8) == supac.Execution(workers=8)
    given = supac.Execution(2, mode="async")
    assert supac.Execution.of(given) is given
    with ThreadPoolExecutor(1) as pool:
        assert supac.Execution.of(pool).workers is pool
    for word in (True, np.True_):
        with pytest.raises(TypeError, match="execution must be an Execution or its workers"):
            supac.Execution.of(word)


def test_it_knows_which_arguments_were_given() -> None:
    assert supac.Execution().given == frozenset()
    where = supac.Execution(8, "batch", timeout=5.0)
    assert where.given == {"workers", "timeout"}
    assert replace(where, retries=1).given == {"workers", "timeout", "retries"}


def test_a_failed_run_counts_as_the_ceiling_where_there_is_one() -> None:
    penalise = supac.Execution(on_failure="penalise")
    assert penalise.failure_risk(supac.Catoni(0.1, ceiling=2.0)) == 2.0
    for policy in ("raise", "drop"):
        other = supac.Execution(on_failure=policy)
        assert other.failure_risk(supac.Catoni(0.1, ceiling=2.0)) is None
    with pytest.raises(ValueError, match="has no attribute `ceiling`; give it one"):
        penalise.failure_risk(object())
