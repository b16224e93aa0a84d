"""Runs that were made elsewhere: a search begins from them, not with a design of its own."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import supac
from emulated import runs_of
from supac import marginals
from supac.arrays import FloatArray
from supac.search.algorithm import State
from supac.search.facts import surrounds

TIMES = np.linspace(0.25, 8.0, 12)
PARAMETERS = supac.Parameters(
    {
        "initial": marginals.Uniform(0.5, 5.0),
        "k1": marginals.LogNormal(median=0.5, log_sd=0.8),
        "k2": marginals.LogNormal(median=0.5, log_sd=0.8),
    }
)
LOSS = supac.Welsch(3.0)


def simulate(x: FloatArray) -> FloatArray:
    """A → B → C."""
    initial, k1, k2 = x[0], x[1], x[2] + 1e-9
    a = initial * np.exp(-k1 * TIMES)
    b = initial * k1 / (k2 - k1) * (np.exp(-k1 * TIMES) - np.exp(-k2 * TIMES))
    return np.concatenate([a, b])


def composite(measured: int) -> supac.Composite:
    """The risk with the first measurements of each column."""
    noise = 0.05 * np.random.default_rng(0).standard_normal(24)
    values = simulate(np.array([2.0, 0.9, 0.4])) + noise
    values[np.tile(np.arange(12) >= measured, 2)] = np.nan
    data = supac.Observations(("A", "B"), values, np.full(24, 0.05), times=TIMES)
    return supac.Composite(simulate, LOSS, data)


@cache
def search(measured: int, known: supac.Record | None = None, seed: int = 1) -> supac.Result:
    bound = supac.MaurerLangfordSeeger(n=2 * measured, delta=0.05)
    risk = composite(measured)
    return supac.minimize(risk, PARAMETERS, bound, budget=60, seed=seed, known=known)


def made(result: supac.Result) -> int:
    """Runs of a search, without those that validate."""
    return len(result.record.made) - len(result.ensemble.x)


def test_a_search_with_more_data_begins_where_the_earlier_one_ended() -> None:
    seeds = (1, 2, 3)  # a search now and then ends early on its own
    pairs = [(search(12, search(8, seed=s).record, s), search(12, seed=s)) for s in seeds]
    assert all(again.known > 40 for again, _ in pairs)
    # Of the runs of a search on its own, half are left in the median, without validation.
    assert np.median([made(again) / made(alone) for again, alone in pairs]) <= 0.6
    again, alone = pairs[1]
    # The first new batch was drawn from the posterior that is the last one, too.
    begun = again.record.rounds[1].proposal
    assert begun is not None
    assert again.posterior.kl(again.posterior.at(begun.theta)) < 1.0
    objective = again.history["objective"]
    assert objective[1] == pytest.approx(alone.history["objective"][-1], rel=0.01)


def begun_from(x: FloatArray, algorithm: supac.SuPAC | None = None) -> supac.Result:
    """A short search that knows runs at these points."""
    known = supac.KnownRuns.of_arrays(x, np.array([simulate(each) for each in x]))
    bound = supac.MaurerLangfordSeeger(n=24, delta=0.05)
    return supac.minimize(
        composite(12), PARAMETERS, bound, budget=16, validation=0, known=known, algorithm=algorithm
    )


def test_few_known_runs_do_not_replace_the_first_batch() -> None:
    x = PARAMETERS.sample(PARAMETERS.prior, 12, 3)
    assert [len(each.ids) for each in begun_from(x[:9]).record.rounds][:2] == [9, 10]
    assert [len(each.ids) for each in begun_from(x).record.rounds][:2] == [12, 2]
    own = begun_from(x, algorithm=supac.SuPAC(first=13))
    assert [len(each.ids) for each in own.record.rounds][:2] == [12, 13]


def test_a_design_of_the_prior_carries_no_further_than_it_is_dense() -> None:
    result = begun_from(PARAMETERS.sample(PARAMETERS.prior, 41, 5))
    whole = search(12).kl
    # Where the posterior is to end there is hardly one of the 41 runs: new ones must show the way.
    assert 1.9 < result.record.rounds[0].info.step_kl < 0.7 * whole
    earlier = search(12, search(8).record)
    assert earlier.record.rounds[0].info.step_kl == pytest.approx(whole, rel=0.1)


def test_enough_runs_surround_a_posterior_or_do_not() -> None:
    plane = supac.gaussian(np.zeros(2), np.eye(2))
    runs = runs_of(plane, 40, 0)
    state = State(0, plane, runs)
    assert surrounds(state, 30)
    assert not surrounds(state, 41)
    far = supac.gaussian(np.full(2, 9.0), np.eye(2))
    assert not surrounds(replace(state, posterior=far), 1)
    failed = replace(runs, ok=np.arange(40) >= 35)
    assert not surrounds(replace(state, evaluations=failed), 6)
