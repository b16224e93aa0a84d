"""The laws of parametric families that need not be exponential, each on every row of a table."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

import supac
from numerics import assert_mean, derivative
from supac.arrays import FloatArray
from supac.calibration.setup import _check_score
from supac.codec import from_spec, to_spec
from supac.search.ray import view_prior

_SPREAD = np.array([[2.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 0.5]])
_CENTRE = np.array([1.0, -2.0, 0.5])
_PRIOR = supac.gaussian(np.zeros(3), 2.0 * np.eye(3))
_DRAWS = 100_000


class Laplace(supac.ParametricFamily):
    """Independent Laplace laws, θ = (locations, log scales): a family of a user's own."""

    def __init__(self, dim: int):
        super().__init__(dim, 2 * dim)

    def log_prob(self, theta: FloatArray, x: FloatArray) -> FloatArray:
        location, log_scale = np.split(theta, 2)
        away = np.abs(x - location) / np.exp(log_scale)
        return -(away + log_scale + np.log(2.0)).sum(axis=1)

    def score(self, theta: FloatArray, x: FloatArray) -> FloatArray:
        location, log_scale = np.split(theta, 2)
        z = (x - location) / np.exp(log_scale)
        return np.hstack([np.sign(z) / np.exp(log_scale), np.abs(z) - 1.0])

    def sample(self, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        location, log_scale = np.split(theta, 2)
        return rng.laplace(location, np.exp(log_scale), (n, self.dim))


MEMBERS: dict[str, supac.Distribution] = {
    "mixture": supac.mixture(
        [supac.gaussian(_CENTRE, _SPREAD), supac.gaussian(-_CENTRE, 0.5 * np.eye(3))], [0.3, 0.7]
    ),
    "diagonal mixture": supac.mixture(
        [supac.gaussian(_CENTRE, 1.0), supac.gaussian(-_CENTRE, [0.2, 1.0, 2.0])]
    ),
    "beta mixture": supac.mixture([supac.beta(2.0, 3.0), supac.beta(5.0, 1.5)], [2.0, 1.0]),
    "low rank": supac.low_rank_gaussian(_CENTRE, _SPREAD, 1),
    "student": supac.student_t(_CENTRE, _SPREAD, 5.0),
    "laplace": supac.Distribution(Laplace(3), np.array([1.0, -2.0, 0.5, 0.0, 0.5, -0.3])),
}
every_member = pytest.mark.parametrize("name", MEMBERS)
with_gaussian_prior = pytest.mark.parametrize("name", [n for n in MEMBERS if n != "beta mixture"])


def moved(member: supac.Distribution) -> supac.Distribution:
    """Another member, close by."""
    return member.at(1.03 * member.theta)


@every_member
def test_score_is_the_gradient_of_the_log_density(name: str) -> None:
    member = MEMBERS[name]
    x = member.sample(20, 0)
    numeric = derivative(lambda theta: member.family.log_prob(theta, x), member.theta).T
    np.testing.assert_allclose(member.family.score(member.theta, x), numeric, rtol=1e-6, atol=1e-7)


@every_member
def test_score_has_mean_zero(name: str) -> None:
    member = MEMBERS[name]
    assert_mean(member.family.score(member.theta, member.sample(_DRAWS, 1)), 0.0)


@every_member
def test_density_integrates_to_one_against_another_member(name: str) -> None:
    member = MEMBERS[name]
    x = member.sample(_DRAWS, 2)
    assert_mean(np.exp(moved(member).log_prob(x) - member.log_prob(x)), 1.0)


@every_member
def test_moments_are_those_of_the_draws(name: str) -> None:
    member = MEMBERS[name]
    if name == "laplace":  # its moments are from draws
        error = np.sqrt(
            2.0 * np.exp(2.0 * member.theta[3:]) / len(member.family.draws(member.theta))
        )
        assert (np.abs(member.mean - member.theta[:3]) < 5.0 * error).all()
        return
    x = member.sample(_DRAWS, 3)
    assert_mean(x, member.mean)
    away = x - member.mean
    assert_mean(away[:, :, None] * away[:, None, :], member.covariance)


@every_member
def test_whitened_scores_are_orthonormal(name: str) -> None:
    member = MEMBERS[name]
    whitening = member.whiten()
    features = whitening.features(member.sample(20_000, 4))
    products = features[:, :, None] * features[:, None, :]
    # The whitening rests on fewer draws than this check of it: theirs is the larger error.
    error = products.std(axis=0) / np.sqrt(len(member.family.draws(member.theta)))
    gap = np.abs(products.mean(axis=0) - np.eye(member.family.size))
    assert (gap < 6.0 * error + 1e-11).all()  # the whitening's ridge is 1e-12
    beta = np.random.default_rng(0).standard_normal(member.family.size)
    x = member.sample(5, 5)
    np.testing.assert_allclose(
        member.family.score(member.theta, x) @ whitening.coefficients(beta),
        whitening.features(x) @ beta,
        rtol=1e-8,
        atol=1e-8,
    )


@with_gaussian_prior
def test_divergence_is_the_mean_log_ratio(name: str) -> None:
    member = MEMBERS[name]
    x = member.sample(_DRAWS, 6)
    ratio = member.log_prob(x) - _PRIOR.log_prob(x)
    found = member.divergence(_PRIOR)
    error = np.hypot(ratio.std() / np.sqrt(len(x)), found.error)
    assert abs(found.value - ratio.mean()) < 5.0 * error
    exact = name in ("low rank", "student")
    assert (found.error == 0.0) == exact
    assert (found.upper(0.01) == found.value) == exact


@every_member
def test_kl_between_members(name: str) -> None:
    member = MEMBERS[name]
    other = moved(member)
    x = member.sample(_DRAWS, 7)
    ratio = member.log_prob(x) - other.log_prob(x)
    assert member.kl(member) == pytest.approx(0.0, abs=1e-12)
    error = ratio.std() * (1.0 / np.sqrt(len(x)) + 1.0 / np.sqrt(2_000))
    assert member.kl(other) == pytest.approx(ratio.mean(), abs=5.0 * error)
    assert member.family.kl(np.full(member.family.size, np.nan), member.theta) == np.inf


@every_member
def test_the_same_generator_gives_draws_that_are_smooth_in_theta(name: str) -> None:
    """Common random numbers: what a search compares must not jump."""
    member = MEMBERS[name]
    near = member.at(member.theta * (1.0 + 1e-7))
    assert np.median(np.abs(near.sample(1_000, 8) - member.sample(1_000, 8))) < 1e-4


@pytest.mark.parametrize("name", [name for name in MEMBERS if name != "laplace"])
def test_families_are_values(name: str) -> None:
    member = MEMBERS[name]
    assert from_spec(to_spec(member)) == member
    assert hash(from_spec(to_spec(member.family))) == hash(member.family)
    assert member.family != MEMBERS["laplace"].family
    assert from_spec(to_spec(member.family)).__repr__() == repr(member.family)


def test_student_t_is_scipys() -> None:
    x = MEMBERS["student"].sample(50, 9)
    expected = scipy.stats.multivariate_t(_CENTRE, _SPREAD, df=5).logpdf(x)
    np.testing.assert_allclose(MEMBERS["student"].log_prob(x), expected, rtol=1e-10)


def test_low_rank_is_the_gaussian_of_its_moments() -> None:
    member = MEMBERS["low rank"]
    full = supac.gaussian(member.mean, member.covariance)
    x = member.sample(50, 10)
    np.testing.assert_allclose(member.log_prob(x), full.log_prob(x), rtol=1e-10)
    prior = supac.gaussian(np.ones(3), _SPREAD)
    assert member.divergence(prior).value == pytest.approx(full.kl(prior), rel=1e-10)
    np.testing.assert_allclose(np.diag(member.covariance), np.diag(_SPREAD), rtol=1e-10)


def _many(rank: int, dim: int = 45) -> supac.Distribution:
    rng = np.random.default_rng(3)
    factor = rng.standard_normal((dim, dim)) / np.sqrt(dim)
    return supac.low_rank_gaussian(rng.standard_normal(dim), factor @ factor.T + np.eye(dim), rank)


@pytest.mark.parametrize(("dim", "rank"), [(2, 1), (3, 1), (8, 3), (45, 2)])
def test_the_information_of_low_rank_members_is_that_of_their_moments(dim: int, rank: int) -> None:
    """∂_aμᵀ·P·∂_bμ + ½tr(P ∂_aΣ P ∂_bΣ), with differences in place of ∂."""
    member, step = _many(rank, dim), 1e-5
    family = member.family
    ends = [
        [family.moments(member.theta + s * e) for s in (step, -step)] for e in np.eye(family.size)
    ]
    centre = np.array([(up[0] - down[0]) / (2.0 * step) for up, down in ends])
    spread = np.array([(up[1] - down[1]) / (2.0 * step) for up, down in ends])
    precision = np.linalg.inv(member.covariance)
    expected = centre @ precision @ centre.T
    expected += 0.5 * np.einsum("aij,bji->ab", precision @ spread, precision @ spread)
    np.testing.assert_allclose(family.information(member.theta), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("dim", [3, 45])
def test_the_information_of_low_rank_members_is_the_covariance_of_the_score(dim: int) -> None:
    member, n = _many(rank=2, dim=dim), 100_000
    family = member.family
    score = family.score(member.theta, member.sample(n, 5))
    exact = family.information(member.theta)
    # Each entry is a mean of n products, whose variance is at most E[a⁴] + E[b⁴] over two.
    fourth = (score**4).mean(axis=0)
    error = np.sqrt((fourth[:, None] + fourth) / 2.0 / n)
    assert (np.abs(score.T @ score / n - exact) < 6.0 * error).all()


def test_the_gradient_of_a_mean_is_that_of_a_quadratic_functions() -> None:
    member, rng, step = _many(rank=3), np.random.default_rng(4), 1e-5
    family, slope = member.family, rng.standard_normal(45)
    root = rng.standard_normal((45, 45))
    hessian = root + root.T

    def mean(theta: FloatArray) -> float:
        centre, covariance = family.moments(theta)
        return float(
            slope @ centre + 0.5 * (centre @ hessian @ centre + np.vdot(hessian, covariance))
        )

    found = family.mean_gradient(member.theta, slope + hessian @ member.mean, hessian)
    shifts = step * np.eye(family.size)
    expected = np.array([mean(member.theta + e) - mean(member.theta - e) for e in shifts])
    expected /= 2.0 * step
    assert found is not None
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


def test_from_a_low_rank_member_a_prior_of_many_parameters_is_seen_exactly() -> None:
    """A natural-gradient step to θ_p lowers KL, and at the prior itself there is none."""
    member = _many(rank=2)
    family, prior = member.family, supac.gaussian(np.zeros(45), np.eye(45))
    seen = view_prior(prior, member, np.random.default_rng(0))
    step = 0.1 * (seen.theta - member.theta)
    assert seen.kl(member.theta + step) < 0.9 * seen.kl(member.theta)
    own = supac.gaussian(member.mean, member.covariance)
    np.testing.assert_allclose(
        view_prior(own, member, np.random.default_rng(0)).theta, member.theta, atol=1e-9
    )
    assert family.kl(member.theta, member.theta) == pytest.approx(0.0, abs=1e-9)


def test_a_mixture_of_equal_components_is_that_component() -> None:
    one = supac.gaussian(_CENTRE, _SPREAD)
    both = supac.mixture([one, one], [0.2, 0.8])
    x = one.sample(50, 11)
    np.testing.assert_allclose(both.log_prob(x), one.log_prob(x), rtol=1e-12)
    assert both.divergence(_PRIOR).value == pytest.approx(one.kl(_PRIOR), rel=1e-10)
    np.testing.assert_allclose(both.covariance, one.covariance, rtol=1e-12)


def test_the_upper_limit_of_a_mixtures_kl_holds() -> None:
    """Hoeffding at 20 %: of 200 estimates, no more may fail than chance allows."""
    member = MEMBERS["mixture"]
    x = member.sample(2_000_000, 12)
    true = float((member.log_prob(x) - _PRIOR.log_prob(x)).mean())
    limits = [member.divergence(_PRIOR, seed, 500).upper(0.2) for seed in range(200)]
    assert sum(limit < true for limit in limits) <= scipy.stats.binom.ppf(0.999, 200, 0.2)
    assert max(limits) < true + 0.1  # and it is of use


def test_divergence_between_gaussians_of_different_families_is_exact() -> None:
    diagonal = supac.gaussian(_CENTRE, [0.5, 1.0, 2.0])
    full = supac.gaussian(_CENTRE, np.diag([0.5, 1.0, 2.0]))
    found = diagonal.divergence(_PRIOR)
    assert found.error == found.spread == 0.0
    assert found.value == pytest.approx(full.kl(_PRIOR), rel=1e-12)


def test_divergence_is_infinite_where_the_prior_does_not_reach() -> None:
    assert MEMBERS["mixture"].divergence(_Nowhere()).value == np.inf


class _Nowhere:
    def log_prob(self, x: FloatArray) -> FloatArray:
        return np.where(x[:, 0] > 0.0, 0.0, -np.inf)


def test_split_mixture_has_about_the_moments_of_what_it_splits() -> None:
    whole = supac.gaussian(_CENTRE, _SPREAD)
    parts = supac.split_mixture(whole, 6, seed=3)  # a pair for each of three directions
    np.testing.assert_allclose(parts.mean, whole.mean, atol=1e-10)
    np.testing.assert_allclose(parts.covariance, whole.covariance, rtol=1e-10)


@pytest.mark.parametrize("wanted", [[100.0, -100.0], [-100.0, -50.0], [100.0, 100.0]])
def test_weights_of_a_mixture_never_vanish(wanted: list[float]) -> None:
    one = supac.gaussian(_CENTRE, _SPREAD)
    member = supac.mixture([one, supac.gaussian(-_CENTRE, _SPREAD), one])
    family = member.family
    assert isinstance(family, supac.Mixture)
    far = member.theta.copy()
    far[:2] = wanted
    aimed = member.theta
    for _ in range(5_000):
        near, aimed = aimed, family.aim(aimed, far)
        assert np.abs(aimed[:2] - near[:2]).max() < 0.3
    weights = np.exp(family.split(aimed)[0])
    assert weights.max() / weights.min() == pytest.approx(20.0)
    np.testing.assert_array_equal(aimed[2:], far[2:])


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
@pytest.mark.parametrize(
    "whole", [supac.gaussian([0.5], [[2.0]]), supac.gaussian(_CENTRE, _SPREAD), supac.gamma(0.2, 1)]
)
def test_split_mixture_has_components_of_their_own(whole: supac.Distribution, count: int) -> None:
    parts = supac.split_mixture(whole, count)
    family = parts.family
    assert isinstance(family, supac.Mixture)
    means = [family.base.moments(each)[0] for each in family.split(parts.theta)[1]]
    assert len(np.unique(np.round(means, 9), axis=0)) == count
    np.testing.assert_allclose(parts.mean, whole.mean, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("shift", [0.0, 100.0])
def test_a_right_score_passes_the_door_at_every_scale(scale: float, shift: float) -> None:
    prior = supac.gaussian(np.full(2, shift * scale), scale**2 * np.eye(2))
    for start in (
        supac.split_mixture(prior, 2),
        supac.student_t(prior.mean, prior.covariance, 5.0),
        supac.low_rank_gaussian(prior.mean, prior.covariance, 1),
    ):
        _check_score(start)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: supac.mixture([]), "at least one"),
        (lambda: supac.mixture([supac.beta(1, 1), supac.gamma(1, 1)]), "from one family"),
        (lambda: supac.mixture([supac.beta(1, 1)], [0.0]), "must be positive"),
        (lambda: supac.Mixture(supac.Gaussian(2), 0), "count"),
        (lambda: supac.LowRankGaussian(2, 2), "less than the 2 coordinates"),
        (lambda: supac.student_t(np.zeros(2), np.eye(2), 2.0), "more than 2"),
        (lambda: supac.student_t(np.zeros(2), np.eye(2), -1.0), "freedom"),
        (lambda: supac.student_t(np.zeros(2), -np.eye(2), 3.0), "positive definite"),
    ],
)
def test_wrong_arguments_are_named(make: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()  # type: ignore[operator]


def test_what_is_for_exponential_families_says_so() -> None:
    with pytest.raises(TypeError, match="not an exponential family"):
        _ = MEMBERS["student"].mean_statistics
    with pytest.raises(TypeError, match="exponential family"):
        supac.Mixture(MEMBERS["student"].family, 2)  # type: ignore[arg-type]
