"""Polynomials of few of many inputs, and the emulator around them."""

from __future__ import annotations

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.emulator.many import FittedManyEmulator
from supac.emulator.sparse import find_trend, fit_sparse, fold_runs, nearness
from supac.families import NormalWhitening
from supac.problem import Evaluations
from supac.surrogate.estimator import Context

DIM, OUTPUTS = 60, 30


def local(x: FloatArray) -> FloatArray:
    """Outputs that depend on three neighbouring inputs each, of twice as many."""
    middle = 2 * np.arange(OUTPUTS)
    left, here, right = x[:, middle - 1], x[:, middle], x[:, middle + 1]
    return np.asarray(here + 0.5 * right + 0.3 * left * here)


def dense(x: FloatArray) -> FloatArray:
    """Outputs that depend on all inputs."""
    weights = np.random.default_rng(9).standard_normal((DIM, OUTPUTS)) / np.sqrt(DIM)
    return np.asarray(x @ weights)


def points(n: int, seed: int = 0) -> FloatArray:
    return np.random.default_rng(seed).standard_normal((n, DIM))


def test_a_polynomial_of_few_inputs_is_found_from_fewer_runs_than_inputs() -> None:
    u, fresh = points(50), points(200, seed=1)
    found = fit_sparse(u, local(u), np.ones(50))
    error = ((found(fresh) - local(fresh)) ** 2).mean() / local(fresh).var()
    slopes = np.linalg.lstsq(u, local(u), rcond=None)[0]  # the least norm of those that fit
    assert error < 0.1
    assert error < 0.1 * ((fresh @ slopes - local(fresh)) ** 2).mean() / local(fresh).var()


def test_runs_without_weight_do_not_count() -> None:
    u, weight = points(80), np.repeat([1.0, 0.0], 40)
    y = local(u)
    spoilt = np.where(weight[:, None] > 0.0, y, 100.0)
    fresh = points(20, seed=1)
    one, other = (fit_sparse(u, each, weight)(fresh) for each in (y, spoilt))
    np.testing.assert_allclose(one, other, atol=1e-9)


def test_constant_outputs_and_inputs_that_are_repeated_or_idle_are_no_trouble() -> None:
    u = points(60)
    u[:, 7], u[:, 9] = u[:, 6], 0.0
    plain = local(u)
    y = np.column_stack([plain, np.full(60, 3.0), np.zeros(60), 1e9 * plain[:, 1]])
    found = fit_sparse(u, y, np.ones(60))(points(20, seed=1))
    np.testing.assert_allclose(found[:, -3:-1], np.tile([3.0, 0.0], (20, 1)), atol=1e-12)
    np.testing.assert_allclose(found[:, -1], 1e9 * found[:, 1], rtol=1e-6)


def test_the_gradient_is_the_derivative() -> None:
    u, by_outputs, step = points(40), points(40, seed=2)[:, :OUTPUTS], 1e-6
    found = fit_sparse(u, local(u), np.ones(40))
    gradient = found.pull_back(u, by_outputs)
    for axis in (0, 1, 31):
        shift = step * np.eye(DIM)[axis]
        slope = (found(u + shift) - found(u - shift)) / (2.0 * step)
        np.testing.assert_allclose(gradient[:, axis], (slope * by_outputs).sum(axis=1), atol=1e-6)


def test_a_trend_must_predict_unseen_runs_better_than_its_rival() -> None:
    u, weight = points(60), np.ones(60)
    folds = fold_runs(np.arange(60) // 5)
    rival = np.full(60, 0.5)
    assert find_trend(u, local(u), weight, folds, rival) is not None
    assert find_trend(u, local(u), weight, folds, 1e-4 * rival) is None
    assert find_trend(u, dense(u), weight, folds, rival) is None
    assert find_trend(u, local(u), np.full(60, 1e-3), folds, rival) is None, "none is near"


def test_unseen_runs_are_predicted_from_the_others() -> None:
    """A run of the first fold that is changed beyond recognition is predicted as before."""
    u, folds = points(60), fold_runs(np.arange(60) // 5)
    y = local(u)
    trend = find_trend(u, y, np.ones(60), folds, np.ones(60))
    row = int(np.flatnonzero(folds == 0)[0])
    y[row] += 3.0
    other = find_trend(u, y, np.ones(60), folds, np.ones(60))
    assert trend is not None
    assert other is not None
    np.testing.assert_array_equal(trend.unseen[row], other.unseen[row])
    assert np.abs(trend.unseen[folds != 0] - other.unseen[folds != 0]).max() > 0.01


def test_runs_near_a_posterior_count_most() -> None:
    posterior = supac.gaussian(np.zeros(DIM), 0.01 * np.eye(DIM))
    weight = nearness(posterior, np.concatenate([0.1 * points(5), points(5)]))
    assert (weight[:5] > 0.8).all()
    assert (weight[5:] < 0.01).all()


def runs_of(simulate: supac.problem.Function, n: int) -> tuple[Evaluations, supac.Distribution]:
    prior = supac.gaussian(np.zeros(DIM), np.eye(DIM))
    x = points(n)
    outputs = simulate(x) - 0.5
    risk = (outputs**2).mean(axis=1)
    return Evaluations.none(DIM).append(x, risk, prior, outputs, np.ones(n, dtype=bool)), prior


@pytest.mark.parametrize(("simulate", "sparse"), [(local, True), (dense, False)])
def test_the_emulator_has_a_trend_where_each_output_depends_on_few(
    simulate: supac.problem.Function, sparse: bool
) -> None:
    runs, prior = runs_of(simulate, 60)
    loss = supac.MeanSquare()
    model = supac.OutputEmulator().fit(runs, prior, Context(prior=prior, loss=loss))
    emulator = model.emulator
    assert isinstance(emulator, FittedManyEmulator)
    assert (emulator.trend is not None) == sparse
    fresh = points(200, seed=3)
    risk = ((simulate(fresh) - 0.5) ** 2).mean(axis=1)
    if sparse:
        error = np.sqrt(np.mean((emulator.predict(fresh) - risk) ** 2))
        assert emulator.everywhere is not None
        plain = np.sqrt(np.mean((emulator.everywhere.predict(fresh) - risk) ** 2))
        assert error < 0.8 * plain
        assert emulator.leave_one_out()[0].shape == (60,)


def test_the_gradient_of_a_risk_around_a_trend_is_its_derivative() -> None:
    runs, prior = runs_of(local, 60)
    loss = supac.MeanSquare()
    emulator = supac.OutputEmulator().fit(runs, prior, Context(prior=prior, loss=loss)).emulator
    whitening = prior.whiten()
    assert isinstance(emulator, FittedManyEmulator)
    assert isinstance(whitening, NormalWhitening)
    assert emulator.trend is not None
    values, gradients = emulator.risk_and_gradients(whitening)
    z, step = emulator.training.draws.z, 1e-5
    np.testing.assert_allclose(values, emulator.predict(z), rtol=1e-9)
    for axis in (0, 7):
        shift = step * np.eye(DIM)[axis]
        found = (emulator.predict(z + shift) - emulator.predict(z - shift)) / (2.0 * step)
        scale = np.abs(gradients[:, axis]).max()
        np.testing.assert_allclose(gradients[:, axis], found, atol=1e-4 * scale)
