from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from processes import hyperprior, process, textbook_kernel
from supac.arrays import FloatArray
from supac.emulator.process import Process
from supac.emulator.selection import most_informative

RNG = np.random.default_rng(8)
POOL, ABOUT = 1.3 * RNG.standard_normal((40, 3)), RNG.standard_normal((60, 3))


def with_run(given: Process, u: FloatArray) -> Process:
    """The process after another run; its variance does not depend on what that run says."""
    return replace(
        given,
        u=np.concatenate([given.u, u[None]]),
        y=np.concatenate([given.y, given.y[:1]]),
        inflation=np.append(given.inflation, 1.0),
    )


def variance_left(given: Process) -> float:
    return float(given.predict_with_variance(ABOUT)[1].mean())


def test_covariances_are_those_of_the_textbook() -> None:
    given = process(12, 3)
    noisy = textbook_kernel(given, given.u, given.u) + np.diag(given.noise * given.inflation)
    left, right = textbook_kernel(given, POOL, given.u), textbook_kernel(given, ABOUT, given.u)
    expected = textbook_kernel(given, POOL, ABOUT) - left @ np.linalg.solve(noisy, right.T)
    np.testing.assert_allclose(given.covariance(POOL, ABOUT), expected, atol=1e-9)
    np.testing.assert_allclose(given.kernel_diagonal(POOL), np.diag(given.kernel(POOL, POOL)))
    own = np.diag(given.covariance(POOL, POOL))
    np.testing.assert_allclose(own, given.predict_with_variance(POOL)[1], atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_each_chosen_run_leaves_the_least_variance(seed: int) -> None:
    given = process(12, 3, seed=seed)
    chosen = most_informative(given, 3, POOL, ABOUT)
    for each in chosen:
        best = min(range(len(POOL)), key=lambda i: variance_left(with_run(given, POOL[i])))
        assert each == best
        given = with_run(given, POOL[each])


def test_runs_that_are_made_in_any_case_are_not_made_twice() -> None:
    given = process(12, 3)
    first = POOL[most_informative(given, 1, POOL, ABOUT)]
    after = most_informative(given, 2, POOL, ABOUT, first)
    np.testing.assert_array_equal(
        after, most_informative(with_run(given, first[0]), 2, POOL, ABOUT)
    )
    assert len(set(most_informative(given, len(POOL), POOL, ABOUT))) == len(POOL)


def test_what_is_explained_is_a_share_of_the_variance() -> None:
    given = process(40, 2)
    error = given.y - given.leave_one_out
    assert given.explained == pytest.approx(1.0 - (error**2).sum() / (40.0 * given.y.var()))
    noise = replace(given, y=np.random.default_rng(1).standard_normal((40, 1)))
    assert noise.explained < 0.3
    assert given.fit(40).explained > 0.9


def test_points_that_nearly_coincide_are_chosen_among_without_noise() -> None:
    """What runs leave of their covariances is rounding: no factor, and variances below zero."""
    given = process(120, 3)
    hyperparameters = given.hyperparameters.copy()
    hyperparameters[-4:] = np.log([10.0, 10.0, 10.0, 1e-8])
    given = replace(
        given,
        hyperparameters=hyperparameters,
        prior=hyperprior(3, noise_floor=1e-8),
        inflation=np.ones(120),
    )
    chosen = most_informative(given, 8, 1e-4 * POOL, 1e-4 * ABOUT, 1e-4 * POOL[:20])
    assert len(set(chosen)) == 8
