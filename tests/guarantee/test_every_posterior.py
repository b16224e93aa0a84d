"""Ensembles and certificates of results, whatever the family of the posterior and the prior."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.stats

import supac
from supac.arrays import FloatArray
from supac.families import Divergence
from supac.guarantee.basis import basis_of
from supac.guarantee.certificate import Losses
from supac.guarantee.ensemble import PASSED
from supac.guarantee.posterior import posterior_certificate
from supac.problem import Problem
from supac.problem.bounds import slopes, trade_off

BOUND = supac.MaurerLangfordSeeger(40, 0.05)
CORRELATED = [[1.0, 0.5, 0.0], [0.5, 1.2, 0.3], [0.0, 0.3, 0.9]]
PRIOR = supac.gaussian(np.zeros(3), CORRELATED)
STARTS: dict[str, supac.Distribution] = {
    "gaussian": PRIOR,
    "diagonal": supac.gaussian(np.zeros(3), np.ones(3)),
    "scaled": supac.scaled_gaussian(np.zeros(3), np.eye(3)),
    "fixed": supac.fixed_gaussian(np.zeros(3), 0.3 * np.eye(3)),
    "low rank": supac.low_rank_gaussian(np.zeros(3), np.array(CORRELATED), 1),
    "student": supac.student_t(np.zeros(3), np.array(CORRELATED), 5.0),
    "mixture": supac.mixture(
        [supac.gaussian([0.5, 0.0, 0.0], np.eye(3)), supac.gaussian([-0.5, 0.0, 0.2], np.eye(3))]
    ),
}


def risk(x: FloatArray) -> float:
    return float(np.tanh(0.3 * np.sum((x - [0.5, -0.3, 0.1]) ** 2)))


class Wide:
    """A prior with heavy tails that only knows its density."""

    normalised = True

    def log_prob(self, x: FloatArray) -> FloatArray:
        return np.asarray(scipy.stats.t(4.0, scale=1.5).logpdf(x).sum(axis=1))


def log_density(at: supac.Distribution, x: FloatArray) -> FloatArray:
    """Compute log densities by SciPy, from the moments of the family."""
    family, theta = at.family, at.theta
    if at.family.is_gaussian:
        mean, covariance = family.moments(theta)
        return np.asarray(scipy.stats.multivariate_normal(mean, covariance).logpdf(x))
    if isinstance(family, supac.StudentT):
        mean, covariance = family.moments(theta)
        shape = covariance * (family.freedom - 2.0) / family.freedom
        student: Any = scipy.stats.multivariate_t
        return np.asarray(student(mean, shape, family.freedom).logpdf(x))
    assert isinstance(family, supac.Mixture)
    parts = [
        log_weight + log_density(supac.Distribution(family.base, each), x)
        for log_weight, each in zip(*family.split(theta), strict=True)
    ]
    return np.asarray(np.logaddexp.reduce(parts))


def check(result: supac.Result, prior: Any, bound: Any = BOUND) -> None:
    """Compare ensemble and certificate with their formulas."""
    ensemble, certificate = result.ensemble, result.certificate
    assert certificate is not None
    assert certificate.subject == "ensemble"
    assert len(ensemble) == certificate.draws > 0
    latent = result.parameters.to_latent(ensemble.x) if result.parameters else ensemble.x
    before = (
        log_density(prior, latent)
        if isinstance(prior, supac.Distribution)
        else prior.log_prob(latent)
    )
    ratio = log_density(result.posterior, latent) - before
    np.testing.assert_allclose(ensemble.log_ratio, ratio, rtol=1e-7, atol=1e-7)
    assert certificate.kl == pytest.approx(float(ratio.mean()), rel=1e-7, abs=1e-7)
    assert certificate.mean_risk == pytest.approx(float(ensemble.risk.mean()), rel=1e-12)
    share = certificate.delta_pac / certificate.delta
    assert 0.0 < share <= PASSED
    exact = replace(bound, delta=certificate.delta_pac)
    assert certificate.value == pytest.approx(
        exact(certificate.mean_risk, certificate.kl), rel=1e-9
    )


@pytest.mark.parametrize("name", STARTS)
@pytest.mark.parametrize("prior", [PRIOR, Wide()], ids=["gaussian", "density"])
def test_every_family_and_prior_has_an_ensemble_with_its_certificate(name: str, prior: Any) -> None:
    start = STARTS[name]
    result = supac.minimize(
        risk, prior, BOUND, budget=60, start=start, validation=12, shape="gaussian"
    )
    assert type(result.posterior.family) is type(STARTS[name].family)
    check(result, prior)


def test_the_ensemble_of_users_units_has_ratios_of_latent_densities() -> None:
    """The change of units cancels in the ratio."""
    prior = supac.Parameters(
        {"a": supac.marginals.LogNormal(1.0, 0.5), "b": supac.marginals.Uniform(-1.0, 1.0)}
    )
    result = supac.minimize(
        lambda x: float(np.tanh((x[0] - 1.5) ** 2 + x[1] ** 2)),
        prior, BOUND, budget=50, validation=10,
    )  # fmt: skip
    check(result, prior.prior)


def test_a_vacuous_bound_that_is_flat_in_kl_still_has_a_trade_off() -> None:
    bound = supac.MaurerLangfordSeeger(5, 0.05)
    assert slopes(bound, 0.999_999, 500.0)[1] == 0.0
    assert 0.0 < trade_off(bound, 0.999_999, 500.0) < np.inf
    assert trade_off(supac.Catoni(0.25), 0.3, 2.0) == pytest.approx(4.0)


def test_an_estimated_kl_counts_at_its_upper_limit() -> None:
    """Hoeffding's inequality with a hundredth of δ; the draws have a range of two nats."""
    basis = basis_of(None, BOUND)
    losses = Losses(np.full(50, 0.1), basis)
    made, exact = (
        posterior_certificate(losses, each, BOUND, delta=0.05)
        for each in (Divergence(1.5, spread=2.0, draws=100), Divergence(1.5))
    )
    assert made.delta_kl == pytest.approx(0.0005)
    assert made.kl == pytest.approx(1.5 + 2.0 * np.sqrt(np.log(1.0 / 0.0005) / 200.0))
    assert exact.kl == 1.5
    assert made.value > exact.value
    assert "its upper limit is used" in str(made)


def test_random_numbers_of_rounds_and_uses_differ() -> None:
    """A validation must not draw the normals of an earlier round, which the fit has seen."""
    problem = Problem.within(PRIOR, BOUND, loss=None)
    state = supac.SuPAC().init(problem, 0)
    told: Any = SimpleNamespace(proposals=(PRIOR,))
    later = replace(state, evaluations=told)
    drawn = [each.rng(stream).random() for each in (state, later) for stream in (0, 1)]
    assert len(set(drawn)) == 4
    assert state.rng(1).random() == drawn[1]
