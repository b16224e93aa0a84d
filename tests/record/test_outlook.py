"""Time left, and what more runs promise, against what came of them."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.record.outlook import Promise, promise, seconds_left
from supac.record.record import Record, read_store
from supac.record.timeline import Span, stretches
from supac.report.standing import standing

PLANE = supac.gaussian(np.zeros(2), np.eye(2))
MIXING = np.random.default_rng(0).normal(size=(20, 2))


def simulate(x: FloatArray) -> FloatArray:
    return 2.0 * np.sin(0.5 * MIXING @ x)


DATA = supac.Observations(("y",), simulate(np.array([-1.0, 1.0])), np.full(20, 0.1))
RISK = supac.Composite(simulate, supac.Welsch(), DATA)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("outlook") / "run.supac"
    supac.minimize(RISK, PLANE, supac.Catoni(0.005), budget=40, store=store)
    return store


@pytest.fixture
def record(ended: Path) -> Record:
    """A search that was read on its way: forty of eighty runs, no ending."""
    found = read_store(ended)
    found.ending, found.running = None, True
    found.settings = replace(found.settings, budget=80)
    return found


def shortened(record: Record, rounds: int) -> Record:
    return Record(record.settings, record.family, runs=record.light_runs,
                  rounds=record.rounds[:rounds])  # fmt: skip


def test_the_pace_of_the_last_runs_tells_the_time_left(record: Record) -> None:
    keys = [(0, run.id) for run in record.made]
    # A process that paused for an hour, then two workers with a run of 10 s each.
    record.timeline = {
        key: Span(0.0, 10.0) if i < 20 else Span(s := 4000.0 + 10.0 * ((i - 20) // 2), s + 10.0)
        for i, key in enumerate(keys)
    }
    assert seconds_left(record, now=4100.0) == pytest.approx(40 * 100.0 / 20)
    assert stretches(record.timeline.values(), 4100.0) == [(0.0, 10.0), (4000.0, 4100.0)]
    record.timeline = {(0, 99): Span(5.0)}  # the first run has not ended
    assert math.isnan(seconds_left(record, now=9.0))
    record.timeline = {}
    assert math.isnan(seconds_left(record, now=9.0))


def test_nothing_is_promised_before_predictions_were_tested(record: Record) -> None:
    for rounds in (0, 1, 2, 3):
        assert "too early" in promise(shortened(record, rounds)).sentence
    assert math.isfinite(promise(record).noise)


@pytest.mark.slow
def test_promises_are_kept(tmp_path: Path) -> None:
    """Of all rounds of two searches, nearly all gained in 20 runs what they had promised."""
    kept = []
    for temperature in (0.05, 0.005):
        store, bound = tmp_path / f"{temperature}.supac", supac.Catoni(temperature)
        supac.minimize(RISK, PLANE, bound, budget=79, validation=0, store=store)
        result = supac.resume(store, RISK, budget=80)  # all of it, also after it had settled
        record, history = result.record, result.history
        for i, queries in enumerate(history["queries"]):
            found = promise(shortened(record, i + 1))
            later = np.flatnonzero(history["queries"] >= queries + 20)
            if math.isnan(found.noise) or not len(later):
                continue
            gain = history["objective"][i] - history["objective"][later[0]]
            least = min(found.next_step, found.most)
            kept.append(least - found.noise <= gain <= found.most + found.noise)
    assert len(kept) > 10
    assert np.mean(kept) >= 0.85


@pytest.mark.parametrize(
    ("numbers", "words"),
    [((0.2, 0.8, 0.1), "by 0.2 to 0.9"), ((0.05, 0.2, 0.1), "by at most 0.3"),
     ((0.001, 0.004, 0.01), "Another 20 runs promise no gain beyond 0.01"),
     ((math.nan,) * 3, "It is too early to say")],
)  # fmt: skip
def test_words_follow_the_noise(numbers: tuple[float, float, float], words: str) -> None:
    assert words in Promise(20, *numbers).sentence


def test_no_more_is_promised_than_there_is() -> None:
    said = Promise(20, 0.5, 3.0, 0.4, possible=0.9).sentence
    assert "by 0.5 to 0.9." in said
    assert "the last step promises next to nothing." in Promise(20, 9e-6, 4e-5, 0.03).sentence
    assert "by up to 0.3." in Promise(20, 0.5, 3.0, 0.1, possible=0.3).sentence


def test_a_decrease_is_counted_from_the_last_measured_objective(record: Record) -> None:
    """The objective shown beside it is a prediction, which has the first part of the decrease."""
    assert promise(record).objective == record.history["objective"][-1]
    said = Promise(20, 0.2, 0.8, 0.1, objective=0.661).sentence
    assert said.endswith("lower the objective by 0.2 to 0.9 from 0.661, the last one measured.")


def test_the_lower_limit_of_the_objective_is_that_of_the_bound(record: Record) -> None:
    """A bound for few data is above zero even without a risk: nothing leads below that."""
    bound = supac.MaurerLangfordSeeger(20, delta=0.05)
    record.settings = replace(record.settings, bound=bound)
    objective = record.history["objective"][-1]
    assert bound(0.0, 0.0) > 0.1
    assert promise(record).possible == pytest.approx(max(objective - bound(0.0, 0.0), 0.0))


def test_a_search_on_its_way_is_described_by_one_posterior(record: Record) -> None:
    told, posterior = dict(standing(record)), record.posterior
    assert posterior is not None
    assert told["KL to prior"] == f"{posterior.kl(PLANE):.3g} nats"
    assert told["objective"] == f"{record.rounds[-1].info.predicted:.4g}, as the model predicts"
    assert f"KL {record.rounds[-1].info.kl:.3g}" in told["step before"]
    assert "for 40 runs" in told["time left"]
    assert record.to_dict()["posterior_kl"] == posterior.kl(PLANE)
    assert standing(shortened(record, 0)) == []


def test_a_divergence_that_is_rounding_alone_is_nothing(record: Record) -> None:
    last = record.rounds[-1]
    record.rounds[-1] = replace(last, info=replace(last.info, kl=1.12e-28))
    told = dict(standing(record))["step before"]
    assert "KL 0 nats" in told
    assert told.endswith("estimated from its runs")


def test_pauses_are_left_out() -> None:
    spans = [Span(float(i), i + 1.0) for i in range(5)]
    spans += [replace(each, started=each.started + 500, ended=each.ended + 500) for each in spans]
    assert stretches([*spans, Span(520.0)], now=530.0) == [(0.0, 5.0), (500.0, 530.0)]
    assert all(a[1] < b[0] for a, b in pairwise(stretches(spans, 0.0)))
    assert stretches([], 0.0) == []
