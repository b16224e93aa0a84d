from __future__ import annotations

from dataclasses import replace

import pytest

import supac
from supac.surrogate.estimator import BatchPlan, Estimator, batch_plan
from weighed import PLANE

CATONI = supac.Catoni(0.1)
EMULATED = BatchPlan(
    10, 5, latin=True, probes=0.35, few=3, inner=25, uses_known=True, regresses=False
)


@pytest.mark.parametrize(
    ("estimator", "n", "expected"),
    [
        (supac.Importance(), 0, BatchPlan(12, 3)),
        (supac.FreshDraws(), 50, BatchPlan(12, 3)),
        (supac.Voronoi(), 50, BatchPlan(12, 3, uses_known=True)),
        (supac.Ridge(), 50, BatchPlan(12, 10)),
        (supac.Ridge(), 2_000, BatchPlan(12, 100)),
        (
            supac.GaussianProcess(),
            0,
            replace(EMULATED, first=20, probes=0.1),
        ),
        (
            supac.OutputEmulator(),
            0,
            replace(EMULATED, batch=4, few=2, width=1.3, widest=1.3),
        ),
        (
            supac.OutputEmulator(),
            400,
            replace(EMULATED, batch=20, few=2, width=1.15, widest=1.3),
        ),
    ],
)
def test_plans_are_what_the_estimators_need(
    estimator: Estimator, n: int, expected: BatchPlan
) -> None:
    """The plane's Gaussians have five statistics, and the surrogate a constant besides."""
    assert batch_plan(estimator, supac.Problem.within(PLANE, CATONI), n) == expected


@pytest.mark.parametrize(("dim", "first"), [(3, 10), (15, 15), (40, 20)])
def test_outputs_are_emulated_from_about_a_run_a_parameter(dim: int, first: int) -> None:
    problem = supac.Problem.within(supac.gaussian([0.0] * dim, [1.0] * dim), CATONI)
    assert supac.OutputEmulator().plan(problem, 0).first == first
