from __future__ import annotations

import numpy as np
import pytest

import supac
from catalogue import FAMILIES
from numerics import assert_mean
from supac.surrogate.estimator import Surrogate


def surrogate(at: supac.Distribution) -> Surrogate:
    eta = np.random.default_rng(3).standard_normal(at.family.size)
    return Surrogate(eta, 0.4, at, deviation=1.0)


@pytest.mark.parametrize("name", FAMILIES)
def test_it_is_linear_in_the_statistics(name: str) -> None:
    at = FAMILIES[name][0]
    found, x = surrogate(at), at.sample(20, 0)
    by_statistics = at.exponential.statistics(x) @ found.eta + found.intercept
    np.testing.assert_allclose(found(x), by_statistics, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", FAMILIES)
def test_its_mean_under_another_member_is_that_of_its_values(name: str) -> None:
    at, other = FAMILIES[name]
    found = surrogate(at)
    assert found.mean_under(at.theta) == pytest.approx(0.4)
    assert_mean(found(other.sample(200_000, 1)), found.mean_under(other.theta))


def test_families_that_are_not_exponential_average_over_draws() -> None:
    at = supac.student_t(np.array([0.0, 1.0]), np.eye(2), 6.0)
    found, other = surrogate(at), at.at(at.theta + 0.3)
    values = found(other.sample(200_000, 1))
    few = 2_000 + 20 * at.family.size
    error = float(values.std()) * np.sqrt(1.0 / few + 1.0 / len(values))
    assert abs(values.mean() - 0.4) > 20.0 * error  # another mean than at home
    assert abs(found.mean_under(other.theta) - values.mean()) < 5.0 * error
