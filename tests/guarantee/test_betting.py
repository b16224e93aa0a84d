"""The anytime-valid limit on a mean."""

from __future__ import annotations

import numpy as np
import pytest

from supac.guarantee.betting import betting_limit, log_wealth


def test_the_limit_is_sharp_where_draws_vary_little() -> None:
    """300 draws of 0.1 ± 0.02: log(1/δ)/300 above the mean is the least that is possible."""
    rng = np.random.default_rng(0)
    limits = [betting_limit(np.clip(rng.normal(0.1, 0.02, 300), 0.0, 1.0), 0.01) for _ in range(10)]
    assert 0.1 < min(limits) <= max(limits) <= 0.128


@pytest.mark.parametrize("law", ["bernoulli", "beta", "rare", "bounded away"])
def test_the_limit_holds_at_every_number_of_draws(law: str) -> None:
    """The smallest limit over 1 … 80 draws fails, excludes the true mean, at most as often as δ."""
    rng, shape, delta = np.random.default_rng(1), (3_000, 80), 0.1
    samples = {
        "bernoulli": (rng.random(shape) < 0.3).astype(float),
        "beta": rng.beta(1.0, 4.0, shape),
        "rare": 0.9 * (rng.random(shape) < 0.02),
        "bounded away": rng.uniform(0.8, 1.0, shape),
    }[law]
    mean = {"bernoulli": 0.3, "beta": 0.2, "rare": 0.018, "bounded away": 0.9}[law]
    failures = np.mean([log_wealth(row, mean).max() >= -np.log(delta) for row in samples])
    assert failures <= delta + 3.0 * np.sqrt(delta * (1.0 - delta) / len(samples))


def test_more_draws_never_raise_the_limit() -> None:
    draws = np.random.default_rng(2).beta(2.0, 8.0, 200)
    limits = [betting_limit(draws[:m], 0.05) for m in (1, 5, 20, 80, 200)]
    assert limits == sorted(limits, reverse=True)


def test_extremes() -> None:
    assert betting_limit(np.ones(50), 0.05) == 1.0
    assert betting_limit(np.zeros(1), 0.05) < 1.0
    assert betting_limit(np.zeros(1_000), 0.05) < 0.006
