"""Simulators that return their columns by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray

TIMES = np.linspace(0.1, 1.0, 6)
PLANE = supac.gaussian(np.zeros(2), np.eye(2))


def by_name(x: FloatArray) -> dict[str, FloatArray]:
    return {"B": x[1] * TIMES, "A": np.sin(x[0] + TIMES), "more": TIMES}


def as_vector(x: FloatArray) -> FloatArray:
    made = by_name(x)
    return np.concatenate([made["A"], made["B"]])


DATA = supac.Observations(
    ("A", "B"), as_vector(np.array([0.5, -0.5])), np.full(12, 0.1), times=TIMES
)


def search(simulate: Any, data: Any = DATA, **options: Any) -> supac.Result:
    risk = supac.Composite(simulate, supac.Welsch(), data)
    return supac.minimize(risk, PLANE, supac.Catoni(0.01), budget=24, **options)


@pytest.mark.slow
@pytest.mark.parametrize("execution", [None, 2])
def test_columns_by_name_are_taken_in_the_order_of_the_data(execution: int | None) -> None:
    named, plain = search(by_name, execution=execution), search(as_vector)
    assert named.objective == plain.objective
    risks = [supac.Composite(each, supac.Welsch(), DATA) for each in (by_name, as_vector)]
    assert risks[0](np.ones(2)) == risks[1](np.ones(2))


def test_what_is_missing_is_told_apart_from_the_point() -> None:
    for answer, words in (
        ({"A": TIMES}, "but not B, which the data have"),
        ({"A": TIMES, "B": TIMES[1:]}, "numbers for B, but the data have 6 rows"),
    ):
        with pytest.raises(supac.EvaluationError) as raised:
            search(lambda x, answer=answer: answer)
        assert f"{words}; the point was " in str(raised.value)
        assert "vectorized" not in str(raised.value)
    with pytest.raises(supac.EvaluationError, match=r"; the point was .*vectorized=True"):
        search(lambda x: x[:, 0])


def test_what_is_missing_is_named() -> None:
    with pytest.raises(supac.EvaluationError, match="returned A, but not B, which the data have"):
        search(lambda x: {"A": TIMES})
    with pytest.raises(supac.EvaluationError, match=r"outputs by name need data .* Observations"):
        search(by_name, None)
    with pytest.raises(supac.EvaluationError, match="with vectorized=True return an array"):
        search(lambda x: {"A": x, "B": x}, execution=supac.Execution(vectorized=True))
