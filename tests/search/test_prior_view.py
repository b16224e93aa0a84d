from __future__ import annotations

import numpy as np
import pytest

import supac
from catalogue import FAMILIES
from supac.arrays import FloatArray
from supac.search.ray import view_prior


@pytest.mark.parametrize("name", FAMILIES)
def test_a_prior_that_does_not_say_that_it_is_a_member_is_seen_as_one(name: str) -> None:
    """log dπ_p/dπ_ref is in the span, so θ_p and KL come out exactly, base measure and all."""
    at, prior = FAMILIES[name]

    class Anonymous:
        def log_prob(self, x: FloatArray) -> FloatArray:
            return prior.log_prob(x)

    view = view_prior(Anonymous(), at, np.random.default_rng(0))
    np.testing.assert_allclose(view.theta, prior.theta, rtol=1e-7, atol=1e-8)
    assert view.kl(at.theta) == pytest.approx(at.kl(prior), rel=1e-7)
    assert view.kl(prior.theta) == pytest.approx(0.0, abs=1e-7)


def test_a_prior_that_does_not_cover_the_family_is_refused() -> None:
    with pytest.raises(ValueError, match="the prior must cover"):
        view_prior(supac.exponential(1.0), supac.gaussian([0.0], [[1.0]]), np.random.default_rng(0))
