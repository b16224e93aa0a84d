from __future__ import annotations

import numpy as np
import pytest

import supac
from catalogue import FAMILIES
from supac.search.ray import ray_minimiser, view_prior
from supac.surrogate.estimator import Surrogate

RNG = np.random.default_rng(0)


def surrogate(at: supac.Distribution, size: float, mean: float = 0.5) -> Surrogate:
    """A small surrogate in a random direction."""
    eta = size * np.random.default_rng(1).standard_normal(at.family.size)
    scores = at.family.score(at.theta, at.sample(4_000, 2))
    return Surrogate(eta, mean, at, deviation=float((scores @ eta).std()))


@pytest.mark.parametrize("name", FAMILIES)
def test_catonis_minimiser_is_in_closed_form(name: str) -> None:
    prior, at = FAMILIES[name]
    found = surrogate(at, 1e-3)
    theta = ray_minimiser(supac.Catoni(0.2), found, view_prior(prior, at, RNG))
    np.testing.assert_allclose(theta, prior.theta - found.eta / 0.2, rtol=1e-12)


@pytest.mark.parametrize(
    "bound", [supac.McAllester(100, 0.05), supac.MaurerLangfordSeeger(100, 0.05)]
)
def test_no_point_of_the_ray_is_lower(bound: supac.Bound) -> None:
    prior, at = FAMILIES["gaussian"]
    found, view = surrogate(at, 0.05), view_prior(prior, at, RNG)

    def objective(beta: float) -> float:
        theta = prior.theta - beta * found.eta
        inside = at.family.contains(theta)
        return bound(found.mean_under(theta), view.kl(theta)) if inside else np.inf

    theta = ray_minimiser(bound, found, view)
    (beta,) = {round(float(b), 6) for b in (prior.theta - theta)[found.eta != 0] / found.eta}
    assert beta > 0.0
    best = bound(found.mean_under(theta), view.kl(theta))
    values = [objective(b) for b in np.geomspace(1e-3, 1e3, 400)]
    assert best <= min(values) + 1e-9
    assert best < values[0] - 1e-6


def test_a_flat_surrogate_leads_to_the_prior() -> None:
    prior, at = FAMILIES["gaussian"]
    flat = Surrogate(np.zeros(at.family.size), 0.3, at, deviation=0.0)
    theta = ray_minimiser(supac.McAllester(100, 0.05), flat, view_prior(prior, at, RNG))
    np.testing.assert_array_equal(theta, prior.theta)
