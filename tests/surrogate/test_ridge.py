from __future__ import annotations

import numpy as np
import pytest

import supac
from catalogue import FAMILIES
from quadrature import exact_projection
from supac.arrays import FloatArray
from supac.problem import Evaluations, Role
from supac.surrogate.estimator import Context
from supac.surrogate.importance import log_mixture, two_scale_ridge

PLANE = supac.gaussian([1.0, -1.0], [[2.0, 0.5], [0.5, 1.0]])


def regression(
    n: int, size: int, noise: float, seed: int = 0
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Features, values, weights that sum to one, and the true coefficients."""
    rng = np.random.default_rng(seed)
    features, beta = rng.standard_normal((n, size)), rng.standard_normal(size)
    weights = rng.random(n)
    values = 3.0 + features @ beta + noise * rng.standard_normal(n)
    return features, values, weights / weights.sum(), beta


def quadratic(x: FloatArray) -> FloatArray:
    return 0.3 + 0.5 * x[:, 0] - 0.2 * x[:, 0] * x[:, 1] + 0.4 * x[:, 1] ** 2


@pytest.mark.parametrize("linear", [0, 3, 8])
def test_plenty_of_data_give_the_coefficients(linear: int) -> None:
    features, values, weights, beta = regression(2_000, 8, noise=0.5)
    found = two_scale_ridge(features, values, weights, linear)
    # Five standard errors of weighted least squares.
    np.testing.assert_allclose(found, beta, atol=5.0 * 0.5 * np.sqrt(float(weights @ weights)))


def test_without_noise_the_coefficients_are_exact() -> None:
    features, values, weights, beta = regression(100, 8, noise=0.0)
    np.testing.assert_allclose(two_scale_ridge(features, values, weights, 3), beta, atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_noise_is_not_explained(seed: int) -> None:
    """Least squares would explain 20 of 60 parts of it."""
    rng = np.random.default_rng(seed)
    features, values = rng.standard_normal((60, 20)), rng.standard_normal(60)
    weights = np.full(60, 1.0 / 60.0)
    found = two_scale_ridge(features, values, weights, 5)
    plain = np.linalg.lstsq(features - features.mean(axis=0), values - values.mean(), rcond=None)[0]
    assert np.linalg.norm(found) < 0.6 * np.linalg.norm(plain)


def test_a_lot_of_noise_is_shrunk_to_nothing() -> None:
    rng = np.random.default_rng(1)
    features, values = rng.standard_normal((5_000, 20)), rng.standard_normal(5_000)
    found = two_scale_ridge(features, values, np.full(5_000, 2e-4), 5)
    assert np.linalg.norm(found) < 0.05


def test_the_two_groups_have_scales_of_their_own() -> None:
    """Large linear coefficients do not let the others fit noise."""
    rng = np.random.default_rng(2)
    features = rng.standard_normal((80, 33))
    beta = np.r_[3.0, -2.0, 4.0, np.zeros(30)]
    values, weights = features @ beta + rng.standard_normal(80), np.full(80, 1.0 / 80.0)
    apart = two_scale_ridge(features, values, weights, 3)
    together = two_scale_ridge(features, values, weights, 33)
    assert np.linalg.norm(apart[3:]) < 0.5 * np.linalg.norm(together[3:])
    assert np.linalg.norm(apart[:3] - beta[:3]) < 0.5


@pytest.mark.parametrize("factor", [1e-6, -2.0, 1e6])
def test_values_may_be_shifted_and_scaled(factor: float) -> None:
    features, values, weights, _ = regression(40, 12, noise=1.0)
    plain = two_scale_ridge(features, values, weights, 4)
    moved = two_scale_ridge(features, factor * values + 7.0 * abs(factor), weights, 4)
    np.testing.assert_allclose(moved, factor * plain, rtol=1e-8)


def test_features_may_be_shifted() -> None:
    features, values, weights, _ = regression(40, 12, noise=1.0)
    plain = two_scale_ridge(features, values, weights, 4)
    np.testing.assert_allclose(
        two_scale_ridge(features + 5.0, values, weights, 4), plain, rtol=1e-8, atol=1e-10
    )


@pytest.mark.parametrize("n", [1, 2, 5])
def test_fewer_runs_than_coefficients_give_finite_ones(n: int) -> None:
    features, values, weights, _ = regression(n, 12, noise=1.0)
    found = two_scale_ridge(features, values, weights, 4)
    assert np.isfinite(found).all()
    assert np.linalg.norm(found) <= 10.0 * max(float(np.ptp(values)), 1e-12)


def test_constant_values_have_no_coefficients() -> None:
    features, _, weights, _ = regression(30, 6, noise=0.0)
    found = two_scale_ridge(features, np.full(30, 0.7), weights, 2)
    np.testing.assert_allclose(found, 0.0, atol=1e-12)


def runs_of(*batches: tuple[supac.Distribution, int]) -> Evaluations:
    rng = np.random.default_rng(0)
    runs = Evaluations.none(batches[0][0].dim)
    for distribution, n in batches:
        x = distribution.sample(n, rng)
        runs = runs.append(x, quadratic(x), distribution)
    return runs


def test_weights_are_the_plain_ones_where_enough_runs_count() -> None:
    runs = runs_of((PLANE, 100), (supac.gaussian([0.5, -1.0], np.eye(2)), 100))
    at = supac.gaussian([0.8, -1.0], np.eye(2))
    weights = supac.Ridge().fit(runs, at).weights(at)
    plain = supac.Importance().fit(runs, at).weights(at)
    assert 1.0 / float(plain @ plain) > 3.0 * at.family.size  # else this would test nothing
    np.testing.assert_array_equal(weights, plain)


@pytest.mark.parametrize("runs_per_unknown", [1.0, 3.0, 10.0])
def test_weights_are_tempered_just_until_enough_runs_count(runs_per_unknown: float) -> None:
    runs = runs_of((PLANE, 200))
    at = supac.gaussian([4.0, 1.0], 0.05 * np.eye(2))
    weights = supac.Ridge(runs_per_unknown).fit(runs, at).weights(at)
    plain = supac.Importance().fit(runs, at).weights(at)
    enough = runs_per_unknown * at.family.size
    assert 1.0 / float(plain @ plain) < enough
    assert weights.sum() == pytest.approx(1.0)
    assert 1.0 / float(weights @ weights) == pytest.approx(enough, rel=1e-6)
    assert 1.0 / float(weights @ weights) >= enough
    # A power of the importance weights: their logarithms are proportional.
    raw = at.log_prob(runs.x) - log_mixture(runs)
    slope, rest = np.polyfit(raw, np.log(weights), 1)
    assert 0.0 < slope < 1.0
    np.testing.assert_allclose(np.log(weights), slope * raw + rest, atol=1e-9)


def test_too_few_runs_for_that_are_nearly_equal() -> None:
    runs = runs_of((PLANE, 10))
    at = supac.gaussian([4.0, 1.0], 0.05 * np.eye(2))
    weights = supac.Ridge().fit(runs, at).weights(at)
    assert 1.0 / float(weights @ weights) == pytest.approx(9.0, rel=1e-6)


@pytest.mark.parametrize(
    "at", [PLANE, supac.gaussian([0.8, -0.5], [[0.6, -0.2], [-0.2, 0.9]])], ids=["same", "other"]
)
def test_a_quadratic_risk_is_projected_exactly(at: supac.Distribution) -> None:
    surrogate = supac.Ridge().fit(runs_of((PLANE, 200)), at).project(at, np.random.default_rng(0))
    exact = exact_projection(quadratic, at)
    np.testing.assert_allclose(surrogate.eta, exact.eta, atol=1e-6)
    assert surrogate.mean == pytest.approx(exact.mean, abs=1e-6)
    assert surrogate.deviation == pytest.approx(exact.deviation, rel=1e-6)
    assert surrogate.r_squared == pytest.approx(1.0)
    assert surrogate.intercept == pytest.approx(0.3, abs=1e-6)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_risk_in_the_span_of_any_family_is_found(name: str) -> None:
    at = FAMILIES[name][0]
    rng = np.random.default_rng(0)
    x = at.sample(20 * at.family.size + 100, rng)
    beta = rng.standard_normal(at.family.size)
    runs = Evaluations.none(at.dim).append(x, 0.7 + at.whiten().features(x) @ beta, at)
    surrogate = supac.Ridge().fit(runs, at).project(at, rng)
    np.testing.assert_allclose(surrogate.eta, at.whiten().coefficients(beta), rtol=1e-5, atol=1e-6)
    assert surrogate.mean == pytest.approx(0.7, abs=1e-6)


def test_runs_that_were_not_drawn_at_random_are_ignored() -> None:
    rng = np.random.default_rng(3)
    x = PLANE.sample(80, rng)
    risk, drawn = np.cos(x).sum(axis=1), rng.random(80) < 0.7
    risk[~drawn] += 50.0
    every = Evaluations.none(2).append(x, risk, PLANE, role=np.where(drawn, Role.DRAW, Role.TELLS))
    alone = Evaluations.none(2).append(x[drawn], risk[drawn], PLANE)
    assert 0 < drawn.sum() < 80
    one, other = (supac.Ridge().fit(runs, PLANE).project(PLANE, rng) for runs in (every, alone))
    np.testing.assert_array_equal(one.eta, other.eta)
    assert one.mean == other.mean
    assert one.effective_size == pytest.approx(float(drawn.sum()))


def test_failed_runs_count_as_the_context_says() -> None:
    x = PLANE.sample(60, np.random.default_rng(4))
    risk = quadratic(x)
    risk[:5] = np.nan
    runs = Evaluations.none(2).append(x, risk, PLANE)
    assert len(supac.Ridge().fit(runs, PLANE).runs) == 55
    penalised = supac.Ridge().fit(runs, PLANE, Context(failure_risk=100.0)).runs
    np.testing.assert_array_equal(penalised.risk[:5], 100.0)


def test_of_many_runs_the_latest_count() -> None:
    prior = supac.gaussian(np.zeros(2), np.eye(2))
    rng = np.random.default_rng(0)
    runs = Evaluations.none(2)
    for shift in (0.0, 0.0, 1.0):
        x = prior.sample(200, rng)
        runs = runs.append(x, (x[:, 0] - shift) ** 2, prior)
    few = supac.Ridge(limit=200).fit(runs, prior)
    assert len(few.runs) == 200
    assert few.runs.iteration.min() == 2
    surrogate = few.project(prior, rng)
    np.testing.assert_allclose(surrogate.eta[0], -2.0, atol=1e-6)
