from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest

import supac
from odes import glycolysis
from supac.arrays import FloatArray
from supac.families import Distribution
from supac.problem import Evaluations
from supac.search import valleys
from supac.search.steps import Descent, SurrogateBound, TrustRegion, descend
from supac.search.valleys import best_descent, narrow_starts

PLANE = supac.gaussian(np.zeros(2), np.eye(2))
PROBLEM = supac.Problem.within(PLANE, supac.Catoni(0.01))
FLAT = supac.CappedSquare(1.0)


def two_wells(x: FloatArray) -> FloatArray:
    """The deeper one is narrow, and far from the prior's mean."""
    wide = np.exp(-0.5 * ((x - [-0.5, 0.0]) ** 2).sum(axis=1) / 0.8**2)
    deep = np.exp(-0.5 * ((x - [2.0, 1.0]) ** 2).sum(axis=1) / 0.3**2)
    return 1.0 - 0.4 * wide - 0.9 * deep


class KnownRisk:
    """A model that knows the risk."""

    def project(self, at: Distribution, rng: np.random.Generator) -> supac.Surrogate:
        x = at.sample(4_000, 3)
        return supac.Ridge().fit(known(x), at).project(at, rng)


def known(x: FloatArray) -> Evaluations:
    return Evaluations.none(2).append(x, two_wells(x), PLANE)


def bound_of(loss: supac.Loss = FLAT, noise: float = 0.01, outlier: int = -1) -> SurrogateBound:
    """Return the bound on a known risk, with what an emulator would say of the runs."""
    model = KnownRisk()
    labels = np.arange(4) == outlier
    vars(model).update(state=SimpleNamespace(outliers=labels), noise=noise)
    return SurrogateBound(replace(PROBLEM, loss=loss), model, np.random.default_rng(0), 1)


BOUND, RUNS = bound_of(), known(np.array([[-0.4, 0.1], [2.1, 1.1], [0.5, -2.0], [-0.5, 0.2]]))


def down(start: Distribution, bound: SurrogateBound = BOUND) -> Descent:
    return descend(bound, TrustRegion(), start, radius=2.0, inner=8, resolution=0.01)


def test_a_posterior_begins_around_the_best_run_that_is_out_of_reach() -> None:
    starts = list(narrow_starts(BOUND, RUNS, down(PLANE), 0.01))
    assert len(starts) == 1
    np.testing.assert_allclose(starts[0].mean, [2.1, 1.1])
    widths = [supac.gaussian([2.1, 1.1], w**2 * np.eye(2)) for w in (0.1, 0.2, 0.4)]
    true = [float(two_wells(q.sample(4_000, 2)).mean()) + 0.01 * q.kl(PLANE) for q in widths]
    best = widths[int(np.argmin(true))]
    np.testing.assert_allclose(starts[0].covariance, best.covariance, rtol=1e-9)
    assert not list(narrow_starts(bound_of(outlier=1), RUNS, down(PLANE), 0.01))


def test_the_better_descent_is_taken_and_its_gain_is_that_from_here() -> None:
    here = down(PLANE)
    found = best_descent(down, here, BOUND, RUNS, 0.01, looked=False)
    np.testing.assert_allclose(found.last.posterior.mean, [2.0, 1.0], atol=0.2)
    assert found.gain == pytest.approx(here.first.objective - found.last.objective)
    # Not if it is better by less than ten nats.
    close = replace(here, last=replace(here.last, objective=found.last.objective + 0.09))
    assert best_descent(down, close, BOUND, RUNS, 0.01, looked=False) is close


def test_after_a_look_three_nats_from_the_start_are_enough() -> None:
    steep, here = bound_of(supac.MeanSquare()), down(PLANE)
    for nats, taken in ((2.0, False), (4.0, True)):
        worse = replace(here, last=replace(here.last, objective=here.last.objective + nats * 0.01))
        found = best_descent(down, worse, steep, RUNS, 0.01, looked=True)
        assert (found.last.objective == pytest.approx(here.last.objective)) is taken
        assert best_descent(down, worse, steep, RUNS, 0.01, looked=False) is worse


RNG = np.random.default_rng(8)
DATA = glycolysis(RNG.standard_normal((1, 3)))[0]
NOISE = 0.15 * (np.abs(DATA) + 0.1 * np.abs(DATA).mean())
DATA = DATA + NOISE * RNG.standard_normal(50)
LOSS = supac.CappedSquare(4.0)


def oscillation(seed: int, simulate: Callable[[FloatArray], FloatArray]) -> supac.Result:
    """Calibrate Sel'kov's oscillator under a loss that saturates."""
    return supac.minimize(
        supac.Composite(lambda z: (simulate(z) - DATA) / NOISE, LOSS),
        supac.gaussian(np.zeros(3), np.eye(3)),
        supac.Catoni(0.01),
        budget=30,
        seed=seed,
        validation=0,
        execution=supac.Execution(vectorized=True),
    )


def objective(result: supac.Result) -> float:
    residuals = (glycolysis(result.posterior.sample(4_000, 1)) - DATA) / NOISE
    return float(LOSS(residuals).mean()) + 0.01 * result.kl


def test_a_good_run_far_away_is_used_where_the_loss_is_flat() -> None:
    """Without it, as good a run is not used for 30 runs, since the average does not lead there."""
    assert objective(oscillation(40, glycolysis)) < 0.25
    with patch.object(valleys, "narrow_starts", lambda *_: iter(())):
        assert objective(oscillation(40, glycolysis)) > 0.4


@pytest.mark.parametrize(
    ("loss", "noise", "used"),
    [
        (supac.Welsch(1.0), 0.01, True),
        (supac.Welsch(1.0), 0.3, False),
        (supac.MeanSquare(), 0.01, False),
    ],
)
def test_only_a_loss_that_flattens_and_a_smooth_simulator_make_good_runs_places_to_begin(
    loss: supac.Loss, noise: float, used: bool
) -> None:
    """A steep loss says where to go, and the best of noisy runs is a lucky one."""
    bound = bound_of(loss, noise)
    assert bool(list(narrow_starts(bound, RUNS, down(PLANE, bound), 0.01))) is used
