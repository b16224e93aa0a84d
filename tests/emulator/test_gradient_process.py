"""The process of values and slopes: its arithmetic, against differences and refits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from supac.arrays import FloatArray
from supac.emulator.gradient_process import CENTRE, GradientProcess
from supac.emulator.process import Hyperprior
from supac.emulator.tuning import DEFAULT

DIM, RUNS, OUTPUTS = 4, 6, 2
RNG = np.random.default_rng(3)
U = RNG.standard_normal((RUNS, DIM))
WEIGHTS = RNG.standard_normal((DIM, OUTPUTS)) * np.array([2.0, 1.0, 0.5, 0.1])[:, None]


def function(u: FloatArray) -> FloatArray:
    z = u @ WEIGHTS
    return np.asarray(np.sin(0.7 * z) + z)


def slope(u: FloatArray) -> FloatArray:
    """(dim, outputs)."""
    return np.asarray(WEIGHTS * (1.0 + 0.7 * np.cos(0.7 * u @ WEIGHTS)))


def process(at: list[int], leading: int = DIM) -> GradientProcess:
    slopes = np.array([slope(U[i]) for i in at]).reshape(len(at), DIM, OUTPUTS)
    sizes, turn = np.linalg.eigh(np.einsum("spk,sqk->pq", slopes, slopes) + 1e-9 * np.eye(DIM))
    turn = turn[:, ::-1]
    along = np.einsum("spk,pr->srk", slopes, turn[:, :leading])
    prior = Hyperprior.build(np.ones((DIM, DIM), dtype=bool), DEFAULT.hyperprior.outputs)
    y, inflation = function(U), np.linspace(1.0, 2.0, RUNS)
    rows = np.array(at, dtype=np.intp)
    return GradientProcess(CENTRE, prior, U, y, inflation, rows, turn, sizes[::-1], along)


def test_covariances_of_slopes_are_derivatives_of_the_kernel() -> None:
    found = process([0, 2, 5])
    h = 1e-4
    for row, i in enumerate(found.at):
        for a in range(DIM):
            step = h * np.linalg.solve(found.metric, np.eye(DIM)[a])
            ahead, behind = (
                found._cross_with_runs((U[i] + s)[None] @ found.metric.T)[0] for s in (step, -step)
            )
            column = RUNS + row * DIM + a
            noise = found.noise * found.inflation[i] * (np.arange(len(found.data)) == column)
            whole = found.root @ found.root.T
            expected = (ahead - behind) / (2.0 * h) + noise
            np.testing.assert_allclose(whole[column], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("at", [[], [1, 3], list(range(RUNS))])
def test_the_gradient_of_a_prediction_is_that_of_differences(at: list[int]) -> None:
    found, points = process(at or [0]), RNG.standard_normal((3, DIM))

    def score(
        rows: slice, mean: FloatArray, variance: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        return (mean**2).sum(axis=1) + 3.0 * variance, 2.0 * mean, np.full(len(mean), 3.0)

    values, gradients = found.value_and_gradient(points, score)
    mean, variance = found.predict_with_variance(points)
    np.testing.assert_allclose(values, (mean**2).sum(axis=1) + 3.0 * variance)
    np.testing.assert_allclose(found.predict(points), mean)
    for j, step in enumerate(1e-5 * np.eye(DIM)):
        ahead, behind = (found.value_and_gradient(points + s, score)[0] for s in (step, -step))
        np.testing.assert_allclose(gradients[:, j], (ahead - behind) / 2e-5, rtol=1e-5, atol=1e-6)


def test_predictions_have_the_values_and_slopes_of_the_runs() -> None:
    quiet = CENTRE.copy()
    quiet[-1] = -9.0
    found = replace(process(list(range(RUNS))), hyperparameters=quiet)
    np.testing.assert_allclose(found.predict(U), function(U), atol=1e-4)
    step = 1e-4 * np.eye(DIM)
    slopes = [(found.predict(U[:1] + s) - found.predict(U[:1] - s))[0] / 2e-4 for s in step]
    np.testing.assert_allclose(np.array(slopes), slope(U[0]), atol=1e-3)


def test_a_run_is_left_out_with_its_slopes() -> None:
    found = process([0, 2, 5])
    for i in (1, 2):
        others = np.arange(RUNS) != i
        kept = [j for j, row in enumerate(found.at) if row != i]
        without = replace(
            found,
            u=U[others],
            y=found.y[others],
            inflation=found.inflation[others],
            at=np.array([row - (row > i) for row in found.at[kept]]),
            slopes=found.slopes[kept],
        )
        mean, variance = without.predict_with_variance(U[i][None])
        np.testing.assert_allclose(found.leave_one_out[i], mean[0], rtol=1e-6)
        own = variance[0] + found.noise * found.inflation[i]
        np.testing.assert_allclose(found.leave_one_out_variance[i], own, rtol=1e-6)


def test_slopes_of_other_runs_make_predictions_better() -> None:
    points = RNG.standard_normal((50, DIM))
    errors = [
        float(((process(at).fit(40).predict(points) - function(points)) ** 2).mean())
        for at in ([0], list(range(RUNS)))
    ]
    assert errors[1] < 0.2 * errors[0]
