"""Particles of the minimiser over all distributions, beside closed forms."""

from __future__ import annotations

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.problem.bounds import trade_off
from supac.shape import Particles, sample_minimiser
from supac.shape.particles import widened

TEMPERATURE = 0.02
PRIOR = supac.gaussian(np.zeros(3), np.eye(3))
_ROOT = np.array([[3.0, 0.0, 0.0], [1.0, 2.0, 0.0], [0.5, -1.0, 0.7]])
_BEST = np.array([0.4, -0.6, 0.8])


def bowl(x: FloatArray) -> FloatArray:
    """Return 0.1 + 0.02 |A(x − b)|²/2, whose minimiser is Gaussian at λ = 0.02."""
    return np.asarray(0.1 + 0.5 * TEMPERATURE * (((x - _BEST) @ _ROOT.T) ** 2).sum(axis=1))


def exact() -> tuple[supac.Distribution, float]:
    """Return prior · exp(−bowl/λ)/Z, and log Z."""
    precision = np.eye(3) + _ROOT.T @ _ROOT
    covariance = np.linalg.inv(precision)
    mean = covariance @ (_ROOT.T @ _ROOT) @ _BEST
    rest = _BEST @ _ROOT.T @ _ROOT @ _BEST - mean @ precision @ mean
    log_z = -0.1 / TEMPERATURE - 0.5 * rest - 0.5 * np.linalg.slogdet(precision)[1]
    return supac.gaussian(mean, covariance), float(log_z)


def particles(reference: supac.Distribution = PRIOR, seed: int = 0, n: int = 3_000) -> Particles:
    rng = np.random.default_rng(seed)
    return sample_minimiser(bowl, PRIOR, supac.Catoni(TEMPERATURE), reference, n, rng)


@pytest.mark.parametrize("start", ["prior", "narrow", "elsewhere"])
def test_particles_have_the_law_of_the_minimiser_wherever_they_begin(start: str) -> None:
    references = {
        "prior": PRIOR,
        "narrow": supac.gaussian(_BEST, 0.2 * np.eye(3)),
        "elsewhere": supac.gaussian(_BEST + 1.0, 0.5 * np.eye(3)),
    }
    found, (minimiser, log_z) = particles(references[start]), exact()
    z = minimiser.whiten().points(found.x)
    n = len(z)
    assert np.abs(z.mean(axis=0)).max() < 5.0 / np.sqrt(n)
    assert np.abs(np.cov(z.T) - np.eye(3)).max() < 5.0 * np.sqrt(2.0 / n)
    assert abs(found.log_evidence - log_z) < 4.0 * found.error + 0.02
    np.testing.assert_allclose(found.risk, bowl(found.x))


def test_the_lowest_objective_is_minus_the_log_evidence() -> None:
    """Donsker and Varadhan: min over all π of π[R] + λ·KL(π, prior) is −λ log Z."""
    minimiser, log_z = exact()
    draws = minimiser.sample(200_000, 0)
    objective = bowl(draws).mean() + TEMPERATURE * minimiser.kl(PRIOR)
    assert objective == pytest.approx(-TEMPERATURE * log_z, abs=2e-4)
    found = particles()
    assert found.mean_risk + TEMPERATURE * found.kl == pytest.approx(
        -TEMPERATURE * found.log_evidence
    )


@pytest.mark.parametrize(
    "bound",
    [supac.McAllester(200, 0.05), supac.MaurerLangfordSeeger(200, 0.05)],
    ids=["McAllester", "Seeger"],
)
def test_every_bound_has_its_minimiser_where_a_nat_is_worth_its_temperature(
    bound: supac.Bound,
) -> None:
    rng = np.random.default_rng(0)
    start = supac.gaussian(_BEST, 0.3 * np.eye(3))
    found = sample_minimiser(bowl, PRIOR, bound, start, 2_000, rng)
    assert found.beta == pytest.approx(trade_off(bound, found.mean_risk, found.kl), rel=0.05)
    least = bound(found.mean_risk, found.kl)
    for factor in (0.6, 1.6):
        other = supac.Catoni(1.0 / (factor * found.beta))
        beside = sample_minimiser(bowl, PRIOR, other, start, 2_000, np.random.default_rng(1))
        assert least < bound(beside.mean_risk, beside.kl)


def test_regions_without_a_number_hold_no_particle() -> None:
    def broken(x: FloatArray) -> FloatArray:
        return np.where(x[:, 0] < 0.0, np.nan, bowl(x))

    rng = np.random.default_rng(0)
    found = sample_minimiser(broken, PRIOR, supac.Catoni(TEMPERATURE), PRIOR, 500, rng)
    assert (found.x[:, 0] >= 0.0).all()


def test_two_ways_of_a_ring_are_both_found() -> None:
    def ring(x: FloatArray) -> FloatArray:
        return np.asarray((np.hypot(x[:, 0], x[:, 1]) - 1.5) ** 2)

    rng = np.random.default_rng(0)
    plane = supac.gaussian(np.zeros(2), np.eye(2))
    found = sample_minimiser(ring, plane, supac.Catoni(0.01), plane, 2_000, rng)
    angles = np.arctan2(found.x[:, 1], found.x[:, 0])
    counts = np.histogram(angles, np.linspace(-np.pi, np.pi, 5))[0]
    assert counts.min() > 350  # of 500 each


def test_a_narrow_ridge_is_widened_although_its_inverse_is_rounded() -> None:
    """Variances between 10⁻¹² and 1: the computed inverse is not symmetric, and ended a search."""
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 6)))[0]
    variances = np.logspace(-12.0, 0.0, 6)
    covariance = (rotation * variances) @ rotation.T
    ridge = supac.gaussian(np.zeros(6), 0.5 * (covariance + covariance.T))
    wide = widened(ridge, supac.gaussian(np.zeros(6), np.eye(6))).covariance
    along = np.einsum("ik,ij,jk->k", rotation, wide, rotation)
    np.testing.assert_allclose(along, 1.0 / (1.0 / (9.0 * variances) + 1.0), rtol=0.02)
