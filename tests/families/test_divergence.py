"""KL from draws: its error is honest, and scores take the noise out of it."""

from __future__ import annotations

import numpy as np
import pytest

import supac
from numerics import assert_mean
from supac.families.family import Divergence, estimate_divergence, gaussian_cross_entropy

PRIOR = supac.gaussian([0.0, 0.0], np.eye(2))
POSTERIOR = supac.gaussian([0.4, -0.3], [[0.5, 0.2], [0.2, 0.8]])


def estimate(seed: int, prior: supac.Distribution) -> Divergence:
    x = POSTERIOR.sample(400, seed)
    ratio = POSTERIOR.log_prob(x) - prior.log_prob(x)
    return estimate_divergence(ratio, POSTERIOR.family.score(POSTERIOR.theta, x))


def test_scores_explain_all_of_a_gaussian_s_ratio() -> None:
    found = estimate(0, PRIOR)
    assert found.value == pytest.approx(POSTERIOR.kl(PRIOR), rel=1e-9)
    assert found.error < 1e-9


def test_the_error_is_honest_where_they_do_not() -> None:
    heavy = supac.student_t(np.zeros(2), np.eye(2), 4.0)
    found = [estimate(seed, heavy) for seed in range(100)]
    values = np.array([[each.value] for each in found])
    x = POSTERIOR.sample(400_000, 999)
    assert_mean(values, [float((POSTERIOR.log_prob(x) - heavy.log_prob(x)).mean())])
    spread = float(values.std(ddof=1))
    # The standard deviation of 100 values is known to 1/√198 = 7 %: within three of these.
    assert np.mean([each.error for each in found]) == pytest.approx(spread, rel=0.21)


def test_nobody_knows_a_limit_of_an_unbounded_ratio() -> None:
    assert estimate(0, PRIOR).upper(0.05) == np.inf
    assert Divergence(2.0).upper(0.05) == 2.0
    limited = Divergence(2.0, 0.1, spread=1.0, draws=50)
    assert limited.upper(0.05) == pytest.approx(2.0 + np.sqrt(np.log(20.0) / 100.0))
    assert estimate_divergence(np.array([0.0, np.inf]), np.zeros((2, 1))).value == np.inf


def test_cross_entropy_is_kl_plus_entropy() -> None:
    moments = POSTERIOR.mean, POSTERIOR.covariance
    cross = gaussian_cross_entropy(*moments, PRIOR.mean, PRIOR.covariance)
    entropy = gaussian_cross_entropy(*moments, *moments)
    assert cross - entropy == pytest.approx(POSTERIOR.kl(PRIOR), rel=1e-12)
