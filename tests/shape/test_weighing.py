"""Draws of a posterior tell whether another distribution is worth the particles."""

from __future__ import annotations

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.families import Distribution, gaussian
from supac.problem.bounds import trade_off
from supac.shape import Particles, weigh_draws

LAMBDA = 0.01
PRIOR = gaussian(np.zeros(3), np.eye(3))
SLOPE = np.array([1.0, 0.0, 0.5])


def bowl(x: FloatArray) -> FloatArray:
    """Return a risk whose minimiser has precision 9 everywhere."""
    return np.asarray(LAMBDA * (4.0 * (x**2).sum(axis=1) + x @ SLOPE))


def weighed(own: Distribution) -> Particles | None:
    return weigh_draws(bowl, PRIOR, supac.Catoni(LAMBDA), own, np.random.default_rng(1))


EXACT = gaussian(-SLOPE / 9.0, np.eye(3) / 9.0)


def test_the_minimiser_needs_no_particles_and_its_draws_give_the_evidence() -> None:
    found = weighed(EXACT)
    assert found is not None
    exact = -1.5 * np.log(9.0) + SLOPE @ SLOPE / 18.0
    assert found.log_evidence == pytest.approx(exact, abs=1e-9)  # all weights are equal


@pytest.mark.parametrize(("factor", "kl"), [(0.97, 0.003), (1.03, 0.003)])
def test_one_that_is_nearly_the_minimiser_stays(factor: float, kl: float) -> None:
    own = gaussian(EXACT.mean, factor**2 * EXACT.covariance)
    assert own.divergence(EXACT, 0).value == pytest.approx(kl, abs=0.001)
    found = weighed(own)
    assert found is not None
    exact = -1.5 * np.log(9.0) + SLOPE @ SLOPE / 18.0
    assert abs(found.log_evidence - exact) < 4.0 * found.error


@pytest.mark.parametrize("factor", [0.6, 0.8, 1.25])
def test_one_of_another_width_does_not(factor: float) -> None:
    own = gaussian(EXACT.mean, factor**2 * EXACT.covariance)
    assert own.divergence(EXACT, 0).value > 0.05
    assert weighed(own) is None


def test_one_that_is_short_in_one_direction_does_not() -> None:
    """Its draws hardly see what is beyond: half the variance of their weights does."""
    wide = gaussian(EXACT.mean, np.diag([0.25, 1.0, 1.0]) / 9.0)
    assert weighed(wide) is None


def test_a_bound_without_a_temperature_has_that_of_its_posterior() -> None:
    bound, beta = supac.MaurerLangfordSeeger(400, 0.05), 100.0
    own = PRIOR
    for _ in range(50):  # to the Gaussian that is the minimiser at its own temperature
        own = gaussian(np.zeros(3), np.eye(3) / (1.0 + 0.2 * beta))
        mean = 0.2 + 0.1 * 3.0 / (1.0 + 0.2 * beta)
        beta = trade_off(bound, mean, own.divergence(PRIOR, 0).value)

    def risk(x: FloatArray) -> FloatArray:
        return np.asarray(0.2 + 0.1 * (x**2).sum(axis=1))

    found = weigh_draws(risk, PRIOR, bound, own, np.random.default_rng(1))
    assert found is not None
    assert found.beta == pytest.approx(beta, rel=0.02)
    wide = gaussian(np.zeros(3), 4.0 * own.covariance)
    assert weigh_draws(risk, PRIOR, bound, wide, np.random.default_rng(1)) is None
