from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from supac.arrays import FloatArray
from supac.simulators import drug

NOISE = 0.15  # of the data: what an integration error has to be small against
PROBLEM = drug.example()


def draws(n: int, seed: int = 0) -> FloatArray:
    """Points of the prior, in the user's units."""
    return PROBLEM.parameters.sample(PROBLEM.prior, n, np.random.default_rng(seed))


def slopes(y: FloatArray, x: FloatArray) -> FloatArray:
    """The equations again: (6, ...) and (12, ...) → (6, ...)."""
    ka, cl, v1, q, v2, kon, koff, kint, kdeg, r0, kout, ic50 = x
    a, c, p, r, complex_, e = y
    binding = kon * c * r - koff * complex_
    return np.array(
        [
            -ka * a,
            (ka * a - cl * c - q * (c - p)) / v1 - binding,
            q * (c - p) / v2,
            kdeg * (r0 - r) - binding,
            binding - kint * complex_,
            kout * (1.0 / (1.0 + complex_ / ic50) - e),
        ]
    )


def jacobian(y: FloatArray, x: FloatArray) -> FloatArray:
    """Of `slopes`, to rounding, by complex steps: (6, 6, ...), the second axis is y's."""
    steps = (1e-30j * unit.reshape(6, *[1] * (y.ndim - 1)) for unit in np.eye(6))
    return np.stack([slopes(y + step, x).imag / 1e-30 for step in steps], axis=1)


def initial(x: FloatArray, dose: Any) -> FloatArray:
    zero, one = 0.0 * x[9], 1.0 + 0.0 * x[9]
    return np.array([dose * one, zero, zero, x[9], zero, one])


def accurate(x: FloatArray) -> FloatArray:
    """The states by an adaptive method, all runs as one system: (n, 12) → (n, doses, times, 6)."""
    shape = (len(x), len(drug.DOSES))
    runs = np.arange(shape[0] * shape[1])
    rates = np.repeat(x, shape[1], axis=0).T

    def all_slopes(_: float, y: FloatArray) -> FloatArray:
        return slopes(y.reshape(6, -1), rates).ravel()

    def all_jacobians(_: float, y: FloatArray) -> FloatArray:
        full = np.zeros((6, len(runs), 6, len(runs)))
        full[:, runs, :, runs] = np.moveaxis(jacobian(y.reshape(6, -1), rates), -1, 0)
        return full.reshape(y.size, y.size)

    start = initial(rates, np.tile(drug.DOSES, len(x))).ravel()
    solution = solve_ivp(
        all_slopes,
        (0.0, drug.TIMES[-1]),
        start,
        "Radau",
        t_eval=drug.TIMES,
        jac=all_jacobians,
        rtol=1e-8,
        atol=1e-10,
    )
    return np.moveaxis(solution.y.reshape(6, *shape, len(drug.TIMES)), 0, -1)


def dense(x: FloatArray, dose: float, steps: int) -> FloatArray:
    """ROS2 as published, with a dense solver, for one run: (times, 6)."""
    gamma = 1.0 - 1.0 / np.sqrt(2.0)
    y, found = initial(x, dose), []
    for i, length in enumerate(np.diff(drug.TIMES, prepend=0.0)):
        count = steps if i else 2 * steps
        h = length / count
        for _ in range(count):
            matrix = np.eye(6) - gamma * h * jacobian(y, x)
            first = np.linalg.solve(matrix, slopes(y, x))
            second = np.linalg.solve(matrix, slopes(y + h * first, x) - 2.0 * first)
            y = np.maximum(y + 1.5 * h * first + 0.5 * h * second, 0.0)
        found.append(y)
    return np.array(found)


def log_outputs(states: FloatArray) -> FloatArray:
    c, r, complex_, e = (states[..., i] for i in (1, 3, 4, 5))
    return np.log(np.stack([c, r + complex_, e], axis=-1) + 1e-3)


@pytest.mark.parametrize("steps", [1, 4])
def test_the_elimination_by_hand_is_the_dense_solution(steps: int) -> None:
    x = np.vstack([drug.TRUTH, draws(2)])
    expected = [[dense(row, dose, steps) for dose in drug.DOSES] for row in x]
    np.testing.assert_allclose(drug.states(x, steps=steps), expected, rtol=1e-9, atol=1e-12)


def test_accuracy() -> None:
    # Where its target ceases to be saturated, free drug collapses a hundredfold within hours; an
    # observation in the midst of that can be off by far more than the others are. In one prior
    # draw of a hundred the worst of the 126 is off by half of the noise or more.
    x = np.vstack([drug.TRUTH, draws(4)])
    exact = log_outputs(accurate(x))
    error = log_outputs(drug.states(x)) - exact
    assert np.abs(error[0]).max() < 0.02 * NOISE
    assert np.sqrt(np.mean(error**2)) < 0.02 * NOISE
    assert np.abs(error).max() < 0.5 * NOISE
    risk = PROBLEM.loss(exact.reshape(len(x), -1) - PROBLEM.observed)
    np.testing.assert_allclose(PROBLEM.risk(x), risk, rtol=0.0, atol=1e-3)


def test_second_order() -> None:
    runs = [log_outputs(drug.states(drug.TRUTH[None], steps=steps)) for steps in (24, 48, 96)]
    coarse, fine = (np.linalg.norm(b - a) for a, b in pairwise(runs))
    assert coarse / fine == pytest.approx(4.0, rel=0.1)


def test_what_is_not_cleared_stays() -> None:
    names = list(drug.PARAMETERS)
    x = draws(20)
    x[:, [names.index("CL"), names.index("kint")]] = 0.0
    x[:, names.index("ka")] = 0.5  # the depot empties without undershooting zero
    a, c, p, r, complex_, _ = np.moveaxis(drug.states(x), -1, 0)
    v1, v2 = (x[:, names.index(name), None, None] for name in ("V1", "V2"))
    amount = a + v1 * (c + complex_) + v2 * p
    np.testing.assert_allclose(
        amount, np.broadcast_to(drug.DOSES[:, None], amount.shape), rtol=1e-9
    )

    x[:, names.index("kdeg")] = 0.0
    _, _, _, r, complex_, _ = np.moveaxis(drug.states(x), -1, 0)
    target = np.broadcast_to(x[:, names.index("R0"), None, None], r.shape)
    np.testing.assert_allclose(r + complex_, target, rtol=1e-9)


def test_a_row_does_not_depend_on_the_others() -> None:
    x = draws(1100)
    together = PROBLEM.simulate(x)
    for i in (0, 7, 1023, 1024, 1099):
        np.testing.assert_allclose(PROBLEM.simulate(x[i : i + 1])[0], together[i], atol=1e-12)


def test_a_failed_run_is_as_bad_as_can_be_and_spoils_no_other() -> None:
    good = draws(3)
    x = np.vstack([good, good, good])
    x[0, 4], x[4, 0], x[8, 2] = np.nan, np.inf, 0.0
    failed = np.isin(np.arange(9), [0, 4, 8])
    residuals = PROBLEM.simulate(x)
    assert np.isnan(residuals[failed]).all()
    np.testing.assert_allclose(
        residuals[~failed], np.vstack([PROBLEM.simulate(good)] * 3)[~failed], atol=1e-12
    )
    np.testing.assert_array_equal(PROBLEM.risk(x)[failed], 1.0)


def test_far_from_the_prior_the_risk_is_a_number() -> None:
    x = PROBLEM.parameters.from_latent(np.random.default_rng(1).normal(0.0, 30.0, (300, 12)))
    risk = PROBLEM.risk(x)
    assert ((risk >= 0.0) & (risk <= 1.0)).all()


def test_loss() -> None:
    residuals = np.zeros((4, 126))
    residuals[1, 0] = 0.5
    residuals[2] = 1e200
    residuals[3, 5] = np.nan
    expected = [0.0, -np.expm1(-0.5) / 126, 1.0, 1.0]
    np.testing.assert_allclose(PROBLEM.loss(residuals), expected, rtol=1e-12)
    risk = PROBLEM.risk(draws(200))
    assert ((risk > 0.0) & (risk < 1.0)).all()


def test_wrong_shapes_are_named() -> None:
    with pytest.raises(ValueError, match="row of 12 rates"):
        PROBLEM.simulate(drug.TRUTH)


def test_the_data() -> None:
    np.testing.assert_array_equal(drug.example().observed, PROBLEM.observed)
    assert (drug.example(4).observed != PROBLEM.observed).all()
    noise = -PROBLEM.simulate(drug.TRUTH[None])[0]
    outliers = noise > 4 * NOISE
    assert 0 < outliers.sum() < 15
    assert noise[~outliers].std() == pytest.approx(NOISE, rel=0.2)


def test_the_problem_in_its_parts() -> None:
    assert PROBLEM.parameters.names == tuple(drug.PARAMETERS)
    assert all(PROBLEM.parameters.units)
    assert repr(PROBLEM) == "Problem(126 observations, 12 parameters)"
    x = draws(5)
    np.testing.assert_array_equal(PROBLEM.composite(x), PROBLEM.risk(x))
    # The prior misses what made the data, but not by more than it allows for.
    offsets = PROBLEM.parameters.to_latent(drug.TRUTH[None])[0]
    assert 0.5 < np.abs(offsets).min() < np.abs(offsets).max() < 1.5
    assert PROBLEM.risk(drug.TRUTH[None])[0] < PROBLEM.risk(x).min()
