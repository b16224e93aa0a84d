"""A search that is on its way at the end of its budget makes some runs of its validation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

import supac
from supac.arrays import FloatArray
from supac.search.tuning import DEFAULT, Tuning

FAR = supac.Parameters({name: supac.marginals.Normal(0.0, 1.0) for name in "abcd"})
BOUND, QUIET = supac.Catoni(2.0 / 12), supac.Execution(progress=False)
TIMES = np.linspace(0.0, 1.0, 12)
NEVER = replace(DEFAULT, stop=replace(DEFAULT.stop, lent=0.0))


def waves(x: FloatArray) -> FloatArray:
    return (x[0] * np.sin((4.0 + x[1]) * TIMES + x[2]) * np.exp(0.5 * x[3] * TIMES) - 1.5) / 0.01


def search(budget: int, tuning: Tuning = DEFAULT, validation: int | None = None) -> supac.Result:
    return supac.minimize(
        supac.Composite(waves, supac.MeanSquare()),
        FAR,
        BOUND,
        budget=budget,
        validation=validation,
        algorithm=supac.SuPAC(tuning=tuning),
        execution=QUIET,
    )


def validated(result: supac.Result) -> int:
    return sum(run.purpose == "validation" for run in result.record.runs)


def test_a_search_on_its_way_spends_some_of_its_validation() -> None:
    usual, lent = search(30, NEVER), search(30)
    assert (validated(usual), validated(lent)) == (8, 4)
    assert len(usual.record.runs) == len(lent.record.runs) == 30
    for one, other in zip(usual.record.runs[:22], lent.record.runs[:22], strict=True):
        np.testing.assert_array_equal(one.x, other.x)
    assert lent.objective < usual.objective


def test_a_validation_of_your_own_choice_is_made_whole() -> None:
    assert validated(search(30, validation=8)) == 8


def test_a_search_that_has_settled_borrows_nothing() -> None:
    still = lambda x: (x[0] * np.sin(4.0 * TIMES) - 0.1) / 0.5  # noqa: E731
    risk = supac.Composite(still, supac.MeanSquare())
    found = [
        supac.minimize(
            risk, FAR, BOUND, budget=30, algorithm=supac.SuPAC(tuning=each), execution=QUIET
        )
        for each in (NEVER, DEFAULT)
    ]
    assert validated(found[0]) == validated(found[1]) >= 7
    assert found[0].objective == found[1].objective


def test_a_search_stopped_while_it_borrows_ends_as_without(tmp_path: Path) -> None:
    whole = search(30)
    risk, store = supac.Composite(waves, supac.MeanSquare()), tmp_path / "run.supac"
    stop = lambda event: event.queries >= 24  # noqa: E731
    supac.minimize(risk, FAR, BOUND, budget=30, callback=stop, store=store, execution=QUIET)
    resumed = supac.resume(store, risk, execution=QUIET)
    assert resumed.posterior == whole.posterior
    assert resumed.objective == whole.objective
