"""Surrogate PAC-Bayes learning (Algorithm 1): approximate, solve, move, and plan the next batch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from supac.arrays import FloatArray, whole
from supac.codec import register
from supac.emulator import GaussianProcess, OutputEmulator
from supac.emulator.jacobians import (
    JacobianEmulator,
    are_worth_it,
    has_jacobians,
    have_helped,
    unused_note,
)
from supac.families import as_distribution
from supac.problem import Batch, Evaluations, Problem
from supac.problem.bounds import worth_of_a_nat
from supac.problem.evaluations import Jacobians
from supac.problem.observation import observation_count
from supac.search import valleys
from supac.search.algorithm import Algorithm, Info, State, initial_state, one_thread
from supac.search.descent import Descent, SurrogateBound, descend, minimum_ahead
from supac.search.facts import Chosen, Facts, surrounds
from supac.search.placement import Site, batch_size, plan_batch
from supac.search.reporting import report
from supac.search.restart import DOUBTED, begin_again, conclude
from supac.search.stages import Outcome, Stage, next_stage, opened
from supac.search.trust import FixedStep, StepRule, TrustRegion
from supac.search.tuning import DEFAULT, Tuning
from supac.surrogate.estimator import Estimator, RiskModel
from supac.surrogate.importance import Ridge
from supac.surrogate.proxy import WithProxy
from supac.surrogate.voronoi import Voronoi

MANY_WORKERS = 21
"""Workers from which on the default batches are made for them: fewer are busy enough."""
_LEAST_BATCHES = 4
_FEWEST = 3  # good runs that a step needs
_HELPED_FROM, _SLOW = 8, 60  # parameters, and runs of a search that still moves
_OUTPUTS = (
    "only the risk of each run is known; if it is computed from outputs or residuals, "
    "Composite(simulate, loss) in place of the risk learns from all of them, and usually needs "
    "half of the runs or fewer"
)


@register(later=("tolerance", "tuning"))
@dataclass(frozen=True)
class SuPAC(Algorithm):
    """Combine an estimator, a step rule and sizes of batches.

    By default the risk is emulated: its outputs if it is a `Composite`, else the risk itself, and
    beyond some thousand evaluations by regression on them all. A round fits one model of the risk
    and makes up to `inner` closed-form updates on it within the trust region; the paper makes one.
    The first batch has `first` points, the others `batch`: the number of workers, or as many as
    the estimator needs.
    """

    estimator: Estimator | None = None
    step: StepRule = field(default_factory=TrustRegion)
    first: int | None = None
    batch: int | None = None
    inner: int | None = None
    tolerance: float | None = field(default=None, repr=False)
    tuning: Tuning | None = field(default=None, repr=False)
    """Numbers of a search that begins; None for the usual ones."""

    def __post_init__(self) -> None:
        for name in ("first", "batch", "inner"):
            if getattr(self, name) is not None:
                whole(getattr(self, name), name, least=1)
        if not isinstance(self.estimator, Estimator | None):
            raise TypeError(_no_estimator(self.estimator))
        if (self.inner or 1) > 1 and not self.reuses:
            raise ValueError("inner > 1 needs an estimator that can look beyond the last batch")
        if not isinstance(self.step, StepRule):
            raise TypeError(
                "step must be a step rule, such as TrustRegion() or a subclass of StepRule of your "
                f"own, not {self.step!r}"
            )

    @classmethod
    def paper(
        cls,
        first: int = 160,
        batch: int = 32,
        alpha_max: float = 0.5,
        kl_max: float = 1.0,
        draws: int = 40_000,
    ) -> SuPAC:
        """Return SuPAC-CE (Algorithm 2), by default with the settings of its ADM1 experiment."""
        return cls(Voronoi(draws=draws), FixedStep(alpha_max, kl_max), first, batch)

    learns_from_jacobians = True

    def wants_jacobians(self, problem: Problem, state: State) -> bool:
        """Return True if the runs of the next batch are worth their Jacobians.

        They are where there are many parameters for their cost, until the search has settled or
        runs were predicted better without them.
        """
        if self.estimator is not None or problem.proxy is not None or not are_worth_it(problem):
            return False
        useful = have_helped(state.emulator) and not state.stage.has_settled
        return useful or not problem.jacobian_cost

    @property
    def reuses(self) -> bool:
        """Return True if earlier batches are learnt from."""
        return self.estimator is None or self.estimator.reuses

    def validation(self, budget: int) -> int:
        """Return the number of queries to keep for checking the last posterior."""
        return self.step.scaled(1, 1, (self.tuning or DEFAULT).trust).validation(budget)

    def uses_known(self, problem: Problem) -> bool:
        """Return True if runs made elsewhere can be learnt from."""
        return self._chosen(problem, self._nothing(problem)).plan.uses_known

    def widened(self, workers: int, budget: int, n: int) -> SuPAC:
        """Return the algorithm with batches for many asynchronous workers, after n runs."""
        if workers <= 10:
            return self
        first = self.first or min(max(20, workers), budget)
        return replace(self, first=first, batch=self.batch or max(10, workers // 4, n // 20))

    def for_workers(self, workers: int, budget: int) -> SuPAC:
        """Return the algorithm with batches that keep many workers busy, at least four of them.

        A batch is one step: fewer of them than four are hardly a search.
        """
        if workers < MANY_WORKERS or self.estimator is not None or self.batch is not None:
            return self
        batch = min(workers, budget // _LEAST_BATCHES)
        if batch < MANY_WORKERS:
            return self
        return replace(self, first=self.first or batch, batch=batch)

    def restart(
        self, problem: Problem, before: State, state: State, info: Info
    ) -> tuple[State, Info] | None:
        """Return a new beginning, and why, if rounds up to `state` learnt nothing or failed."""
        plan = self._chosen(problem, state).plan
        if not plan.few:
            return None
        elsewhere = self._other_horizon(problem, before, state, info)
        if elsewhere is not None or state.horizon < valleys.WHOLE:
            return elsewhere
        nat = worth_of_a_nat(problem.bound, info.mean_risk, info.kl)
        found = begin_again(problem, before, state, nat, info.loo_error, first=plan.first)
        if found is None:
            return None
        other, why = found
        return self.plan(problem, other), replace(info, notes=(*info.notes, why))

    def _other_horizon(
        self, problem: Problem, before: State, state: State, info: Info
    ) -> tuple[State, Info] | None:
        """Return a second beginning, or a search on more of the data, if either is due."""
        if state.horizon < valleys.WHOLE:
            if not valleys.is_due(before, state):
                return None
            new, note = valleys.longer(state), valleys.LONGER
        else:
            due = valleys.may_begin(problem, before, state) and valleys.is_doubted(problem, state)
            if not due:
                return None
            new, note = valleys.begun(problem, state), DOUBTED
        return self._looking(problem, new, info), replace(info, notes=(*info.notes, note))

    def _looking(self, problem: Problem, state: State, info: Info) -> State:
        """Return the state after steps on the runs that were made, by another loss of them."""
        short, view = valleys.seen(problem, state)
        first = self._chosen(problem, state).plan.first
        moved, info = self._round(short, view, view)
        if state.stage is Stage.KNOWN:
            moved, info = self._follow(short, view, moved, info, first, plans=True)
        return replace(moved, evaluations=state.evaluations)

    def conclude(self, state: State) -> State:
        """Return the state with the best posterior, if the search has begun more than once."""
        return conclude(state)

    def advice(self, problem: Problem, state: State) -> tuple[str, ...]:
        """Say that outputs would help, or why Jacobians do not.

        Outputs help if there are many parameters or the search is slow.
        """
        silent = self.estimator is not None or has_jacobians(state.evaluations)
        unused = "" if silent else unused_note(problem)
        if unused:
            return (unused,)
        unhelped = problem.loss is None and problem.proxy is None
        if not unhelped or not (self.estimator is None or self.estimator.helped_by_outputs):
            return ()
        moving = state.abandoned is not None or state.stage.moves
        slow = moving and len(state.evaluations) >= _SLOW
        many = state.last_step is not None and problem.start.dim >= _HELPED_FROM
        return (_OUTPUTS,) if many or slow else ()

    def init(self, problem: Problem, seed: int) -> State:
        """Return the state before the first batch."""
        prior, family = problem.prior, problem.start.family
        member = as_distribution(prior)
        known = member is not None and member.family == family
        plan = self._chosen(problem, self._nothing(problem)).plan
        regresses = plan.regresses or problem.proxy is not None
        begun = initial_state(
            problem, seed, regresses=regresses or not known, tuning=self.tuning or DEFAULT
        )
        return self.plan(problem, begun)

    def plan(self, problem: Problem, state: State, n: int | None = None) -> State:
        """Plan the next batch anew around the present posterior, with n points if given."""
        site = Site(problem, self._chosen(problem, state).plan, state)
        return _with_batch(state, plan_batch(site, n or batch_size(site, self.batch)))

    def ask(self, problem: Problem, state: State) -> Batch:
        """Return the next batch."""
        batch = state.batch or self.plan(problem, state).batch
        assert batch is not None
        return batch

    def tell(
        self,
        problem: Problem,
        state: State,
        batch: Batch,
        risk: FloatArray,
        outputs: FloatArray | None = None,
        *,
        jacobians: Jacobians | None = None,
        plans: bool = True,
    ) -> tuple[State, Info]:
        """Learn from the risks of a batch: approximate, solve, move (Algorithm 1).

        `plans=False` leaves the next batch to `plan`.
        """
        if state.horizon < valleys.WHOLE and outputs is not None:
            return self._tell_part(problem, state, batch, risk, outputs, plans=plans)
        runs = state.told(batch, risk, outputs, jacobians)
        told = replace(state, evaluations=runs, batch=None)
        plan = self._chosen(problem, told).plan
        told = replace(told, stage=opened(state.stage, told.evaluations, plan))
        if problem.failure_risk is None and np.isnan(risk).all():
            return _without_step(told, "every run of the batch failed: no step was made")
        moved, info = self._round(problem, state, told, batch, plans=plans)
        if told.stage is Stage.KNOWN:
            return self._follow(problem, state, moved, info, plan.first, plans=plans)
        return moved, info

    def _tell_part(
        self,
        problem: Problem,
        state: State,
        batch: Batch,
        risk: FloatArray,
        outputs: FloatArray,
        *,
        plans: bool,
    ) -> tuple[State, Info]:
        """Learn from a batch by the loss of the first part of the data."""
        every = state.told(batch, risk, outputs)
        short, view = valleys.seen(problem, replace(state, evaluations=every))
        new = view.evaluations.select(slice(len(state.evaluations), None))
        assert new.outputs is not None
        before = replace(valleys.seen(problem, state)[1], horizon=valleys.WHOLE)
        moved, info = self.tell(short, before, batch, new.risk, new.outputs, plans=plans)
        whole = replace(moved, evaluations=every, horizon=state.horizon)
        return whole, valleys.hidden(info)

    def _round(
        self,
        problem: Problem,
        state: State,
        told: State,
        batch: Batch | None = None,
        *,
        plans: bool = True,
    ) -> tuple[State, Info]:
        """Make one round on the evaluations of `told`, those of `batch` among them."""
        if told.evaluations.usable(problem.failure_risk).ok.sum() < _FEWEST:
            return _without_step(told, "fewer than three good runs so far: no step was made")
        with one_thread():
            facts = self._facts(problem, state, told, batch)
            # f ← Approx(π, R): a model of the risk, to be projected on the statistics.
            model = facts.fit()
            bound = facts.bound(model)
            # π ← Solve(π_p, π, f), within the trust region.
            descent = self._descend(facts, bound)
            # Move there, and plan the batch that will test the step.
            moved = facts.moved(descent, model)
            if plans:
                moved = self._planned(facts, moved, model, descent, bound)
            return moved, report(facts, model, descent, bound)

    def _follow(
        self, problem: Problem, before: State, state: State, info: Info, n: int, *, plans: bool
    ) -> tuple[State, Info]:
        """Make further steps on runs made elsewhere, while n of them surround the posterior.

        The next batch tests them all: together they are one step.
        """
        tuning, first, gain = state.tuning.known, info, 0.0
        for left in reversed(range(tuning.steps + 1)):
            if state.last_step is None:
                return state, info
            gain += state.last_step.gain
            if not left or info.step_kl < tuning.still or not surrounds(state, n):
                break
            known = replace(state, stage=Stage.KNOWN)
            state, info = self._round(problem, known, known, plans=plans)
        assert state.last_step is not None
        step = replace(state.last_step, previous=before.posterior.theta, gain=gain)
        whole = replace(
            info,
            mean_risk=first.mean_risk,
            kl=first.kl,
            objective=first.objective,
            step_kl=state.posterior.kl(before.posterior),
        )
        return replace(state, last_step=step), whole

    def revise(self, problem: Problem, state: State, *, plans: bool = True) -> tuple[State, Info]:
        """Find the posterior for another prior or bound, from the runs already made.

        The model of the risk depends on neither, so no query is made; the next batch is planned
        around the new posterior, within the present trust region, unless `plans` is False.
        """
        whole = replace(state, horizon=valleys.WHOLE)
        return self._round(problem, whole, whole, plans=plans)

    def model(self, problem: Problem, state: State) -> RiskModel | None:
        """Fit the model of the risk to all runs of a state; None if there are too few."""
        if state.evaluations.usable(problem.failure_risk).ok.sum() < _FEWEST:
            return None
        with one_thread():
            return self._facts(problem, state, state, None).fit()

    def _facts(self, problem: Problem, state: State, told: State, batch: Batch | None) -> Facts:
        """Return what a round goes by."""
        dim = problem.start.dim
        simulated = dim - observation_count(problem.loss)
        rule = self.step.scaled(dim, simulated, state.tuning.trust)
        return Facts.of(problem, state, told, batch, self._chosen(problem, told), rule)

    def _descend(self, facts: Facts, bound: SurrogateBound) -> Descent:
        """Descend from the posterior, within the trust region."""
        inner, radius = self.inner or facts.plan.inner, facts.judged.update.radius
        return descend(bound, facts.rule, facts.anchor, radius, inner, facts.context.resolution)

    def _planned(
        self, facts: Facts, moved: State, model: RiskModel, descent: Descent, bound: SurrogateBound
    ) -> State:
        """Return the state with its next batch, and the risks that the model predicts for it."""
        inside, resolution = facts.is_inside(descent), facts.context.resolution
        site = Site(facts.problem, facts.plan, moved, model, inside=inside)
        if not inside:
            ahead = partial(minimum_ahead, bound, facts.rule, moved.posterior)
            site = replace(site, minimum=partial(ahead, facts.plan.inner, resolution))
        batch = plan_batch(site, batch_size(site, self.batch))
        predicted = model.predict(batch.x)
        expected = descent.last.surrogate(batch.x) if predicted is None else predicted
        return _with_batch(moved, replace(batch, expected=expected))

    def _nothing(self, problem: Problem) -> State:
        """Return a state without runs."""
        none = Evaluations.none(problem.start.dim)
        return State(0, problem.start, none, tuning=self.tuning or DEFAULT)

    def _chosen(self, problem: Problem, state: State) -> Chosen:
        """Return the estimator for the runs of a state, its plan, and notes on a change of it."""
        notes: tuple[str, ...] = ()
        estimator, runs = self.estimator, state.evaluations
        if estimator is None:
            estimator, notes = default_estimator(problem, runs, state.tuning)
        plan = estimator.plan(problem, len(runs))
        plan = plan if self.first is None else replace(plan, first=self.first)
        if problem.proxy is not None:
            estimator = WithProxy(problem.proxy, estimator)
        return Chosen(estimator, plan, notes)


def _no_estimator(given: object) -> str:
    return (
        "estimator must be one such as GaussianProcess(), or of a class of your own that derives "
        f"from supac.Estimator and has fit, not {given!r}"
    )


def _with_batch(state: State, batch: Batch) -> State:
    """Return the state with its next batch, which tests the last step."""
    last = state.last_step
    if last is not None and last.number == state.iteration:
        state = replace(state, last_step=replace(last, size=len(batch)))
    return replace(state, batch=batch)


def _without_step(state: State, why: str) -> tuple[State, Info]:
    """Return the state after a round without a step."""
    return replace(state, stage=next_stage(state.stage, Outcome.NO_STEP)), Info(notes=(why,))


def default_estimator(
    problem: Problem, evaluations: Evaluations, tuning: Tuning = DEFAULT
) -> tuple[Estimator, tuple[str, ...]]:
    """Choose the estimator for a problem; return it with a note if it has changed."""
    numbers = tuning.estimator
    enough = max(numbers.many, numbers.a_statistic * (problem.start.family.size + 1))
    if evaluations.drawn.sum() >= enough:
        note = f"from {enough:,} evaluations on, regression on them all replaces the emulator"
        return Ridge(), (note,)
    own = None if tuning.emulator == DEFAULT.emulator else tuning.emulator
    if problem.loss is not None and problem.proxy is None:
        if has_jacobians(evaluations) or are_worth_it(problem):
            return JacobianEmulator(OutputEmulator(tuning=own)), ()
        return OutputEmulator(tuning=own), ()
    return GaussianProcess(tuning=own), ()
