from __future__ import annotations

import numpy as np
import pytest

import supac
from catalogue import FAMILIES
from numerics import assert_mean, derivative
from quadrature import exact_projection, objective_of
from supac.arrays import FloatArray
from supac.search.gradient import score_projection

PLANE = supac.gaussian([0.0, 0.0], np.eye(2))
SEEGER = supac.MaurerLangfordSeeger(n=300, delta=0.05, ceiling=3.0)


def bowl(x: FloatArray) -> FloatArray:
    return 0.1 * ((x - 1.0) ** 2).sum(axis=1)


def test_score_gradients_are_unbiased() -> None:
    """The mean of many score-function estimates is the exact projection."""
    at = supac.gaussian([0.6, 0.4], [[0.5, -0.1], [-0.1, 0.3]])

    def risk(x: FloatArray) -> FloatArray:
        return np.exp(-0.5 * (x**2).sum(axis=1))

    n = 200
    estimates = []
    for seed in range(300):
        x = at.sample(n, np.random.default_rng(seed))
        estimates.append(score_projection(x, risk(x), at) * n / (n - 1))  # own-mean baseline
    assert_mean(np.array(estimates), exact_projection(risk, at).eta)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "bound"),
    [
        (supac.GradientDescent(step_size=0.3, batch=100), supac.Catoni(0.1)),
        (supac.GradientDescent(step_size=0.3, batch=100), SEEGER),
        (supac.Nesterov(0.05, batch=100, momentum=0.8), supac.Catoni(0.1)),
        (supac.HeavyBall(0.05, batch=100, momentum=0.8), SEEGER),
    ],
)
def test_baselines_descend(algorithm: supac.Algorithm, bound: supac.Bound) -> None:
    result = supac.minimize(
        bowl,
        PLANE,
        bound,
        budget=8_000,
        execution=supac.Execution(vectorized=True),
        algorithm=algorithm,
    )
    true = objective_of(bowl, PLANE, bound)
    best = true(true.minimiser(PLANE.theta))
    assert result.history["objective"][0] > best + 0.05
    tail = result.history["objective"][-20:].mean()  # noisy gradients wander around the optimum
    assert tail < best + 0.2 * (result.history["objective"][0] - best)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_step_never_leaves_the_domain(name: str) -> None:
    """Absurd step sizes are cut, and said so."""
    prior = FAMILIES[name][0]
    algorithm = supac.GradientDescent(step_size=1e3, batch=50)
    problem = supac.Problem.within(prior, supac.Catoni(0.1))
    state = algorithm.init(problem, 0)
    notes: list[str] = []
    for _ in range(3):
        batch = algorithm.ask(problem, state)
        x = batch.x
        state, info = algorithm.tell(problem, state, batch, -x.sum(axis=1))
        notes += info.notes
    assert state.posterior.family.contains(state.posterior.theta)
    if name in ("beta", "gamma", "exponential", "pareto"):
        assert any("left the family's domain" in note for note in notes)


def test_nesterov_without_momentum_is_gradient_descent() -> None:
    plain, accelerated = (
        supac.minimize(
            bowl,
            PLANE,
            supac.Catoni(0.1),
            budget=400,
            execution=supac.Execution(vectorized=True),
            algorithm=a,
        )
        for a in (supac.GradientDescent(0.1, 80), supac.Nesterov(0.1, 80, momentum=0.0))
    )
    assert plain.posterior == accelerated.posterior


@pytest.mark.parametrize(
    "start",
    [
        supac.fixed_gaussian([2.0, -1.0], np.eye(2)),
        supac.gaussian([2.0, -1.0], [0.3, 2.0]),
        supac.gaussian([2.0, -1.0], [[0.5, 0.3], [0.3, 2.0]]),
    ],
)
def test_nesterov_is_nesterovs_recursion(start: supac.Distribution) -> None:
    """v ← μv − ε∇f(φ + μv), φ ← φ + v in the chart; the risk is flat, so f = KL(·, prior)."""
    family = start.exponential
    prior = start.at(family.from_moments(np.zeros(2), np.eye(2)))
    algorithm = supac.Nesterov(step_size=0.05, batch=4, momentum=0.8)
    problem = supac.Problem(prior, supac.Catoni(1.0), start)
    state = algorithm.init(problem, 0)
    phi = family.coordinates(start.theta)
    velocity = np.zeros_like(phi)

    def kl(at: FloatArray) -> float:
        return family.kl(family.from_coordinates(at), prior.theta)

    for _ in range(8):
        batch = algorithm.ask(problem, state)
        state, _ = algorithm.tell(problem, state, batch, np.full(4, 0.3))
        velocity = 0.8 * velocity - 0.05 * derivative(kl, phi + 0.8 * velocity)
        phi = phi + velocity
        ahead = start.at(family.from_coordinates(phi + 0.8 * velocity))
        assert state.posterior.kl(ahead) < 1e-10


def test_a_heavy_ball_is_polyaks_recursion() -> None:
    """φ ← φ − ε∇f(φ) + μ(φ − the one before); the risk is flat, so f = KL(·, prior)."""
    start = supac.gaussian([2.0, -1.0], [[0.5, 0.3], [0.3, 2.0]])
    family = start.exponential
    prior = start.at(family.from_moments(np.zeros(2), np.eye(2)))
    algorithm = supac.HeavyBall(step_size=0.05, batch=4, momentum=0.8)
    problem = supac.Problem(prior, supac.Catoni(1.0), start)
    state = algorithm.init(problem, 0)
    phi = before = family.coordinates(start.theta)

    def kl(at: FloatArray) -> float:
        return family.kl(family.from_coordinates(at), prior.theta)

    for _ in range(8):
        batch = algorithm.ask(problem, state)
        state, _ = algorithm.tell(problem, state, batch, np.full(4, 0.3))
        step = 0.8 * (phi - before) - 0.05 * derivative(kl, phi)
        phi, before = phi + step, phi
        assert state.posterior.kl(start.at(family.from_coordinates(phi))) < 1e-10


def test_a_proxy_is_of_no_use_to_gradients() -> None:
    with pytest.raises(ValueError, match="no use for a proxy"):
        supac.minimize(
            bowl, PLANE, supac.Catoni(0.1), budget=500, proxy=bowl,
            algorithm=supac.GradientDescent(), execution=supac.Execution(vectorized=True),
        )  # fmt: skip


def test_failed_batches_make_no_step() -> None:
    algorithm = supac.GradientDescent(batch=5)
    problem = supac.Problem.within(PLANE, supac.Catoni(0.1))
    state = algorithm.init(problem, 0)
    batch = algorithm.ask(problem, state)
    new, info = algorithm.tell(
        problem, state, batch, np.array([0.1, np.nan, np.nan, np.nan, np.nan])
    )
    assert new.posterior == state.posterior
    assert "fewer than two runs" in info.notes[0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: supac.GradientDescent(step_size=0.0), "step_size must be a positive"),
        (lambda: supac.GradientDescent(batch=1), "batch must be at least 2"),
        (lambda: supac.Nesterov(momentum=1.0), "momentum must be in"),
        (lambda: supac.HeavyBall(momentum=-0.1), "momentum must be in"),
    ],
)
def test_bad_baselines_are_refused(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]
