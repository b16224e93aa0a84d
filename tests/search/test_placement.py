from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.problem import Batch, Role
from supac.search.algorithm import LastStep, State
from supac.search.facts import Chosen, Facts
from supac.search.placement import Site
from supac.search.placement import plan_batch as place
from supac.search.stages import Outcome, Stage, next_stage
from supac.surrogate.estimator import BatchPlan, RiskModel, Surrogate

SPACE = supac.gaussian(np.zeros(3), np.diag([1.0, 4.0, 0.25]))
PROBLEM = supac.Problem.within(SPACE, supac.Catoni(0.1))
PLAN = BatchPlan(10, 5, latin=True, few=3, width=1.15)


MOVING, SETTLED = Stage.MOVING, Stage.SETTLED


def at(stage: Stage, *, shift: float = 2.0) -> State:
    state = supac.SuPAC().init(PROBLEM, 3)
    step = LastStep(2.0, SPACE.theta, 1.0, 10.0, shift)
    return replace(state, last_step=step, stage=stage)


def plan_batch(
    plan: BatchPlan, state: State, n: int, model: RiskModel | None = None, **given: Any
) -> Batch:
    return place(Site(PROBLEM, plan, state, model, **given), n)


def outcome(plan: BatchPlan, state: State, nats: float) -> Outcome:
    """What a round from a state came to, if its step gained so many nats."""
    chosen = Chosen(supac.Importance(), plan)
    facts = Facts.of(PROBLEM, state, state, None, chosen, supac.TrustRegion())
    return facts.outcome(nats)


@pytest.mark.parametrize(
    ("nats", "stage", "moves"),
    [(2.0, MOVING, False), (4.0, MOVING, True), (4.0, SETTLED, False), (13.0, SETTLED, True)],
)
def test_a_posterior_moves_while_steps_gain_much(nats: float, stage: Stage, moves: bool) -> None:
    begun = with_runs(at(stage))
    assert next_stage(stage, outcome(PLAN, begun, nats)).moves is moves
    assert outcome(replace(PLAN, few=0), begun, nats) is Outcome.RESTS


def with_runs(state: State) -> State:
    x = SPACE.sample(5, 0)
    runs = state.evaluations.append(x, linear(x)[:, 0] ** 2, SPACE, linear(x))
    return replace(state, evaluations=runs)


def test_a_small_batch_is_the_mean_and_draws_on_the_scale_of_its_shift() -> None:
    batches = [plan_batch(PLAN, at(MOVING, shift=shift), 201) for shift in (0.0, 100.0)]
    sizes = []
    for batch in batches:
        np.testing.assert_array_equal(batch.x[0], SPACE.mean)
        z = SPACE.whiten().points(batch.x[1:])
        sizes.append(float(np.sqrt(np.mean(z**2))))
        root = np.sqrt(np.diag(batch.proposal.covariance) / np.diag(SPACE.covariance))
        np.testing.assert_allclose(root, sizes[-1], rtol=0.1)
    assert sizes[1] == pytest.approx(3.0 * sizes[0], rel=0.05)
    assert len(plan_batch(PLAN, at(MOVING), 1).x) == 1


def test_one_run_of_a_small_batch_is_ahead_of_the_step() -> None:
    ahead = np.array([3.0, -2.0, 1.0])
    usual, looking = (
        plan_batch(PLAN, at(MOVING), 3, minimum=lambda x=each: x) for each in (None, ahead)
    )
    np.testing.assert_array_equal(looking.x[:2], usual.x[:2])
    np.testing.assert_array_equal(looking.x[2], ahead)
    np.testing.assert_array_equal(looking.drawn, [True, True, False])
    for stage, n in ((MOVING, 1), (SETTLED, 3)):
        assert plan_batch(PLAN, at(stage), n, minimum=lambda: ahead).drawn.all()


def test_settled_posteriors_have_usual_batches() -> None:
    batch = plan_batch(PLAN, at(SETTLED), 400)
    z = SPACE.whiten().points(batch.x)
    assert np.sqrt(np.mean(z**2)) == pytest.approx(1.15, rel=0.05)


def test_batches_are_small_while_a_search_moves_and_as_asked_for_if_asked() -> None:
    def sizes(algorithm: supac.SuPAC) -> list[int]:
        problem = supac.Problem.within(SPACE, supac.Catoni(1e-4))
        state, found = algorithm.init(problem, 0), []
        for _ in range(12):
            batch = algorithm.ask(problem, state)
            x = batch.x
            found.append(len(x))
            state, _ = algorithm.tell(problem, state, batch, ((x - 1.5) ** 2).sum(axis=1))
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
        state = State(seed, posterior, evaluations, last_step=step, stage=MOVING)
        x = np.concatenate([plan_batch(PLAN, state, 3).x[:1], posterior.sample(4, seed)])
        role = np.where(np.arange(5) == 0, Role.MEAN, Role.DRAW)
        evaluations = evaluations.append(x, 0.5 * (x**2).sum(axis=1), posterior, role=role)
    mean, error, _ = supac.Importance().fit(evaluations, posterior).mean_risk(posterior)
    assert abs(mean - 8.0) < 3.0 * error  # 1.7 too low with them


def linear(x: FloatArray) -> FloatArray:
    return x @ np.array([[1.0, 0.5], [-0.5, 1.0], [0.2, 0.1]])


NARROW = replace(PLAN, opening=0.3, widest=1.3)


@pytest.mark.parametrize("n", [3, 4, 6, 9])
def test_a_search_begins_along_orthogonal_directions(n: int) -> None:
    state = supac.SuPAC().init(PROBLEM, 3)
    z = SPACE.whiten().points(plan_batch(NARROW, state, n).x)
    near, rest = z[:6], z[6:]
    np.testing.assert_allclose(np.linalg.norm(near, axis=1), 0.3 * np.sqrt(3.0))
    angles = near @ near.T / 0.27
    np.testing.assert_allclose(angles[:3, :3], np.eye(3), atol=1e-12)
    np.testing.assert_allclose(angles[3:, :3], -np.eye(3)[: len(near) - 3], atol=1e-12)
    assert len(np.unique(z, axis=0)) == n
    assert (np.linalg.norm(rest, axis=1) > 0.6).all()


def test_parameters_that_need_no_run_are_not_in_the_first_directions() -> None:
    plan = replace(NARROW, observed=1)
    x = plan_batch(plan, supac.SuPAC().init(PROBLEM, 3), 4).x
    np.testing.assert_array_equal(x[:, 2], 0.0)
    np.testing.assert_allclose(np.linalg.norm(x[:, :2] / [1.0, 2.0], axis=1), 0.3 * np.sqrt(2.0))


@pytest.mark.parametrize(
    ("dim", "loss", "narrow"),
    [
        (9, supac.MeanSquare(), False),
        (10, supac.MeanSquare(), True),
        (20, supac.RootMeanSquare(), True),
        (21, supac.MeanSquare(), False),
        (12, supac.CappedSquare(2.0), False),
    ],
)
def test_a_search_begins_narrowly_where_few_runs_cannot_cover_the_prior(
    dim: int, loss: supac.ResidualLoss, narrow: bool
) -> None:
    space = supac.gaussian(np.zeros(dim), np.eye(dim))
    problem = supac.Problem.within(space, supac.Catoni(0.1), loss=loss)
    x = supac.SuPAC().init(problem, 0).batch.x  # type: ignore[union-attr]
    assert len(x) == (dim + 1 if narrow else max(10, min(dim, 20)))
    assert (np.linalg.norm(x, axis=1) < 0.31 * np.sqrt(dim)).all() == narrow


def test_a_long_way_is_gone_in_few_runs() -> None:
    """Twelve parameters far from the prior's centre and a small temperature: as Gauss-Newton."""
    rng = np.random.default_rng(0)
    matrix, truth = rng.standard_normal((40, 12)) / 3.0, rng.standard_normal(12)

    def simulate(x: FloatArray) -> FloatArray:
        return 20.0 * np.expm1(0.3 * (x - truth) @ matrix.T)

    space = supac.gaussian(np.zeros(12), np.eye(12))
    result = supac.minimize(
        supac.Composite(simulate, supac.MeanSquare()),
        space,
        supac.Catoni(0.05),
        budget=30,
        validation=0,
        execution=supac.Execution(vectorized=True),
    )
    risk = float((simulate(result.posterior.sample(4_000, 1)) ** 2).mean())
    start = float((simulate(space.sample(4_000, 1)) ** 2).mean())
    assert risk + 0.05 * result.kl < 0.1 * start


@dataclass(frozen=True)
class Chooser(RiskModel):
    """A model that takes the last points of a pool for the most informative ones."""

    knows: float
    costs: float = 0.0

    @property
    def explained(self) -> float:
        return self.knows

    @property
    def severity(self) -> float:
        return self.costs

    def failure_chance(self, at: supac.Distribution) -> float:
        return 0.1

    def informative(
        self, n: int, pool: FloatArray, about: FloatArray, given: FloatArray
    ) -> FloatArray:
        assert len(about) == 300 <= len(pool)
        assert 4 * n <= len(pool)
        return np.asarray(pool[-n:]) + 100.0

    def probes(self, n: int, at: supac.Distribution, rng: np.random.Generator) -> FloatArray:
        return np.full((n, at.dim), -100.0)

    def project(self, at: supac.Distribution, rng: np.random.Generator) -> Surrogate:
        raise AssertionError


@pytest.mark.parametrize(
    ("model", "placed"),
    [
        (Chooser(0.9), [100.0, -100.0]),  # one tells most, one looks into the tails
        (Chooser(0.2), [-100.0, -100.0]),  # it does not know the runs well enough to choose others
        (Chooser(0.9, costs=1.0), [-100.0, -100.0]),  # runs have gone wrong: where will others?
    ],
)
def test_a_share_of_a_settled_batch_is_placed_where_it_tells_most(
    model: Chooser, placed: list[float]
) -> None:
    plan = replace(PLAN, probes=0.35)
    batch = plan_batch(plan, at(SETTLED), 5, model, inside=True)
    np.testing.assert_array_equal(batch.drawn, [True, True, True, False, False])
    assert (np.abs(batch.x[:3]) < 50.0).all()
    assert (np.abs(batch.x[3:] - np.array(placed)[:, None]) < 50.0).all()
    if model.explained > 0.4 and not model.severity:  # while steps still end at the radius
        far = plan_batch(plan, at(SETTLED), 5, model)
        assert (far.x[3:] > 50.0).all()


def test_large_batches_have_as_many_different_points() -> None:
    plan = replace(PLAN, probes=0.9)
    batch = plan_batch(plan, at(SETTLED), 400, Chooser(0.9))
    assert len(np.unique(batch.x, axis=0)) == 400
