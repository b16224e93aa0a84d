from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

import supac
from emulated import PLANE, runs_of, smooth
from supac.arrays import FloatArray
from supac.search.algorithm import NO_STEP, Info
from supac.search.descent import Descent, SurrogateBound, Visit, descend
from supac.search.facts import Chosen, Facts
from supac.search.reporting import report
from supac.search.trust import Judgement, RadiusUpdate, Trial, TrustRegion
from supac.surrogate.estimator import RiskModel, Surrogate
from supac.surrogate.least_squares import project

RUNS = runs_of(PLANE, 60)


@dataclass(frozen=True)
class Bare(RiskModel):
    """A model that can be projected, and nothing else."""

    def project(self, at: supac.Distribution, rng: np.random.Generator) -> Surrogate:
        return project(RUNS.x, RUNS.risk, np.ones(len(RUNS)), at)


@dataclass(frozen=True)
class Able(Bare):
    """A model with all that is optional."""

    @property
    def outliers(self) -> int:
        return 3

    def predict(self, x: FloatArray) -> FloatArray:
        return smooth(x)

    def failure_chance(self, at: supac.Distribution) -> float:
        return 0.25


def round_of(model: RiskModel) -> Descent:
    problem = supac.Problem.within(PLANE, supac.Catoni(0.1))
    bound = SurrogateBound(problem, model, np.random.default_rng(0), 0)
    return descend(bound, TrustRegion(), PLANE, 1.0, inner=1, resolution=0.1)


def of_visit(visit: Visit) -> SurrogateBound:
    """A bound that was computed before, whatever the posterior."""

    class Before(SurrogateBound):
        def at(self, posterior: supac.Distribution, kl_from_start: float) -> Visit:
            return visit

    problem = supac.Problem.within(PLANE, supac.Catoni(0.1))
    return Before(problem, Bare(), np.random.default_rng(0), 0)


def info_of(
    model: RiskModel,
    descent: Descent | None = None,
    judged: Judgement | None = None,
    notes: tuple[str, ...] = (),
) -> Info:
    descent = descent or round_of(model)
    problem, rule = supac.Problem.within(PLANE, supac.Catoni(0.1)), TrustRegion()
    state = replace(supac.SuPAC().init(problem, 0), evaluations=RUNS)
    plan, estimator = supac.OutputEmulator().plan(problem, 60), supac.OutputEmulator()
    facts = Facts.of(problem, state, state, None, Chosen(estimator, plan, notes), rule)
    facts = replace(facts, runs=RUNS, judged=judged or Judgement(RadiusUpdate(1.0)))
    return report(facts, model, descent, of_visit(descent.first))


def test_a_model_that_only_projects_is_reported_by_its_projection() -> None:
    info = info_of(Bare())
    assert info.effective_size == pytest.approx(60.0)
    assert np.isnan([info.k_hat, info.wrong, info.failure_chance, info.shortfall]).all()
    assert info.radius == 1.0
    assert info.notes == ()


def test_what_a_model_can_do_is_reported() -> None:
    """The runs are then weighed for the new posterior, which they cover."""
    info = info_of(Able())
    assert info.wrong == 3
    assert info.failure_chance == 0.25
    assert info.effective_size < 60.0
    assert info.k_hat < 0.7


def test_a_trial_is_reported() -> None:
    judged = Judgement(RadiusUpdate(1.0), Trial(0.4, np.array([0.1, 0.3])))
    info = info_of(Bare(), judged=judged)
    assert info.shortfall == pytest.approx(0.2)
    assert info.ratio == pytest.approx(0.5)


def test_the_unusual_is_said_in_words() -> None:
    descent = round_of(Bare())
    first = replace(descent.first, surrogate=replace(descent.first.surrogate, mean=9.0, ridge=0.1))
    stuck = replace(descent, first=first, alpha=0.0)
    judged = Judgement(RadiusUpdate(0.5, rejected=True), Trial(0.4, np.array([0.9, 1.0])))
    info = info_of(Bare(), stuck, judged, ("first of all",))
    said = " | ".join(info.notes)
    assert info.notes[0] == "first of all"
    assert NO_STEP in info.notes
    for words in ("fitted with a ridge", "it extrapolates", "was taken back"):
        assert words in said
    assert len(info.notes) == 5


def test_a_round_without_a_step_has_no_numbers() -> None:
    info = Info(notes=("why",))
    assert np.isnan([info.mean_risk, info.kl, info.objective, info.step_kl]).all()
    assert info.notes == ("why",)
