from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

import supac
from supac import marginals
from supac.codec import from_spec, to_spec
from supac.problem.marginals import Marginal

MARGINALS: dict[str, tuple[Marginal, Any]] = {
    "normal": (marginals.Normal(3.0, 0.5), scipy.stats.norm(3.0, 0.5)),
    "log-normal": (marginals.LogNormal(2.0, 0.7), scipy.stats.lognorm(0.7, scale=2.0)),
    "uniform": (marginals.Uniform(-1.0, 4.0), scipy.stats.uniform(-1.0, 5.0)),
    "half-normal": (marginals.HalfNormal(2.0), scipy.stats.halfnorm(scale=2.0)),
    "log-uniform": (marginals.LogUniform(0.1, 10.0), scipy.stats.loguniform(0.1, 10.0)),
    "half-Cauchy": (marginals.HalfCauchy(0.5), scipy.stats.halfcauchy(scale=0.5)),
    "gamma": (marginals.Gamma(2.5, 0.4), scipy.stats.gamma(2.5, scale=0.4)),
    "beta": (marginals.Beta(2.0, 3.0), scipy.stats.beta(2.0, 3.0)),
    "beta between": (marginals.Beta(2.0, 1.5, -1.0, 3.0), scipy.stats.beta(2.0, 1.5, -1.0, 4.0)),
    "triangular": (marginals.Triangular(1.0, 1.5, 4.0), scipy.stats.triang(1.0 / 6.0, 1.0, 3.0)),
    "of SciPy": (
        marginals.Of(scipy.stats.weibull_min(1.5, scale=2.0)),
        scipy.stats.weibull_min(1.5, scale=2.0),
    ),
    "of SciPy by name": (marginals.Of("t", (3.0,), 1.0, 2.0), scipy.stats.t(3.0, 1.0, 2.0)),
    "logit-normal": (marginals.LogitNormal(1.0, 3.0, median=1.5, logit_sd=0.8), None),
}
every_marginal = pytest.mark.parametrize("name", MARGINALS)
U = np.linspace(-6.0, 6.0, 241)


@every_marginal
def test_latent_round_trip(name: str) -> None:
    marginal, _ = MARGINALS[name]
    np.testing.assert_allclose(marginal.to_latent(marginal.from_latent(U)), U, atol=1e-6)


@every_marginal
def test_slope_is_the_derivative(name: str) -> None:
    marginal, _ = MARGINALS[name]
    u = np.linspace(-4.0, 4.0, 81)
    numeric = (marginal.from_latent(u + 1e-5) - marginal.from_latent(u - 1e-5)) / 2e-5
    np.testing.assert_allclose(np.exp(marginal.log_slope(u)), numeric, rtol=1e-5)


@pytest.mark.parametrize("name", [name for name in MARGINALS if MARGINALS[name][1] is not None])
def test_prior_is_the_distribution_that_it_is_named_after(name: str) -> None:
    marginal, reference = MARGINALS[name]
    x = marginal.from_latent(U)
    np.testing.assert_allclose(marginal.log_prob(x), reference.logpdf(x), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(
        reference.cdf(x),
        scipy.stats.norm.cdf(U),
        rtol=1e-7,
        atol=1e-9,
    )


def test_logit_normal_has_its_median_and_spread() -> None:
    marginal = marginals.LogitNormal(1.0, 3.0, median=1.5, logit_sd=0.8)
    np.testing.assert_allclose(marginal.from_latent(np.zeros(1)), 1.5)
    share = (marginal.from_latent(U) - 1.0) / 2.0
    logits = np.log(share / (1.0 - share))
    np.testing.assert_allclose(np.diff(logits) / np.diff(U), 0.8, rtol=1e-6)


@every_marginal
@given(u=st.floats(-1e3, 1e3))
def test_no_latent_value_leaves_the_bounds(name: str, u: float) -> None:
    marginal, _ = MARGINALS[name]
    with np.errstate(over="ignore"):
        x = float(marginal.from_latent(np.array([u]))[0])
    lower, upper = marginal.bounds
    assert lower <= x <= upper


@every_marginal
def test_density_is_zero_outside_the_bounds(name: str) -> None:
    marginal, _ = MARGINALS[name]
    lower, upper = marginal.bounds
    beyond = [bound for bound in (lower - 0.1, upper + 0.1) if np.isfinite(bound)]
    assert (marginal.log_prob(np.array(beyond)) == -np.inf).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: marginals.Normal(0.0, 0.0), "sd must be a positive number"),
        (lambda: marginals.Normal(np.nan, 1.0), "mean contains NaN"),
        (lambda: marginals.LogNormal(-1.0, 1.0), "median must be a positive number"),
        (lambda: marginals.Uniform(2.0, 1.0), "lower must be below upper"),
        (lambda: marginals.LogUniform(0.0, 1.0), "lower must be a positive number"),
        (lambda: marginals.LogitNormal(0.0, 1.0, 2.0, 1.0), "median must be between"),
        (lambda: marginals.HalfNormal(-1.0), "scale must be a positive number"),
        (lambda: marginals.HalfCauchy(0.0), "scale must be a positive number"),
        (lambda: marginals.Gamma(-2.0, 1.0), "shape must be a positive number"),
        (lambda: marginals.Beta(1.0, 0.0), "b must be a positive number"),
        (lambda: marginals.Beta(1.0, 1.0, 2.0, 1.0), "lower must be below upper"),
        (lambda: marginals.Triangular(0.0, 2.0, 1.0), "mode must be from lower to upper"),
        (lambda: marginals.Of(scipy.stats.poisson(3.0)), "poisson is discrete.*round"),
        (lambda: marginals.Of("gama", (2.0,)), "continuous one of scipy.stats.*not 'gama'"),
        (lambda: marginals.Of("gamma"), r"gamma takes shapes a, not \[\]"),
        (lambda: marginals.Of("norm", (2.0,)), r"norm takes no shapes, not \[2.0\]"),
        (lambda: marginals.Of("gamma", (-1.0,)), "gamma with a = -1, .* has no quantiles"),
    ],
)
def test_bad_marginals_are_refused(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]


def test_a_frozen_distribution_and_its_name_are_one_prior() -> None:
    frozen = marginals.Of(scipy.stats.gamma(a=2.0, scale=3.0), unit="h")
    assert frozen == marginals.Of("gamma", (2.0,), scale=3.0, unit="h")
    assert frozen == marginals.Of("gamma", 2.0, scale=3.0, unit="h")  # type: ignore[arg-type]
    assert from_spec(to_spec(frozen)) == frozen
    assert pickle.loads(pickle.dumps(frozen)) == frozen
    with pytest.raises(TypeError, match="Of takes a frozen distribution"):
        marginals.Of(scipy.stats.gamma)


def test_a_distribution_that_no_store_could_name_is_refused() -> None:
    class Ramp(scipy.stats.rv_continuous):
        def _pdf(self, x: Any, *args: Any) -> Any:
            return 2.0 * x

    with pytest.raises(ValueError, match=r"continuous one of scipy.stats.*not 'ramp'"):
        marginals.Of(Ramp(a=0.0, b=1.0, name="ramp")())
    with pytest.raises(ValueError, match="gamma is a distribution of your own"):
        marginals.Of(Ramp(a=0.0, b=1.0, name="gamma")())


@pytest.mark.parametrize(
    ("marginal", "growth"),
    [
        (marginals.HalfCauchy(2.0), 1.0),
        (marginals.Of("t", (4.0,)), 0.25),
        (marginals.Of("genpareto", (0.5,)), 0.5),
        (marginals.Gamma(2.0, 1.0), 0.0),
        (marginals.Beta(2.0, 2.0), 0.0),
    ],
)
def test_growth_is_the_inverse_of_the_tail_index(marginal: Marginal, growth: float) -> None:
    assert marginal.growth == pytest.approx(growth, abs=0.01)


def test_moments_that_do_not_exist_are_not_numbers() -> None:
    parameters = supac.Parameters(
        {
            "width": marginals.HalfCauchy(1.0),
            "shift": marginals.Of("cauchy"),
            "rate": marginals.Normal(0, 1),
        }
    )
    prior = supac.Frozen(parameters.prior, parameters)
    assert prior.mean()[0] == np.inf
    assert np.isnan(prior.mean()[1])
    assert prior.std()[0] == np.inf
    np.testing.assert_allclose([prior.mean()[2], prior.std()[2]], [0.0, 1.0], atol=0.01)
    # x = exp(u²/2)-like in the tail: with a narrow posterior of u both moments exist.
    narrow = supac.gaussian(np.zeros(3), 0.25 * np.eye(3))
    law = supac.Frozen(narrow, parameters).marginal("width")
    shares = (np.arange(200_000) + 0.5) / 200_000
    assert law.mean() == pytest.approx(np.mean(law.ppf(shares)), rel=1e-3)


def three() -> dict[str, Marginal]:
    return {
        "rate": marginals.LogNormal(2.0, 0.3, unit="1/d"),
        "yield": marginals.Uniform(0.0, 1.0),
        "offset": marginals.Normal(0.0, 1.0, unit="K"),
    }


def test_parameters_know_their_structure() -> None:
    assert supac.Parameters(three()).prior.family == supac.Gaussian(3)
    assert supac.Parameters(three(), blocks=[]).prior.family == supac.DiagonalGaussian(3)
    blocked = supac.Parameters(three(), blocks=[["offset", "rate"]])
    assert blocked.prior.family == supac.Gaussian(3, blocks=[[2, 0]])
    assert blocked.names == ("rate", "yield", "offset")
    assert blocked.units == ("1/d", "", "K")
    assert len(blocked) == 3
    np.testing.assert_array_equal(blocked.bounds, [[0, np.inf], [0, 1], [-np.inf, np.inf]])


def test_parameters_density_has_its_jacobian() -> None:
    parameters = supac.Parameters(three())
    x = parameters.sample(parameters.prior, 50, np.random.default_rng(0))
    separate = sum(
        marginal.log_prob(x[:, i]) for i, marginal in enumerate(parameters.transforms.values())
    )
    np.testing.assert_allclose(parameters.log_prob(parameters.prior, x), separate, rtol=1e-9)
    np.testing.assert_allclose(parameters.from_latent(parameters.to_latent(x)), x, rtol=1e-9)


def test_parameters_refuse_what_is_not_theirs() -> None:
    parameters = supac.Parameters(three())
    with pytest.raises(ValueError, match=r"yield = 1.0 is not inside its bounds \(0.0, 1.0\)"):
        parameters.to_latent([[1.0, 1.0, 0.0]])
    with pytest.raises(ValueError, match=r"shape \(n, 3\)"):
        parameters.to_latent([1.0, 0.5, 0.0])
    with pytest.raises(ValueError, match=r"rate, yield, offset at most once, not \[\['speed'\]\]"):
        supac.Parameters(three(), blocks=[["speed"]])
    with pytest.raises(TypeError, match="the prior of 'rate' must be a marginal"):
        supac.Parameters({"rate": 2.0})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="at least one parameter"):
        supac.Parameters({})
    with pytest.raises(ValueError, match=r"must be lists of names.*not \['rate', 'yield'\]"):
        supac.Parameters(three(), blocks=["rate", "yield"])


def test_a_distribution_of_scipy_by_itself_is_told_how_to_become_a_prior() -> None:
    with pytest.raises(TypeError, match=r"'k' must be a marginal .* SciPy within Of"):
        supac.Parameters({"k": scipy.stats.gamma(2.0)})  # type: ignore[dict-item]
