"""Theorem 1 and Corollary 1 in families that are not exponential, without noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import roots_hermitenorm

import supac
from numerics import derivative
from supac.arrays import FloatArray
from supac.search.ray import ray_minimiser, view_prior
from supac.surrogate.estimator import Surrogate
from supac.surrogate.least_squares import project

Function = Callable[[FloatArray], FloatArray]

PRIORS = {1: supac.gaussian([0.2], [[2.0]]), 3: supac.gaussian([0.2, 0.0, 0.1], 2.0 * np.eye(3))}
MEMBERS = {
    "mixture": supac.mixture(
        [supac.gaussian([-0.8], [[0.5]]), supac.gaussian([1.0], [[0.3]])], [0.4, 0.6]
    ),
    "student": supac.student_t(np.array([0.4]), np.array([[0.6]]), 6.0),
    "low rank": supac.Distribution(
        # In three dimensions rank one is all that the diagonal cannot stand in for.
        supac.LowRankGaussian(3, 1),
        np.array([0.3, -0.2, 0.1, -0.7, -0.3, -0.5, 0.5, 0.4, -0.6]),
    ),
}
BOUNDS: dict[str, supac.Bound] = {
    "catoni": supac.Catoni(temperature=0.1),
    "seeger": supac.MaurerLangfordSeeger(n=200, delta=0.05),
}
every_member = pytest.mark.parametrize("name", MEMBERS)
every_bound = pytest.mark.parametrize("bound", BOUNDS.values(), ids=BOUNDS)


def risk(x: FloatArray) -> FloatArray:
    along = x @ np.array([1.0, 0.6, -0.4])[: x.shape[1]]
    wells = 0.5 * np.exp(-0.8 * (along - 1.2) ** 2) + 0.6 * np.exp(-0.8 * (along + 1.0) ** 2)
    return 0.8 - wells + 0.1 * np.sin(1.5 * x[:, -1])


def proxy(x: FloatArray) -> FloatArray:
    return 0.7 - 0.5 * np.exp(-0.7 * (x[:, 0] + 1.1) ** 2)


def nodes(at: supac.Distribution) -> tuple[FloatArray, FloatArray]:
    """Points and weights: trapezoids in asinh x, Gauss–Hermite in three dimensions."""
    if at.dim > 1:
        z, w = roots_hermitenorm(24)
        grids = np.meshgrid(*[z] * at.dim, indexing="ij")
        weights = np.prod(np.meshgrid(*[w] * at.dim, indexing="ij"), axis=0).ravel()
        points = np.column_stack([grid.ravel() for grid in grids])
        return at.mean + points @ np.linalg.cholesky(at.covariance).T, weights / weights.sum()
    y = np.linspace(-18.0, 18.0, 4_001)
    x = np.sinh(y)[:, None]
    w = np.exp(at.log_prob(x)) * np.cosh(y)
    return x, w / w.sum()


def expectation(function: Function, at: supac.Distribution) -> float:
    x, w = nodes(at)
    return float(w @ function(x))


def objective(function: Function, at: supac.Distribution, bound: supac.Bound) -> float:
    kl = expectation(lambda x: at.log_prob(x) - PRIORS[at.dim].log_prob(x), at)
    return bound(expectation(function, at), kl)


def gradient(function: Function, at: supac.Distribution, bound: supac.Bound) -> FloatArray:
    return derivative(lambda theta: objective(function, at.at(theta), bound), at.theta)


def exact_projection(function: Function, at: supac.Distribution) -> Surrogate:
    x, w = nodes(at)
    return project(x, function(x), w, at)


@every_member
@every_bound
def test_theorem_1_projection_on_the_score_leaves_the_gradient_unchanged(
    name: str, bound: supac.Bound
) -> None:
    at = MEMBERS[name]
    surrogate = exact_projection(risk, at)
    true = gradient(risk, at, bound)
    np.testing.assert_allclose(gradient(surrogate, at, bound), true, rtol=1e-4, atol=1e-6)
    tilted = replace(surrogate, eta=surrogate.eta + 0.1)
    assert np.abs(gradient(tilted, at, bound) - true).max() > 1e-3


@every_member
@every_bound
def test_theorem_1_holds_for_a_proxy_plus_a_correction(name: str, bound: supac.Bound) -> None:
    at = MEMBERS[name]
    correction = exact_projection(lambda x: risk(x) - proxy(x), at)
    corrected = gradient(lambda x: proxy(x) + correction(x), at, bound)
    np.testing.assert_allclose(corrected, gradient(risk, at, bound), rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_corollary_1_the_minimiser_is_a_fixed_point_of_natural_gradient_steps() -> None:
    """From the minimiser of the true bound over mixtures, the solver has nowhere to go."""
    bound, start = supac.Catoni(0.1), MEMBERS["mixture"]

    def of(theta: FloatArray) -> float:
        inside = start.family.contains(theta)
        return objective(risk, start.at(theta), bound) if inside else np.inf

    theta = start.theta
    for _ in range(3):
        theta = minimize(
            of,
            theta,
            method="Nelder-Mead",
            options={"xatol": 1e-8, "fatol": 1e-14, "maxiter": 10_000, "maxfev": 10_000},
        ).x
    for at, moves in ((start.at(theta), False), (start, True)):
        surrogate = exact_projection(risk, at)
        slope = gradient(surrogate, at, bound)
        information = _information(at)
        step = np.linalg.solve(information, slope)
        target = ray_minimiser(
            bound, surrogate, view_prior(PRIORS[1], at, np.random.default_rng(0))
        )
        gone = at.family.aim(at.theta, target) - at.theta
        # The solver's own step, within what its draws know of the prior.
        assert gone @ information @ gone > 0.03 if moves else gone @ information @ gone < 0.003
        # In nats: a step that changes the distribution by less than nothing worth speaking of.
        assert step @ information @ step > 1e-5 if moves else step @ information @ step < 1e-12


def _information(at: supac.Distribution) -> FloatArray:
    x, w = nodes(at)
    score = at.family.score(at.theta, x)
    return np.asarray((score.T * w) @ score)


@every_member
@every_bound
def test_lemma_1_the_solver_steps_along_the_natural_gradient(name: str, bound: supac.Bound) -> None:
    """θ − I(θ)⁻¹∇bound/∂_KL bound, within the error of the draws that see the prior."""
    at = MEMBERS[name]
    surrogate = exact_projection(risk, at)
    view = view_prior(PRIORS[at.dim], at, np.random.default_rng(0))
    target = ray_minimiser(bound, surrogate, view)
    kl = expectation(lambda x: at.log_prob(x) - PRIORS[at.dim].log_prob(x), at)
    h = 1e-6
    by_kl = (bound(surrogate.mean, kl + h) - bound(surrogate.mean, kl - h)) / (2.0 * h)
    natural = np.linalg.solve(_information(at), gradient(risk, at, bound)) / by_kl
    gap = target - at.theta + natural
    # Both in nats; 2,250 draws or more know each of the few coefficients to about 2 %.
    size = float(natural @ _information(at) @ natural)
    assert float(gap @ _information(at) @ gap) < 0.03**2 * max(1.0, size)


def test_a_mixture_of_one_gaussian_takes_the_closed_form_step() -> None:
    """Where the family is exponential, the generic solver and the closed form agree."""
    at = supac.gaussian([0.5, -0.2], [[0.6, 0.2], [0.2, 0.4]])
    prior = supac.gaussian([0.0, 0.0], np.eye(2))
    alone = supac.mixture([at])
    eta = np.array([0.02, -0.01, 0.03, 0.01, 0.02])
    closed = ray_minimiser(
        supac.Catoni(0.1),
        Surrogate(eta, 0.4, at, deviation=1.0),
        view_prior(prior, at, np.random.default_rng(0)),
    )
    generic = ray_minimiser(
        supac.Catoni(0.1),
        Surrogate(eta, 0.4, alone, deviation=1.0),
        view_prior(prior, alone, np.random.default_rng(0)),
    )
    np.testing.assert_allclose(generic, closed, rtol=1e-8, atol=1e-8)
