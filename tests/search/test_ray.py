"""The minimiser on the ray: the global one, for every bound and family, by fast moments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import supac
from catalogue import FAMILIES
from supac.arrays import FloatArray
from supac.families.gaussian import GaussianFamily
from supac.search.ray import LocalPrior, _ray, ray_minimiser, view_prior
from supac.surrogate.estimator import Surrogate

RNG = np.random.default_rng(0)
BOUNDS: dict[str, supac.Bound] = {
    "auto": supac.Catoni("auto", 100, 0.05),
    "mcallester": supac.McAllester(100, 0.05),
    "seeger": supac.MaurerLangfordSeeger(100, 0.05),
    "tolstikhin": supac.TolstikhinSeldin(30, 0.05),
    "thiemann": supac.Thiemann(400, 0.05),
}
GAUSSIAN = [name for name, pair in FAMILIES.items() if isinstance(pair[0].family, GaussianFamily)]


def surrogate(at: supac.Distribution, deviation: float, seed: int) -> Surrogate:
    """Return a surrogate in a random direction, with this deviation under `at`."""
    eta = at.whiten().coefficients(np.random.default_rng(seed).standard_normal(at.family.size))
    scores = at.family.score(at.theta, at.sample(2_000, 2)) @ eta
    return Surrogate(eta * deviation / float(scores.std()), 0.5, at, deviation)


def along(ray: Surrogate, view: LocalPrior, bound: supac.Bound, betas: FloatArray) -> FloatArray:
    """Compute the bound at each β from the definitions."""
    values = []
    for beta in betas:
        theta = view.theta - beta * ray.eta
        kl = view.kl(theta)
        values.append(bound(ray.mean_under(theta), kl) if np.isfinite(kl) else np.inf)
    return np.array(values)


@pytest.mark.parametrize("name", GAUSSIAN)
@pytest.mark.parametrize("seed", range(3))
def test_moments_on_the_ray_are_those_of_the_family(name: str, seed: int) -> None:
    prior, at = FAMILIES[name]
    found, view = surrogate(at, 0.1, seed), view_prior(prior, at, RNG)
    betas = np.geomspace(1e-4, 1e4, 50)
    ray = _ray(found, view)
    assert ray is not None
    means, kls = ray(betas)
    thetas = [prior.theta - beta * found.eta for beta in betas]
    np.testing.assert_allclose(kls, [view.kl(theta) for theta in thetas], rtol=1e-7, atol=1e-12)
    inside = np.isfinite(kls)
    expected = [found.mean_under(theta) for theta in np.array(thetas)[inside]]
    np.testing.assert_allclose(means[inside], expected, rtol=1e-9, atol=1e-11)


class Flat:
    """A density that is wider than the posterior in one direction: its log projects outside Θ."""

    def log_prob(self, x: FloatArray) -> FloatArray:
        return np.asarray(0.1 * x[:, 0] ** 2 - 0.7 * x[:, 1] ** 2 - 0.3 * x[:, 0])


def test_a_prior_that_looks_like_no_member_from_here_has_the_same_moments() -> None:
    at = supac.gaussian([0.2, -0.1], [[0.5, 0.2], [0.2, 0.6]])
    view = view_prior(Flat(), at, RNG)
    assert not at.family.contains(view.theta)
    eta = at.exponential.from_mean_statistics(at.mean_statistics) * -0.05
    found = Surrogate(eta, 0.5, at, deviation=0.1)
    ray = _ray(found, view)
    assert ray is not None
    betas = np.geomspace(0.1, 100.0, 30)
    means, kls = ray(betas)
    assert np.isinf(kls).any()
    low, _ = ray.ends
    assert low > 0.0
    assert at.family.contains(view.theta - 1.001 * low * eta)
    assert not at.family.contains(view.theta - 0.999 * low * eta)
    thetas = [view.theta - beta * eta for beta in betas]
    np.testing.assert_allclose(kls, [view.kl(theta) for theta in thetas], rtol=1e-6)
    inside = np.isfinite(kls)
    expected = [found.mean_under(theta) for theta in np.array(thetas)[inside]]
    np.testing.assert_allclose(means[inside], expected, rtol=1e-6)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("bound", BOUNDS)
def test_no_point_of_a_fine_grid_is_lower(name: str, bound: str) -> None:
    prior, at = FAMILIES[name]
    view = view_prior(prior, at, RNG)
    for seed, deviation in enumerate([0.003, 0.05, 0.3]):
        found = surrogate(at, deviation, seed)
        theta = ray_minimiser(BOUNDS[bound], found, view)
        assert at.family.contains(theta)
        best = BOUNDS[bound](found.mean_under(theta), view.kl(theta))
        grid = np.exp(np.linspace(-9.0, 9.0, 100)) / deviation
        lowest = along(found, view, BOUNDS[bound], grid).min()
        assert best <= lowest + 1e-9 * abs(lowest)


class TwoWells(supac.Bound):
    """The lower of two of Catoni's objectives, whose temperatures are far apart."""

    def __init__(self, offset: float) -> None:
        self.offset = offset

    def __call__(self, mean_risk: float, kl: float) -> float:
        return min(mean_risk + 0.5 * kl, mean_risk + 0.01 * kl + self.offset)


@pytest.mark.parametrize("lift", [-1e-3, 1e-3])
def test_the_lower_of_two_minima_is_found(lift: float) -> None:
    """f = a·z: the minimum with temperature λ is at β = 1/λ, and a²/(2λ) below the prior's mean."""
    prior, slope = supac.gaussian(np.zeros(2), np.ones(2)), 0.1
    found = Surrogate(np.array([slope, 0.0, 0.0, 0.0]), 0.5, prior, slope)
    tie = 0.5 * slope**2 * (1.0 / 0.01 - 1.0 / 0.5)
    theta = ray_minimiser(TwoWells(tie + lift), found, view_prior(prior, prior, RNG))
    temperature = 0.5 if lift > 0.0 else 0.01
    np.testing.assert_allclose(theta, prior.theta - found.eta / temperature, rtol=1e-6)


@pytest.mark.parametrize("name", ["gaussian", "diagonal", "blocks", "scaled", "gamma"])
def test_the_grid_of_temperatures_is_minimised_at_one_of_them(name: str) -> None:
    """β = 1/λ of the best λ, as if that one had been given."""
    prior, at = FAMILIES[name]
    bound = supac.Catoni("auto", 100, 0.05)
    eta = -0.02 * at.theta  # a multiple of a log density: the surrogate has a minimum
    found = Surrogate(eta, 0.5, at, float(np.sqrt(eta @ at.family.information(at.theta) @ eta)))
    view = view_prior(prior, at, RNG)
    theta = ray_minimiser(bound, found, view)
    best = bound.best_temperature(found.mean_under(theta), view.kl(theta))
    np.testing.assert_allclose(theta, prior.theta - found.eta / best, rtol=1e-6)


@pytest.mark.parametrize("bound", BOUNDS)
def test_values_of_many_pairs_are_those_of_each(bound: str) -> None:
    rng = np.random.default_rng(0)
    risks = np.concatenate([[-0.1, 0.0, 1e-12, 1.0, 1.3], rng.uniform(0.0, 1.0, 200)])
    kls = np.concatenate([[0.0, 1e-9, 3.0, 50.0, 1e4], np.exp(rng.uniform(-9.0, 7.0, 200))])
    each: Any = [BOUNDS[bound](float(r), float(k)) for r, k in zip(risks, kls, strict=True)]
    np.testing.assert_allclose(BOUNDS[bound].values(risks, kls), each, rtol=1e-9)
