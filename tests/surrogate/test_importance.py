from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import genpareto

import supac
from numerics import assert_mean
from supac.codec import from_spec, to_spec
from supac.problem import Evaluations, Role
from supac.surrogate.importance import log_mixture, pareto_shape
from supac.surrogate.least_squares import project
from weighed import PLANE, evaluations

NEAR, AT = supac.gaussian([0.0, 0.0], np.eye(2)), supac.gaussian([0.5, 0.3], 0.8 * np.eye(2))


def half_chosen(n: int) -> Evaluations:
    """Two batches, of which every other run was chosen on purpose."""
    rng = np.random.default_rng(0)
    runs = Evaluations.none(2)
    for proposal in (NEAR, supac.gaussian([1.0, 0.0], 2.0 * np.eye(2))):
        role = np.where(np.arange(n) % 2 == 0, Role.DRAW, Role.TELLS)
        runs = runs.append(
            proposal.sample(n, rng),
            np.zeros(n),
            proposal,
            role=role,
        )
    return runs


@pytest.mark.parametrize("shape", [0.1, 0.5, 0.9])
def test_the_shape_of_a_generalised_pareto_law_is_found(shape: float) -> None:
    """600 weights are in the tail of 40 000; the prior pulls by at most 10/610 of the distance."""
    found = np.array(
        [pareto_shape(genpareto.rvs(shape, size=40_000, random_state=seed)) for seed in range(40)]
    )
    pull = 10.0 / 610.0 * (0.5 - shape)
    assert_mean(found - pull, shape)
    # One sample's error is that of the best estimator there is, (1 + k)/√n.
    assert found.std() == pytest.approx((1.0 + shape) / np.sqrt(600.0), rel=0.4)


def test_few_weights_are_steadied_by_the_prior() -> None:
    """Five are in the tail of 25: their own estimate's deviation, ≈ 1.5/√5, counts a third."""
    found = [pareto_shape(genpareto.rvs(0.5, size=25, random_state=seed)) for seed in range(200)]
    assert np.mean(found) == pytest.approx(0.5, abs=0.15)
    assert np.std(found) < 0.5 * 1.5 / np.sqrt(5.0)


def test_the_shape_does_not_depend_on_the_scale_nor_on_the_order() -> None:
    weights = genpareto.rvs(0.4, size=2_000, random_state=0)
    shuffled = np.random.default_rng(0).permutation(weights)
    assert pareto_shape(1e-9 * shuffled) == pytest.approx(pareto_shape(weights), rel=1e-9)


def test_bounded_weights_have_a_negative_shape() -> None:
    assert pareto_shape(np.random.default_rng(1).random(10_000)) < -0.5


@pytest.mark.parametrize(("n", "known"), [(0, False), (1, False), (24, False), (25, True)])
def test_too_few_weights_tell_nothing(n: int, known: bool) -> None:
    assert np.isfinite(pareto_shape(np.random.default_rng(2).random(n))) == known
    assert np.isnan(pareto_shape(np.random.default_rng(2).random(n))) != known


def test_weights_over_three_hundred_decades_have_a_heavy_tail() -> None:
    """Posteriors that have become narrow give runs far away next to no weight."""
    assert pareto_shape(np.logspace(-320.0, 0.0, 100)) > 1.0
    tiny, small = np.linspace(1e-311, 9e-311, 10), np.logspace(-21.0, -12.0, 10)
    assert pareto_shape(np.concatenate([np.zeros(80), tiny, small])) > 1.0


def test_equal_weights_have_no_tail() -> None:
    assert pareto_shape(np.full(100, 0.01)) == -np.inf


def test_a_posterior_narrower_than_its_proposal_is_safe_and_a_wider_one_is_not() -> None:
    """The weights of N(0, s²I) under draws of N(0, I) have the shape 1 − 1/s², or are bounded."""
    rng = np.random.default_rng(3)
    x = NEAR.sample(20_000, rng)
    runs = Evaluations.none(2).append(x, np.zeros(20_000), NEAR)
    shapes = [
        pareto_shape(supac.Importance().fit(runs, at).weights(at))
        for at in (supac.gaussian([0.0, 0.0], s * np.eye(2)) for s in (0.5, 2.0, 5.0))
    ]
    assert shapes[0] < 0.1
    assert shapes[1] == pytest.approx(0.5, abs=5.0 * 1.5 / np.sqrt(424))
    assert shapes[2] == pytest.approx(0.8, abs=5.0 * 1.8 / np.sqrt(424))


def test_runs_chosen_on_purpose_have_no_weight() -> None:
    runs = half_chosen(30)
    fitted = supac.Importance().fit(runs, AT)
    np.testing.assert_array_equal(fitted.evaluations.x, runs.x[runs.drawn])
    assert fitted.weights(AT).sum() == pytest.approx(1.0, rel=1e-12)


def test_importance_weights_are_unbiased_for_any_mixture_of_proposals() -> None:
    """The balance heuristic against the exact mean of a smooth function, over many data sets."""
    wide, narrow = supac.gaussian([0.0], [[4.0]]), supac.gaussian([1.0], [[0.5]])
    at = supac.gaussian([0.5], [[1.0]])
    estimates = []
    for seed in range(200):
        runs = evaluations((wide, 60), (narrow, 40), seed=seed)
        ratio = np.exp(at.log_prob(runs.x) - log_mixture(runs))
        estimates.append(np.mean(ratio * runs.risk))
    assert_mean(np.array(estimates), np.sin(0.5) * np.exp(-0.5))


def test_importance_reports_its_own_error() -> None:
    at = supac.gaussian([0.5], [[1.0]])
    inside = 0
    for seed in range(200):
        runs = evaluations((supac.gaussian([0.0], [[2.0]]), 100), seed=seed)
        mean, error, size = supac.Importance().fit(runs, at).mean_risk(at)
        assert 1.0 <= size <= 100.0
        inside += abs(mean - np.sin(0.5) * np.exp(-0.5)) < 2.0 * error
    assert inside >= 180  # 95 % expected; 180 is more than three standard deviations below


def test_fresh_draws_are_the_last_batch_alone() -> None:
    runs = evaluations((PLANE, 40), (supac.gaussian([0.0, 0.0], np.eye(2)), 30))
    surrogate = supac.FreshDraws().fit(runs, PLANE).project(PLANE, np.random.default_rng(0))
    assert surrogate.effective_size == pytest.approx(30.0)
    fresh = project(runs.x[40:], runs.risk[40:], np.ones(30), PLANE)
    np.testing.assert_array_equal(surrogate.eta, fresh.eta)


def test_the_old_name_of_fresh_draws_warns() -> None:
    """`supac.Uniform` was taken for the marginal; files go on calling the estimator so."""
    with pytest.warns(DeprecationWarning, match=r"supac\.Uniform is now supac\.FreshDraws"):
        assert supac.Uniform is supac.FreshDraws
    assert to_spec(supac.FreshDraws()) == {"class": "Uniform"}
    assert from_spec({"class": "Uniform"}) == supac.FreshDraws()
