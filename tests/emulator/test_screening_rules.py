"""Rules of the screening and of the gate, each by what it does to one fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import supac
from emulated import PLANE
from supac.emulator.gated import GatedModel, mean_excess
from supac.emulator.tuning import DEFAULT, EmulatorTuning
from supac.problem import Evaluations
from supac.surrogate.estimator import Context

LOSS = supac.RootMeanSquare()


def fitted_again(
    runs: Evaluations, at: supac.Distribution, tuning: EmulatorTuning = DEFAULT
) -> GatedModel:
    """The second fit to the runs, which screens them."""
    estimator: supac.OutputEmulator | supac.GaussianProcess = supac.OutputEmulator(tuning=tuning)
    if runs.outputs is None:
        estimator = supac.GaussianProcess(tuning=tuning)
    context = Context(prior=PLANE, resolution=0.01, loss=LOSS, rng=np.random.default_rng(0))
    memory = estimator.fit(runs, at, context).memory
    return estimator.fit(runs, at, replace(context, memory=memory))


def test_the_largest_excess_of_outliers_counts_twice() -> None:
    excess = np.array([1.0, 2.0, 6.0])
    assert mean_excess(excess, largest_twice=True) == pytest.approx((1.0 + 2.0 + 2 * 6.0) / 4.0)
    assert mean_excess(excess, largest_twice=False) == pytest.approx(3.0)


def test_the_severity_is_the_mean_excess_with_the_largest_counted_twice() -> None:
    """Two runs near the posterior's mean exceed a flat risk by 2 and by 4 (closed form)."""
    x = PLANE.sample(40, 3)
    risk = 0.01 * x[:, 0]
    risk[[5, 11]] += [2.0, 4.0]
    runs = Evaluations.none(2).append(x, risk, PLANE)
    for largest_twice, expected in ((True, 10.0 / 3.0), (False, 3.0)):
        gate = replace(DEFAULT.gate, largest_twice=largest_twice)
        model = fitted_again(runs, PLANE, replace(DEFAULT, gate=gate))
        np.testing.assert_array_equal(np.flatnonzero(model.memory.outliers), [5, 11])
        assert model.severity == pytest.approx(expected, abs=0.05)


def test_a_gate_that_charges_nothing_still_keeps_outliers_out() -> None:
    x = PLANE.sample(40, 3)
    risk = 0.01 * x[:, 0]
    risk[5] += 2.0
    runs = Evaluations.none(2).append(x, risk, PLANE)
    free = replace(DEFAULT, gate=replace(DEFAULT.gate, charges=False))
    model = fitted_again(runs, PLANE, free)
    assert model.outliers == 1
    assert model.severity == 0.0


def test_screening_is_switched_off_by_its_tuning() -> None:
    x = PLANE.sample(40, 3)
    risk = 0.01 * x[:, 0]
    risk[5] += 2.0
    runs = Evaluations.none(2).append(x, risk, PLANE)
    off = replace(DEFAULT.screening, surprise=None, two_classes=False)
    model = fitted_again(runs, PLANE, replace(DEFAULT, screening=off))
    assert model.outliers == 0
    np.testing.assert_array_equal(model.memory.inflation, 1.0)
