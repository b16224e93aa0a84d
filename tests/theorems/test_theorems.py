"""The paper's theorems, lemmas and closed forms, each under its own name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import supac
from catalogue import FAMILIES
from numerics import assert_mean, derivative
from quadrature import Objective, exact_projection, expectation, objective_of, objective_on
from supac.arrays import FloatArray
from supac.problem.bounds import slopes
from supac.search.ray import ray_minimiser, view_prior
from supac.search.trust import FixedStep
from supac.surrogate.estimator import Surrogate

BOUNDS: dict[str, supac.Bound] = {
    "catoni": supac.Catoni(temperature=0.1),
    "mcallester": supac.McAllester(n=200, delta=0.05),
    "seeger": supac.MaurerLangfordSeeger(n=200, delta=0.05),
    "tolstikhin": supac.TolstikhinSeldin(n=200, delta=0.05),
    "thiemann": supac.Thiemann(n=200, delta=0.05),
}

PRIORS = {
    "gaussian": supac.gaussian([0.2, -0.1], [[1.0, 0.3], [0.3, 0.8]]),
    "diagonal": supac.gaussian([0.2, -0.1], [1.0, 0.6]),
    "beta": supac.beta(2.0, 3.0),
    "gamma": supac.gamma(3.0, 2.0),
}
POSTERIORS = {
    "gaussian": supac.gaussian([0.6, 0.4], [[0.5, -0.1], [-0.1, 0.3]]),
    "diagonal": supac.gaussian([0.6, 0.4], [0.4, 0.2]),
    "beta": supac.beta(3.0, 2.5),
    "gamma": supac.gamma(4.0, 3.0),
}
every_prior = pytest.mark.parametrize("name", PRIORS)


def risk(x: FloatArray) -> FloatArray:
    """Between 0.1 and 1, far from quadratic, and entire, so that Gauss quadrature is exact."""
    well = np.exp(-0.5 * ((x - 0.8) ** 2).sum(axis=1))
    return 0.8 - 0.6 * well + 0.1 * np.sin(1.5 * x[:, 0])


def proxy(x: FloatArray) -> FloatArray:
    """A crude version of the same."""
    return 0.7 - 0.5 * np.exp(-0.5 * (x[:, 0] - 0.7) ** 2)


@every_prior
@pytest.mark.parametrize("bound", ["catoni", "seeger"])
def test_theorem_1_projection_leaves_the_gradient_unchanged(name: str, bound: str) -> None:
    prior, at = PRIORS[name], POSTERIORS[name]
    surrogate = exact_projection(risk, at)
    true = derivative(objective_of(risk, prior, BOUNDS[bound]), at.theta)
    projected = derivative(objective_on(surrogate, prior, BOUNDS[bound]), at.theta)
    np.testing.assert_allclose(projected, true, rtol=1e-6, atol=1e-8)
    # The gradient is sensitive to what the theorem is about: a tilted surrogate has another.
    tilted = replace(surrogate, eta=surrogate.eta + 0.1)
    elsewhere = derivative(objective_on(tilted, prior, BOUNDS[bound]), at.theta)
    assert np.abs(elsewhere - true).max() > 1e-3


@every_prior
@pytest.mark.parametrize("bound", ["catoni", "seeger"])
def test_theorem_1_holds_for_a_proxy_plus_a_correction(name: str, bound: str) -> None:
    prior, at = PRIORS[name], POSTERIORS[name]
    correction = exact_projection(lambda x: risk(x) - proxy(x), at)
    corrected = Objective(
        lambda pi: expectation(proxy, pi) + correction.mean_under(pi.theta), prior, BOUNDS[bound]
    )
    true = derivative(objective_of(risk, prior, BOUNDS[bound]), at.theta)
    np.testing.assert_allclose(derivative(corrected, at.theta), true, rtol=1e-6, atol=1e-8)


@every_prior
def test_corollary_1_the_minimiser_is_a_fixed_point_of_any_gradient_solver(name: str) -> None:
    bound = BOUNDS["seeger"]
    prior = PRIORS[name]
    best = prior.at(objective_of(risk, prior, bound).minimiser(prior.theta))
    for seed in range(3):
        root = np.random.default_rng(seed).standard_normal((best.family.size,) * 2)
        matrix = 0.05 * root @ root.T / best.family.size  # any M does; a small one stays in Θ
        for start, moves in ((best, False), (prior, True)):
            surrogate = objective_on(exact_projection(risk, start), prior, bound)
            theta = start.theta
            for _ in range(5):
                theta = theta - matrix @ derivative(surrogate, theta)
            moved = np.abs(theta - start.theta).max()
            assert moved > 1e-4 if moves else moved < 1e-6


@pytest.mark.parametrize("name", FAMILIES)
def test_lemma_1_the_closed_form_is_a_corrected_gradient_step(name: str) -> None:
    prior, at = FAMILIES[name]
    family, temperature = at.exponential, 0.3
    eta = 0.1 * np.random.default_rng(0).standard_normal(family.size)
    surrogate = Surrogate(eta, 0.4, at, deviation=1.0)

    def catoni(theta: FloatArray) -> float:
        return surrogate.mean_under(theta) + temperature * family.kl(theta, prior.theta)

    gradient = derivative(catoni, at.theta)
    corrected = at.theta - np.linalg.solve(family.fisher(at.theta), gradient) / temperature
    view = view_prior(prior, at, np.random.default_rng(0))
    target = ray_minimiser(supac.Catoni(temperature), surrogate, view)
    np.testing.assert_allclose(target, prior.theta - eta / temperature, rtol=1e-12)
    np.testing.assert_allclose(corrected, target, rtol=1e-4, atol=1e-5)


@every_prior
def test_theorem_2_the_minimiser_is_a_fixed_point_of_supac(name: str) -> None:
    prior, bound = PRIORS[name], supac.Catoni(0.1)
    best = prior.at(objective_of(risk, prior, bound).minimiser(prior.theta))
    surrogate = exact_projection(risk, best)
    target = ray_minimiser(bound, surrogate, view_prior(prior, best, np.random.default_rng(0)))
    # The simplex search leaves θ with the square root of the objective's rounding error.
    np.testing.assert_allclose(target, best.theta, rtol=1e-4, atol=1e-4)


@every_prior
@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 1.0])
def test_theorem_2_the_update_is_a_descent_direction(name: str, share: float) -> None:
    prior, bound = PRIORS[name], supac.Catoni(0.1)
    at = prior.at(prior.theta + share * (POSTERIORS[name].theta - prior.theta))
    view = view_prior(prior, at, np.random.default_rng(0))
    direction = ray_minimiser(bound, exact_projection(risk, at), view) - at.theta
    gradient = derivative(objective_of(risk, prior, bound), at.theta)
    assert gradient @ direction < 0.0


@pytest.mark.parametrize("alpha_max", [1.0, 0.5])
@pytest.mark.parametrize("name", ["gaussian", "diagonal", "blocks", "gamma"])
def test_appendix_a4_convergence_for_a_risk_in_the_surrogate_space(
    name: str, alpha_max: float
) -> None:
    """Finitely many steps for alpha_max = 1; geometric convergence for less, once kl_max rests."""
    end, start = FAMILIES[name]
    family, temperature, kl_max = start.exponential, 0.5, 0.05
    eta = temperature * (start.theta - end.theta)  # the risk whose minimiser is `end`
    algorithm = supac.SuPAC(
        supac.FreshDraws(),
        FixedStep(alpha_max, kl_max),
        first=8 * family.size,
        batch=8 * family.size,
    )
    problem = supac.Problem.within(start, supac.Catoni(temperature))
    state, shares, kls = algorithm.init(problem, 0), [0.0], []
    direction = end.theta - start.theta
    for _ in range(40):
        batch = algorithm.ask(problem, state)
        x = batch.x
        state, info = algorithm.tell(problem, state, batch, family.statistics(x) @ eta)
        travelled = state.posterior.theta - start.theta
        shares.append(float(travelled @ direction / (direction @ direction)))
        kls.append(info.step_kl)
        np.testing.assert_allclose(travelled, shares[-1] * direction, atol=1e-7)  # on the segment
    active = int((np.array(kls) > 0.999 * kl_max).sum())
    assert 0 < active < 40
    if alpha_max == 1.0:
        np.testing.assert_allclose(state.posterior.theta, end.theta, rtol=1e-9, atol=1e-9)
        assert kls[active + 1] < 1e-12
    else:
        left = 1.0 - np.array(shares[active + 1 : active + 11])
        np.testing.assert_allclose(left[1:] / left[:-1], 1.0 - alpha_max, rtol=1e-5)


@pytest.mark.parametrize("name", FAMILIES)
def test_kl_grows_along_every_line(name: str) -> None:
    start, end = FAMILIES[name]
    for sign in (1.0, -0.3):
        shares = np.linspace(0.0, 1.0, 40)
        kl = [
            start.family.kl(start.theta + sign * a * (end.theta - start.theta), start.theta)
            for a in shares
        ]
        finite = np.array(kl)[np.isfinite(kl)]
        assert (np.diff(finite) > 0.0).all()
        assert np.isinf(kl[len(finite) :]).all()


def test_theorem_3_the_approximation_space_is_constant_for_exponential_families_only() -> None:
    """Scores at many θ span size + 1 dimensions for a Gaussian, ever more for a Student t."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-3.0, 3.0, (200, 1))
    family = supac.Gaussian(1)
    thetas = [
        family.from_moments(rng.normal(size=1), np.array([[s]])) for s in (0.5, 1.0, 2.0, 3.0)
    ]
    gaussian = [family.statistics(x) - family.mean_statistics(theta) for theta in thetas]
    # The location score of Student's t with 3 degrees of freedom, 4(x − m)/(3 + (x − m)²).
    locations = [-1.0, 0.0, 0.5, 1.0, 2.0]
    student = [4.0 * (x - m) / (3.0 + (x - m) ** 2) for m in locations]
    one = np.ones((len(x), 1))
    assert np.linalg.matrix_rank(np.hstack([one, *gaussian])) == family.size + 1
    assert np.linalg.matrix_rank(np.hstack([one, *student])) == 1 + len(locations)


@every_prior
@pytest.mark.parametrize("bound", BOUNDS)
def test_ray_property_every_bound_is_minimised_on_the_ray(name: str, bound: str) -> None:
    prior, at = PRIORS[name], POSTERIORS[name]
    surrogate = exact_projection(lambda x: 0.5 + 0.1 * risk(x), at)
    view = view_prior(prior, at, np.random.default_rng(0))
    target = ray_minimiser(BOUNDS[bound], surrogate, view)
    objective = objective_on(surrogate, prior, BOUNDS[bound])
    anywhere = objective.minimiser(prior.theta)
    assert objective(target) == pytest.approx(objective(anywhere), rel=1e-9)
    assert objective(target) < objective(prior.theta) - 1e-6


def test_remark_seeger_is_an_infimum_over_catoni_objectives() -> None:
    n, delta = 300, 0.05
    log_term = np.log(2.0 * np.sqrt(n) / delta)
    for mean_risk, kl in [(0.1, 2.0), (0.4, 10.0), (0.02, 0.5), (0.7, 30.0)]:

        def value(log_temperature: float, mean_risk: float = mean_risk, kl: float = kl) -> float:
            temperature = np.exp(log_temperature)
            objective = supac.Catoni(float(temperature))(mean_risk, kl)
            numerator = -np.expm1(-objective / (temperature * n) - log_term / n)
            return float(numerator / -np.expm1(-1.0 / (temperature * n)))

        infimum = minimize_scalar(
            value, bounds=(-12.0, 2.0), method="bounded", options={"xatol": 1e-9}
        )
        seeger = supac.MaurerLangfordSeeger(n, delta)(mean_risk, kl)
        assert infimum.fun == pytest.approx(seeger, rel=1e-7)


def test_proof_of_lemma_1_for_a_prior_outside_the_family() -> None:
    """F = {η·T + C + λh}: the minimiser over the family is a fixed point of θ̃ = −η/λ."""
    prior = supac.gaussian([0.2, -0.1], [[1.0, 0.3], [0.3, 0.8]])
    family, temperature = supac.DiagonalGaussian(2), 0.1  # the prior is correlated, the family not

    def catoni(theta: FloatArray) -> float:
        if not family.contains(theta):
            return float("inf")
        at = supac.Distribution(family, theta)
        kl = expectation(lambda x: at.log_prob(x) - prior.log_prob(x), at)
        return expectation(risk, at) + temperature * kl

    start = family.from_moments(prior.mean, prior.covariance)
    theta = start
    for _ in range(200):
        at = supac.Distribution(family, theta)
        shifted = exact_projection(lambda x: risk(x) - temperature * prior.log_prob(x), at)
        theta = theta + 0.3 * (-shifted.eta / temperature - theta)
    gradient = derivative(catoni, theta)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-8)
    assert catoni(theta) < catoni(start) - 1e-3
    # The same through the code: θ_p as seen from the member, then the ordinary closed form.
    at, surrogate = (
        supac.Distribution(family, theta),
        exact_projection(risk, supac.Distribution(family, theta)),
    )
    targets = [
        ray_minimiser(
            supac.Catoni(temperature), surrogate, view_prior(prior, at, np.random.default_rng(seed))
        )
        for seed in range(40)
    ]
    assert_mean(np.array(targets), theta)


@pytest.mark.parametrize("bound", BOUNDS)
def test_gradient_of_a_bound_is_fisher_times_a_ray(bound: str) -> None:
    """∇PB = I(θ)(∂_risk·η + ∂_kl·(θ − θ_p)), the identity behind the ray and the baselines."""
    prior, at = PRIORS["gaussian"], POSTERIORS["gaussian"]
    eta = exact_projection(risk, at).eta
    by_risk, by_kl = slopes(BOUNDS[bound], expectation(risk, at), at.kl(prior))
    closed = at.exponential.fisher(at.theta) @ (by_risk * eta + by_kl * (at.theta - prior.theta))
    numeric = derivative(objective_of(risk, prior, BOUNDS[bound]), at.theta)
    np.testing.assert_allclose(closed, numeric, rtol=1e-6, atol=1e-8)


@every_prior
@pytest.mark.parametrize("bound", ["catoni", "seeger"])
def test_meta_gradient_needs_no_derivative_of_the_posterior(name: str, bound: str) -> None:
    """∇M(θ_p) = Σ λ_i(∇g(θ_p) − ∇g(θ̂_i)), λ_i the slope of the bound; the paper's sign is opposite.

    The posterior is optimised anew for each of the priors that are compared.
    """
    prior, each = PRIORS[name], BOUNDS[bound]

    def optimum(own: supac.Distribution, at: supac.Distribution) -> supac.Distribution:
        for _ in range(40):  # the closed-form update, exact projections
            surrogate = exact_projection(risk, at)
            target = ray_minimiser(each, surrogate, view_prior(own, at, np.random.default_rng(0)))
            step = FixedStep(0.7, 2.0).move(at, target, at)
            at = step.posterior
            if step.kl < 1e-14:  # the bound is flat there: its error is of this size
                break
        return at

    best = optimum(prior, prior)
    _, weight = slopes(each, expectation(risk, best), best.kl(prior))
    gradient = weight * (prior.mean_statistics - best.mean_statistics)
    direction = gradient / np.linalg.norm(gradient)

    def minimised(share: FloatArray) -> float:
        own = prior.at(prior.theta + share[0] * direction)
        return objective_of(risk, own, each)(optimum(own, best).theta)

    (slope,) = derivative(minimised, np.zeros(1), 0.03)
    assert slope == pytest.approx(gradient @ direction, rel=1e-4)
    assert slope > 1e-3
