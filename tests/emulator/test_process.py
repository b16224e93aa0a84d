from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import supac
from numerics import derivative
from processes import hyperprior, noisy_kernel, process, textbook_kernel
from quadrature import nodes
from supac.arrays import FloatArray
from supac.emulator.process import (
    _ROWS,
    Hyperprior,
    Process,
    _inverse_of_factor,
    factor_of_covariance,
    misfit,
)
from supac.emulator.tuning import DEFAULT


@pytest.mark.parametrize("power", [1.0, 0.3])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("dim", "outputs"), [(1, 1), (2, 3), (4, 2)])
def test_the_misfits_gradient_is_its_derivative(
    seed: int, dim: int, outputs: int, power: float
) -> None:
    given = process(15, dim, outputs, seed)
    assert (given.inflation != 1.0).all()

    def both(hyperparameters: FloatArray) -> tuple[float, FloatArray]:
        return misfit(hyperparameters, given.u, given.y, given.inflation, given.prior, power)

    def value(hyperparameters: FloatArray) -> float:
        return both(hyperparameters)[0]

    _, gradient = both(given.hyperparameters)
    # The misfit is known to some 12 digits: of narrower differences rounding is the larger error.
    expected = derivative(value, given.hyperparameters, relative_step=1e-3)
    np.testing.assert_allclose(gradient, expected, rtol=1e-7, atol=1e-7)


def test_less_evidence_leaves_hyperparameters_nearer_to_their_prior() -> None:
    given = process(15, 4, 2, seed=0)
    penalties = [
        given.prior.penalty(given.fit(200, power=power).hyperparameters)[0]
        for power in (1.0, 0.3, 0.1, 1e-6)
    ]
    assert penalties == sorted(penalties, reverse=True)
    assert penalties[-1] == pytest.approx(0.0, abs=1e-3)


def test_the_misfit_is_minus_the_log_evidence_at_the_best_amplitude() -> None:
    """Up to constants: differences between two φ are those of the textbook's Gaussian density."""
    one, other = process(12, 3, 2, seed=0), process(12, 3, 2, seed=1)
    values, expected = [], []
    for hyperparameters in (one.hyperparameters, other.hyperparameters):
        given = Process(hyperparameters, one.prior, one.u, one.y, one.inflation)
        kernel = noisy_kernel(given)
        power = sum(float(each @ np.linalg.solve(kernel, each)) for each in given.y.T)
        amplitude = power / given.y.size
        whole = np.kron(np.eye(2), amplitude * kernel)
        stacked = given.y.T.ravel()
        minus_log = 0.5 * np.linalg.slogdet(whole)[1] + 0.5 * stacked @ np.linalg.solve(
            whole, stacked
        )
        expected.append(minus_log + given.prior.penalty(hyperparameters)[0])
        values.append(misfit(hyperparameters, given.u, given.y, given.inflation, given.prior)[0])
        assert given.amplitude == pytest.approx(amplitude, rel=1e-9)
    assert values[1] - values[0] == pytest.approx(expected[1] - expected[0], rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_predictions_are_those_of_the_textbook(seed: int) -> None:
    given = process(20, 3, 2, seed)
    new = 2.0 * np.random.default_rng(100 + seed).standard_normal((7, 3))
    kernel, cross = noisy_kernel(given), textbook_kernel(given, new, given.u)
    mean, variance = given.predict_with_variance(new)
    np.testing.assert_allclose(mean, cross @ np.linalg.solve(kernel, given.y), rtol=1e-8)
    before = np.diag(textbook_kernel(given, new, new))
    explained = np.einsum("ij,ji->i", cross, np.linalg.solve(kernel, cross.T))
    np.testing.assert_allclose(variance, before - explained, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(given.predict(new), mean, rtol=1e-12)


def test_leaving_a_run_out_is_fitting_without_it() -> None:
    given = process(18, 2, 3)
    for i in range(18):
        kept = np.arange(18) != i
        refit = Process(
            given.hyperparameters, given.prior, given.u[kept], given.y[kept], given.inflation[kept]
        )
        mean, variance = refit.predict_with_variance(given.u[i : i + 1])
        np.testing.assert_allclose(given.leave_one_out[i], mean[0], rtol=1e-7, atol=1e-9)
        noise = given.noise * given.inflation[i]
        assert given.leave_one_out_variance[i] == pytest.approx(variance[0] + noise, rel=1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_expectations_under_a_gaussian_are_those_of_quadrature(seed: int) -> None:
    """By Stein's identities: E[∇m] = C⁻¹E[(u − c)m], E[∇²m] = C⁻¹E[((u − c)(u − c)ᵀ − C)m]C⁻¹."""
    given = process(20, 2, 2, seed)
    covariance = np.array([[0.5, 0.2], [0.2, 0.3]])
    at = supac.gaussian([0.4, -0.7], covariance)
    u, weights = nodes(at)
    m, inverse = given.predict(u)[:, 0], np.linalg.inv(covariance)
    z = (u - at.mean) @ inverse
    value, slope, curvature = given.expectation(at.mean, covariance)
    assert value == pytest.approx(float(weights @ m), abs=1e-8)
    np.testing.assert_allclose(slope, (weights * m) @ z, atol=1e-8)
    expected = (z * (weights * m)[:, None]).T @ z - float(weights @ m) * inverse
    np.testing.assert_allclose(curvature, expected, atol=1e-8)


def test_a_narrow_gaussian_sees_the_prediction_and_its_derivatives() -> None:
    given = process(20, 3)
    at = np.array([0.3, -0.2, 0.5])
    value, slope, curvature = given.expectation(at, 1e-12 * np.eye(3))

    def mean(u: FloatArray) -> float:
        return float(given.predict(u[None])[0, 0])

    def gradient(u: FloatArray) -> FloatArray:
        return given.expectation(u, 1e-12 * np.eye(3))[1]

    assert value == pytest.approx(mean(at), abs=1e-9)
    np.testing.assert_allclose(slope, derivative(mean, at, 1e-3), atol=1e-7)
    np.testing.assert_allclose(curvature, derivative(gradient, at, 1e-3), atol=1e-7)


def test_data_with_hardly_any_noise_are_interpolated() -> None:
    rng = np.random.default_rng(0)
    prior = hyperprior(2, noise_floor=0.0)
    hyperparameters = prior.centre.copy()
    hyperparameters[-1] = np.log(1e-5)
    u = rng.standard_normal((15, 2))
    y = np.column_stack([np.sin(u[:, 0]), np.cos(u[:, 1])])
    given = Process(hyperparameters, prior, u, y, np.ones(15))
    mean, variance = given.predict_with_variance(u)
    np.testing.assert_allclose(mean, y, atol=1e-6)
    assert (variance < 2e-10).all()  # at most the noise's variance, and rounding


def test_far_away_the_uncertainty_is_not_less_than_nearby() -> None:
    given = process(20, 2)
    _, variance = given.predict_with_variance(np.array([[0.0, 0.0], [30.0, 0.0], [0.0, 30.0]]))
    assert variance[0] < min(variance[1:])


def test_an_inflated_run_counts_less() -> None:
    given = process(20, 2)
    doubted = given.inflation.copy()
    doubted[3] = 1e8
    ignored = np.arange(20) != 3
    new = np.random.default_rng(1).standard_normal((5, 2))
    inflated = Process(given.hyperparameters, given.prior, given.u, given.y, doubted).predict(new)
    without = Process(
        given.hyperparameters,
        given.prior,
        given.u[ignored],
        given.y[ignored],
        given.inflation[ignored],
    ).predict(new)
    np.testing.assert_allclose(inflated, without, atol=1e-4)
    assert np.abs(given.predict(new) - without).max() > 1e-3


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("iterations", [1, 3, 30])
def test_fitting_never_makes_the_misfit_worse(seed: int, iterations: int) -> None:
    given = process(20, 3, 2, seed)
    start = np.clip(given.hyperparameters, given.prior.lower, given.prior.upper)
    before = replace(given, hyperparameters=start)
    fitted = before.fit(iterations)
    found = fitted.hyperparameters
    assert fitted.misfit < before.misfit
    assert (given.prior.lower <= found).all()
    assert (found <= given.prior.upper).all()


def test_fitting_finds_the_direction_that_matters() -> None:
    """One of four inputs moves the output: its length scale comes out the shortest."""
    rng = np.random.default_rng(3)
    u = rng.standard_normal((40, 4))
    prior = hyperprior(4)
    y = np.sin(2.0 * u[:, 2:3])
    given = Process(prior.centre, prior, u, y - y.mean(), np.ones(40))
    hyperparameters = given.fit(60).hyperparameters
    assert given.fit(0) is given
    assert np.argmin(hyperparameters[:4]) == 2
    assert hyperparameters[2] < np.delete(hyperparameters[:4], 2).min() - 1.0


def test_a_kernel_without_a_root_is_a_large_misfit_not_an_error() -> None:
    """Repeated runs without noise: the kernel matrix is singular, and rounding decides."""
    prior = hyperprior(2, noise_floor=0.0)
    hyperparameters = prior.centre.copy()
    hyperparameters[-1] = -30.0
    u = np.repeat(np.random.default_rng(0).standard_normal((5, 2)), 8, axis=0)
    y = np.random.default_rng(1).standard_normal((40, 1))
    assert np.isfinite(
        Process(hyperparameters, prior, u, y, np.ones(40)).predict(u)
    ).all()  # with some jitter
    value, gradient = misfit(hyperparameters, u, y, np.ones(40), prior)
    assert value == 1e10
    np.testing.assert_array_equal(gradient, 0.0)


@pytest.mark.parametrize("n", [1, 2, 64, 65, 150, 300])
def test_factors_of_any_size_are_inverted(n: int) -> None:
    root = np.tril(np.random.default_rng(n).standard_normal((n, n)), -1) / np.sqrt(n) + np.eye(n)
    inverse = _inverse_of_factor(np.asfortranarray(root))
    np.testing.assert_allclose(inverse @ root, np.eye(n), atol=1e-9 * np.abs(inverse).max())
    np.testing.assert_array_equal(np.triu(inverse, 1), 0.0)


def test_the_misfit_of_many_runs_is_that_of_few_computed_otherwise() -> None:
    """Beyond the size from which factors are inverted by halves."""
    given = process(150, 3, 2)
    kernel = noisy_kernel(given)
    total = float(np.vdot(given.y, np.linalg.solve(kernel, given.y)))
    expected = np.linalg.slogdet(kernel)[1] + 150.0 * np.log(total / 300.0)
    expected += given.prior.penalty(given.hyperparameters)[0]
    value, gradient = misfit(given.hyperparameters, given.u, given.y, given.inflation, given.prior)
    assert value == pytest.approx(expected, rel=1e-9)
    assert given.misfit == pytest.approx(expected, rel=1e-9)
    step = 1e-6 * gradient / np.linalg.norm(gradient)
    values = [
        misfit(given.hyperparameters + each, given.u, given.y, given.inflation, given.prior)[0]
        for each in (step, -step)
    ]
    assert (values[0] - values[1]) / 2e-6 == pytest.approx(np.linalg.norm(gradient), rel=1e-4)


def test_many_rows_are_predicted_as_one_by_one() -> None:
    given = process(25, 3, 2)
    new = np.random.default_rng(1).standard_normal((2 * _ROWS + 17, 3))
    mean, variance = given.predict_with_variance(new)
    for i in (0, 1, _ROWS - 1, _ROWS, 2 * _ROWS - 1, 2 * _ROWS, len(new) - 1):
        one, spread = given.predict_with_variance(new[i : i + 1])
        np.testing.assert_allclose(mean[i], one[0], rtol=1e-9, atol=1e-11)
        assert variance[i] == pytest.approx(spread[0], rel=1e-9, abs=1e-11)
    np.testing.assert_allclose(given.predict(new), mean, rtol=1e-12, atol=1e-13)


def test_no_rows_are_no_predictions() -> None:
    mean, variance = process(10, 2, 3).predict_with_variance(np.empty((0, 2)))
    assert mean.shape == (0, 3)
    assert variance.shape == (0,)


def test_parameters_that_are_not_coupled_have_no_oblique_metric() -> None:
    coupled = np.zeros((3, 3), dtype=bool)
    coupled[2, 0] = coupled[0, 2] = True
    prior = Hyperprior.build(coupled, DEFAULT.hyperprior.outputs)
    assert prior.dim == 3
    assert len(prior.centre) == 3 + 1 + 4
    _, metric, _ = prior.unpack(np.arange(8.0))
    np.testing.assert_array_equal(metric, [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [3.0, 0.0, 1.0]])


def test_runs_left_out_together_are_predicted_from_the_others() -> None:
    given, folds = process(20, 3, outputs=2), np.arange(20) % 4
    errors = given.leave_out(folds)
    for fold in range(4):
        kept = folds != fold
        others = replace(given, u=given.u[kept], y=given.y[kept], inflation=given.inflation[kept])
        expected = given.y[~kept] - others.predict(given.u[~kept])
        np.testing.assert_allclose(errors[~kept], expected, atol=1e-9)


def test_covariances_that_are_none_are_no_endless_loop() -> None:
    nearly = np.ones((3, 3)) - 1e-15 * np.eye(3)
    root = factor_of_covariance(nearly.copy(), 3.0)
    np.testing.assert_allclose(root @ root.T, nearly, atol=1e-9)
    with pytest.raises(np.linalg.LinAlgError, match="not covariances"):
        factor_of_covariance(np.diag([1.0, -5.0]), 2.0)
