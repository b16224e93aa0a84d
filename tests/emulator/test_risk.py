from __future__ import annotations

import numpy as np
import pytest

import supac
from emulated import PLANE, runs_of, smooth
from supac.emulator import GatedModel
from supac.emulator.risk import Warp


def test_the_process_predicts_a_smooth_risk() -> None:
    model = supac.GaussianProcess().fit(runs_of(PLANE, 40), PLANE)
    x = PLANE.sample(500, 9)
    error = model.predict(x) - smooth(x)
    assert np.sqrt(np.mean(error**2)) < 0.02 * smooth(x).std()


def test_only_the_nearest_runs_are_used_above_the_limit() -> None:
    runs = runs_of(PLANE, 300)
    model = supac.GaussianProcess(limit=60).fit(runs, PLANE)
    assert isinstance(model, GatedModel)
    assert len(model.memory.outliers) == 300
    emulator = model.emulator
    used = emulator.process.u
    assert len(used) == 60
    farthest = np.sort((runs.x**2).sum(axis=1))[59]
    assert (used**2).sum(axis=1).max() == pytest.approx(farthest)


def test_a_warp_changes_only_the_upper_tail() -> None:
    risk = np.append(np.random.default_rng(0).uniform(0.0, 1.0, 40), 500.0)
    warp = Warp.above(risk)
    warped = warp(risk)
    np.testing.assert_array_equal(warped[:-1], risk[:-1])
    assert warped[-1] < 30.0
    step = 1e-4
    slope = (warp(risk + step) - warp(risk - step)) / (2.0 * step)
    assert warp.log_jacobian(risk) == pytest.approx(np.log(slope).sum(), abs=1e-6)


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
        lambda x: ((x - 0.5) ** 2).sum(axis=1),
        prior,
        supac.Catoni(0.1),
        budget=60,
        execution=supac.Execution(vectorized=True),
    )
    np.testing.assert_allclose(result.posterior.mean, mean, atol=0.01)
