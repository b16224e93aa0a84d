"""Projections whose cost does not depend on the number of statistics."""

from __future__ import annotations

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.emulator.components import FittedOutputEmulator
from supac.emulator.projection import CommonDraws, SubspaceDraws
from supac.families import NormalWhitening
from supac.families.gaussian import Gaussian, orthogonal
from supac.problem import Evaluations, Loss
from supac.surrogate.estimator import Context
from supac.surrogate.regime import MANY_PARAMETERS

MANY = MANY_PARAMETERS + 5


def whitening_of(member: supac.Distribution) -> NormalWhitening:
    whitening = member.whiten()
    assert isinstance(whitening, NormalWhitening)
    return whitening


def member(dim: int, seed: int = 0) -> supac.Distribution:
    rng = np.random.default_rng(seed)
    root = np.eye(dim) + 0.3 * np.tril(rng.standard_normal((dim, dim)), -1)
    return supac.gaussian(rng.standard_normal(dim), root @ root.T)


@pytest.mark.parametrize(
    "at",
    [
        member(6),
        supac.gaussian(np.ones(6), np.linspace(0.1, 2.0, 6)),
        supac.gaussian(np.ones(6), np.eye(6), blocks=[[0, 2], [1, 4, 5]]),
    ],
    ids=["full", "diagonal", "blocks"],
)
def test_gradients_project_a_quadratic_function_as_its_values_do(at: supac.Distribution) -> None:
    """Both are exact, for any shape of the covariance: Bonnet's and Price's identities."""
    rng = np.random.default_rng(1)
    slope, half = rng.standard_normal(6), rng.standard_normal((6, 6))
    hessian = half + half.T if at.family.coupled.all() else np.diag(np.diag(half))
    draws, whitening = CommonDraws(orthogonal(400, 6, rng)), whitening_of(at)
    z = draws.z
    values = z @ slope + 0.5 * np.einsum("ij,jk,ik->i", z, hessian, z)
    by_values = draws.project_values(whitening, values)
    by_gradients = draws.project_gradients(whitening, values, slope + z @ hessian)
    np.testing.assert_allclose(by_gradients.beta, by_values.beta, atol=1e-10)
    assert by_gradients.explained == pytest.approx(1.0)
    assert by_gradients.mean == pytest.approx(0.5 * np.trace(hessian))
    assert by_values.mean == pytest.approx(0.5 * np.trace(hessian))


def test_gradients_project_any_smooth_function() -> None:
    """E[f·features] of f = exp(a·z), whose moments are known."""
    rng = np.random.default_rng(2)
    at = supac.gaussian(np.zeros(3), np.eye(3))
    slope = np.array([0.5, -0.3, 0.1])
    draws = CommonDraws(orthogonal(40_000, 3, rng))
    values = np.exp(draws.z @ slope)
    found = draws.project_gradients(whitening_of(at), values, values[:, None] * slope).beta
    height = np.exp(0.5 * slope @ slope)
    exact = height * whitening_of(at).moments(slope, np.outer(slope, slope))
    np.testing.assert_allclose(found, exact, atol=5.0 * values.std() / np.sqrt(len(values)))


@pytest.mark.parametrize("certain", [0, 3])
def test_a_function_of_few_directions_is_projected_within_them(certain: int) -> None:
    """Whether they are found among the gradients, or certain to be there."""
    rng = np.random.default_rng(2)
    at = supac.gaussian(np.zeros(60), np.eye(60))
    basis = np.linalg.qr(rng.standard_normal((60, 3)))[0]

    def function(z: FloatArray) -> FloatArray:
        along = z @ basis
        return along[:, 0] + along[:, 1] * along[:, 2]

    gradients = rng.standard_normal((200, 3)) @ basis.T
    draws = SubspaceDraws.of(60, rng, certain)
    found_basis = draws.basis(gradients, basis[:, :certain])
    values = function(draws.points(found_basis))
    found = draws.project(whitening_of(at), found_basis, values)
    curvature = np.outer(basis[:, 1], basis[:, 2])
    exact = whitening_of(at).moments(basis[:, 0], curvature + curvature.T)
    np.testing.assert_allclose(found.beta, exact, atol=1e-9)


def many_runs(loss: Loss) -> tuple[Evaluations, supac.Distribution]:
    prior = supac.gaussian(np.zeros(MANY), np.eye(MANY))
    mix = np.random.default_rng(3).standard_normal((MANY, 30)) / np.sqrt(MANY)
    x = prior.sample(60, 4)
    outputs = x @ mix + 0.2 * np.sin(x @ mix) + 1.0
    return Evaluations.none(MANY).append(x, loss(outputs), prior, outputs), prior


def mean_square(residuals: FloatArray) -> FloatArray:
    return np.asarray((residuals**2).mean(axis=1))


@pytest.mark.parametrize(
    "loss",
    [supac.MeanSquare(), supac.RootMeanSquare(), supac.Welsch(0.8), supac.Welsch(0.1)],
    ids=["mean-square", "root-mean-square", "Welsch", "compressed"],
)
def test_the_gradient_of_the_emulated_risk_is_its_derivative(loss: Loss) -> None:
    runs, prior = many_runs(loss)
    model = supac.OutputEmulator().fit(runs, prior, Context(prior=prior, loss=loss))
    emulator, whitening = model.emulator, whitening_of(prior)
    assert isinstance(emulator, FittedOutputEmulator)
    values, gradients = emulator.risk_and_gradients(whitening)
    z, step = emulator.training.draws.z, 1e-5
    np.testing.assert_allclose(values, emulator.predict(whitening.spread(z)), rtol=1e-9)
    for axis in (0, 7):
        shift = step * np.eye(MANY)[axis]
        above, below = (emulator.predict(whitening.spread(z + s)) for s in (shift, -shift))
        found = (above - below) / (2.0 * step)
        scale = np.abs(gradients[:, axis]).max()
        np.testing.assert_allclose(gradients[:, axis], found, atol=2e-3 * scale)


def test_a_loss_without_a_derivative_is_projected_alike() -> None:
    """In the subspace of the outputs, to within what the regression of values leaves open."""
    betas = []
    for loss in (supac.MeanSquare(), mean_square):
        runs, prior = many_runs(mean_square)
        model = supac.OutputEmulator().fit(runs, prior, Context(prior=prior, loss=loss))
        assert isinstance(model.emulator, FittedOutputEmulator)
        betas.append(model.emulator.moments(whitening_of(prior))[1])
    by_gradients, by_values = betas
    correlation = np.corrcoef(by_gradients, by_values)
    assert correlation[0, 1] > 0.9


@pytest.mark.parametrize("correlated", [False, True])
@pytest.mark.parametrize(
    "loss", [supac.MeanSquare(), supac.RootMeanSquare()], ids=["mean-square", "root-mean-square"]
)
def test_an_expansion_by_pairs_of_draws_is_the_projection_of_many_parameters(
    loss: Loss, correlated: bool
) -> None:
    runs, prior = many_runs(loss)
    if correlated:
        away = np.abs(np.subtract.outer(np.arange(MANY), np.arange(MANY)))
        prior = supac.gaussian(np.zeros(MANY), np.exp(-away / 5.0))
    model = supac.OutputEmulator().fit(runs, prior, Context(prior=prior, loss=loss))
    at = supac.gaussian(np.full(MANY, 0.1), 0.5 * prior.covariance)
    whitening, emulator = whitening_of(at), model.emulator
    assert isinstance(emulator, FittedOutputEmulator)
    found = emulator.expand(whitening)
    mean, beta, explained = emulator.moments(whitening)
    assert found is not None
    np.testing.assert_allclose([found.mean, found.explained], [mean, explained], rtol=1e-9)
    family = at.family
    assert isinstance(family, Gaussian)
    eta = family.expansion(whitening.mean, found.slope, found.hessian)
    expected = whitening.coefficients(beta)
    np.testing.assert_allclose(eta, expected, atol=1e-9 * np.abs(expected).max())
    assert found.deviation == pytest.approx(float(np.linalg.norm(beta)), rel=0.2)
