from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import supac
from supac.search.algorithm import LastStep, State
from supac.search.design import is_moving, plan_batch
from supac.surrogate.estimator import BatchPlan

SPACE = supac.gaussian(np.zeros(3), np.diag([1.0, 4.0, 0.25]))
PLAN = BatchPlan(10, 5, latin=True, few=3, width=1.15)


def after(nats: float, *, shift: float = 2.0, settled: bool = False) -> State:
    problem = supac.Problem.within(SPACE, supac.Catoni(0.1))
    state = supac.SuPAC().init(problem, 3)
    step = LastStep(2.0, SPACE.theta, 0.1 * nats, nats, shift, settled)
    return replace(state, last_step=step)


@pytest.mark.parametrize(
    ("nats", "settled", "moves"),
    [(2.0, False, False), (4.0, False, True), (4.0, True, False), (13.0, True, True)],
)
def test_a_posterior_moves_while_steps_gain_much(nats: float, settled: bool, moves: bool) -> None:
    state = after(nats, settled=settled)
    assert is_moving(PLAN, state) is moves
    assert not is_moving(replace(PLAN, few=0), state)


def test_a_small_batch_is_the_mean_and_draws_on_the_scale_of_its_shift() -> None:
    batches = [plan_batch(PLAN, after(10.0, shift=shift), 201) for shift in (0.0, 100.0)]
    sizes = []
    for batch in batches:
        np.testing.assert_array_equal(batch.x[0], SPACE.mean)
        z = SPACE.whiten().points(batch.x[1:])
        sizes.append(float(np.sqrt(np.mean(z**2))))
        root = np.sqrt(np.diag(batch.proposal.covariance) / np.diag(SPACE.covariance))
        np.testing.assert_allclose(root, sizes[-1], rtol=0.1)
    assert sizes[1] == pytest.approx(3.0 * sizes[0], rel=0.05)
    assert len(plan_batch(PLAN, after(10.0), 1).x) == 1


def test_settled_posteriors_have_usual_batches() -> None:
    batch = plan_batch(PLAN, after(0.5), 400)
    z = SPACE.whiten().points(batch.x)
    assert np.sqrt(np.mean(z**2)) == pytest.approx(1.15, rel=0.05)


def test_batches_are_small_while_a_search_moves_and_as_asked_for_if_asked() -> None:
    def sizes(algorithm: supac.SuPAC) -> list[int]:
        problem = supac.Problem.within(SPACE, supac.Catoni(1e-4))
        state, found = algorithm.init(problem, 0), []
        for _ in range(12):
            x = algorithm.ask(problem, state)
            found.append(len(x))
            state, _ = algorithm.tell(problem, state, x, ((x - 1.5) ** 2).sum(axis=1))
        return found

    own = sizes(supac.SuPAC())
    assert own[:3] == [20, 3, 3]
    assert own[-1] == 5
    assert sizes(supac.SuPAC(first=7, batch=8)) == [7, *[8] * 11]


def test_means_of_small_batches_do_not_lower_the_estimated_risk() -> None:
    posterior = supac.gaussian(np.zeros(16), np.eye(16))
    step, evaluations = (
        LastStep(2.0, posterior.theta, 1.0, 10.0, shift=8.0),
        supac.Evaluations.none(16),
    )
    for seed in range(40):
        state = State(seed, posterior, evaluations, last_step=step)
        x = np.concatenate([plan_batch(PLAN, state, 3).x[:1], posterior.sample(4, seed)])
        evaluations = evaluations.append(x, 0.5 * (x**2).sum(axis=1), posterior)
    mean, error, _ = supac.Importance().fit(evaluations, posterior).mean_risk(posterior)
    assert abs(mean - 8.0) < 3.0 * error  # 1.7 too low with them
