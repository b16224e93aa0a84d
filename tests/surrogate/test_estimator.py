from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import supac
from supac.surrogate.estimator import BatchPlan, Estimator, RiskModel, WrappedModel
from weighed import PLANE, evaluations

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
    assert estimator.plan(supac.Problem.within(PLANE, CATONI), n) == expected


@pytest.mark.parametrize(("dim", "first"), [(3, 10), (15, 15), (40, 20)])
def test_outputs_are_emulated_from_about_a_run_a_parameter(dim: int, first: int) -> None:
    problem = supac.Problem.within(supac.gaussian([0.0] * dim, [1.0] * dim), CATONI)
    assert supac.OutputEmulator().plan(problem, 0).first == first


def test_a_wrapped_model_forwards_every_member() -> None:
    """A member that a new version adds to `RiskModel` must be added to the wrapper as well."""
    members = {name for name in vars(RiskModel) if not name.startswith("_")}
    assert members == {name for name in vars(WrappedModel) if not name.startswith("_")} - {"inner"}


def test_a_model_that_only_projects_knows_nothing_else() -> None:
    runs = evaluations((PLANE, 20))
    model = supac.Importance().fit(runs, PLANE)
    assert model.predict(runs.x) is None
    assert np.isnan([model.noise, model.outliers, model.failure_chance(PLANE)]).all()
    assert (model.explained, model.severity, model.memory) == (0.0, 0.0, None)
    with pytest.raises(NotImplementedError, match="ImportanceWeighted has failure_chance"):
        model.probes(1, PLANE, np.random.default_rng(0))
    with pytest.raises(NotImplementedError, match="ImportanceWeighted has explained"):
        model.informative(1, runs.x, runs.x, runs.x)


class Duck:
    """It has what an estimator has, but is none."""

    def fit(self, evaluations: object, current: object, context: object = None) -> str:
        return "no model"


class Half(Estimator):
    """An estimator whose model is none."""

    fit = Duck.fit  # type: ignore[assignment]


def test_what_is_no_estimator_or_no_model_is_told_apart() -> None:
    with pytest.raises(TypeError, match=r"derives from supac\.Estimator and has fit, not .*Duck"):
        supac.SuPAC(Duck())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"derives from supac\.RiskModel .* not 'no model'"):
        supac.minimize(
            lambda x: float(x @ x),
            PLANE,
            CATONI,
            budget=30,
            algorithm=supac.SuPAC(Half()),
        )
