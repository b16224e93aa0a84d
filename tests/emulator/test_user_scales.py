"""Parameters on the user's scale: when emulators see them so, and what follows from that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import supac
from supac import marginals
from supac.arrays import BoolArray, FloatArray
from supac.emulator import GatedModel
from supac.emulator.base import WrappedEmulator
from supac.emulator.components import FittedOutputEmulator
from supac.emulator.jacobians import JacobianTrainingSet
from supac.emulator.tuning import DEFAULT
from supac.families import NormalWhitening
from supac.problem import Evaluations
from supac.surrogate.estimator import Context
from supac.surrogate.memory import Memory

BOX = supac.Parameters({f"x{i}": marginals.Uniform(-1.0, 1.0) for i in range(10)})
MATRIX = np.random.default_rng(7).standard_normal((20, 10))
LOSS = supac.MeanSquare()
MIXED = supac.Parameters(
    {
        "a": marginals.Uniform(-1.0, 3.0),
        "b": marginals.LogUniform(1e-2, 1e2),
        "c": marginals.LogNormal(1.0, 0.5),
    },
    latent=supac.gaussian(np.array([0.2, 0.0, -0.1]), np.eye(3) + 0.4 * (1.0 - np.eye(3))),
)
OFF = replace(DEFAULT, units=replace(DEFAULT.units, user_scale=False))


def context_of(parameters: supac.Parameters) -> Context:
    return Context(prior=parameters.prior, user_scales=parameters.user_scales, loss=LOSS)


def runs_of(
    parameters: supac.Parameters, simulate: Callable[[FloatArray], FloatArray], n: int
) -> Evaluations:
    u = parameters.prior.sample(n, 0)
    outputs = simulate(parameters.from_latent(u))
    return Evaluations.none(len(parameters)).append(u, LOSS(outputs), parameters.prior, outputs)


def linear(x: FloatArray) -> FloatArray:
    return (x @ MATRIX.T - 1.0) / 1.5


def slopes_of_boxes(u: FloatArray) -> FloatArray:
    """Derivatives dx/du at a latent point: (10,)."""
    marginal = marginals.Uniform(-1.0, 1.0)
    return np.exp(marginal.log_slope(u))


def bent(x: FloatArray) -> FloatArray:
    """Outputs that are smooth on the user's scales of all three parameters."""
    a, b, c = x[:, 0], np.log(x[:, 1]), np.log(x[:, 2])
    return np.column_stack([a + 0.1 * b, a - 0.3 * b + c, np.sin(0.4 * b) + 0.2 * a * c])


def whitening_of(at: supac.Distribution) -> NormalWhitening:
    whitening = at.whiten()
    assert isinstance(whitening, NormalWhitening)
    return whitening


def on_scale(model: GatedModel) -> BoolArray:
    assert model.memory.on_scale is not None
    return model.memory.on_scale


def test_outputs_linear_in_ten_boxes_are_known_after_fifteen_runs() -> None:
    """To a hundredth of what varies; with latent inputs to no better than a tenth."""
    runs = runs_of(BOX, linear, 15)
    u = BOX.prior.sample(400, 5)
    risk = LOSS(linear(BOX.from_latent(u)))
    errors = []
    for tuning in (DEFAULT, OFF):
        model = supac.OutputEmulator(tuning=tuning).fit(runs, BOX.prior, context_of(BOX))
        errors.append(float(np.sqrt(np.mean((model.predict(u) - risk) ** 2)) / risk.std()))
    assert errors[0] < 0.01
    assert errors[1] > 0.1


@pytest.mark.parametrize("loss", [LOSS, supac.Welsch(1.0)], ids=["mean-square", "Welsch"])
def test_the_gradient_of_the_risk_follows_the_chain_rule(loss: supac.MeanSquare) -> None:
    runs = runs_of(MIXED, bent, 30)
    runs = replace(runs, risk=np.asarray(loss(np.asarray(runs.outputs))))
    context = replace(context_of(MIXED), loss=loss)
    emulator = supac.OutputEmulator(draws=200).fit(runs, MIXED.prior, context).emulator
    inner = emulator.inner if isinstance(emulator, WrappedEmulator) else emulator
    assert isinstance(inner, FittedOutputEmulator)
    assert inner.training.inputs.scales is not None
    at = supac.gaussian(np.array([0.5, -0.5, 0.3]), np.diag([0.5, 0.3, 0.2]) + 0.1)
    whitening = whitening_of(at)
    values, gradients = inner.risk_and_gradients(whitening)
    z, step = inner.training.draws.z, 1e-5
    np.testing.assert_allclose(values, inner.predict(whitening.spread(z)), rtol=1e-9)
    for axis in range(3):
        shift = step * np.eye(3)[axis]
        above, below = (inner.predict(whitening.spread(z + s)) for s in (shift, -shift))
        found = (above - below) / (2.0 * step)
        scale = np.abs(gradients[:, axis]).max()
        np.testing.assert_allclose(gradients[:, axis], found, atol=1e-4 * scale)


def test_a_risk_alone_is_averaged_by_draws_where_it_has_no_closed_form() -> None:
    runs = runs_of(MIXED, bent, 60)
    context = replace(context_of(MIXED), loss=None)
    model = supac.GaussianProcess().fit(replace(runs, outputs=None), MIXED.prior, context)
    assert on_scale(model).any()
    at = supac.gaussian(np.array([0.2, -0.2, 0.1]), np.diag([0.2, 0.3, 0.2]))
    mean, beta, _ = model.emulator.moments(whitening_of(at))
    n = 40_000
    z = np.random.default_rng(0).standard_normal((n, 3))
    whitening = whitening_of(at)
    risk = model.predict(whitening.spread(z))
    assert mean == pytest.approx(risk.mean(), abs=5.0 * risk.std() / np.sqrt(n) + 1e-3)
    features = whitening.family.features(z)
    expected = (features * (risk - risk.mean())[:, None]).mean(axis=0)
    error = (features * (risk - risk.mean())[:, None]).std(axis=0) / np.sqrt(n)
    assert (np.abs(beta - expected) < 5.0 * error + 0.02 * np.abs(expected).max()).all()


def test_jacobians_are_slopes_in_the_inputs() -> None:
    """Of outputs that are linear on the user's scale, all runs have the same ones."""
    runs = runs_of(BOX, linear, 15)
    jacobians = tuple(MATRIX / 1.5 * slopes_of_boxes(x) for x in runs.x)
    known, rule = replace(runs, jacobians=jacobians), supac.OutputEmulator()
    training = JacobianTrainingSet.build(rule, LOSS, known, BOX.prior, context_of(BOX))
    assert training.inputs.on_scale.all()
    expected = np.broadcast_to(training.slopes[0], training.slopes.shape)
    np.testing.assert_allclose(training.slopes, expected, rtol=1e-6)


def test_what_is_linear_in_the_latent_values_stays_on_these() -> None:
    runs = runs_of(BOX, lambda x: BOX.to_latent(x) @ MATRIX.T, 40)
    model = supac.OutputEmulator().fit(runs, BOX.prior, context_of(BOX))
    assert not on_scale(model).any()


def test_one_parameter_may_be_on_another_scale_than_the_others() -> None:
    def simulate(x: FloatArray) -> FloatArray:
        u = MIXED.to_latent(x)
        return np.column_stack([x[:, 0], u[:, 1] + 0.5 * x[:, 0], u[:, 1] - u[:, 2]])

    model = supac.OutputEmulator().fit(runs_of(MIXED, simulate, 40), MIXED.prior, context_of(MIXED))
    assert on_scale(model).tolist() == [True, False]


def test_the_choice_is_remembered_and_kept_in_stores() -> None:
    model = supac.OutputEmulator().fit(runs_of(BOX, linear, 15), BOX.prior, context_of(BOX))
    kept = Memory.from_arrays(model.memory.to_arrays())
    assert kept is not None
    np.testing.assert_array_equal(kept.on_scale, on_scale(model))
    without = supac.OutputEmulator(tuning=OFF).fit(
        runs_of(BOX, linear, 15), BOX.prior, context_of(BOX)
    )
    assert without.memory.on_scale is None
