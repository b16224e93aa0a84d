from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import supac
from supac import GaussianProcess
from supac.arrays import FloatArray
from supac.problem import Role
from supac.search.algorithm import Abandoned, LastStep, State
from supac.search.restart import SETTLED, begin_again, conclude
from supac.search.stages import Stage

SPACE = supac.gaussian(np.zeros(4), np.eye(4))
TIMES = np.linspace(0.0, 10.0, 60)
TRUTH = np.array([1.0, 1.2, -1.0, 0.8])
LOSS = supac.CappedSquare(1.0)


def ringing(z: FloatArray, width: float = 0.25) -> FloatArray:
    """About ten cycles of a damped oscillation: as many valleys in its frequency."""
    height, rate, decay = np.exp(z[:, :3] * [0.4, width, 0.5]).T[:, :, None]
    phase = 2.0 * np.pi * rate * TIMES + 0.6 * z[:, 3:]
    return height * np.exp(-0.1 * decay * TIMES) * np.sin(phase)


DATA = ringing(TRUTH[None])[0] + 0.1 * np.random.default_rng(12345).standard_normal(60)


def search(algorithm: supac.SuPAC, seed: int, budget: int = 100, **options: Any) -> supac.Result:
    return supac.minimize(
        supac.Composite(lambda z: ringing(z) - DATA, LOSS),
        SPACE,
        supac.Catoni(0.01),
        budget=budget,
        seed=seed,
        algorithm=algorithm,
        execution=supac.Execution(vectorized=True),
        **options,
    )


def began_again(result: supac.Result) -> bool:
    return any("began again" in note for each in result.record.rounds for note in each.info.notes)


def objective(result: supac.Result) -> float:
    risk = LOSS(ringing(result.posterior.sample(4_000, 1)) - DATA)
    return float(risk.mean()) + 0.01 * result.kl


@pytest.mark.parametrize(("budget", "found"), [(30, False), (100, True)])
def test_many_valleys_are_searched_or_the_result_is_not_trusted(budget: int, found: bool) -> None:
    prior = float(LOSS(ringing(SPACE.sample(4_000, 1)) - DATA).mean())
    result = search(supac.SuPAC(), 1, budget=budget, validation=0)
    assert began_again(result)
    assert found or any("began again" in note for note in result.notes)
    assert (objective(result) < 0.3 * prior) is found
    assert any("hardly better than where the search began" in note for note in result.notes) is (
        not found
    )


def begin(
    problem: supac.Problem,
    state: State,
    before: State,
    nat: float,
    error: float,
    first: int = 10,
) -> State | None:
    found = begin_again(problem, before, state, nat, error, first=first)
    return None if found is None else found[0]


def settled(objective: float, nats: float = 0.1) -> tuple[supac.Problem, State]:
    problem = supac.Problem.within(SPACE, supac.Catoni(0.01))
    state = supac.SuPAC().init(problem, 0)
    x = SPACE.sample(20, 0)
    risk = 0.5 + 0.05 * np.sin(40.0 * x[:, 0])
    told = replace(state, evaluations=state.told(state.batch_of(x), risk), batch=None)
    step = LastStep(2.0, SPACE.theta, 0.01 * nats, nats, 0.1, objective=objective)
    return problem, replace(told, last_step=step, stage=Stage.SETTLED)


@pytest.mark.parametrize(
    ("objective", "nats", "error", "elsewhere"),
    [
        (0.49, 0.1, 0.05, True),
        (0.40, 0.1, 0.05, False),  # ten nats better than the start
        (0.49, 2.0, 0.05, False),  # it has not settled
        (0.49, 0.1, 0.005, False),  # the risk is understood: there is little to learn
    ],
)
def test_only_a_search_that_has_learnt_nothing_is_left(
    objective: float, nats: float, error: float, elsewhere: bool
) -> None:
    problem, state = settled(objective, nats)
    other = begin(problem, state, state, 0.01, error)
    assert (other is not None) is elsewhere
    if other is not None:
        runs = state.evaluations
        assert (np.abs(runs.x - other.posterior.mean).sum(axis=1) < 1e-12).any()
        np.testing.assert_allclose(np.diag(other.posterior.covariance), 0.09)
        assert other.abandoned is not None
        assert len(other.abandoned.thetas) == 1


def test_a_posterior_far_better_than_most_of_a_skewed_start_is_not_left() -> None:
    """Of risks over decades the mean is hardly known, and one of the first runs may be good."""
    problem, state = settled(0.40)
    risk = np.geomspace(0.41, 4e6, 20)
    assert risk.mean() < 2.0 * risk.std() / np.sqrt(20)
    skewed = replace(state, evaluations=replace(state.evaluations, risk=risk))
    assert begin(problem, skewed, state, 0.01, float(risk.std())) is None


@pytest.mark.parametrize(("failed", "again"), [(17, True), (12, False)])
def test_a_search_whose_runs_mostly_fail_begins_again_at_the_best_of_the_others_once(
    failed: int, again: bool
) -> None:
    problem, state = settled(0.40, nats=2.0)
    runs = state.evaluations
    risk = np.where(np.arange(20) < failed, np.nan, 0.5)
    risk[18] = 0.3
    failing = replace(state, evaluations=replace(runs, risk=risk, ok=np.isfinite(risk)))
    other = begin(problem, failing, state, 0.01, 0.0)
    assert (other is not None) is again
    if other is not None:
        np.testing.assert_allclose(other.posterior.mean, runs.x[18])
        np.testing.assert_allclose(np.diag(other.posterior.covariance), 0.09)
        later = replace(other, last_step=state.last_step)
        assert begin(problem, later, other, 0.01, 0.0) is None


def test_a_start_in_a_failing_region_is_left() -> None:
    """Six of seven runs of the prior fail: the simulator works in a ball away from its centre.

    With some other seeds all of the first ten do, and the search ends there.
    """
    truth = np.array([1.2, -1.0, 1.0])

    def simulate(x: FloatArray) -> FloatArray:
        inside = ((x - truth) ** 2).sum(axis=1, keepdims=True) < 2.0
        return np.where(inside, np.tanh(x - truth), np.nan)

    result = supac.minimize(
        supac.Composite(simulate, supac.CappedSquare(1.0)),
        supac.gaussian(np.zeros(3), np.eye(3)),
        supac.Catoni(0.01),
        budget=80,
        validation=0,
        seed=3,
        execution=supac.Execution(vectorized=True, on_failure="penalise", max_failures=0.5),
    )
    assert any("began again" in note for note in result.notes)
    draws = result.posterior.sample(4_000, 1)
    outputs = simulate(draws)
    assert np.isnan(outputs[:, 0]).mean() < 0.05
    assert float(np.nanmean(outputs**2)) < 0.15


def test_families_that_cannot_be_moved_are_not_left() -> None:
    problem, state = settled(0.49)
    start = supac.low_rank_gaussian(np.zeros(4), np.eye(4), rank=1)
    assert start.family.is_gaussian
    other = replace(problem, start=start)
    assert begin(other, state, state, 0.01, 0.05) is None


def test_where_runs_were_made_elsewhere_the_start_is_not_known() -> None:
    problem, state = settled(0.49)
    runs = state.evaluations
    moved = SPACE.at(SPACE.exponential.from_moments(np.ones(4), np.eye(4)))
    later = replace(state, evaluations=replace(runs, proposals=(moved,)))
    assert begin(problem, later, state, 0.01, 0.05) is None


def told(state: State, x: FloatArray, risk: FloatArray, role: Role = Role.DRAW) -> State:
    """Add runs that were drawn from the posterior, and the step before once more."""
    return replace(state, evaluations=state.told(state.batch_of(x, role), risk), batch=None)


def test_a_search_that_does_not_settle_is_left_after_twenty_draws_more_than_a_first_batch() -> None:
    """Steps that promise several nats each and keep none of them never look settled."""
    problem, state = settled(0.49, nats=2.0)
    x = SPACE.sample(10, 1)
    later = told(state, x, 0.5 + 0.05 * np.sin(40.0 * x[:, 0]))
    assert begin(problem, state, state, 0.01, 0.05) is None
    other = begin(problem, later, state, 0.01, 0.05)
    assert other is not None
    assert other.abandoned is not None
    assert other.abandoned.runs == 30
    assert begin(problem, later, state, 0.01, 0.05, first=11) is None
    # Draws count, of this beginning alone.
    again = replace(other, last_step=state.last_step)
    assert begin(problem, again, state, 0.01, 0.05) is None


def in_vain() -> tuple[supac.Problem, State, State]:
    """Return a search that has begun again once, in vain, and what it does then."""
    problem, state = settled(0.49)
    second = begin(problem, state, state, 0.01, 0.05)
    assert second is not None
    x = second.posterior.sample(10, 2)
    vain = replace(told(second, x, np.full(10, 0.52)), last_step=state.last_step)
    # A beginning has as many draws as a first batch before it is left.
    assert begin(problem, vain, vain, 0.01, 0.05, first=11) is None
    third = begin_again(problem, vain, vain, 0.01, 0.05, first=10)
    assert third is not None
    assert third[1] == SETTLED
    return problem, vain, third[0]


def test_a_search_that_begins_again_in_vain_draws_from_its_start() -> None:
    problem, _, third = in_vain()
    assert third.posterior == problem.start
    algorithm = supac.SuPAC(GaussianProcess())
    batch = algorithm.ask(problem, third)
    x = batch.x
    assert len(x) == len(algorithm.ask(problem, algorithm.init(problem, 0)))
    assert 0.8 < x.std() < 1.6


@pytest.mark.parametrize(("objective", "again"), [(0.49, True), (0.3, False)])
def test_it_goes_where_a_draw_of_the_start_is_best_unless_a_step_has_learnt_something(
    objective: float, again: bool
) -> None:
    problem, vain, third = in_vain()
    x = SPACE.sample(10, 3)
    drew = told(third, x, np.where(np.arange(10) == 3, 0.45, 0.51), Role.OPENING)
    assert vain.last_step is not None
    stepped = replace(drew, last_step=replace(vain.last_step, objective=objective))
    fourth = begin(problem, stepped, third, 0.01, 0.05)
    assert (fourth is not None) is again
    if fourth is not None:
        np.testing.assert_allclose(fourth.posterior.mean, x[3])
        # What the start's draws led to is remembered.
        assert fourth.abandoned is not None
        assert len(fourth.abandoned.thetas) == 3
        # Asynchronous runs of the posterior before, which end later, decide nothing.
        earlier = replace(third, posterior=vain.posterior)
        stale = told(earlier, vain.posterior.sample(4, 4), np.full(4, 0.52))
        assert begin(problem, replace(stale, last_step=vain.last_step), third, 0.01, 0.05) is None


def test_twenty_valleys_are_found_by_drawing_from_the_start_again() -> None:
    """The first beginnings of this seed are in the wrong ones, and their draws with them."""
    data = ringing(TRUTH[None], 0.35)[0] + DATA - ringing(TRUTH[None])[0]
    result = supac.minimize(
        supac.Composite(lambda z: ringing(z, 0.35) - data, LOSS),
        SPACE,
        supac.Catoni(0.01),
        budget=100,
        seed=1,
        validation=0,
        execution=supac.Execution(vectorized=True),
    )
    risk = float(LOSS(ringing(result.posterior.sample(4_000, 1), 0.35) - data).mean())
    assert risk + 0.01 * result.kl < 0.13


def test_where_it_has_been_it_does_not_go_again() -> None:
    """Beginnings around runs, each around another, take turns with the start."""
    problem, state = settled(0.49)
    means = []
    for number in range(12):
        other = begin(problem, state, state, 0.01, 0.05)
        assert other is not None
        assert (other.posterior == problem.start) is (number % 2 == 1)
        means += [] if number % 2 else [tuple(other.posterior.mean)]
        x = other.posterior.sample(10, number)
        state = replace(told(other, x, np.full(10, 0.5)), last_step=state.last_step)
    assert len(set(means)) == len(means) == 6


def test_the_best_of_all_posteriors_is_returned() -> None:
    _, state = settled(0.4)
    other = supac.gaussian(np.ones(4), np.eye(4))
    assert conclude(state) is state
    for objective, nats, left in (
        (0.3, 0.1, True),
        (0.42, 0.1, True),  # three nats are not much
        (0.5, 0.1, False),
        (0.5, 0.0, False),  # after a step that gained nothing
    ):
        assert state.last_step is not None
        state = replace(state, last_step=replace(state.last_step, nats=nats, gain=0.01 * nats))
        abandoned = Abandoned(other.theta[None], np.array([objective]))
        found = conclude(replace(state, abandoned=abandoned))
        assert (found.posterior == other) is left
        assert found.last_step is not None
        assert found.last_step.objective == (objective if left else 0.4)


def test_a_second_beginning_survives_a_stop(tmp_path: Any) -> None:
    """A stored search that goes on is the one that was never interrupted."""
    whole = search(supac.SuPAC(), 1, budget=60, validation=0)
    assert began_again(whole)
    store = tmp_path / "run.supac"
    for budget in (35, 60):
        parts = search(supac.SuPAC(), 1, budget=budget, validation=0, store=store)
    assert parts.posterior == whole.posterior
