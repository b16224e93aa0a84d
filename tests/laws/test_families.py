"""The laws of exponential families, each on every row of the table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import supac
from catalogue import FAMILIES, OUTSIDE, SCIPY
from numerics import assert_mean, derivative
from supac.arrays import FloatArray
from supac.families import NormalWhitening

every_family = pytest.mark.parametrize("name", FAMILIES)
DRAWS = 40_000


def member(name: str) -> tuple[supac.Family, FloatArray, FloatArray]:
    """A family with two of its parameters."""
    first, second = FAMILIES[name]
    return first.exponential, first.theta, second.theta


def draws(name: str) -> FloatArray:
    return FAMILIES[name][0].sample(DRAWS, np.random.default_rng(0))


@every_family
def test_mean_statistics_are_the_gradient_of_the_log_partition(name: str) -> None:
    family, theta, _ = member(name)
    numeric = derivative(family.log_partition, theta)
    np.testing.assert_allclose(family.mean_statistics(theta), numeric, rtol=1e-7, atol=1e-8)


@every_family
def test_fisher_is_the_hessian_of_the_log_partition(name: str) -> None:
    family, theta, _ = member(name)
    numeric = derivative(family.mean_statistics, theta)
    np.testing.assert_allclose(family.fisher(theta), numeric, rtol=1e-6, atol=1e-7)


@every_family
def test_mean_statistics_are_means_of_the_statistics(name: str) -> None:
    family, theta, _ = member(name)
    assert_mean(family.statistics(draws(name)), family.mean_statistics(theta))


@every_family
def test_density_integrates_to_one_against_another_member(name: str) -> None:
    family, theta, other = member(name)
    halfway = theta + 0.25 * (other - theta)  # close enough for a ratio of finite variance
    assert_mean(np.exp(family.log_ratio(halfway, theta, draws(name))), 1.0)


@every_family
def test_log_prob_is_the_canonical_formula(name: str) -> None:
    family, theta, _ = member(name)
    x = draws(name)[:100]
    canonical = family.statistics(x) @ theta - family.log_partition(theta) + family.log_base(x)
    np.testing.assert_allclose(family.log_prob(theta, x), canonical, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", SCIPY)
def test_log_prob_is_that_of_scipy(name: str) -> None:
    x = draws(name)[:100]
    expected = SCIPY[name].logpdf(x[:, 0] if x.shape[1] == 1 else x)
    np.testing.assert_allclose(FAMILIES[name][0].log_prob(x), expected, rtol=1e-9, atol=1e-12)


@every_family
def test_kl_is_the_bregman_divergence_of_the_log_partition(name: str) -> None:
    family, theta, other = member(name)
    slope = (other - theta) @ family.mean_statistics(theta)
    bregman = family.log_partition(other) - family.log_partition(theta) - slope
    assert family.kl(theta, other) == pytest.approx(bregman, rel=1e-9)
    assert family.kl(theta, theta) == pytest.approx(0.0, abs=1e-12)


@every_family
def test_kl_is_the_mean_log_ratio(name: str) -> None:
    family, theta, other = member(name)
    assert_mean(family.log_ratio(theta, other, draws(name)), family.kl(theta, other))


def test_kl_of_textbooks() -> None:
    one, two = supac.gaussian([1.0], [[4.0]]), supac.gaussian([0.0], [[1.0]])
    assert one.kl(two) == pytest.approx(np.log(1 / 2) + (4.0 + 1.0) / 2 - 0.5)
    assert supac.exponential(3.0).kl(supac.exponential(1.0)) == pytest.approx(np.log(3) + 1 / 3 - 1)
    assert supac.poisson(4.0).kl(supac.poisson(3.0)) == pytest.approx(4 * np.log(4 / 3) - 1)
    bernoulli = 0.3 * np.log(0.3 / 0.6) + 0.7 * np.log(0.7 / 0.4)
    assert supac.bernoulli(0.3).kl(supac.bernoulli(0.6)) == pytest.approx(bernoulli)
    pareto = np.log(5 / 7) + 7 / 5 - 1
    assert supac.pareto(5.0, 2.0).kl(supac.pareto(7.0, 2.0)) == pytest.approx(pareto)


def test_kl_keeps_its_digits_far_from_the_origin() -> None:
    here, there = supac.gaussian([1e6], [[1.0]]), supac.gaussian([1e6 + 1e-3], [[1.0]])
    assert here.kl(there) == pytest.approx(0.5e-6, rel=1e-6)


@every_family
def test_mean_statistics_round_trip(name: str) -> None:
    family, theta, _ = member(name)
    back = family.from_mean_statistics(family.mean_statistics(theta))
    np.testing.assert_allclose(back, theta, rtol=1e-9, atol=1e-10)


@every_family
def test_moments_round_trip(name: str) -> None:
    family, theta, _ = member(name)
    back = family.from_moments(*family.moments(theta))
    np.testing.assert_allclose(back, theta, rtol=1e-9, atol=1e-10)


@every_family
def test_moments_are_those_of_the_draws(name: str) -> None:
    family, theta, _ = member(name)
    x = draws(name)
    mean, covariance = family.moments(theta)
    assert_mean(x, mean)
    centred = x - mean
    products = centred[:, :, None] * centred[:, None, :]
    assert_mean(products, covariance)


@every_family
def test_whitened_features_are_orthonormal(name: str) -> None:
    family, theta, _ = member(name)
    features = family.whiten(theta).features(draws(name))
    assert_mean(features, 0.0)
    assert_mean(features[:, :, None] * features[:, None, :], np.eye(family.size))


@every_family
def test_coefficients_say_the_same_in_the_statistics(name: str) -> None:
    family, theta, _ = member(name)
    x, beta = draws(name)[:200], np.random.default_rng(1).standard_normal(family.size)
    whitening = family.whiten(theta)
    eta = whitening.coefficients(beta)
    difference = whitening.features(x) @ beta - family.statistics(x) @ eta
    np.testing.assert_allclose(difference, difference[0], rtol=1e-9, atol=1e-9)


@every_family
def test_chart_round_trip_and_chain_rule(name: str) -> None:
    family, theta, _ = member(name)
    phi = family.coordinates(theta)
    assert phi.shape == (family.chart_size,)
    np.testing.assert_allclose(family.from_coordinates(phi), theta, rtol=1e-10, atol=1e-12)
    gradient = np.random.default_rng(2).standard_normal(family.size)
    numeric = derivative(lambda p: family.from_coordinates(p) @ gradient, phi)
    np.testing.assert_allclose(family.pull_back(phi, gradient), numeric, rtol=1e-6, atol=1e-7)


@every_family
def test_draws_are_reproducible_and_of_the_right_shape(name: str) -> None:
    distribution = FAMILIES[name][0]
    first = distribution.sample(7, np.random.default_rng(3))
    assert first.shape == (7, distribution.dim)
    np.testing.assert_array_equal(first, distribution.sample(7, np.random.default_rng(3)))


@pytest.mark.parametrize(
    ("distribution", "outside"),
    [
        (supac.beta(2.0, 3.0), [-0.1, 0.0, 1.0, 1.1]),
        (supac.gamma(2.0, 1.0), [-1.0, 0.0]),
        (supac.exponential(1.0), [-5.0]),
        (supac.pareto(3.0, 2.0), [1.9, -1.0]),
        (supac.bernoulli(0.3), [0.5, 2.0]),
        (supac.poisson(2.0), [1.5, -1.0]),
    ],
)
def test_density_is_zero_outside_the_support(
    distribution: supac.Distribution, outside: list[float]
) -> None:
    assert (distribution.log_prob(np.array(outside)[:, None]) == -np.inf).all()


def test_points_of_another_dimension_are_refused() -> None:
    with pytest.raises(ValueError, match=r"one point a row, \(n, 3\), not \(2, 1\)"):
        supac.gaussian(np.zeros(3), np.eye(3)).log_prob(np.zeros((2, 1)))


def test_covariances_of_very_different_units_are_fine() -> None:
    scales = 10.0 ** np.arange(-6, 7, 3)
    correlation = 0.4 + 0.6 * np.eye(5)
    covariance = correlation * np.outer(scales, scales)
    np.testing.assert_allclose(
        supac.gaussian(np.zeros(5), covariance).covariance, covariance, rtol=1e-9
    )


def test_a_known_covariance_is_kept_when_it_is_nearly_singular() -> None:
    covariance = np.array([[1.0, 1.0 - 1e-12], [1.0 - 1e-12, 1.0]])
    found = supac.fixed_gaussian([0.0, 0.0], covariance).covariance
    np.testing.assert_allclose(found, covariance, rtol=1e-3)


@pytest.mark.parametrize("name", OUTSIDE)
def test_outside_the_domain(name: str) -> None:
    family, values = OUTSIDE[name]
    theta = np.array(values)
    assert family.log_partition(theta) == np.inf
    assert not family.contains(theta)
    with pytest.raises(ValueError, match="outside the domain"):
        supac.Distribution(family, theta)
    assert not family.contains(np.full(family.size, np.nan))


@pytest.mark.parametrize(
    ("family", "mean"),
    [
        (supac.Gaussian(1), [1.0, 0.5]),
        (supac.DiagonalGaussian(1), [1.0, 0.5]),
        (supac.ScaledGaussian(np.eye(1)), [1.0, 0.5]),
        (supac.Beta(), [-0.1, -0.1]),
        (supac.Gamma(), [2.0, 1.0]),
        (supac.Exponential(), [-1.0]),
        (supac.Pareto(1.0), [0.0]),
        (supac.Bernoulli(), [1.0]),
        (supac.Poisson(), [0.0]),
    ],
)
def test_impossible_mean_statistics_are_refused(family: supac.Family, mean: list[float]) -> None:
    with pytest.raises(ValueError, match=r"no .* has mean|must be positive|not positive"):
        family.from_mean_statistics(np.array(mean))


@pytest.mark.parametrize("family", [supac.Beta(), supac.Gamma()])
def test_undefined_mean_statistics_are_refused(family: supac.Family) -> None:
    for mean in ([np.nan, 1.0], [np.nan, np.nan], [-1.0, np.nan]):
        with pytest.raises(ValueError, match="has mean statistics"):
            family.from_mean_statistics(np.array(mean))


@settings(deadline=None, max_examples=30)
@given(
    log_a=st.floats(-3.0, 5.0),
    log_b=st.floats(-3.0, 5.0),
    family=st.sampled_from(["beta", "gamma"]),
)
def test_newton_inverts_the_mean_map_everywhere(log_a: float, log_b: float, family: str) -> None:
    make = supac.beta if family == "beta" else supac.gamma
    distribution = make(float(np.exp(log_a)), float(np.exp(log_b)))
    back = distribution.exponential.from_mean_statistics(distribution.mean_statistics)
    # Digits are lost with the conditioning of the map itself: compare the distributions.
    assert distribution.family.kl(back, distribution.theta) < 1e-9


@settings(deadline=None, max_examples=30)
@given(order=st.permutations(range(4)), cut=st.integers(1, 3))
def test_blocks_may_be_any_permutation(order: list[int], cut: int) -> None:
    blocks = [order[:cut], order[cut:]]
    rng = np.random.default_rng(cut)
    spread = np.zeros((4, 4))
    for block in blocks:
        root = rng.standard_normal((len(block), len(block))) + 2.0 * np.eye(len(block))
        spread[np.ix_(block, block)] = root @ root.T
    mean = rng.standard_normal(4)
    blocked, full = supac.gaussian(mean, spread, blocks=blocks), supac.gaussian(mean, spread)
    x = rng.standard_normal((5, 4))
    np.testing.assert_allclose(blocked.log_prob(x), full.log_prob(x), rtol=1e-9)
    np.testing.assert_allclose(blocked.covariance, spread, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(blocked.mean, mean, rtol=1e-9, atol=1e-12)


def test_indices_in_no_block_stand_alone() -> None:
    distribution = supac.gaussian(np.zeros(4), np.eye(4), blocks=[[2, 0]])
    assert distribution.family == supac.Gaussian(4, blocks=[[0, 2], [1], [3]])
    assert distribution.family != supac.Gaussian(4)
    assert distribution.family.size == 9


def test_families_and_distributions_are_values() -> None:
    assert supac.Gaussian(3) == supac.Gaussian(3)
    assert supac.Gaussian(3) != supac.Gaussian(2)
    assert supac.FixedGaussian(np.eye(2)) == supac.FixedGaussian(np.eye(2))
    assert supac.FixedGaussian(np.eye(2)) != supac.FixedGaussian(2.0 * np.eye(2))
    assert len({supac.beta(1.0, 2.0), supac.beta(1.0, 2.0), supac.beta(2.0, 2.0)}) == 2
    with pytest.raises(ValueError, match="read-only"):
        supac.beta(1.0, 2.0).theta[0] = 3.0
    with pytest.raises(ValueError, match="one family"):
        supac.beta(1.0, 2.0).kl(supac.gamma(1.0, 2.0))


@pytest.mark.parametrize(
    ("mean", "covariance", "blocks", "message"),
    [
        ([0.0, np.nan], np.eye(2), None, "mean contains NaN"),
        ([0.0, 0.0], np.eye(3), None, r"covariance must be a matrix of shape \(2, 2\)"),
        ([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]], None, "covariance is not positive definite"),
        ([0.0, 0.0], [[1.0, 0.5], [0.0, 1.0]], None, "covariance is not symmetric"),
        ([0.0, 0.0], [1.0, -1.0], None, "must be positive"),
        ([[0.0, 0.0]], np.eye(2), None, "mean must be a vector"),
        ("a", np.eye(2), None, "mean must be made of numbers"),
        ([0.0, 0.0], np.eye(2), [[0, 0]], "different indices"),
        ([0.0, 0.0], np.eye(2), [[2]], "from 0 to 1"),
        ([0.0, 0.0], [[1.0, 0.5], [0.5, 1.0]], [[0], [1]], "entries between blocks"),
    ],
)
def test_bad_gaussians_are_refused(
    mean: object, covariance: object, blocks: list[list[int]] | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        supac.gaussian(mean, covariance, blocks)


NORMAL = [name for name in FAMILIES if isinstance(FAMILIES[name][0].whiten(), NormalWhitening)]


@pytest.mark.parametrize("name", NORMAL)
def test_normal_whitenings_invert_and_share_their_features(name: str) -> None:
    distribution = FAMILIES[name][0]
    whitening = distribution.whiten()
    assert isinstance(whitening, NormalWhitening)
    x = distribution.sample(7, 0)
    z = whitening.points(x)
    np.testing.assert_allclose(whitening.spread(z), x, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(whitening.family.features(z), whitening.features(x))
    np.testing.assert_allclose(whitening.mean, distribution.mean)
    np.testing.assert_allclose(whitening.covariance, distribution.covariance, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", NORMAL)
def test_bonnet_and_price_give_the_projection_of_a_quadratic(name: str) -> None:
    """E[f·features] from E[∇f] and E[∇²f], against draws, for f = b·x + ½ xᵀAx."""
    distribution = FAMILIES[name][0]
    whitening = distribution.whiten()
    assert isinstance(whitening, NormalWhitening)
    rng = np.random.default_rng(3)
    slope, root = (
        rng.standard_normal(distribution.dim),
        rng.standard_normal((distribution.dim,) * 2),
    )
    hessian = root + root.T
    beta = whitening.projection(slope + hessian @ distribution.mean, hessian)
    x = distribution.sample(400_000, 4)
    f = x @ slope + 0.5 * np.einsum("ni,ij,nj->n", x, hessian, x)
    terms = (f - f.mean())[:, None] * whitening.features(x)
    error = terms.std(axis=0) / np.sqrt(len(x))
    assert (np.abs(terms.mean(axis=0) - beta) < 5.0 * error).all()
