from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.search.descent import SurrogateBound, descend
from supac.search.trust import FixedStep, TrustRegion
from supac.surrogate.estimator import RiskModel, Surrogate
from supac.surrogate.least_squares import project_known

PLANE = supac.gaussian([0.0, 0.0], np.eye(2))
CENTRE = np.array([1.0, -0.5])


@dataclass(frozen=True)
class Known(RiskModel):
    """A model that knows a risk."""

    power: float

    def risk(self, x: FloatArray) -> FloatArray:
        return 0.1 * (((x - CENTRE) ** 2).sum(axis=1)) ** self.power

    def project(self, at: supac.Distribution, rng: np.random.Generator) -> Surrogate:
        return project_known(self.risk, at, np.random.default_rng(0))


def bound_on(power: float, bound: supac.Bound, seed: int = 0) -> SurrogateBound:
    problem = supac.Problem.within(PLANE, bound)
    return SurrogateBound(problem, Known(power), np.random.default_rng(seed), seed)


def test_a_visit_approximates_and_solves() -> None:
    """A quadratic risk is its own projection: N(c/(1 + 5λ), I/(1 + 0.2/λ)) minimises the bound."""
    visit = bound_on(1.0, supac.Catoni(0.2)).at(PLANE, 0.0)
    best = PLANE.at(visit.target)
    np.testing.assert_allclose(best.mean, CENTRE / 2.0, atol=1e-9)
    np.testing.assert_allclose(best.covariance, np.eye(2) / 2.0, atol=1e-9)
    assert visit.kl == 0.0
    assert visit.objective == pytest.approx(0.1 * (2.0 + CENTRE @ CENTRE))


def test_one_update_predicts_by_the_surrogate_of_the_start() -> None:
    bound = bound_on(1.0, supac.Catoni(0.2))
    descent = descend(bound, FixedStep(0.5, 1.0), PLANE, 1.0, inner=1, resolution=0.2)
    away = descent.last.posterior.mean - CENTRE
    mean_risk = 0.1 * (away @ away + np.trace(descent.last.posterior.covariance))
    expected = mean_risk + 0.2 * descent.last.posterior.kl(PLANE)
    assert descent.last.objective == pytest.approx(expected)
    assert descent.gain == pytest.approx(descent.first.objective - expected)
    assert descent.alpha == 0.5


@pytest.mark.parametrize("bound", [supac.Catoni(0.02), supac.McAllester(40, 0.05)])
def test_more_updates_gain_more_and_stay_within_the_radius(bound: supac.Bound) -> None:
    gains = []
    for inner in (1, 2, 25):
        descent = descend(
            bound_on(0.7, bound), TrustRegion(), PLANE, 0.8, inner=inner, resolution=0.02
        )
        gains.append(descent.gain)
        assert descent.last.posterior.kl(PLANE) <= 0.8 * (1.0 + 1e-9)
        assert descent.last.kl_from_start == pytest.approx(
            descent.last.posterior.kl(PLANE), abs=1e-9
        )
    assert gains[0] < gains[-1]
    assert gains[1] <= gains[2]


def test_many_updates_end_at_the_minimum() -> None:
    """The bound is no lower at any neighbour, by the model's own means."""
    bound = bound_on(0.7, supac.Catoni(0.1))
    end = descend(bound, TrustRegion(), PLANE, 50.0, inner=200, resolution=1e-9).last.posterior
    objective = bound.at(end, 0.0).objective
    for direction in np.eye(end.family.size):
        for sign in (-1.0, 1.0):
            beside = end.at(end.theta + sign * 0.05 * direction)
            assert bound.at(beside, 0.0).objective > objective


def test_a_step_that_gains_nothing_is_not_made() -> None:
    """At the minimum of a risk in the span, every update would lead away from it."""
    bound = bound_on(1.0, supac.Catoni(0.2))
    best = PLANE.at(bound.at(PLANE, 0.0).target)
    descent = descend(bound, TrustRegion(), best, 1.0, inner=25, resolution=0.2)
    assert descent.last.posterior.kl(best) == pytest.approx(0.0, abs=1e-12)
    assert descent.gain == pytest.approx(0.0, abs=1e-12)
