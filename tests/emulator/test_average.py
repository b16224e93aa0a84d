"""Emulators whose predictions are averaged while there are few runs."""

from __future__ import annotations

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.emulator.average import AveragedEmulator
from supac.families import NormalWhitening
from supac.problem import Evaluations
from supac.surrogate.estimator import Context

LOSS = supac.CappedSquare(1.0)


def simulate(x: FloatArray) -> FloatArray:
    return np.asarray(np.sin(x[:, :1] * np.linspace(0.2, 2.0, 8)) + 0.3 * x[:, 1:2] ** 2)


def model_of(n: int, dim: int = 3) -> supac.emulator.GatedModel:
    prior = supac.gaussian(np.zeros(dim), np.eye(dim))
    x = prior.sample(n, 0)
    outputs = simulate(x)
    runs = Evaluations.none(dim).append(x, LOSS(outputs), prior, outputs)
    return supac.OutputEmulator().fit(runs, prior, Context(prior=prior, loss=LOSS))


def test_the_risk_is_the_mean_of_the_members() -> None:
    model = model_of(20)
    averaged, prior = model.emulator, supac.gaussian(np.zeros(3), 0.3 * np.eye(3))
    assert isinstance(averaged, AveragedEmulator)
    x, whitening = prior.sample(9, 1), prior.whiten()
    assert isinstance(whitening, NormalWhitening)
    predictions = np.array([each.predict(x) for each in averaged.members])
    assert predictions.std(axis=0).min() > 0.0  # they disagree
    np.testing.assert_allclose(model.predict(x), predictions.mean(axis=0))
    means, betas, _ = zip(*(each.moments(whitening) for each in averaged.members), strict=True)
    mean, beta, _ = averaged.moments(whitening)
    assert mean == pytest.approx(np.mean(means))
    np.testing.assert_allclose(beta, np.mean(betas, axis=0))


def test_the_first_member_has_the_largest_evidence() -> None:
    averaged = model_of(20).emulator
    assert isinstance(averaged, AveragedEmulator)
    misfits = [each.process.misfit for each in averaged.members]
    assert misfits[0] == min(misfits)
    assert averaged.misfit() == averaged.members[0].misfit()


@pytest.mark.parametrize(
    ("n", "dim", "averages"), [(20, 3, True), (121, 3, False), (30, 21, False)]
)
def test_many_runs_or_parameters_have_one_emulator(n: int, dim: int, averages: bool) -> None:
    assert isinstance(model_of(n, dim).emulator, AveragedEmulator) is averages


def test_hyperparameters_of_all_members_are_kept_for_the_next_fit() -> None:
    model = model_of(20)
    assert isinstance(model.emulator, AveragedEmulator)
    kept = model.memory.hyperparameters.values()
    for each, own in zip(model.emulator.members, kept, strict=True):
        np.testing.assert_array_equal(each.process.hyperparameters, own)
