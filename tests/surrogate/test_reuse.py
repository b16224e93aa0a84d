"""Draws that serve for several posteriors, against fresh ones and the exhaustive search."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.codec import from_spec, to_spec
from supac.problem import Evaluations
from supac.surrogate import reuse
from supac.surrogate.nearest import lifted, search_all, search_pairs
from supac.surrogate.voronoi import ReusedVoronoi, Voronoi

DIM, STEPS, DRAWS = 6, 25, 4_000
PLAIN, REUSED = supac.Voronoi(draws=DRAWS), supac.ReusedVoronoi(DRAWS)


@pytest.fixture(scope="module")
def history() -> Evaluations:
    """Batches of Gaussians that move far, and then little."""
    rng = np.random.default_rng(0)
    runs = Evaluations.none(DIM)
    for k in range(STEPS):
        shift = 1.5 * max(0, 5 - k) + 0.05 * rng.standard_normal(DIM)
        root = np.eye(DIM) + 0.05 * rng.standard_normal((DIM, DIM))
        at = supac.gaussian(shift, root @ root.T)
        runs = runs.append(at.sample(10 + k, rng), np.zeros(10 + k), at)
    return runs


def beginning(runs: Evaluations, batches: int) -> Evaluations:
    some = runs.select(runs.iteration < batches)
    return replace(some, proposals=runs.proposals[:batches])


def weights(runs: Evaluations, rule: Voronoi | ReusedVoronoi = REUSED) -> FloatArray:
    at = runs.proposals[-1]
    return rule.fit(runs, at).weights(at, np.random.default_rng(1))


def forget() -> None:
    reuse._memory.pools.clear()


def latest() -> reuse.Pool:
    return next(reversed(reuse._memory.pools.values()))[0]


@pytest.fixture(autouse=True)
def _nothing_in_memory() -> None:
    forget()


def test_what_is_in_memory_changes_no_bit(history: Evaluations) -> None:
    """Step by step, from scratch, and after another search has used the memory."""
    steps = [weights(beginning(history, k)) for k in range(1, STEPS + 1)]
    for k in (1, 6, STEPS):
        forget()
        np.testing.assert_array_equal(steps[k - 1], weights(beginning(history, k)))
    other = replace(history, x=history.x + 1.0)
    assert not np.array_equal(weights(other), steps[-1])
    np.testing.assert_array_equal(weights(history), steps[-1])


def test_a_posterior_that_drew_two_batches_is_served_without_rounding(
    history: Evaluations,
) -> None:
    """Also after a look from elsewhere, which sees the draws of both batches anew."""
    repeated = history.append(
        history.proposals[-1].sample(12, 5), np.zeros(12), history.proposals[-1]
    )
    before = weights(repeated)
    elsewhere = supac.gaussian(np.full(DIM, 0.3), np.eye(DIM))
    REUSED.fit(repeated, elsewhere).weights(elsewhere, np.random.default_rng(3))
    np.testing.assert_array_equal(weights(repeated), before)


def test_reused_draws_weigh_like_fresh_ones(history: Evaluations) -> None:
    """They differ from many fresh ones by no more than as many fresh ones do."""
    at, rng = history.proposals[-1], np.random.default_rng(2)
    truth = supac.Voronoi(draws=400_000).fit(history, at).weights(at, rng)
    fresh = np.abs(weights(history, PLAIN) - truth).sum()
    assert np.abs(weights(history) - truth).sum() < 1.2 * fresh


def test_draws_are_worth_what_was_asked_for(history: Evaluations) -> None:
    """By (Σw)²/Σw², to the chance in it; and few of them are fresh where posteriors stay."""
    weights(history)
    pool = latest()
    slots = [slot for source in pool._sources for slot in source.slots]
    own = pool._weights()[slots].ravel()
    counts = pool.block * np.array([len(source.slots) for source in pool._sources])
    worth = float(pool._views.share @ counts)
    assert worth >= DRAWS
    assert own.sum() ** 2 / (own @ own) > 0.95 * DRAWS
    assert own.sum() == pytest.approx(worth, rel=0.05)
    assert len(pool._sources[0].slots) * pool.block <= DRAWS / 3


def test_new_evaluations_are_compared_with_all_draws(history: Evaluations) -> None:
    """Each draw has the nearest evaluation that an exhaustive search finds, in its own metric."""
    weights(history)
    pool = latest()
    assert len(pool._sources) > 3
    for source in pool._sources:
        points = source.whitening.points(history.x).astype(np.float32)
        for slot in source.slots:
            half = pool._draws[slot, :-1].T
            for sign, draws in enumerate((half, -half)):
                expected = search_all(points, draws, 1)[:, 0]
                assert (pool._nearest[slot, sign] == expected).mean() > 0.999  # float32 ties


@pytest.mark.parametrize("shift", [0.1, 3.0], ids=["near", "far"])
def test_a_posterior_that_drew_no_batch_is_served(history: Evaluations, shift: float) -> None:
    """Near, by draws of the others; far, by fresh ones; and the next one as if it had not been."""
    elsewhere, rng = supac.gaussian(np.full(DIM, shift), np.eye(DIM)), np.random.default_rng(3)
    after = weights(history)

    def error(rule: Voronoi | ReusedVoronoi) -> float:
        return float(np.abs(rule.fit(history, elsewhere).weights(elsewhere, rng) - truth).sum())

    truth = supac.Voronoi(draws=400_000).fit(history, elsewhere).weights(elsewhere, rng)
    usual = [error(PLAIN) for _ in range(20)]
    assert error(REUSED) < np.mean(usual) + 3.0 * np.std(usual)
    assert (latest()._views.share.max() > reuse.WORTH) == (shift < 1.0)
    np.testing.assert_array_equal(weights(history), after)
    forget()
    np.testing.assert_array_equal(weights(history), after)


def test_searches_in_turn_keep_their_draws(
    history: Evaluations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each goes on from where it was, as long as there is room."""
    other = replace(history, x=history.x + 1.0)
    weights(history)
    pool = latest()
    weights(other)
    weights(history)
    assert latest() is pool
    # Of one seed, and so with the same first point.
    x = history.x + np.where(history.iteration == 0, 0.0, 1.0)[:, None]
    weights(replace(history, x=x))
    weights(history)
    assert latest() is pool
    monkeypatch.setattr(reuse, "_MOST", 0)
    weights(replace(history, x=history.x + 2.0))
    assert len(reuse._memory.pools) == 1


def test_proposals_of_other_families_are_not_reused(history: Evaluations) -> None:
    """All draws are fresh then, to the bit."""
    other = supac.gaussian(np.zeros(DIM), np.ones(DIM))
    mixed = replace(history, proposals=(other, *history.proposals[1:]))
    np.testing.assert_array_equal(weights(mixed), weights(history, PLAIN))


def test_a_search_with_reused_draws_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    """Interrupted and continued in another process' place, with nothing in memory."""
    algorithm = supac.SuPAC(supac.ReusedVoronoi(2_000), first=20, batch=10)
    prior = supac.gaussian(np.zeros(2), np.eye(2))

    def search(budget: int, store: str | None = None) -> supac.Result:
        return supac.minimize(
            _bowl, prior, supac.Catoni(0.01), budget=budget, algorithm=algorithm, store=store,
            validation=0, execution=supac.Execution(vectorized=True, progress=False),
        )  # fmt: skip

    whole = search(100)
    store = str(tmp_path / "run.supac")
    search(60, store)
    forget()
    np.testing.assert_array_equal(search(100, store).posterior.theta, whole.posterior.theta)


def _bowl(x: FloatArray) -> FloatArray:
    return np.asarray(np.tanh(((x - 0.5) ** 2).sum(axis=1)))


def test_both_of_a_pair_find_their_nearest() -> None:
    """As the search of all draws does."""
    rng = np.random.default_rng(4)
    points, z = (rng.standard_normal((n, DIM)).astype(np.float32) for n in (300, 150))
    nearest, closeness = search_pairs(np.ascontiguousarray(lifted(points).T), z)
    for sign, draws in enumerate((z, -z)):
        np.testing.assert_array_equal(nearest[sign], search_all(points, draws, 1)[:, 0])
        gap = np.square(draws - points[nearest[sign]]).sum(axis=1)
        expected = 0.5 * (np.square(draws).sum(axis=1) - gap)
        np.testing.assert_allclose(closeness[sign], expected, atol=1e-4)


def test_repeated_points_share_their_cell(history: Evaluations) -> None:
    last = history.proposals[-1]
    repeated = history.append(history.x[-2:], np.zeros(2), last)
    found = weights(repeated)
    np.testing.assert_array_equal(found[-2:], found[-4:-2])
    assert found[-1] > 0.0
    assert found.sum() == pytest.approx(1.0)


def test_a_first_batch_without_a_good_run_is_passed_over(history: Evaluations) -> None:
    later = history.select(history.iteration > 0)
    assert weights(later).sum() == pytest.approx(1.0)
    pool = reuse.Pool(DIM, DRAWS)
    pool.learn(later, 0)
    assert pool.knows(beginning(later, 1), DRAWS)


@pytest.mark.parametrize("count", [1, 5])
def test_the_worth_of_draws_far_away_is_found_among_that_of_others(count: int) -> None:
    rng = np.random.default_rng(3)
    factors, seen = rng.standard_normal((count, 4, 9)), rng.standard_normal((count, 4))
    spread = factors @ factors.transpose(0, 2, 1)
    spread[-1] -= 100.0 * np.eye(4)  # not positive definite
    found = reuse._log_excess(spread, seen)
    for matrix, vector, value in zip(spread[:-1], seen[:-1], found[:-1], strict=True):
        expected = 2.0 * vector @ np.linalg.solve(matrix, vector)
        assert value == pytest.approx(expected - 0.5 * np.linalg.slogdet(matrix)[1], rel=1e-10)
    assert found[-1] == np.inf


def test_errors_of_left_out_runs_are_left_out_and_nothing_else(history: Evaluations) -> None:
    """The same fit, bit for bit, whose `loo_error` is unknown."""
    rng = np.random.default_rng(2)
    runs, at = replace(history, risk=rng.standard_normal(len(history))), history.proposals[-1]
    full, brief = (
        rule.fit(runs, at).project(at, np.random.default_rng(1))
        for rule in (REUSED, replace(REUSED, leave_one_out=False))
    )
    assert np.isfinite(full.loo_error)
    assert np.isnan(brief.loo_error)
    assert (full.eta == brief.eta).all()
    assert (full.mean, full.r_squared, full.ridge) == (brief.mean, brief.r_squared, brief.ridge)


def test_stores_of_before_it_could_be_left_out_are_of_the_same_rule() -> None:
    """Only where it is chosen is it written."""
    assert to_spec(REUSED) == {"class": "ReusedVoronoi", "draws": DRAWS}
    brief = supac.ReusedVoronoi(DRAWS, leave_one_out=False)
    assert from_spec(to_spec(brief)) == brief
