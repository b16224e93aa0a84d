from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

import supac
from odes import epidemic
from supac.arrays import FloatArray
from supac.emulator.process import Hyperprior
from supac.emulator.tuning import DEFAULT
from supac.emulator.view import SeenLoss, View
from supac.problem.observation import ObservationLoss

Form = Callable[[FloatArray], FloatArray]
PLANE = supac.gaussian(np.zeros(2), np.eye(2))
TIMES = np.linspace(0.0, 20.0, 11)
EPSILON = float(np.finfo(float).eps)
FACTORS = 10.0 ** np.array([-3, 5, 0, 8, -6, 2, 0, -1, 4, 1, -8])


def growth(x: FloatArray) -> FloatArray:
    """Curves that span decades: (n, 2) → (n, 11)."""
    return np.exp(0.5 * x[:, :1]) * np.exp(0.3 * np.exp(0.7 * x[:, 1:]) * TIMES)


BEST = 0.14044  # objective: the lower of two searches for logarithms, with 120 runs each
DATA = growth(np.array([[0.3, -0.8]]))[0]


def misfit(y: FloatArray) -> FloatArray:
    return np.tanh(np.abs(np.log(np.maximum(y, 1e-12) / DATA)).mean(axis=1))


def search(
    simulate: Callable[[FloatArray], FloatArray],
    loss: Callable[[FloatArray], FloatArray],
    budget: int = 45,
    seed: int = 0,
    callback: Callable[[supac.Iteration], None] | None = None,
) -> supac.Result:
    return supac.minimize(
        supac.Composite(simulate, loss),
        PLANE,
        supac.Catoni(0.02),
        budget=budget,
        seed=seed,
        validation=0,
        callback=callback,
        execution=supac.Execution(vectorized=True),
    )


def true_objective(result: supac.Result, loss: Callable[[FloatArray], FloatArray]) -> float:
    draws = result.posterior.sample(4_000, 1)
    return float(np.mean(loss(growth(draws)))) + 0.02 * result.kl


def test_multiplying_outputs_changes_nothing_but_rounding() -> None:
    """A law: every output by its own power of ten, which the loss undoes.

    Powers of two change no bit. Those of ten change the last ones, which may end a fit of the
    hyperparameters one step earlier or later: a millionth of the posterior's width at most.
    """
    plain = search(growth, misfit)
    powers = 2.0 ** np.round(np.log2(FACTORS))
    same = search(lambda x: growth(x) * powers, lambda y: misfit(y / powers))
    np.testing.assert_array_equal(same.posterior.theta, plain.posterior.theta)
    scaled = search(lambda x: growth(x) * FACTORS, lambda y: misfit(y / FACTORS))
    deviations = np.sqrt(np.diag(plain.posterior.covariance))
    moved = (scaled.posterior.mean - plain.posterior.mean) / deviations
    wider = scaled.posterior.covariance - plain.posterior.covariance
    assert np.abs(moved).max() < 1e-6
    assert np.abs(wider / np.outer(deviations, deviations)).max() < 1e-6


def as_they_are(y: FloatArray) -> FloatArray:
    return y


@cache
def runs_to_a_hundredth(see: Form, back: Form, seed: int) -> int:
    """Return the runs after which no more than 1 % of the gap to the best is left, for good."""
    found: list[tuple[int, float]] = []

    def keep(now: supac.Iteration) -> None:
        posterior = now.next_posterior
        risk = float(np.mean(misfit(growth(posterior.sample(4_000, 1)))))
        found.append((now.queries, risk + 0.02 * posterior.kl(PLANE)))

    search(lambda x: see(growth(x)), lambda y: misfit(back(y)), seed=seed, callback=keep)
    prior = float(np.mean(misfit(growth(PLANE.sample(4_000, 1)))))
    limit = 0.99 * BEST + 0.01 * prior
    assert found[-1][1] < limit
    return next(
        runs
        for i, (runs, _) in enumerate(found)
        if all(objective < limit for _, objective in found[i:])
    )


@pytest.mark.parametrize(("see", "back"), [(np.log, np.exp), (np.arcsinh, np.sinh)])
def test_a_monotone_form_of_the_outputs_hardly_changes_the_number_of_runs(
    see: Form, back: Form
) -> None:
    """By a fifth at most, either way, but for the standard error of the mean over the seeds."""
    seeds = range(4)
    raw = np.array([runs_to_a_hundredth(as_they_are, as_they_are, seed) for seed in seeds])
    other = np.array([runs_to_a_hundredth(see, back, seed) for seed in seeds])
    ratio = np.log(other / raw)
    error = float(ratio.std(ddof=1)) / np.sqrt(len(ratio))
    assert abs(float(ratio.mean())) < np.log(1.2) + 2.0 * error


def test_curves_over_decades_are_fitted_under_a_loss_that_flattens() -> None:
    data, loss = growth(np.array([[0.3, -0.8]])), supac.Welsch(3.0)

    def risk(y: FloatArray) -> FloatArray:
        return loss((y - data) / 0.5)

    outputs = search(lambda x: (growth(x) - data) / 0.5, loss, budget=60)
    scalar = supac.minimize(
        lambda x: risk(growth(x)),
        PLANE,
        supac.Catoni(0.02),
        budget=60,
        validation=0,
        execution=supac.Execution(vectorized=True),
    )
    assert true_objective(outputs, risk) < true_objective(scalar, risk) + 0.005
    prior = float(np.mean(risk(growth(PLANE.sample(4_000, 1)))))
    assert true_objective(outputs, risk) < 0.5 * prior


@pytest.mark.parametrize("size", [1e10, 1e300])
def test_huge_outputs_far_away_do_not_matter(size: float) -> None:
    def simulate(x: FloatArray) -> FloatArray:
        return x @ np.array([[1.0, 0.5, -0.5], [0.3, 1.0, 0.7]]) - [0.5, 0.6, 0.1]

    def jumping(x: FloatArray) -> FloatArray:
        return simulate(x) + size * (x[:, :1] > 1.5)

    loss = supac.Welsch(1.0)
    calm, wild = (search(each, loss, budget=60) for each in (simulate, jumping))
    draws = [each.posterior.sample(4_000, 1) for each in (calm, wild)]
    objectives = [
        float(np.mean(loss(jumping(x)))) + 0.02 * each.kl
        for x, each in zip(draws, (calm, wild), strict=True)
    ]
    assert objectives[1] < objectives[0] + 0.01


@pytest.mark.parametrize(
    ("size", "loss"),
    [(1e150, supac.MeanSquare()), (1e300, supac.Welsch()), (1e300, supac.MeanSquare()),
     (1e300, supac.RootMeanSquare())],
)  # fmt: skip
def test_no_finite_output_breaks_anything_beside_data(
    size: float, loss: supac.ResidualLoss
) -> None:
    """Warnings are errors here; runs with losses that nobody can compute with have failed."""
    data = supac.Observations(
        ("y",), growth(np.array([[0.3, -0.8]]))[0], 0.5 * np.ones(11), times=TIMES
    )

    def jumping(x: FloatArray) -> FloatArray:
        return growth(x) + size * (x[:, :1] > 1.5)

    result = supac.minimize(
        supac.Composite(jumping, loss, data),
        PLANE,
        supac.Catoni(0.02),
        budget=40,
        validation=0,
        execution=supac.Execution(vectorized=True, on_failure="penalise"),
    )
    assert np.isfinite(result.objective)
    assert bool(result.failures) != isinstance(loss, supac.Welsch)


def test_a_huge_risk_is_a_failed_run() -> None:
    def risk(x: FloatArray) -> float:
        return 1e300 if x[0] > 1.0 else float(x @ x)

    execution = supac.Execution(on_failure="penalise")
    bound = supac.Catoni(0.5, ceiling=10.0)
    result = supac.minimize(risk, PLANE, bound, budget=40, execution=execution)
    assert np.isfinite(result.objective)
    assert "returned 1e+300" in result.failures[0].message


def test_the_largest_residual_is_a_loss_like_any_other() -> None:
    """Most outputs do not change it at all: they are not given a weight of zero."""

    def largest(y: FloatArray) -> FloatArray:
        return np.abs(np.log(y / DATA)).max(axis=1)

    result = search(growth, largest)
    assert true_objective(result, largest) < 0.2 * np.mean(largest(growth(PLANE.sample(4_000, 1))))


def test_views_are_inverted_exactly_within_their_reach() -> None:
    outputs = growth(PLANE.sample(30, 0))
    view = View.of(outputs, misfit(outputs), misfit)
    assert view is not None
    near = np.argsort(misfit(outputs))[:10]
    np.testing.assert_allclose(view.back(view.see(outputs[near])), outputs[near], rtol=1e-9)
    assert np.isfinite(view.see(np.full((1, 11), 1e300))).all()


def test_outputs_that_are_constant_near_the_best_runs_have_no_unit_either() -> None:
    rng = np.random.default_rng(1)
    outputs = rng.standard_normal((30, 3))
    risk = (outputs[:, :2] ** 2).sum(axis=1)
    outputs[:, 2] = np.maximum(risk - np.sort(risk)[15], 0.0)
    seen = []
    for factors in (np.ones(3), np.array([1.0, 1.0, 1e6])):

        def loss(y: FloatArray, factors: FloatArray = factors) -> FloatArray:
            return ((y / factors) ** 2).sum(axis=1)

        view = View.of(outputs * factors, risk, loss)
        assert view is not None
        seen.append(view.see(outputs * factors))
    np.testing.assert_allclose(seen[1], seen[0], rtol=1e-6, atol=1e-9)


def test_residuals_of_usual_size_are_emulated_as_they_are() -> None:
    residuals = np.random.default_rng(0).standard_normal((20, 5))
    for loss in (supac.MeanSquare(), supac.RootMeanSquare(), supac.Welsch(3.0)):
        assert View.of(residuals, loss(residuals), loss) is None


def test_residuals_over_decades_are_compressed_where_that_has_more_evidence() -> None:
    """Exponential functions of the parameters are, linear ones are not, whatever their sizes."""
    u = PLANE.sample(30, 0)
    space = Hyperprior.build(np.ones((2, 2), dtype=bool), DEFAULT.hyperprior.outputs)
    misfit_of = space.expected_misfit(u)
    loss, slopes = supac.MeanSquare(), np.array([[1.0, 0.5, -0.5], [0.3, 1.0, 0.7]])
    steep = np.exp(2.0 * u @ slopes) - np.exp(1.0)
    view = View.of(steep, loss(steep), loss, misfit=misfit_of)
    assert view is not None
    assert np.isfinite(view.scale)
    for factor in (1.0, 1e6):
        flat = factor * (u @ slopes - 0.3)
        assert View.of(flat, loss(flat), loss, misfit=misfit_of) is None


def test_beside_observation_parameters_far_runs_are_compressed_by_evidence_alone() -> None:
    """Once the best runs are alike others seem huge, which linear outputs do not mind."""
    u = PLANE.sample(30, 0)
    u[:15] *= 1e-3
    space = Hyperprior.build(np.ones((2, 2), dtype=bool), DEFAULT.hyperprior.outputs)
    misfit_of = space.expected_misfit(u)
    slopes = np.array([[1.0, 0.5, -0.5], [0.3, 1.0, 0.7]])
    loss = ObservationLoss(lambda y, z: (y**2).mean(axis=1) + z[:, 0] ** 2, 1)
    for outputs, compressed in ((u @ slopes, False), (np.expm1(4.0 * u @ slopes), True)):
        rows = np.hstack([outputs, np.zeros((30, 1))])
        by_size = View.of(rows, loss(rows), loss, 1)
        view = View.of(rows, loss(rows), loss, 1, misfit_of)
        assert by_size is not None
        assert np.isfinite(by_size.scale)
        assert view is not None
        assert bool(np.isfinite(view.scale)) == compressed


def test_a_steep_epidemic_is_found() -> None:
    """Its risk falls from thousands to a quarter; as they are, its residuals lost seed 3."""
    data = epidemic(np.array([[0.3, 0.8, 0.3]]))[0]
    loss = supac.MeanSquare()

    def residuals(z: FloatArray) -> FloatArray:
        return (epidemic(z) - data) / (0.1 * data + 0.001)

    result = supac.minimize(
        supac.Composite(residuals, loss),
        supac.gaussian(np.zeros(3), np.eye(3)),
        supac.Catoni(0.02),
        budget=45,
        seed=3,
        validation=0,
        execution=supac.Execution(vectorized=True),
    )
    risk = float(loss(residuals(result.posterior.sample(4_000, 1))).mean())
    assert risk + 0.02 * result.kl < 0.3


def test_residuals_that_only_count_beyond_a_limit_are_searched() -> None:
    """Of the best runs all are zero, which is no size: that of all runs is taken."""
    slopes = np.array([[1.0, 0.5, -0.5], [0.3, 1.0, 0.7]])

    def beyond(x: FloatArray) -> FloatArray:
        return np.maximum(x @ slopes + 0.5, 0.0)

    result = search(beyond, supac.MeanSquare(), budget=40)
    risk = float(np.mean(beyond(result.posterior.sample(4_000, 1)) ** 2))
    prior = float(np.mean(beyond(PLANE.sample(4_000, 1)) ** 2))
    assert risk + 0.02 * result.kl < 0.3 * prior


def test_many_outputs_have_the_same_bits_a_few_rows_at_a_time() -> None:
    rng = np.random.default_rng(0)
    view = View(rng.normal(size=1000), rng.uniform(1, 2, 1000), 0.5)
    loss = SeenLoss(supac.RootMeanSquare(), view, 3.0)
    t, x = rng.normal(size=(100, 1000)), np.zeros((100, 0))
    risk, slopes = loss.risk_and_slopes(t, x)
    assert slopes is not None
    for row in range(100):
        one, own = loss.risk_and_slopes(t[row : row + 1], x[:1])
        assert own is not None
        np.testing.assert_array_equal(one, risk[row : row + 1])
        np.testing.assert_array_equal(own[0], slopes[0][row : row + 1])
    assert slopes[1].shape == (100, 0)
