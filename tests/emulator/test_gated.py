from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import supac
from catalogue import FAMILIES
from supac.arrays import FloatArray
from supac.emulator import GatedModel
from supac.emulator.risk import Warp
from supac.emulator.screening import _correction
from supac.families.draws import latin_hypercube
from supac.problem.evaluations import Evaluations
from supac.surrogate import Context
from supac.surrogate.least_squares import project

PLANE = supac.gaussian([0.0, 0.0], np.eye(2))
RNG = np.random.default_rng


def smooth(x: FloatArray) -> FloatArray:
    """A risk with bumps, a slope and a bowl."""
    u = x - x.shape[1] / 10.0
    return 0.3 + 0.05 * (u**2).sum(axis=1) + 0.1 * np.sin(u[:, 0]) + 0.05 * u[:, -1]


def outputs_of(x: FloatArray) -> FloatArray:
    """Six smooth outputs of two parameters."""
    rates = np.linspace(0.2, 1.5, 6)
    return np.exp(-0.3 * x[:, :1] * rates) + 0.2 * x[:, 1:] * rates - 1.1


def runs_of(
    prior: supac.Distribution, n: int, seed: int = 0, composite: bool = False
) -> Evaluations:
    x = prior.sample(n, seed)
    outputs = outputs_of(x) if composite else None
    risk = smooth(x) if outputs is None else supac.RootMeanSquare()(outputs)
    return Evaluations.none(prior.dim).append(x, risk, prior, outputs)


GAUSSIANS = {
    "full": supac.gaussian([0.1, -0.2, 0.3], np.diag([1.0, 0.5, 2.0]) + 0.2),
    "blocks": supac.gaussian(np.zeros(3), np.diag([1.0, 0.5, 2.0]), blocks=[[0, 2]]),
    "diagonal": supac.gaussian(np.zeros(3), np.array([1.0, 0.5, 2.0])),
    "fixed": supac.fixed_gaussian(np.zeros(3), np.eye(3) + 0.3),
    "scaled": supac.scaled_gaussian(np.zeros(3), np.eye(3) + 0.3),
}


@pytest.mark.parametrize("name", GAUSSIANS)
def test_the_process_is_projected_exactly(name: str) -> None:
    """Bonnet's and Price's identities give what least squares on many draws estimates."""
    at = GAUSSIANS[name]
    model = supac.GaussianProcess().fit(runs_of(at, 25), at)
    exact = model.project(at, RNG(0))
    x = at.sample(200_000, 1)
    risk = model.emulator.predict(x) + model.severity * model.gate.probability(x)
    estimate = project(x, risk, np.ones(len(x)), at)
    whitening = at.whiten()
    features = whitening.features(x)
    residual = risk - estimate.mean - features @ _beta(estimate, at)
    error = np.sqrt((features**2 * residual[:, None] ** 2).mean(axis=0) / len(x))
    gap = np.abs(_beta(exact, at) - _beta(estimate, at))
    assert (gap < 5.0 * error + 1e-6).all()
    assert exact.mean == pytest.approx(estimate.mean, abs=5.0 * residual.std() / np.sqrt(len(x)))


def _beta(surrogate: supac.Surrogate, at: supac.Distribution) -> FloatArray:
    """η in the coordinates in which the statistics are orthonormal."""
    whitening = at.whiten()
    matrix = np.column_stack([whitening.coefficients(e) for e in np.eye(at.family.size)])
    return np.asarray(np.linalg.solve(matrix, surrogate.eta))


@pytest.mark.parametrize("name", FAMILIES)
def test_the_default_algorithm_serves_every_family(name: str) -> None:
    prior = FAMILIES[name][0]

    def risk(x: FloatArray) -> FloatArray:
        return 0.5 + 0.4 * np.tanh(x.sum(axis=1) - prior.mean.sum())

    result = supac.minimize(risk, prior, supac.Catoni(0.2), budget=70, vectorized=True)
    assert result.validated in (10, 20)  # half of them, if the first half was worse than predicted
    mean = risk(result.posterior.sample(100_000, 0)).mean()
    assert mean + 0.2 * result.kl < risk(prior.sample(100_000, 0)).mean()


def test_the_process_predicts_a_smooth_risk() -> None:
    model = supac.GaussianProcess().fit(runs_of(PLANE, 40), PLANE)
    x = PLANE.sample(500, 9)
    error = model.predict(x) - smooth(x)
    assert np.sqrt(np.mean(error**2)) < 0.02 * smooth(x).std()


def test_only_the_nearest_runs_are_used_above_the_limit() -> None:
    runs = runs_of(PLANE, 300)
    model = supac.GaussianProcess(limit=60).fit(runs, PLANE)
    assert isinstance(model, GatedModel)
    assert len(model.state.outliers) == 300
    emulator = model.emulator
    used = emulator.process.u  # type: ignore[attr-defined]
    assert len(used) == 60
    farthest = np.sort((runs.x**2).sum(axis=1))[59]
    assert (used**2).sum(axis=1).max() == pytest.approx(farthest)


def test_a_warp_squashes_only_the_upper_tail() -> None:
    risk = np.append(RNG(0).uniform(0.0, 1.0, 40), 500.0)
    warp = Warp.above(risk)
    warped = warp(risk)
    np.testing.assert_array_equal(warped[:-1], risk[:-1])
    assert warped[-1] < 30.0
    step = 1e-4
    slope = (warp(risk + step) - warp(risk - step)) / (2.0 * step)
    assert warp.log_jacobian(risk) == pytest.approx(np.log(slope).sum(), abs=1e-6)


def test_theorem_1_the_correction_is_the_projection_of_what_an_emulator_misses() -> None:
    """For an emulator that knows nothing, that is the projection of the risk itself."""
    runs = runs_of(PLANE, 400)
    weights = np.full(400, 1.0 / 400)
    correction = _correction(runs.x, runs.risk, weights, np.ones(400, dtype=bool), PLANE)
    surrogate = correction.surrogate()
    fresh = PLANE.sample(200_000, 3)
    exact = project(fresh, smooth(fresh), np.ones(len(fresh)), PLANE)
    error = np.sqrt(smooth(fresh).var() / 400)  # of a mean of 400 runs, before any regression
    assert surrogate.mean == pytest.approx(exact.mean, abs=4.0 * error)
    np.testing.assert_allclose(_beta(surrogate, PLANE), _beta(exact, PLANE), atol=4.0 * error)
    np.testing.assert_allclose(correction(fresh[:9]), by_eta(surrogate, fresh[:9]), rtol=1e-9)


def by_eta(surrogate: supac.Surrogate, x: FloatArray) -> FloatArray:
    """η·T(x) + C."""
    return PLANE.exponential.statistics(x) @ surrogate.eta + surrogate.intercept


class Generic:
    """The same loss, but not known to depend on the mean square alone."""

    def __call__(self, residuals: FloatArray) -> FloatArray:
        return (residuals**2).mean(axis=1)


def test_a_square_loss_is_averaged_exactly() -> None:
    """Its closed form agrees with pushing random errors through the same loss."""
    runs = runs_of(PLANE, 30, composite=True)
    runs = replace(runs, risk=supac.MeanSquare()(np.asarray(runs.outputs)))
    means = []
    for loss in (supac.MeanSquare(), Generic()):
        context = Context(prior=PLANE, loss=loss, rng=RNG(3))
        means.append(supac.OutputEmulator().fit(runs, PLANE, context).predict(runs.x + 0.3))
    np.testing.assert_allclose(means[0], means[1], rtol=0.02)


def test_the_emulator_predicts_the_risk_from_the_outputs() -> None:
    loss = supac.RootMeanSquare()
    for n, bar in ((12, 0.2), (30, 0.02)):
        context = Context(prior=PLANE, loss=loss)
        model = supac.OutputEmulator().fit(runs_of(PLANE, n, composite=True), PLANE, context)
        x = PLANE.sample(400, 5)
        truth = loss(outputs_of(x))
        assert np.sqrt(np.mean((model.predict(x) - truth) ** 2)) < bar * truth.std()


@pytest.mark.parametrize("width", [3, 6, 200])
def test_any_number_of_outputs_is_emulated(width: int) -> None:
    mix = RNG(1).standard_normal((6, width)) / np.sqrt(6.0)
    x = PLANE.sample(25, 2)
    outputs = outputs_of(x) @ mix
    loss = Generic()
    runs = Evaluations.none(2).append(x, loss(outputs), PLANE, outputs)
    model = supac.OutputEmulator().fit(runs, PLANE, Context(prior=PLANE, loss=loss))
    fresh = PLANE.sample(200, 3)
    truth = loss(outputs_of(fresh) @ mix)
    assert np.corrcoef(model.predict(fresh), truth)[0, 1] > 0.99


def test_the_output_emulator_says_what_it_needs() -> None:
    with pytest.raises(ValueError, match=r"pass risk=Composite\(simulate, loss\) without"):
        supac.OutputEmulator().fit(runs_of(PLANE, 20), PLANE)


CUBE = supac.gaussian(np.zeros(4), np.eye(4))


def cliff(x: FloatArray) -> FloatArray:
    """A smooth risk that falls off a cliff beyond x₀ = 1.2, where the optimum would be."""
    return np.where(x[:, 0] > 1.2, 2.0, 0.3 * np.tanh(((x - [1.0, 0.3, 0.0, 0.0]) ** 2).sum(1) / 4))


def test_runs_beyond_a_cliff_are_screened_out_and_taught_to_the_gate() -> None:
    problem = supac.Problem.within(CUBE, supac.Catoni(0.01))
    algorithm = supac.SuPAC(batch=10)
    state = algorithm.init(problem, 1)
    while len(state.evaluations) < 120:
        x = algorithm.ask(problem, state)
        state, info = algorithm.tell(problem, state, x, cliff(x))
    beyond = state.evaluations.x[:, 0] > 1.2
    assert state.emulator is not None
    outliers = state.emulator.outliers
    assert outliers[beyond].mean() > 0.9
    assert outliers[~beyond].mean() < 0.05
    assert info.wrong == outliers.sum()
    draws = state.posterior.sample(20_000, 0)
    share = (draws[:, 0] > 1.2).mean()
    assert share < 0.02
    assert share < 5.0 * info.failure_chance


def test_failed_runs_are_kept_out_of_the_emulator() -> None:
    """A run without outputs has the risk that the loss gives it, and moves the gate alone."""

    def simulate(x: FloatArray) -> FloatArray:
        return np.where(x[:, :1] > 1.0, np.nan, outputs_of(x))

    def loss(outputs: FloatArray) -> FloatArray:
        return np.where(np.isnan(outputs[:, 0]), 3.0, (np.nan_to_num(outputs) ** 2).mean(axis=1))

    result = supac.minimize(
        supac.Composite(simulate, loss), PLANE, supac.Catoni(0.05), budget=80, vectorized=True
    )
    evaluations = result.evaluations
    assert evaluations.failed == (evaluations.x[:, 0] > 1.0).sum() > 0
    assert (evaluations.risk[~evaluations.ok] == 3.0).all()
    assert (result.posterior.sample(10_000, 0)[:, 0] > 1.0).mean() < 0.02


def test_probes_look_where_the_gate_is_in_doubt_and_are_no_draws() -> None:
    problem = supac.Problem.within(CUBE, supac.Catoni(0.1))
    algorithm = supac.SuPAC(batch=10)
    state = algorithm.init(problem, 0)
    for _ in range(8):
        x = algorithm.ask(problem, state)
        state, _ = algorithm.tell(problem, state, x, cliff(x))
    evaluations = state.evaluations
    assert 0 < (~evaluations.drawn).sum() <= 0.2 * len(evaluations)
    assert len(supac.Importance().fit(evaluations, CUBE).evaluations) == evaluations.drawn.sum()


def test_widened_batches_are_weighted_by_what_they_were_drawn_from() -> None:
    problem = supac.Problem(PLANE, supac.Catoni(0.1), PLANE, loss=supac.RootMeanSquare())
    algorithm = supac.SuPAC()
    state = algorithm.init(problem, 0)
    x = algorithm.ask(problem, state)
    outputs = outputs_of(x)
    state, _ = algorithm.tell(problem, state, x, supac.RootMeanSquare()(outputs), outputs)
    np.testing.assert_allclose(state.evaluations.proposals[0].covariance, 1.69 * np.eye(2))


def test_hyperparameters_survive_a_change_of_estimator() -> None:
    """Those of another number are not used."""
    runs = runs_of(PLANE, 30, composite=True)
    state = supac.GaussianProcess().fit(runs, PLANE).state
    context = Context(prior=PLANE, loss=supac.RootMeanSquare(), state=state)
    model = supac.OutputEmulator().fit(runs, PLANE, context)
    assert np.isfinite(model.project(PLANE, RNG(0)).eta).all()


def test_latin_batches_fill_the_posterior() -> None:
    problem = supac.Problem.within(PLANE, supac.Catoni(0.1))
    x = supac.SuPAC(first=16).ask(problem, supac.SuPAC(first=16).init(problem, 3))
    slices = np.floor(np.sort(_normal_cdf(x), axis=0) * 16)
    np.testing.assert_array_equal(slices, np.repeat(np.arange(16.0)[:, None], 2, axis=1))
    assert latin_hypercube(16, 2, RNG(0)).shape == x.shape


def _normal_cdf(x: FloatArray) -> FloatArray:
    from scipy.special import ndtr  # noqa: PLC0415

    return np.asarray(ndtr(x))


@pytest.mark.parametrize(
    ("prior", "mean"),
    [
        (supac.fixed_gaussian(np.zeros(3), np.eye(3)), [1.0 / 2.1] * 3),
        (supac.gaussian(np.zeros(2), np.ones(2)), [1.0 / 2.1] * 2),
        (supac.scaled_gaussian(np.zeros(2), np.eye(2)), [1.0 / 2.1] * 2),
    ],
)
def test_a_quadratic_risk_is_solved_by_emulation(
    prior: supac.Distribution, mean: list[float]
) -> None:
    """Σ(x − ½)² + 0.1·KL has its minimum at a mean of 1/2.1, whatever the covariance may be."""
    result = supac.minimize(
        lambda x: ((x - 0.5) ** 2).sum(axis=1), prior, supac.Catoni(0.1), budget=60, vectorized=True
    )
    np.testing.assert_allclose(result.posterior.mean, mean, atol=0.01)
