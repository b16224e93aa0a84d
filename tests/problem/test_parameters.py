"""Named parameters: their latent Gaussian, their units, and problems made of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import supac
from supac import marginals
from supac.problem import names_of

PARAMETERS = supac.Parameters(
    {
        "rate": marginals.LogNormal(2.0, 0.5, unit="1/h"),
        "share": marginals.Uniform(0.0, 1.0),
        "shift": marginals.Normal(1.0, 2.0, unit="K"),
    }
)


def test_points_go_to_the_latent_space_and_back() -> None:
    x = PARAMETERS.sample(PARAMETERS.prior, 50, 0)
    np.testing.assert_allclose(PARAMETERS.from_latent(PARAMETERS.to_latent(x)), x, rtol=1e-12)
    assert (x[:, 0] > 0.0).all()
    assert ((x[:, 1] > 0.0) & (x[:, 1] < 1.0)).all()
    assert PARAMETERS.units == ("1/h", "", "K")
    assert PARAMETERS.bounds.tolist() == [[0.0, np.inf], [0.0, 1.0], [-np.inf, np.inf]]


def test_the_prior_s_density_is_that_of_its_marginals() -> None:
    x = PARAMETERS.sample(PARAMETERS.prior, 20, 1)
    expected = (
        stats.lognorm(0.5, scale=2.0).logpdf(x[:, 0]) + stats.norm(1.0, 2.0).logpdf(x[:, 2])
    )  # fmt: skip
    np.testing.assert_allclose(PARAMETERS.log_prob(PARAMETERS.prior, x), expected, rtol=1e-10)


def test_blocks_say_who_may_correlate() -> None:
    made = {
        str(blocks): supac.Parameters(PARAMETERS.marginals, blocks).prior.family.size
        for blocks in (None, [], [["rate", "shift"]])
    }
    assert made == {"None": 9, "[]": 6, "[['rate', 'shift']]": 7}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (({},), "at least one parameter"),
        (({"k": 3.0},), "the prior of 'k' must be a marginal"),
        ((PARAMETERS.marginals, ["rate"]), "blocks must be lists of names"),
        ((PARAMETERS.marginals, [["rate", "time"]]), "at most once"),
        ((PARAMETERS.marginals, [["rate"], ["rate"]]), "at most once"),
        ((PARAMETERS.marginals, None, supac.gaussian([0.0], [1.0])), "1 coordinates, not 3"),
    ],
)
def test_wrong_arguments_are_named(arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        supac.Parameters(*arguments)


def test_a_point_on_a_bound_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"share = 1\.0 is not inside its bounds \(0"):
        PARAMETERS.to_latent([[1.0, 1.0, 0.0]])
    with pytest.raises(ValueError, match=r"shape \(n, 3\)"):
        PARAMETERS.to_latent([1.0, 0.5, 0.0])


def test_a_learnt_prior_keeps_names_and_units() -> None:
    learnt = supac.gaussian([0.5, 0.0, 0.0], 0.1 * np.eye(3))
    moved = PARAMETERS.with_prior(learnt)
    assert moved.prior == learnt
    assert moved.names == names_of(moved, 3) == ("rate", "share", "shift")
    assert names_of(None, 2) == ("x0", "x1")


def test_a_problem_of_parameters_is_latent() -> None:
    problem = supac.Problem.within(PARAMETERS, supac.Catoni(0.1), failure_risk=1.0)
    assert problem.prior == problem.start == PARAMETERS.prior
    assert problem.failure_risk == 1.0
    assert supac.Problem.within(PARAMETERS.prior, supac.Catoni(0.1)).prior == PARAMETERS.prior
