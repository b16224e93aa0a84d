"""How often a search began, what each beginning ended at, and whether they agree."""

from __future__ import annotations

from copy import copy
from functools import cache

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.record.record import Record
from supac.record.run import Round
from supac.report import write_report
from supac.report.beginnings import (
    Beginning,
    beginnings,
    rivals,
    words_on_beginnings,
    words_on_rival,
)
from supac.report.live import make_live_page
from supac.search.algorithm import Info
from supac.search.restart import SETTLED

SPACE = supac.gaussian(np.zeros(2), np.eye(2))


def risk(z: FloatArray) -> FloatArray:
    """A hole that is narrower than a first batch can see."""
    return np.asarray(1.0 - 0.9 * np.exp(-0.5 * ((z - 1.5) ** 2).sum(axis=1) / 0.15**2))


@cache
def searched(budget: int, *, smooth: bool = False) -> supac.Result:
    return supac.minimize(
        (lambda z: 0.1 * ((z - 0.5) ** 2).sum(axis=1)) if smooth else risk,
        SPACE,
        supac.Catoni(0.01),
        budget=budget,
        seed=0,
        execution=supac.Execution(vectorized=True),
    )


def at(x: float, sd: float, objective: float = 0.5) -> Beginning:
    return Beginning(10, objective, supac.gaussian(np.full(2, x), sd**2 * np.eye(2)))


def test_beginnings_divide_the_runs_of_a_search() -> None:
    result = searched(60)
    found = beginnings(result.record)
    began = sum("began again" in n for each in result.record.rounds for n in each.info.notes)
    assert began  # otherwise the test shows nothing
    assert len(found) == began + 1
    assert sum(each.runs for each in found) == sum(len(e.ids) for e in result.record.rounds)
    assert found[-1].objective == result.record.rounds[-1].info.predicted
    told = words_on_beginnings(result.record)
    assert told.startswith(f"The search began {len(found)} times, and ended at objectives of ")


def test_one_beginning_is_no_second_opinion() -> None:
    told = words_on_beginnings(searched(20, smooth=True).record)
    assert told.startswith("The search began once.")


def test_the_page_and_the_report_tell_it(tmp_path: object) -> None:
    result = searched(60)
    told = words_on_beginnings(result.record)
    assert told in make_live_page(result.record)
    path = f"{tmp_path}/report.html"
    write_report(result, path)
    with open(path, encoding="utf-8") as file:
        assert told in file.read()
    assert "beginnings" in str(result.summary())


@pytest.mark.parametrize(
    ("one", "other", "agree"),
    [
        (at(0.0, 0.1), at(0.1, 0.1), True),
        (at(0.0, 0.1), at(2.0, 0.1), False),
        (at(0.0, 1.0), at(2.0, 0.1), False),  # from the narrow one, the wide one is elsewhere
        (at(0.0, 0.1), Beginning(10, 0.5, None), False),
    ],
)
def test_beginnings_agree_where_each_has_explored_the_other(
    one: Beginning, other: Beginning, agree: bool
) -> None:
    assert one.agrees(other) is agree
    assert other.agrees(one) is agree


def record_of(found: list[Beginning]) -> Record:
    """A record of one round a beginning, which ended at these objectives."""
    start = searched(20, smooth=True).record
    infos = [Info(predicted=each.objective, notes=(SETTLED,)) for each in found[:-1]]
    infos.append(Info(predicted=found[-1].objective))
    ids = [(run,) for run in start.rounds[0].ids[: len(found)]]
    rounds = [
        Round(run, each.posterior, info) for run, each, info in zip(ids, found, infos, strict=True)
    ]
    record = copy(start)
    record.rounds = rounds
    return record


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (at(2.0, 0.1, 0.52), True),  # two nats higher
        (at(2.0, 0.1, 0.54), False),  # four nats higher
        (at(0.1, 0.1, 0.5), False),  # the same place
        (Beginning(10, float("nan"), None), False),
    ],
)
def test_another_valley_that_fits_as_well_is_told(other: Beginning, told: bool) -> None:
    record = record_of([at(0.0, 0.1), other])
    found = rivals(record, 0.01)
    assert len(found) == told
    if told:
        words = words_on_rival(record, found[0])
        assert words.startswith("objective 0.52 around x0 2, x1 2, and ")
        assert words.endswith("seen it")
