"""Stochastic simulators: noise is found, told, and counted in the predicted risk."""

from __future__ import annotations

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.report.account import account_of
from supac.report.check import Level
from supac.report.verdict import assess
from supac.surrogate.estimator import NOISY, Context

SPACE = supac.gaussian(np.zeros(3), np.eye(3))
TIMES = np.linspace(0.0, 4.0, 20)
LOSS = supac.CappedSquare(1.5)


def clean(x: FloatArray) -> FloatArray:
    return 3.0 * (np.exp(0.4 * x[0] - TIMES * np.exp(0.5 * x[1])) + 0.4 * x[2] * np.sin(TIMES))


DATA = clean(np.array([0.7, -0.6, 0.5]))


def search(noise: float) -> supac.Result:
    rng = np.random.default_rng(0)

    def simulate(x: FloatArray) -> FloatArray:
        return clean(x) - DATA + noise * rng.standard_normal(len(TIMES))

    return supac.minimize(supac.Composite(simulate, LOSS), SPACE, supac.Catoni(0.01), budget=60)


def test_noise_is_found_where_there_is_some() -> None:
    noisy, smooth = search(0.7), search(0.0)
    assert "% of the spread of the outputs over all runs unexplained" in " ".join(noisy.notes)
    assert "noisy" not in " ".join(smooth.notes)
    assert smooth.history["noise"][-1] < 0.1 * NOISY
    (check,) = [each for each in assess(account_of(noisy)).checks if "noisy?" in each.question]
    assert check.level is Level.TRUST
    assert check.answer.startswith("Perhaps: the emulator leaves about ")


def test_the_predicted_risk_is_that_of_noisy_runs() -> None:
    """Within a loss that saturates, noise adds where residuals are small, and nothing far away."""
    rng = np.random.default_rng(0)
    x = SPACE.sample(80, 1)
    outputs = np.array([clean(each) for each in x]) - DATA + 0.7 * rng.standard_normal((80, 20))
    runs = supac.Evaluations.none(3).append(x, LOSS(outputs), SPACE, outputs)
    context = Context(prior=SPACE, loss=LOSS, resolution=0.01)
    model = supac.OutputEmulator().fit(runs, SPACE, context)
    assert model.noise > NOISY
    near = supac.gaussian(np.array([0.7, -0.6, 0.5]), 0.01 * np.eye(3)).sample(100, 2)
    smooth, again = (
        np.array([clean(each) for each in near]) - DATA,
        rng.standard_normal((40, 100, 20)),
    )
    true = float(np.mean([LOSS(smooth + 0.7 * each) for each in again]))
    assert LOSS(smooth).mean() < 0.2 * true  # what a model without noise would tell
    assert model.emulator.predict(near).mean() == pytest.approx(true, rel=0.1)
