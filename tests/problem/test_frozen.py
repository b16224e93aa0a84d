"""Posteriors in the user's units, as SciPy spells distributions."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

import supac
from catalogue import FAMILIES, SCIPY
from supac import marginals
from supac.arrays import FloatArray

HOUSE = supac.Parameters(
    {
        "normal": marginals.Normal(3.0, 2.0),
        "log-normal": marginals.LogNormal(1.5, 0.5, unit="1/h"),
        "uniform": marginals.Uniform(-1.0, 4.0),
        "logit-normal": marginals.LogitNormal(0.0, 2.0, 0.5, 0.8),
        "half-normal": marginals.HalfNormal(2.0),
        "log-uniform": marginals.LogUniform(1e-2, 1e1),
    }
)
_MEAN = np.array([0.3, -0.5, 0.8, 0.1, 0.4, -0.2])
_ROOT = np.tril(np.random.default_rng(1).uniform(-0.4, 0.4, (6, 6)), -1) + 0.5 * np.eye(6)
_SPREAD = _ROOT @ _ROOT.T
LATENT = {
    "gaussian": supac.gaussian(_MEAN, _SPREAD),
    "diagonal": supac.gaussian(_MEAN, np.diag(_SPREAD)),
    "mixture": supac.mixture(
        [supac.gaussian(_MEAN, _SPREAD), supac.gaussian(_MEAN + 1.5, 0.2 * _SPREAD)], [0.3, 0.7]
    ),
    "student": supac.student_t(_MEAN, _SPREAD, 6.0),
}
QUANTILES = np.array([1e-6, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1.0 - 1e-6])


@pytest.fixture(scope="module", params=[(kind, name) for kind in LATENT for name in HOUSE.names])
def law(request: pytest.FixtureRequest) -> Any:
    kind, name = request.param
    return supac.Frozen(LATENT[kind], HOUSE).marginal(name)


@pytest.fixture
def shares(request: pytest.FixtureRequest) -> FloatArray:
    """A Student-t's far quantiles are nearer to a bound than numbers of 16 digits can be."""
    return QUANTILES[1:-1] if request.node.callspec.params["law"][0] == "student" else QUANTILES


def test_the_density_is_the_slope_of_the_distribution_function(
    law: Any, shares: FloatArray
) -> None:
    ends = law.ppf(shares)
    pieces = [integrate.quad(law.pdf, a, b)[0] for a, b in pairwise(ends)]
    np.testing.assert_allclose(pieces, np.diff(shares), rtol=1e-8)  # and so its integral is 1


def test_quantiles_are_the_inverse(law: Any, shares: FloatArray) -> None:
    np.testing.assert_allclose(law.cdf(law.ppf(shares)), shares, rtol=1e-9)
    np.testing.assert_allclose(law.sf(law.isf(shares)), shares, rtol=1e-9)
    low, high = law.interval(0.9)
    assert law.cdf(high) - law.cdf(low) == pytest.approx(0.9, rel=1e-12)
    assert law.cdf(law.median()) == pytest.approx(0.5, rel=1e-12)
    lower, upper = law.support()
    assert (law.cdf(lower), law.sf(upper)) == (0.0, 0.0)
    assert np.isnan(law.ppf(1.1))
    if np.isfinite(lower):
        assert law.pdf(lower) == law.pdf(lower - 1.0) == law.cdf(lower - 1.0) == 0.0
        assert law.logpdf(lower - 1.0) == -np.inf


@pytest.mark.parametrize("kind", ["gaussian", "mixture"])
@pytest.mark.parametrize("name", HOUSE.names)
def test_moments_are_integrals_of_the_density(kind: str, name: str) -> None:
    law = supac.Frozen(LATENT[kind], HOUSE).marginal(name)
    ends = law.ppf(np.array([1e-14, *QUANTILES, 1.0 - 1e-14]))

    def expected(power: int) -> float:
        pairs = pairwise(ends)
        return sum(integrate.quad(lambda x: x**power * law.pdf(x), a, b)[0] for a, b in pairs)

    assert law.mean() == pytest.approx(expected(1), rel=1e-7)
    assert law.var() == pytest.approx(expected(2) - expected(1) ** 2, rel=1e-6)
    assert law.std() == np.sqrt(law.var())


@pytest.mark.parametrize("kind", LATENT)
def test_it_is_the_law_of_its_draws(kind: str) -> None:
    n, frozen = 100_000, supac.Frozen(LATENT[kind], HOUSE)
    draws = frozen.rvs(n, random_state=3)
    np.testing.assert_array_equal(draws, HOUSE.sample(LATENT[kind], n, 3))
    shares = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    for name, column in zip(frozen.names, draws.T, strict=True):
        law = frozen.marginal(name)
        for x in (column, law.rvs(n, random_state=4)):
            below = (x[:, None] <= law.ppf(shares)).mean(axis=0)
            # 240 comparisons: beyond 4.5 standard errors is one in 600.
            assert (np.abs(below - shares) < 4.5 * np.sqrt(shares * (1.0 - shares) / n)).all()


@pytest.mark.parametrize("kind", ["gaussian", "mixture"])
def test_the_covariance_is_that_of_its_draws(kind: str) -> None:
    n, frozen = 200_000, supac.Frozen(LATENT[kind], HOUSE)
    draws = frozen.rvs(n, random_state=5)
    away = (draws - frozen.mean()) / frozen.std()
    expected = frozen.cov() / np.outer(frozen.std(), frozen.std())
    for i in range(6):
        for j in range(i + 1):
            products = away[:, i] * away[:, j]
            assert abs(products.mean() - expected[i, j]) < 4.5 * products.std() / np.sqrt(n)
    assert np.linalg.eigvalsh(expected).min() > 0.0


def test_covariances_with_a_formula_are_exact() -> None:
    spread = np.array([[1.0, 0.9], [0.9, 1.0]])
    two = {"a": marginals.Uniform(0.0, 1.0), "b": marginals.Uniform(0.0, 1.0)}
    copula = supac.Frozen(supac.gaussian(np.zeros(2), spread), supac.Parameters(two))
    assert copula.cov()[0, 1] == pytest.approx(np.arcsin(0.45) / (2.0 * np.pi), rel=1e-12)
    np.testing.assert_allclose(copula.var(), 1.0 / 12.0, rtol=1e-12)
    logs = {"a": marginals.LogNormal(2.0, 0.4), "b": marginals.LogNormal(0.1, 2.5)}
    wide = supac.Frozen(supac.gaussian([0.5, -1.0], spread), supac.Parameters(logs))
    means = wide.mean()
    expected = np.array([2.0 * np.exp(0.2 + 0.08), 0.1 * np.exp(-2.5 + 0.5 * 2.5**2)])
    np.testing.assert_allclose(means, expected, rtol=1e-12)
    assert wide.cov()[0, 1] == pytest.approx(
        means[0] * means[1] * np.expm1(0.4 * 2.5 * 0.9), rel=1e-10
    )
    assert wide.var()[1] == pytest.approx(means[1] ** 2 * np.expm1(2.5**2), rel=1e-10)


@pytest.mark.parametrize("rho", [0.5, 0.99, -0.9999])
@pytest.mark.parametrize("spread", [1.0, 4.0, 20.0, 50.0])
def test_covariances_of_wide_gaussians_have_many_digits(spread: float, rho: float) -> None:
    # Φ(s z_i) is the share of independent normals below s z_i: an angle between two planes.
    latent = supac.gaussian(np.zeros(2), spread**2 * np.array([[1.0, rho], [rho, 1.0]]))
    two = {"a": marginals.Uniform(0.0, 1.0), "b": marginals.Uniform(0.0, 1.0)}
    steep = spread**2 / (1.0 + spread**2)
    expected = np.arcsin(np.array([[steep, rho * steep], [rho * steep, steep]])) / (2.0 * np.pi)
    found = supac.Frozen(latent, supac.Parameters(two)).cov()
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    # A half-normal parameter is above x where a normal is above what stands at x.
    half = {"a": marginals.HalfNormal(1.0), "b": marginals.Normal(0.0, 1.0)}
    frozen = supac.Frozen(latent, supac.Parameters(half))
    law = frozen.marginal("a")
    ends = law.ppf(np.array([*QUANTILES, 1.0 - 1e-14]))
    mean = sum(integrate.quad(law.sf, x, y)[0] for x, y in pairwise([0.0, *ends]))
    assert frozen.mean()[0] == pytest.approx(mean, rel=1e-6)


@pytest.mark.parametrize("rate", [0.5, 9.0, 13.0])
def test_covariances_of_wide_log_normals_have_many_digits(rate: float) -> None:
    spread = np.array([[1.0, 0.9, -0.8], [0.9, 1.0, -0.7], [-0.8, -0.7, 1.0]])
    mixed = {
        "a": marginals.LogNormal(1.0, rate),
        "b": marginals.Uniform(0.0, 1.0),
        "c": marginals.LogNormal(2.0, 0.3),
    }
    found = supac.Frozen(supac.gaussian(np.zeros(3), spread), supac.Parameters(mixed))
    means = np.exp(0.5 * rate**2), 2.0 * np.exp(0.5 * 0.3**2)
    covariance = found.cov()
    np.testing.assert_allclose(found.mean(), [means[0], 0.5, means[1]], rtol=1e-12)
    below = stats.norm.cdf(rate * 0.9 / np.sqrt(2.0))
    assert covariance[0, 1] == pytest.approx(means[0] * (below - 0.5), rel=1e-10)
    both = means[0] * means[1] * np.expm1(-0.8 * 0.3 * rate)
    assert covariance[0, 2] == covariance[2, 0] == pytest.approx(both, rel=1e-10)
    assert covariance[0, 0] == pytest.approx(means[0] ** 2 * np.expm1(rate**2), rel=1e-10)


def test_what_is_too_steep_for_integrals_is_drawn() -> None:
    spread = 1e4 * np.array([[1.0, 0.9], [0.9, 1.0]])
    two = supac.Parameters({name: marginals.Uniform(0.0, 1.0) for name in "ab"})
    latent = supac.gaussian(np.array([10.0, 0.0]), spread)
    frozen, n = supac.Frozen(latent, two), 200_000
    x = two.sample(latent, n, 0)
    np.testing.assert_allclose(frozen.cov(), np.cov(x.T), rtol=1e-12)
    mean = stats.norm.cdf(10.0 / np.sqrt(1.0 + 1e4))
    assert abs(frozen.mean()[0] - mean) < 4.0 * x[:, 0].std() / np.sqrt(n)


def test_scipy_knows_some_of_them() -> None:
    latent = supac.gaussian([0.5, -1.0], [[0.5, 0.2], [0.2, 0.3]])
    plain = {"a": marginals.Normal(3.0, 2.0), "b": marginals.Normal(-1.0, 0.5)}
    frozen = supac.Frozen(latent, supac.Parameters(plain))
    scales = np.array([2.0, 0.5])
    theirs = stats.multivariate_normal(
        [3.0 + 2.0 * 0.5, -1.0 + 0.5 * -1.0], latent.covariance * np.outer(scales, scales)
    )
    x = theirs.rvs(20, random_state=0)
    np.testing.assert_allclose(frozen.logpdf(x), theirs.logpdf(x), rtol=1e-12)
    np.testing.assert_allclose(frozen.mean(), theirs.mean, rtol=1e-12)
    np.testing.assert_allclose(frozen.cov(), theirs.cov, rtol=1e-12)
    logs = {"a": marginals.LogNormal(3.0, 2.0), "b": marginals.LogNormal(0.2, 0.5)}
    frozen = supac.Frozen(latent, supac.Parameters(logs))
    behind = stats.multivariate_normal(
        np.log([3.0, 0.2]) + scales * latent.mean, latent.covariance * np.outer(scales, scales)
    )
    x = frozen.rvs(20, random_state=0)
    expected = behind.logpdf(np.log(x)) - np.log(x).sum(axis=1)
    np.testing.assert_allclose(frozen.logpdf(x), expected, rtol=1e-10)
    law = frozen.marginal("b")
    known = stats.lognorm(0.5 * np.sqrt(0.3), scale=0.2 * np.exp(-0.5))
    for method in ("pdf", "logpdf", "cdf", "sf"):
        np.testing.assert_allclose(getattr(law, method)(x), getattr(known, method)(x), rtol=1e-9)
    np.testing.assert_allclose(law.ppf(QUANTILES), known.ppf(QUANTILES), rtol=1e-9)
    np.testing.assert_allclose([law.mean(), law.var()], known.stats(), rtol=1e-9)


@pytest.mark.parametrize("name", SCIPY)
def test_families_without_parameters_are_scipy_s_own(name: str) -> None:
    latent, theirs = FAMILIES[name][0], SCIPY[name]
    frozen = supac.Frozen(latent)
    x = frozen.rvs(50, random_state=0)
    np.testing.assert_allclose(frozen.logpdf(x), np.ravel(theirs.logpdf(x)), rtol=1e-9, atol=1e-9)
    if latent.dim == 1:
        law = frozen.marginal(0)
        np.testing.assert_allclose(law.ppf(QUANTILES), theirs.ppf(QUANTILES), rtol=1e-12)
        np.testing.assert_allclose([law.mean(), law.var()], theirs.stats(), rtol=1e-12)
        np.testing.assert_allclose(frozen.var(), law.var(), rtol=1e-9)
    else:
        law = frozen.marginal("x1")
        np.testing.assert_allclose(law.mean(), latent.mean[1])
        np.testing.assert_allclose(law.var(), latent.covariance[1, 1])


@pytest.mark.parametrize("name", FAMILIES)
def test_every_coordinate_of_every_family_has_a_marginal(name: str) -> None:
    latent = FAMILIES[name][0]
    frozen = supac.Frozen(latent)
    for i in range(latent.dim):
        law = frozen.marginal(i)
        assert law.mean() == pytest.approx(latent.mean[i], rel=1e-9)
        assert law.std() == pytest.approx(np.sqrt(latent.covariance[i, i]), rel=1e-9)


def test_shapes_are_scipy_s() -> None:
    frozen = supac.Frozen(LATENT["gaussian"], HOUSE)
    assert frozen.rvs(random_state=0).shape == (6,)
    assert frozen.rvs(1, random_state=0).shape == (6,)
    assert frozen.rvs((2, 3), random_state=0).shape == (2, 3, 6)
    assert frozen.logpdf(frozen.rvs((2, 3), random_state=0)).shape == (2, 3)
    assert np.ndim(frozen.pdf(frozen.mean())) == 0
    law = frozen.marginal("uniform")
    assert np.ndim(law.rvs(random_state=0)) == 0
    assert law.rvs((2, 3), random_state=0).shape == law.pdf(np.ones((2, 3))).shape == (2, 3)
    assert np.ndim(law.ppf(0.5)) == np.ndim(law.cdf(0.5)) == 0
    outside = frozen.mean() + np.array([0.0, 0.0, 9.0, 0.0, 0.0, 0.0])
    np.testing.assert_array_equal(frozen.pdf([frozen.mean(), outside]) > 0.0, [True, False])
    assert np.isnan(frozen.logpdf(np.full(6, np.nan)))


def test_heavy_tails_have_no_mean_behind_an_exponential() -> None:
    frozen = supac.Frozen(LATENT["student"], HOUSE)
    i = HOUSE.names.index("log-normal")
    assert np.isposinf(frozen.mean()[i])
    assert np.isposinf(frozen.var()[i])
    assert np.isfinite(np.delete(frozen.mean(), i)).all()


class Own(supac.ParametricFamily):
    """A Gaussian of variance 1 that nobody knows to be one."""

    def log_prob(self, theta: FloatArray, x: FloatArray) -> FloatArray:
        return -0.5 * ((x - theta) ** 2).sum(axis=1) - 0.5 * self.dim * np.log(2.0 * np.pi)

    def score(self, theta: FloatArray, x: FloatArray) -> FloatArray:
        return x - theta

    def sample(self, theta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        return theta + rng.standard_normal((n, self.dim))


def test_what_is_asked_for_wrongly_is_named() -> None:
    frozen = supac.Frozen(LATENT["gaussian"], HOUSE)
    with pytest.raises(ValueError, match=r"one of normal, log-normal, .* not 'rate'"):
        frozen.marginal("rate")
    with pytest.raises(ValueError, match="not 6"):
        frozen.marginal(6)
    for truth in (True, np.True_):
        with pytest.raises(ValueError, match="or its number, not"):
            frozen.marginal(truth)  # type: ignore[arg-type]
    for number in (np.int64(2), np.uint8(2), -4, np.int32(-4)):
        assert frozen.marginal(number).mean() == frozen.marginal("uniform").mean()
    with pytest.raises(ValueError, match=r"one point a row, \(…, 6\), not \(2,\)"):
        frozen.logpdf([0.0, 1.0])
    with pytest.raises(ValueError, match="the distribution needs 1 parameters"):
        supac.Frozen(supac.beta(1, 1), HOUSE)
    own = supac.Frozen(supac.Distribution(Own(2, 2), np.zeros(2)))
    assert own.pdf([0.0, 0.0]) == pytest.approx(0.5 / np.pi)
    with pytest.raises(TypeError, match=r"use draws, rvs\(n\)"):
        own.marginal(0)
    counts = supac.mixture([supac.poisson(2.0), supac.poisson(9.0)])
    with pytest.raises(TypeError, match="discrete distributions have no quantiles"):
        supac.Frozen(counts).marginal(0)
    named = supac.Parameters({"k": marginals.LogNormal(1.0, 0.1)})
    with pytest.raises(TypeError, match=r"^discrete distributions have no quantiles"):
        supac.Frozen(supac.poisson(2.0), named).marginal(0)


def test_results_and_stores_have_one(tmp_path: Path) -> None:
    parameters = supac.Parameters({"k": marginals.LogNormal(1.0, 0.5)})
    result = supac.minimize(
        lambda x: float(np.tanh((x[0] - 1.4) ** 2)),
        parameters,
        supac.Catoni(0.1),
        budget=40,
        store=tmp_path / "run.supac",
    )
    draws = result.frozen.rvs(5, random_state=0)
    np.testing.assert_array_equal(draws, result.sample(5, 0))
    stored = supac.read_store(tmp_path / "run.supac").frozen
    np.testing.assert_array_equal(stored.cov(), result.frozen.cov())
    np.testing.assert_allclose(
        result.frozen.logpdf(draws), parameters.log_prob(result.posterior, draws), rtol=1e-12
    )
