from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import supac
from emulated import PLANE, outputs_of, runs_of
from supac.arrays import FloatArray
from supac.emulator.components import FittedOutputEmulator
from supac.emulator.gated import GatedModel
from supac.emulator.process import Hyperprior
from supac.emulator.tuning import DEFAULT
from supac.problem import Evaluations
from supac.surrogate.estimator import Context


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
        context = Context(prior=PLANE, loss=loss, rng=np.random.default_rng(3))
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
    mix = np.random.default_rng(1).standard_normal((6, width)) / np.sqrt(6.0)
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


def test_hyperparameters_survive_a_change_of_estimator() -> None:
    """Those of another number are not used."""
    runs = runs_of(PLANE, 30, composite=True)
    state = supac.GaussianProcess().fit(runs, PLANE).memory
    context = Context(prior=PLANE, loss=supac.RootMeanSquare(), memory=state)
    model = supac.OutputEmulator().fit(runs, PLANE, context)
    assert np.isfinite(model.project(PLANE, np.random.default_rng(0)).eta).all()


MANY = supac.gaussian(np.zeros(60), np.eye(60))


def _fit_many(
    matrix: FloatArray, estimator: supac.OutputEmulator | None = None
) -> tuple[GatedModel, float, float]:
    """Emulate linear outputs from 35 runs of 60 parameters.

    Return the model, the mean square of its errors elsewhere, and what it expects of them.
    """

    def outputs(x: FloatArray) -> FloatArray:
        return np.asarray(x @ matrix)

    x, loss = MANY.sample(35, 1), supac.MeanSquare()
    runs = Evaluations.none(60).append(x, loss(outputs(x)), MANY, outputs(x))
    runs = replace(runs, iteration=np.arange(35) // 3)
    estimator = estimator or supac.OutputEmulator()
    model = estimator.fit(runs, MANY, Context(prior=MANY, loss=loss))
    emulator = model.emulator
    assert isinstance(emulator, FittedOutputEmulator)
    fresh = MANY.sample(500, 2)
    mean, variance = emulator.process.predict_with_variance(emulator.inputs(fresh))
    error = mean - emulator.standardised(outputs(fresh))
    return model, float((error**2).mean()), float(variance.mean() * emulator.process.amplitude)


def test_of_many_parameters_that_all_matter_lengths_are_equal() -> None:
    """Lengths of their own predict worse, and the emulator does not know how much worse."""
    kernel = np.exp(-0.5 * ((np.linspace(0, 1, 60)[:, None] - np.linspace(0, 1, 30)) / 0.08) ** 2)
    model, error, expected = _fit_many(kernel)
    lengths = model.emulator.process.hyperparameters[:60]
    np.testing.assert_array_equal(lengths, lengths[0])
    assert 0.7 < error / expected < 1.4
    always = replace(DEFAULT, hyperprior=replace(DEFAULT.hyperprior, clearly_less=np.inf))
    _, own_error, own_expected = _fit_many(kernel, supac.OutputEmulator(tuning=always))
    assert own_error > 1.1 * error
    assert own_error / own_expected > 1.5


def test_of_many_parameters_of_which_few_matter_these_have_shorter_lengths() -> None:
    matrix = np.zeros((60, 30))
    matrix[[7, 20, 41]] = np.random.default_rng(0).standard_normal((3, 30))
    model, error, _ = _fit_many(matrix)
    lengths = model.emulator.process.hyperparameters[:60]
    assert set(np.argsort(lengths)[:3]) == {7, 20, 41}
    assert error < 0.05


def test_the_components_of_a_field_that_count_are_few() -> None:
    coupled = np.ones((50, 50), dtype=bool)
    prior = Hyperprior.build(coupled, DEFAULT.hyperprior.outputs)
    assert prior.inputs_that_count == 50
    centre = prior.centre.copy()
    centre[3:50] += 4.0
    assert replace(prior, centre=centre).inputs_that_count == 3
