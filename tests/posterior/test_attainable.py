"""The limit that can be hoped for, before a search and early in it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.posterior.attainable import (
    HALF,
    KNOWN,
    MORE,
    WIDER,
    attainable,
    attainable_before,
)
from supac.problem.bounds import MaurerLangfordSeeger

N = 40
TIMES = np.linspace(0.1, 4.0, N)
QUICK = supac.Execution(vectorized=True, progress=False)
BOUND = MaurerLangfordSeeger(N, 0.05)
PRIOR = supac.gaussian(np.zeros(2), np.eye(2))


def decay(x: FloatArray) -> FloatArray:
    return np.exp(x[:, :1]) * np.exp(-np.exp(x[:, 1:]) * TIMES)


VALUES = decay(np.array([[0.5, -0.3]]))[0] + 0.1 * np.random.default_rng(0).standard_normal(N)
DATA = supac.Observations(("y",), VALUES, np.full(N, 0.1))
RISK = supac.Composite(decay, supac.Welsch(), DATA)


def searched(risk: Any = RISK, budget: int = 20) -> supac.Result:
    return supac.minimize(risk, PRIOR, BOUND, budget=budget, execution=QUICK)


@pytest.fixture(scope="module")
def early() -> supac.Result:
    return searched()


def test_a_hope_after_twenty_runs_is_what_is_reached(early: supac.Result) -> None:
    hope, reached = attainable(early.record), searched(budget=60).certificate
    assert hope is not None
    assert reached is not None
    assert hope.limit == pytest.approx(reached.value, rel=0.1)
    assert hope.nats == pytest.approx(reached.kl, rel=0.35)
    assert attainable(early.record) == hope  # the same bits


def test_what_would_lower_it_is_told_the_most_first(early: supac.Result) -> None:
    hope = attainable(early.record)
    assert hope is not None
    assert set(hope.others) == {HALF, KNOWN, MORE, WIDER}
    assert max(hope.others[each] for each in (KNOWN, MORE)) < hope.limit
    places = [hope.sentence.index(name) for name in sorted(hope.others, key=hope.others.__getitem__)
              if hope.others[name] < hope.limit]  # fmt: skip
    assert places == sorted(places)
    assert f"a limit of about {hope.limit:.2g} can be hoped for" in hope.sentence


def test_before_any_run_noise_alone_and_two_nats_a_parameter_are_assumed() -> None:
    hopes = [attainable_before(RISK, BOUND, dim) for dim in (0, 2)]
    assert hopes[0] is not None
    assert hopes[1] is not None
    assert hopes[1].nats == 4.0
    noise = 1.0 - 1.0 / np.sqrt(1.0 + 1.0 / 9.0)  # the mean of the loss over normal noise
    assert noise < hopes[0].limit < hopes[1].limit < 1.0
    assert hopes[1].others[KNOWN] == pytest.approx(hopes[0].limit)
    assert "can be hoped for with 40 independent data if the model fits them" in hopes[1].sentence


@pytest.mark.parametrize(
    "risk",
    [
        lambda x: 0.5,
        supac.Composite(decay, supac.Welsch(), replace(DATA, sequential=True)),
        supac.Composite(decay, lambda residuals: 0.0, DATA),
    ],
)
def test_nothing_is_hoped_for_where_losses_are_not_known(risk: Any) -> None:
    assert attainable_before(risk, BOUND, 2) is None


def test_half_is_not_told_where_data_are_held_out() -> None:
    train, test = DATA.split(np.arange(N) % 2 == 1)
    risk = supac.Composite(decay, supac.Welsch(), train, test)
    bound = MaurerLangfordSeeger(N // 2, 0.05)
    before = attainable_before(risk, bound, 2)
    made = supac.minimize(risk, PRIOR, bound, budget=20, execution=QUICK)
    hope = attainable(made.record)
    assert before is not None
    assert hope is not None
    assert HALF not in before.others
    assert HALF not in hope.others
