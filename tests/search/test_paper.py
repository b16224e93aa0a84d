from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.search.paper import SuPACCE
from supac.simulators import synthetic

SETTINGS = {"first": 40, "batch": 20, "alpha_max": 0.6, "kl_max": 0.7, "draws": 2_000}


def wave(x: FloatArray) -> FloatArray:
    return 0.5 + 0.3 * np.sin(x).sum(axis=1) / 2.0


@pytest.mark.parametrize(
    ("risk", "prior"),
    [
        (synthetic.example(0), supac.gaussian(np.zeros(8), np.eye(8))),
        (wave, supac.gaussian(np.zeros(3), np.ones(3))),
        (wave, supac.gamma(3.0, 1.0)),
    ],
    ids=["full", "diagonal", "gamma"],
)
def test_the_page_gives_the_bits_of_the_library(
    risk: Callable[[FloatArray], FloatArray], prior: supac.Distribution
) -> None:
    found = [
        supac.minimize(
            risk,
            prior,
            supac.Catoni(0.1),
            budget=160,
            execution=supac.Execution(vectorized=True),
            algorithm=each,
        )
        for each in (SuPACCE(**SETTINGS), supac.SuPAC.paper(**SETTINGS))  # type: ignore[arg-type]
    ]
    page, library = found
    np.testing.assert_array_equal(page.posterior.theta, library.posterior.theta)
    np.testing.assert_array_equal(page.evaluations.x, library.evaluations.x)
    for name in ("objective", "mean_risk", "kl", "alpha", "step_kl"):
        np.testing.assert_array_equal(page.history[name], library.history[name])
    assert len(page.history["alpha"]) == 7


def test_its_defaults_are_those_of_the_experiment() -> None:
    paper, page = supac.SuPAC.paper(), SuPACCE()
    assert paper.estimator == supac.Voronoi(draws=page.draws)
    assert paper.step == supac.FixedStep(page.alpha_max, page.kl_max)
    assert (paper.first, paper.batch) == (page.first, page.batch)


def test_failed_runs_count_as_the_problem_says() -> None:
    prior = supac.gaussian(np.zeros(2), np.eye(2))

    def cliff(x: FloatArray) -> FloatArray:
        return np.where(x[:, 0] > 1.0, np.nan, wave(x))

    page, library = (
        supac.minimize(
            cliff,
            prior,
            supac.Catoni(0.1, ceiling=1.0),
            budget=100,
            execution=supac.Execution(vectorized=True, on_failure="penalise"),
            algorithm=each,
        )
        for each in (SuPACCE(**SETTINGS), supac.SuPAC.paper(**SETTINGS))  # type: ignore[arg-type]
    )
    assert page.evaluations.failed > 0
    np.testing.assert_array_equal(page.posterior.theta, library.posterior.theta)


@pytest.mark.parametrize(
    ("prior", "bound"),
    [
        (supac.gaussian([0.0, 0.0], [[1.0, 0.5], [0.5, 1.0]]), supac.Catoni(0.1)),
        (supac.gaussian([0.0, 0.0], [1.0, 1.0]), supac.McAllester(50, 0.05)),
    ],
    ids=["prior", "bound"],
)
def test_what_algorithm_2_does_not_cover_is_refused(
    prior: supac.Distribution, bound: supac.Bound
) -> None:
    start = supac.gaussian([0.0, 0.0], [1.0, 1.0])
    with pytest.raises(TypeError, match=r"use SuPAC\.paper\(\)"):
        supac.minimize(
            wave,
            prior,
            bound,
            start=start,
            budget=80,
            execution=supac.Execution(vectorized=True),
            algorithm=SuPACCE(40, 20),
        )
