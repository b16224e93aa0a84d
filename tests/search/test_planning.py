from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import supac
from emulated import CUBE, PLANE, cliff, outputs_of, runs_of, smooth
from supac.arrays import FloatArray
from supac.families.gaussian import latin_hypercube
from supac.problem import Evaluations, Role
from supac.search.algorithm import initial_state
from supac.search.placement import Site, plan_batch, widened
from supac.search.supac import default_estimator
from supac.surrogate.estimator import BatchPlan, Context, Estimator, RiskModel


def test_probes_look_where_the_gate_is_in_doubt_and_are_no_draws() -> None:
    problem = supac.Problem.within(CUBE, supac.Catoni(0.1))
    algorithm = supac.SuPAC(batch=10)
    state = algorithm.init(problem, 0)
    for _ in range(8):
        batch = algorithm.ask(problem, state)
        x = batch.x
        state, _ = algorithm.tell(problem, state, batch, cliff(x))
    evaluations = state.evaluations
    assert 0 < (~evaluations.drawn).sum() <= 0.2 * len(evaluations)
    assert len(supac.Importance().fit(evaluations, CUBE).evaluations) == evaluations.drawn.sum()


def test_widened_batches_are_weighted_by_what_they_were_drawn_from() -> None:
    problem = supac.Problem(PLANE, supac.Catoni(0.1), PLANE, loss=supac.RootMeanSquare())
    algorithm = supac.SuPAC()
    state = algorithm.init(problem, 0)
    batch = algorithm.ask(problem, state)
    x = batch.x
    outputs = outputs_of(x)
    state, _ = algorithm.tell(problem, state, batch, supac.RootMeanSquare()(outputs), outputs)
    np.testing.assert_allclose(state.evaluations.proposals[0].covariance, 1.69 * np.eye(2))


@pytest.mark.parametrize("blocks", [None, [[0, 2]], []])
def test_gaussians_are_widened_within_their_family(blocks: list[list[int]] | None) -> None:
    covariance = np.diag([1.0, 0.5, 2.0]) + np.eye(3)[::-1] * 0.3 * (blocks != [])
    given = supac.gaussian([0.1, -0.2, 0.3], covariance, blocks=blocks)
    wide = widened(given, 1.3)
    assert wide.family == given.family
    np.testing.assert_allclose(wide.mean, given.mean)
    np.testing.assert_allclose(wide.covariance, 1.69 * covariance, atol=1e-12)


def test_latin_batches_fill_the_posterior() -> None:
    problem = supac.Problem.within(PLANE, supac.Catoni(0.1))
    x = supac.SuPAC(first=16).ask(problem, supac.SuPAC(first=16).init(problem, 3)).x
    slices = np.floor(np.sort(_normal_cdf(x), axis=0) * 16)
    np.testing.assert_array_equal(slices, np.repeat(np.arange(16.0)[:, None], 2, axis=1))
    assert latin_hypercube(16, 2, np.random.default_rng(0)).shape == x.shape


def _normal_cdf(x: FloatArray) -> FloatArray:
    from scipy.special import ndtr  # noqa: PLC0415

    return np.asarray(ndtr(x))


@dataclass(frozen=True)
class Wrapped(Estimator):
    """An estimator of a user's own, which leaves everything to another."""

    inside: Estimator

    def plan(self, problem: supac.Problem, n: int) -> BatchPlan:
        return self.inside.plan(problem, n)

    def fit(
        self, evaluations: Evaluations, current: supac.Distribution, context: Context | None = None
    ) -> RiskModel:
        return self.inside.fit(evaluations, current, context)


def reaction(x: FloatArray) -> FloatArray:
    return outputs_of(np.atleast_2d(x))


@pytest.mark.parametrize(
    ("estimator", "options"),
    [
        (supac.GaussianProcess(), {}),
        (supac.GaussianProcess(widening=(1.4, 1.2), probes=0.3), {"policy": "penalise"}),
        (supac.GaussianProcess(), {"proxy": lambda x: 0.2 * (x**2).sum(axis=1)}),
        (supac.OutputEmulator(draws=300), {}),
        (supac.Ridge(), {}),
        (supac.Voronoi(draws=500), {}),
    ],
    ids=["process", "failures", "proxy", "outputs", "ridge", "voronoi"],
)
def test_an_estimator_that_wraps_another_gives_its_bits(
    estimator: Estimator, options: dict[str, Any]
) -> None:
    """Batches, probes, inner updates, validation and known runs follow from what it says."""
    policy = options.get("policy", "raise")
    options = {name: value for name, value in options.items() if name != "policy"}

    def risk(x: FloatArray) -> FloatArray:
        return np.where(x[:, 0] > 1.5, np.nan, smooth(x)) if policy == "penalise" else smooth(x)

    outputs = isinstance(estimator, supac.OutputEmulator)
    known = None
    if estimator != supac.Ridge():  # which has no use for them
        known = supac.KnownRuns.of(PLANE.sample(8, 9), runs_of(PLANE, 8, 9, composite=outputs))
    own, wrapped = (
        supac.minimize(
            supac.Composite(reaction, supac.RootMeanSquare()) if outputs else risk,
            PLANE,
            supac.Catoni(0.05, ceiling=2.0),
            budget=90,
            execution=supac.Execution(vectorized=True, on_failure=policy),
            known=known,
            algorithm=supac.SuPAC(each),
            seed=3,
            **options,
        )
        for each in (estimator, Wrapped(estimator))
    )
    np.testing.assert_array_equal(wrapped.posterior.theta, own.posterior.theta)
    np.testing.assert_array_equal(wrapped.evaluations.x, own.evaluations.x)
    np.testing.assert_array_equal(wrapped.evaluations.drawn, own.evaluations.drawn)
    assert wrapped.validated == own.validated
    for name, column in own.history.items():
        np.testing.assert_array_equal(wrapped.history[name], column)


@dataclass(frozen=True)
class OnlyFit(Estimator):
    """The least that an estimator is: `fit`, and a model that projects."""

    def fit(
        self, evaluations: Evaluations, current: supac.Distribution, context: Context | None = None
    ) -> RiskModel:
        return supac.Importance().fit(evaluations, current, context)


def test_an_estimator_with_fit_alone_has_the_plan_of_weighted_least_squares() -> None:
    own, bare = (
        supac.minimize(
            smooth,
            PLANE,
            supac.Catoni(0.05),
            budget=60,
            execution=supac.Execution(vectorized=True),
            algorithm=supac.SuPAC(each),
        )
        for each in (supac.Importance(), OnlyFit())
    )
    np.testing.assert_array_equal(bare.posterior.theta, own.posterior.theta)
    assert own.history["queries"][0] == 2 * (PLANE.family.size + 1)


def test_known_runs_are_refused_by_estimators_that_do_not_say_they_use_them() -> None:
    known = supac.KnownRuns.of(PLANE.sample(8, 9), runs_of(PLANE, 8, 9))
    for algorithm in (supac.SuPAC(OnlyFit()), supac.SuPAC(supac.FreshDraws()), supac.Nesterov()):
        with pytest.raises(ValueError, match="known runs are of no use"):
            supac.minimize(
                smooth, PLANE, supac.Catoni(0.05), budget=60, known=known, algorithm=algorithm
            )


def test_the_default_estimator_follows_the_problem_and_the_runs() -> None:
    scalar = supac.Problem.within(PLANE, supac.Catoni(0.1))
    composite = supac.Problem.within(PLANE, supac.Catoni(0.1), loss=supac.RootMeanSquare())
    proxied = replace(composite, proxy=smooth)
    few, many = runs_of(PLANE, 1_499), runs_of(PLANE, 1_500)
    assert default_estimator(scalar, few) == (supac.GaussianProcess(), ())
    assert default_estimator(composite, few) == (supac.OutputEmulator(), ())
    assert default_estimator(proxied, few) == (supac.GaussianProcess(), ())
    for problem in (scalar, composite, proxied):
        estimator, notes = default_estimator(problem, many)
        assert estimator == supac.Ridge()
        assert "from 1,500 evaluations on" in notes[0]
    chosen = replace(many, role=np.full(1_500, Role.TELLS))
    assert default_estimator(scalar, chosen) == (supac.GaussianProcess(), ())


def test_a_wide_latin_batch_says_what_it_was_drawn_from() -> None:
    problem = supac.Problem.within(CUBE, supac.Catoni(0.1))
    state = initial_state(problem, 5)
    plan = BatchPlan(first=400, batch=10, latin=True, width=1.5)
    batch = plan_batch(Site(problem, plan, state), 400)
    np.testing.assert_allclose(batch.proposal.covariance, 2.25 * np.eye(4), rtol=1e-12)
    np.testing.assert_allclose(batch.x.std(axis=0), 1.5, rtol=0.05)
    assert batch.drawn.all()
    plain = plan_batch(Site(problem, replace(plan, latin=False), state), 400)
    assert plain.proposal == CUBE
    np.testing.assert_array_equal(plain.x, state.draw(400))
