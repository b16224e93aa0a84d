"""Steps of a search without batches: each is tested by the runs that were planned for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.problem import Batch, Role
from supac.search.algorithm import State

PLANE = supac.gaussian(np.zeros(2), np.eye(2))
PROBLEM = supac.Problem.within(PLANE, supac.Catoni(0.01))
ALGORITHM = supac.SuPAC(first=12, batch=4)


def wave(x: FloatArray) -> FloatArray:
    return np.asarray(np.tanh(0.3 * ((x - 0.8) ** 2).sum(axis=1)) + 0.05 * np.sin(4.0 * x[:, 0]))


def begun() -> State:
    """State after a first batch, with the batch that tests its step."""
    state = ALGORITHM.init(PROBLEM, 0)
    batch = ALGORITHM.ask(PROBLEM, state)
    return ALGORITHM.tell(PROBLEM, state, batch, wave(batch.x))[0]


def some(*parts: tuple[Batch, list[int]], of: State) -> Batch:
    """Rows of several batches, as they end, with the proposal of the latest one."""
    planned = [batch.planned[row] for batch, rows in parts for row in rows]
    proposal = ALGORITHM.ask(PROBLEM, of).proposal
    return Batch.gathered(planned, proposal, 2)


def test_a_step_is_judged_once_most_of_its_runs_are_back_in_whatever_order_they_come() -> None:
    state = begun()
    first = ALGORITHM.ask(PROBLEM, state)
    assert len(first) == 4
    part = some((first, [3, 1]), of=state)
    after, info = ALGORITHM.tell(PROBLEM, state, part, wave(part.x))
    assert np.isnan(info.ratio)  # two of four
    assert [step.number for step in after.untested] == [1]
    second = ALGORITHM.ask(PROBLEM, after)
    mixed = some((second, [2]), (first, [0]), of=after)
    later, info = ALGORITHM.tell(PROBLEM, after, mixed, wave(mixed.x))
    assert np.isfinite(info.ratio)  # by three of four
    assert state.last_step is not None
    own = later.evaluations.select(later.evaluations.step == 1)
    shortfall = float((own.risk - own.expected).mean())
    assert info.ratio == pytest.approx(1.0 - shortfall / state.last_step.gain)
    assert [step.number for step in later.untested] == [2]
    # What comes later of a step that was judged judges it no more.
    rest = some((first, [2]), of=later)
    end, info = ALGORITHM.tell(PROBLEM, later, rest, wave(rest.x))
    assert np.isnan(info.ratio)
    assert [step.number for step in end.untested] == [2, 3]


def test_a_step_that_failed_is_taken_back_with_those_after_it() -> None:
    state = begun()
    first = ALGORITHM.ask(PROBLEM, state)
    part = some((first, [0]), of=state)
    after, _ = ALGORITHM.tell(PROBLEM, state, part, wave(part.x))
    rest = some((first, [1, 2, 3]), of=after)
    assert state.last_step is not None
    assert after.last_step is not None
    good, _ = ALGORITHM.tell(PROBLEM, after, rest, wave(rest.x))
    bad, info = ALGORITHM.tell(PROBLEM, after, rest, wave(rest.x) + 0.5)
    assert bad.last_step is not None
    assert good.last_step is not None
    np.testing.assert_array_equal(good.last_step.previous, after.posterior.theta)
    np.testing.assert_array_equal(bad.last_step.previous, state.last_step.previous)
    assert bad.untested == ()
    assert info.radius == 0.5 * after.last_step.radius


def test_draws_that_end_late_count_as_draws_of_what_they_were_drawn_from() -> None:
    """Weights of importance go by the proposal of a run's own step, not of its round."""
    near = supac.gaussian(np.zeros(2), 0.04 * np.eye(2))
    far = supac.gaussian(np.full(2, 3.0), 0.04 * np.eye(2))
    state = replace(ALGORITHM.init(PROBLEM, 0), batch=None)
    early, late = Batch.of(near.sample(60, 0), near, Role.DRAW, 0), near.sample(40, 1)
    runs = state.told(early, np.zeros(60))
    planned = Batch.of(late, far, Role.DRAW, 0)  # told with the batch of another step
    runs = replace(state, evaluations=runs).told(planned, np.zeros(40))
    assert runs.drawn.all()
    fitted = supac.Importance().fit(runs, near)
    np.testing.assert_allclose(fitted.log_mixture, near.log_prob(runs.x))
    # Runs that were chosen, whatever their step, are none of these.
    chosen = replace(runs, role=np.where(np.arange(100) < 60, Role.DRAW, Role.TELLS))
    assert len(supac.Importance().fit(chosen, near).evaluations) == 60


def decay(x: FloatArray) -> FloatArray:
    times = np.linspace(0.0, 5.0, 10)
    return (
        np.asarray(3.0 * np.exp(-np.exp(0.5 * x[0]) * times) * (1.0 + x[1]) - np.exp(-times)) / 0.1
    )


@pytest.mark.parametrize(("workers", "batch"), [(2, None), (2, 8), (12, 12)])
def test_an_asynchronous_search_tests_its_steps(workers: int, batch: int | None) -> None:
    result = supac.minimize(
        supac.Composite(decay, supac.Welsch()),
        PLANE,
        supac.Catoni(0.01),
        budget=60,
        validation=0,
        algorithm=supac.SuPAC(batch=batch),
        execution=supac.Execution(workers, mode="async"),
    )
    ratio = result.history["ratio"]
    assert np.isfinite(ratio).sum() >= 0.25 * len(ratio) > 0
    assert len(set(result.history["radius"].tolist())) > 1  # and they have moved the radius
