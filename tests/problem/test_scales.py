from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import supac
from supac import marginals
from supac.problem.marginals import Marginal
from supac.problem.scales import UserScales

U = np.linspace(-3.0, 3.0, 101)
OTHERS = [
    marginals.Uniform(-1.0, 3.0),
    marginals.LogUniform(1e-3, 1e2),
    marginals.HalfNormal(2.0),
    marginals.LogitNormal(0.0, 5.0, median=2.0, logit_sd=1.5),
    marginals.Truncated(marginals.LogNormal(1.0, 0.5), 0.3, 4.0),
    marginals.HalfCauchy(2.0),
    marginals.Beta(2.0, 3.0),
    marginals.Of(stats.gamma(2.0)),
]


def scales_of(*given: Marginal) -> UserScales:
    found = UserScales.of(given)
    assert found is not None
    return found


@pytest.mark.parametrize("marginal", OTHERS, ids=lambda each: type(each).__name__)
def test_the_scale_is_linear_in_x_or_in_its_logarithm(marginal: Marginal) -> None:
    seen = scales_of(marginal).standardised(np.zeros(1), np.eye(1)).see(U[:, None])[:, 0]
    x = marginal.from_latent(U)
    of_logs = marginals.LogUniform | marginals.Truncated | marginals.HalfCauchy
    x = np.log(x) if isinstance(marginal, of_logs) else x
    line = np.polyfit(x, seen, 1)
    np.testing.assert_allclose(seen, np.polyval(line, x), atol=1e-7)
    assert line[0] > 0.0


@pytest.mark.parametrize("marginal", OTHERS, ids=lambda each: type(each).__name__)
def test_the_slope_is_the_derivative(marginal: Marginal) -> None:
    scales, h = scales_of(marginal), 1e-5
    u = np.concatenate([U, [-9.0, 9.0]])[:, None]  # beyond the table it is linear
    difference = (scales.see(u + h) - scales.see(u - h)) / (2.0 * h)
    slope = scales.slope(u)
    np.testing.assert_allclose(slope, difference, atol=1e-6 * np.abs(slope).max())


def test_it_varies_as_much_as_the_latent_values_of_a_prior() -> None:
    mean, covariance = np.array([0.5, -1.0]), np.diag([0.3, 1.2])
    scales = scales_of(marginals.Uniform(0.0, 9.0), marginals.LogUniform(1.0, 2.0))
    n = 40_000
    u = supac.gaussian(mean, covariance).sample(n, 0)
    seen = scales.standardised(mean, covariance).see(u)
    # The relative standard error of a standard deviation is below 1/√n for tails lighter than
    # those of a normal; five of them.
    np.testing.assert_allclose(seen.std(axis=0), u.std(axis=0), rtol=5.0 / np.sqrt(n) * np.sqrt(2))


def test_normal_scales_and_heavy_tails_of_both_signs_stay_latent() -> None:
    assert UserScales.of([marginals.Normal(1.0, 2.0), marginals.LogNormal(1.0, 0.5)]) is None
    assert UserScales.of([marginals.Of(stats.cauchy())]) is None
    some = scales_of(marginals.Normal(0.0, 1.0), marginals.Uniform(0.0, 1.0))
    assert some.places.tolist() == [1]
    u = np.array([[0.3, 0.4]])
    assert some.see(u)[0, 0] == 0.3
    assert some.slope(u)[0, 0] == 1.0


def test_parameters_of_a_field_have_none() -> None:
    box = marginals.Uniform(0.0, 1.0)
    field = supac.Field(box, grid=(3, 2), length=0.5)
    assert supac.Parameters({"a": box}).user_scales is not None
    assert supac.Parameters({"a": box, "k": field}).user_scales is None
