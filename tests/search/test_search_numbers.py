"""Every number of the search's tuning changes some bit of what a search does.

The situations are made for the numbers: a rule that is never met is no rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.calibration.loop import Loop
from supac.problem import Batch, Evaluations, Role
from supac.problem.order import Course
from supac.search.algorithm import Abandoned, Info, LastStep, State
from supac.search.descent import SurrogateBound, descend, minimum_ahead
from supac.search.facts import Chosen, Facts
from supac.search.placement import Site, batch_size, plan_batch
from supac.search.restart import begin_again
from supac.search.stages import Stage
from supac.search.supac import default_estimator
from supac.search.trust import Trial, TrustRegion, trials_of
from supac.search.tuning import DEFAULT, Tuning
from supac.search.valleys import begun, is_doubted, is_due, longer, may_begin
from supac.surrogate.estimator import BatchPlan, Context, Estimator, RiskModel, Surrogate
from supac.surrogate.least_squares import project

SPACE = supac.gaussian(np.zeros(3), np.eye(3))
PROBLEM = supac.Problem.within(SPACE, supac.Catoni(0.02), loss=supac.MeanSquare())
PLAN = BatchPlan(10, 5, latin=True, few=3, probes=0.35, inner=25, uses_known=True)
BOWL = np.array([1.0, -0.5, 0.3])


@dataclass(frozen=True)
class Bowl(RiskModel):
    """A model that knows a risk, and takes the last points of a pool for the best."""

    power: float = 0.7
    knows: float = 0.9
    centre: FloatArray | None = None

    def predict(self, x: FloatArray) -> FloatArray:
        centre = BOWL[: x.shape[1]] if self.centre is None else self.centre
        return np.asarray(0.1 * (((x - centre) ** 2).sum(axis=1)) ** self.power)

    def project(self, at: supac.Distribution, rng: np.random.Generator) -> Surrogate:
        x = at.sample(60, 0)
        return project(x, self.predict(x), np.ones(60), at)

    @property
    def explained(self) -> float:
        return self.knows

    def informative(
        self, n: int, pool: FloatArray, about: FloatArray, given: FloatArray
    ) -> FloatArray:
        return pool[-n:]


@dataclass(frozen=True)
class Knowing(Estimator):
    """An estimator whose model needs no run."""

    def plan(self, problem: supac.Problem, n: int) -> BatchPlan:
        return PLAN

    def fit(
        self, evaluations: Evaluations, current: supac.Distribution, context: Context | None = None
    ) -> RiskModel:
        return Bowl()


def state_of(tuning: Tuning, stage: Stage, shift: float = 2.0, nats: float = 10.0) -> State:
    """A search of ten runs, the last ones drawn widely, whose last step gained so much."""
    x = SPACE.sample(10, 0)
    runs = Evaluations.none(3).append(x, Bowl().predict(x), SPACE)
    step = LastStep(2.0, SPACE.theta, 0.02 * nats, nats, shift, 0.1, number=1, size=4)
    return State(0, SPACE, runs, last_step=step, stage=stage, tuning=tuning)


def facts_of(state: State, plan: BatchPlan = PLAN) -> Facts:
    return Facts.of(PROBLEM, state, state, None, Chosen(Knowing(), plan), TrustRegion())


def moving(tuning: Tuning) -> Any:
    """Outcomes of rounds by the nats that a step gained, also with observation parameters."""
    found = []
    for stage in (Stage.MOVING, Stage.SETTLED):
        for plan, runs in (
            (PLAN, 10),
            (replace(PLAN, observed=1), 5),
            (replace(PLAN, observed=1), 7),
        ):
            state = state_of(tuning, stage)
            state = replace(state, evaluations=state.evaluations.select(slice(runs)))
            facts = facts_of(state, plan)
            found += [facts.outcome(nats) for nats in np.geomspace(0.01, 20.0, 60)]
    return found


def placing(tuning: Tuning) -> Any:
    """Batches of moving and settled posteriors, of few and of many parameters."""
    ways = [state_of(tuning, Stage.MOVING, shift) for shift in (0.0, 2.0, 100.0)]
    found: list[Any] = [plan_batch(Site(PROBLEM, PLAN, state), 5).x for state in ways]
    settled = state_of(tuning, Stage.SETTLED)
    for n, knows in ((4, 0.9), (5, 0.3)):
        batch = plan_batch(Site(PROBLEM, PLAN, settled, Bowl(knows=knows)), n)
        found += [batch.x, batch.role]
    ahead = Site(PROBLEM, PLAN, state_of(tuning, Stage.MOVING), minimum=lambda: BOWL)
    found.append(plan_batch(ahead, 2).role)
    facts = facts_of(settled)
    descent = descend(facts.bound(Bowl()), facts.rule, SPACE, 2.0, 25, 0.02)
    near = replace(descent, last=replace(descent.last, kl_from_start=0.8 * 2.0))
    return [*found, facts.is_inside(near)]


def many(tuning: Tuning) -> Any:
    """Batches of 60 parameters before and near a linear model."""
    space = supac.gaussian(np.zeros(60), np.eye(60))
    problem = supac.Problem.within(space, supac.Catoni(0.1))
    x = space.sample(56, 0)
    runs = Evaluations.none(60).append(x, (x**2).sum(axis=1), space)
    state = State(0, space, runs, tuning=tuning, stage=Stage.SETTLED)
    rule = TrustRegion().scaled(60, 60, tuning.trust)
    radii = [rule.alpha, rule.start, rule.least, rule.most, rule.far]
    site = Site(problem, PLAN, state)
    return [batch_size(site), plan_batch(site, 3).x, radii]


def ahead(tuning: Tuning) -> Any:
    """Minima beyond the trust region, by their distance and by what they promise."""
    rule = TrustRegion().scaled(3, 3, tuning.trust)
    found = []
    for distance, resolution in (
        (3.8, 0.01),
        *((1.0, each) for each in np.geomspace(0.05, 0.3, 9)),
    ):
        model = Bowl(1.0, centre=np.array([distance, 0.0, 0.0]))
        bound = SurrogateBound(PROBLEM, model, np.random.default_rng(0), 0, tuning)
        found.append(minimum_ahead(bound, rule, SPACE, 25, resolution) is None)
    return found


def trust(tuning: Tuning) -> Any:
    """Radii after trials of all kinds, what makes a trial, and runs that validate."""
    rule = TrustRegion().scaled(3, 3, tuning.trust)
    found: list[Any] = [rule.validation(budget) for budget in (20, 60, 90, 150, 1_000)]
    for radius in (0.5, 4.0, 8.0, 100.0):
        for shortfall in np.linspace(-0.5, 6.0, 40):
            for spread in (0.1, 1.0, 4.0):
                residual = shortfall + spread * np.array([-1.0, 1.0, -1.0, 1.0])
                update = rule.update_radius(radius, Trial(1.0, residual))
                found += [update.radius, update.rejected]
    x = SPACE.sample(10, 0)
    batch = Batch.of(x, SPACE, Role.DRAW, 0, np.zeros(10))
    runs = Evaluations.none(3).told(batch, np.where(np.arange(10) < 3, 9.0, 0.1))
    own = Trial.of(runs, 1.0, 5.0, tuning.trust)
    assert own is not None
    step = LastStep(2.0, SPACE.theta, 1.0, number=0, size=10)
    some = runs.select(slice(6))
    return [*found, own.residual, sorted(trials_of([step], batch, some, 5.0, None, tuning.trust))]


def descents(tuning: Tuning) -> Any:
    """Updates on one model, and those of observation parameters alone."""
    found = []
    for power in (0.5, 0.7, 2.0):
        bound = SurrogateBound(PROBLEM, Bowl(power), np.random.default_rng(0), 0, tuning)
        for radius in (1.0, 50.0):
            descent = descend(bound, TrustRegion(), SPACE, radius, 25, 0.02)
            found.append(descent.last.posterior.theta)
        found.append(bound.settle(bound.at(SPACE, 0.0), 1, 1e-9).posterior.theta)
    return found


def known(tuning: Tuning) -> Any:
    """Steps on runs that were made elsewhere."""
    problem = supac.Problem.within(SPACE, supac.Catoni(0.5))
    algorithm = supac.SuPAC(Knowing(), TrustRegion(start=0.25), tuning=tuning)
    state = algorithm.init(problem, 0)
    x = SPACE.sample(60, 1)
    batch = state.batch_of(x, Role.KNOWN)
    after, info = algorithm.tell(problem, state, batch, Bowl().predict(x))
    return [after.posterior.theta, info.step_kl]


def restarts(tuning: Tuning) -> Any:
    """Where searches begin again that have learnt nothing or that fail."""
    found: list[Any] = []

    def begin(state: State, error: float = 0.5, before: State | None = None) -> State | None:
        again = begin_again(PROBLEM, before or state, state, 0.02, error, first=10)
        found.append(None if again is None else again[0].posterior.theta)
        return None if again is None else again[0]

    x = SPACE.sample(30, 0)
    risk = 0.5 + 0.05 * np.sin(40.0 * x[:, 0])
    runs = Evaluations.none(3).append(x, risk, SPACE)
    state = replace(state_of(tuning, Stage.SETTLED), evaluations=runs)
    assert state.last_step is not None
    state = replace(state, last_step=replace(state.last_step, nats=0.1, objective=0.49))
    assert state.last_step is not None
    for nats in (0.3, 0.45, 2.0):
        for objective in np.linspace(0.3, 0.5, 25):
            step = replace(state.last_step, nats=nats, objective=objective)
            fewer = runs.select(slice(30 if nats > 1.0 else 29))  # one draw before it is impatient
            begin(replace(state, last_step=step, evaluations=fewer))
    for error in np.linspace(0.005, 0.05, 30):
        begin(state, error)
    again: State | None = state
    for _ in range(16):  # elsewhere and at the start, by turns
        assert again is not None
        again = begin(replace(again, evaluations=_repeated(again), last_step=state.last_step))
    for failed in range(12, 30):
        lost = np.where(np.arange(30) < failed, np.nan, 0.5)
        failing = replace(runs, risk=lost, ok=np.isfinite(lost))
        learnt = replace(state.last_step, objective=0.1)
        begin(replace(state, evaluations=failing, last_step=learnt))
    near = SPACE.at(SPACE.exponential.from_moments(x[0], 0.01 * np.eye(3)))
    beside = np.where(np.arange(30)[:, None] == 7, x[0] + 0.25, x)  # 2.5 standard deviations
    best = replace(runs, x=beside, risk=np.where(np.arange(30) == 7, 0.3, risk))
    begin(replace(state, posterior=near, evaluations=best))
    return found


def _repeated(state: State) -> Evaluations:
    """The runs of a state, and as many draws of its posterior, all alike."""
    x = state.posterior.sample(40, 1)
    return state.evaluations.append(x, np.full(40, 0.5), state.posterior)


def endings(tuning: Tuning) -> Any:
    """Reasons to stop."""
    found: list[Any] = []
    state = state_of(tuning, Stage.SETTLED)
    for step_kl in (0.004, 0.006):
        for count in range(2, 7):
            for size in (4, 5, 8):
                told = SimpleNamespace(info=Info(step_kl=step_kl, wrong=0.0), ids=(0,) * size)
                record = SimpleNamespace(spend_all=False, rounds=[told] * count)
                loop = SimpleNamespace(record=record, state=state)
                found.append(Loop._settled(cast("Any", loop)))
    for stage in (Stage.SETTLED, Stage.MOVING):
        for made in range(20, 110):
            record = SimpleNamespace(rounds=[SimpleNamespace(info=Info())], spend_all=True)
            loop = SimpleNamespace(
                record=record, queries=made, _most=10_000, tolerance=0.0,
                state=replace(state, stage=stage), _next_batch=lambda: (), _settled=lambda: False,
                _failing=lambda info: True, spent=0.0,
                _algorithm=lambda: SimpleNamespace(price=lambda *_: 0.0),
                _jacobians_cost=lambda n: 0.0,
            )  # fmt: skip
            found.append(Loop._reason(cast("Any", loop)))
    for step_kl in (0.4, 0.8, 1.2, 2.0):
        record = SimpleNamespace(rounds=[SimpleNamespace(info=Info(step_kl=step_kl))])
        for reserve in (6, 40):
            loop = SimpleNamespace(budget=22, reserve=reserve, state=state, record=record)
            found.append(Loop._most.fget(cast("Any", loop)))  # type: ignore[attr-defined]
    for good in range(20):  # the latest of forty, of which the others failed
        ok = np.arange(40) >= 40 - good
        x = SPACE.sample(40, 0)
        runs = Evaluations.none(3).append(x, np.where(ok, 0.5, np.nan), SPACE)
        loop = SimpleNamespace(
            state=replace(state, evaluations=runs), record=SimpleNamespace(refused=()),
            execution=SimpleNamespace(max_failures=0.4),
        )  # fmt: skip
        found.append(Loop._failing(cast("Any", loop), Info()))
    return found


def valleys(tuning: Tuning) -> Any:
    """When a search doubts its residuals, with how much of the data it goes on, and when."""
    own = replace(tuning.valleys, wanted=not tuning.valleys.wanted)  # by default it is off
    tuning = replace(tuning, valleys=own)
    course = Course((np.arange(40),), 40)
    problem = replace(PROBLEM, course=course)
    wave, noise = np.sin(np.arange(40.0)), np.random.default_rng(0).standard_normal(40)
    state = state_of(tuning, Stage.SETTLED)
    found: list[Any] = []
    for share in np.linspace(0.0, 3.0, 40):
        outputs = np.tile(noise + share * wave, (10, 1))
        found.append(is_doubted(problem, replace(state, evaluations=_with(state, outputs))))
    for nats in np.geomspace(0.3, 3.0, 30):
        assert state.last_step is not None
        step = replace(state.last_step, nats=nats)
        again = replace(state, last_step=step)
        found.append(may_begin(problem, again, again))
        found += [is_due(again, replace(again, horizon_since=10 - made)) for made in range(20)]
    for left in range(4):
        abandoned = Abandoned(np.zeros((left, SPACE.theta.size)), np.zeros(left))
        again = replace(again, last_step=replace(step, nats=0.1), abandoned=abandoned)
        found.append(may_begin(problem, again, again))
    short = begun(problem, state)
    return [*found, short.horizon, longer(short).horizon]


def _with(state: State, outputs: FloatArray) -> Evaluations:
    """The runs of a state with these residuals."""
    return replace(state.evaluations, outputs=outputs)


def estimators(tuning: Tuning) -> Any:
    """Default estimators after many runs of few parameters, and of 16."""
    found = []
    for dim, n in ((3, 1_500), (16, 1_600)):
        space = supac.gaussian(np.zeros(dim), np.eye(dim))
        runs = Evaluations.none(dim).append(np.zeros((n, dim)), np.zeros(n), space)
        problem = supac.Problem.within(space, supac.Catoni(0.1))
        found.append(str(default_estimator(problem, runs, tuning)))
    return found


SITUATIONS: dict[str, tuple[Callable[[Tuning], Any], ...]] = {
    "moving": (moving,),
    "placement": (placing, many, ahead),
    "trust": (trust, many),
    "descent": (descents,),
    "known": (known,),
    "restart": (restarts,),
    "stop": (endings,),
    "valleys": (valleys,),
    "estimator": (estimators,),
}
"""By the part of the tuning, what it may change."""

OTHER: dict[str, Any] = {
    "descent.little": 5.0,
    "descent.patience": 1,
    "descent.observed_updates": 1,
    "descent.observed_leap": 1e-6,
    "known.steps": 0,
    "known.still": 10.0,
    "known.surround": 0.01,
    "restart.lately": 10,
    "valleys.horizons": (0.3, 0.6),
}
"""Where another value must be far off to be felt."""


def numbers() -> Iterator[tuple[str, str]]:
    """All numbers but those of emulators, which tests/emulator/test_tuning.py has.

    Those of coarse models need one, and are not covered.
    """
    for part in fields(DEFAULT):
        if part.name not in ("emulator", "coarse"):
            assert is_dataclass(getattr(DEFAULT, part.name))
            for each in fields(getattr(DEFAULT, part.name)):
                yield part.name, each.name


def another(part: str, name: str) -> Tuning:
    value = getattr(getattr(DEFAULT, part), name)
    if isinstance(value, bool | tuple):
        changed: Any = not value
    else:
        changed = value + 1 if isinstance(value, int) else 0.7 * value
    changed = OTHER.get(f"{part}.{name}", changed)
    return replace(DEFAULT, **{part: replace(getattr(DEFAULT, part), **{name: changed})})


def bits(found: Any) -> str:
    """All of it, to the last digit."""
    if isinstance(found, list):
        return "|".join(map(bits, found))
    return found.tobytes().hex() if isinstance(found, np.ndarray) else repr(found)


def test_a_search_keeps_as_many_runs_for_validation_as_its_tuning_says() -> None:
    fewer = replace(DEFAULT, trust=replace(DEFAULT.trust, fresh_most=7))
    assert supac.SuPAC().validation(100) == 20
    assert supac.SuPAC(tuning=fewer).validation(100) == 7


@cache
def usual(situation: Callable[[Tuning], Any]) -> str:
    return bits(situation(DEFAULT))


@pytest.mark.parametrize(("part", "name"), list(numbers()))
def test_each_number_changes_something(part: str, name: str) -> None:
    tuning = another(part, name)
    assert any(bits(each(tuning)) != usual(each) for each in SITUATIONS[part])
