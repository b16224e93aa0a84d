"""Mixtures fitted to particles, the choice among them, and the evidence."""

from __future__ import annotations

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.families import Mixture
from supac.shape import choose_shape, fit_mixture, sample_minimiser
from supac.shape.evidence import estimate_evidence
from supac.shape.particles import Particles

LAMBDA = 0.01
BOUND = supac.Catoni(LAMBDA)
PLANE = supac.gaussian(np.zeros(2), np.eye(2))


def bent(x: FloatArray) -> FloatArray:
    """Return the risk of a banana: narrow across a parabola."""
    across, along = x[:, 1] - x[:, 0] ** 2, x[:, 0]
    return np.asarray(0.5 * LAMBDA * ((across / 0.1) ** 2 + (along / 0.8) ** 2))


def round_bowl(x: FloatArray) -> FloatArray:
    """Return a quadratic risk."""
    return np.asarray(0.5 * LAMBDA * 8.0 * (x**2).sum(axis=1))


@pytest.fixture(scope="module")
def banana() -> Particles:
    return sample_minimiser(bent, PLANE, BOUND, PLANE, 2_000, np.random.default_rng(0))


def test_a_mixture_of_two_is_found_again() -> None:
    parts = [supac.gaussian([-2.0, 0.0], 0.3 * np.eye(2)), supac.gaussian([2.0, 1.0], np.eye(2))]
    true = supac.mixture(parts, [0.3, 0.7])
    x = true.sample(4_000, 0)
    fitted = fit_mixture(x, 2, np.random.default_rng(1))
    assert fitted.family == Mixture(supac.Gaussian(2), 2)
    fresh = true.sample(20_000, 2)
    lost = true.log_prob(fresh) - fitted.log_prob(fresh)  # its mean is KL(true, fitted)
    assert lost.mean() < 0.01


def test_one_component_has_the_moments_of_the_points() -> None:
    x = np.random.default_rng(0).standard_normal((500, 3)) @ np.diag([1.0, 2.0, 0.1])
    fitted = fit_mixture(x, 1, np.random.default_rng(0))
    np.testing.assert_allclose(fitted.mean, x.mean(axis=0), atol=1e-10)
    np.testing.assert_allclose(fitted.covariance, np.cov(x.T), rtol=1e-8, atol=1e-12)


def test_no_component_collapses_on_points_that_coincide() -> None:
    x = np.repeat(np.random.default_rng(0).standard_normal((20, 2)), 50, axis=0)
    fitted = fit_mixture(x, 8, np.random.default_rng(0))
    assert np.isfinite(fitted.log_prob(x)).all()


def test_a_bent_valley_is_given_a_mixture_and_its_bound_is_as_predicted(banana: Particles) -> None:
    own = supac.gaussian(banana.x.mean(axis=0), np.diag([0.01, 0.01]))
    shape = choose_shape(own, banana, bent, PLANE, BOUND, np.random.default_rng(1))
    assert isinstance(shape.posterior.family, Mixture)
    assert shape.gain > 0.5
    draws = shape.posterior.sample(100_000, 5)
    again = BOUND(float(bent(draws).mean()), shape.posterior.divergence(PLANE, 1, 100_000).value)
    assert shape.predicted == pytest.approx(again, abs=0.05 * LAMBDA)
    # No distribution has a lower one than the minimiser over all of them.
    assert again > -LAMBDA * (banana.log_evidence + 3.0 * banana.error)


def test_a_round_valley_keeps_the_posterior_of_the_search() -> None:
    own = supac.gaussian(np.zeros(2), np.eye(2) / 9.0)
    rng = np.random.default_rng(0)
    found = sample_minimiser(round_bowl, PLANE, BOUND, PLANE, 1_000, rng)
    shape = choose_shape(own, found, round_bowl, PLANE, BOUND, rng)
    assert shape.posterior == own
    assert shape.gain == 0.0


@pytest.mark.parametrize("sharp", [0.1, 1.0])
def test_fresh_runs_correct_the_evidence_of_a_wrong_model(banana: Particles, sharp: float) -> None:
    def true(x: FloatArray) -> FloatArray:
        return np.asarray(bent(x) + LAMBDA * (2.0 + sharp * np.tanh(x[:, 0])))

    posterior = fit_mixture(banana.x, 4, np.random.default_rng(0))
    x = posterior.sample(400, 3)
    found = estimate_evidence(banana, bent, PLANE, posterior, x, true(x))
    # The same integral over the particles themselves, of which there are many.
    factor = np.exp(-(true(banana.x) - banana.risk) / LAMBDA)
    exact = banana.log_evidence + np.log(factor.mean())
    assert found.runs == 400
    assert abs(found.log - exact) < 4.0 * found.error
    assert found.error < 0.15
    assert abs(found.log - banana.log_evidence) > 1.5  # so that the correction was needed


def test_without_fresh_runs_the_error_of_the_evidence_is_not_known(banana: Particles) -> None:
    nowhere = np.empty((0, 2)), np.empty(0)
    found = estimate_evidence(banana, bent, PLANE, PLANE, *nowhere)
    assert found.log == banana.log_evidence
    assert np.isnan(found.error)
