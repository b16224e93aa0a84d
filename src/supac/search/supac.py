"""Surrogate PAC-Bayes learning (Algorithm 1): approximate, solve, move, and plan the next batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from supac.arrays import FloatArray, whole
from supac.codec import register
from supac.emulator import GaussianProcess, OutputEmulator
from supac.families import Distribution
from supac.problem import Evaluations, Problem
from supac.problem.bounds import fixed_temperature, worth_of_a_nat
from supac.problem.observation import observation_count
from supac.search import steps
from supac.search.algorithm import (
    FIT,
    NO_STEP,
    PRIOR,
    PROJECT,
    Batch,
    Info,
    LastStep,
    State,
    initial_state,
    one_thread,
)
from supac.search.design import (
    batch_size,
    begins_elsewhere,
    is_first,
    is_moving,
    least_gain,
    look_is_due,
    plan_batch,
    surrounds,
    was_look,
)
from supac.search.ray import view_prior
from supac.search.remarks import EXTRAPOLATES, REJECTED, RIDGE
from supac.search.restart import begin_again, conclude, draws_start_again
from supac.surrogate.estimator import (
    MANY_PARAMETERS,
    BatchPlan,
    Context,
    Estimator,
    RiskModel,
    Surrogate,
    batch_plan,
)
from supac.surrogate.importance import Importance, Ridge, effective_size, pareto_shape
from supac.surrogate.proxy import WithProxy
from supac.surrogate.voronoi import Voronoi

MANY = 1_500
"""Number of evaluations from which regression on them all is as good as an emulator."""
_CLEARLY = 3.0  # nats
_ROUNDING = 1e-9  # share of the largest risk
_STEPS, _STILL = 20, 0.01  # steps on runs made elsewhere, and KL of one that ends them
_HELPED_FROM, _SLOW = 8, 60  # parameters, and runs of a search that still moves
_OUTPUTS = (
    "only the risk of each run is known; if it is computed from outputs or residuals, "
    "Composite(simulate, loss) in place of the risk learns from all of them, and usually needs "
    "half of the runs or fewer"
)


@register(later=("tolerance",))
@dataclass(frozen=True)
class SuPAC:
    """Combine an estimator, a step rule and sizes of batches.

    By default the risk is emulated: its outputs if it is a `Composite`, else the risk itself, and
    beyond some thousand evaluations by regression on them all. A round fits one model of the risk
    and makes up to `inner` closed-form updates on it within the trust region; the paper makes one.
    The first batch has `first` points, the others `batch`: the number of workers, or as many as
    the estimator needs.
    """

    estimator: Estimator | None = None
    step: steps.StepRule = field(default_factory=steps.TrustRegion)
    first: int | None = None
    batch: int | None = None
    inner: int | None = None
    tolerance: float | None = field(default=None, repr=False)
    """KL between successive posteriors below which a search has converged; 1e-12 by default."""

    def __post_init__(self) -> None:
        for name in ("first", "batch", "inner"):
            if getattr(self, name) is not None:
                whole(getattr(self, name), name, least=1)
        if (self.inner or 1) > 1 and not self.reuses:
            raise ValueError("inner > 1 needs an estimator that can look beyond the last batch")
        known = self.estimator is None or hasattr(self.estimator, "fit")
        if not known or not hasattr(self.step, "move") or not hasattr(self.step, "update_radius"):
            raise TypeError(
                "SuPAC takes an estimator, such as GaussianProcess(), with fit, and a step rule, "
                "such as TrustRegion(), with move and update_radius (which was judge), not "
                f"{self.estimator!r} and {self.step!r}"
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
        return cls(Voronoi(draws=draws), steps.FixedStep(alpha_max, kl_max), first, batch)

    @property
    def reuses(self) -> bool:
        """Return True if earlier batches are learnt from."""
        return getattr(self.estimator, "reuses", True)

    def validation(self, budget: int) -> int:
        """Return the number of queries to keep for checking the last posterior."""
        wanted = getattr(self.step, "validation", None)
        return 0 if wanted is None else wanted(budget)

    def uses_known(self, problem: Problem) -> bool:
        """Return True if runs made elsewhere can be learnt from."""
        return self._estimator(problem, Evaluations.none(problem.start.dim))[1].uses_known

    def widened(self, workers: int, budget: int, n: int) -> SuPAC:
        """Return the algorithm with batches for many asynchronous workers, after n runs."""
        if workers <= 10:
            return self
        first = self.first or min(max(20, workers), budget)
        return replace(self, first=first, batch=self.batch or max(10, workers // 4, n // 20))

    def restart(
        self, problem: Problem, before: State, state: State, info: Info
    ) -> tuple[State, Info] | None:
        """Return a new beginning, and why, if rounds up to `state` learnt nothing or failed."""
        _, plan, _ = self._estimator(problem, state.evaluations)
        if not plan.few:
            return None
        nat = worth_of_a_nat(problem.bound, info.mean_risk, info.kl)
        looked = was_look(problem, plan, state.evaluations)
        found = begin_again(
            problem,
            state,
            before.last_step,
            nat,
            info.loo_error,
            first=plan.first,
            looked=looked,
        )
        if found is None:
            return None
        other, why = found
        again = replace(other, batch=self._plan(problem, plan, other))
        return again, replace(info, notes=(*info.notes, why))

    def conclude(self, state: State) -> State:
        """Return the state with the best posterior, if the search has begun more than once."""
        return conclude(state)

    def advice(self, problem: Problem, state: State) -> tuple[str, ...]:
        """Say that outputs would help, if there are many parameters or the search is slow."""
        unhelped = problem.loss is None and problem.proxy is None
        if not unhelped or not isinstance(self.estimator, GaussianProcess | None):
            return ()
        last, begun_again = state.last_step, state.abandoned is not None
        moving = begun_again or (last is not None and last.moving)
        slow = moving and len(state.evaluations) >= _SLOW
        many = last is not None and problem.start.dim >= _HELPED_FROM
        return (_OUTPUTS,) if many or slow else ()

    def init(self, problem: Problem, seed: int) -> State:
        """Return the state before the first batch."""
        _, plan, _ = self._estimator(problem, Evaluations.none(problem.start.dim))
        prior, family = problem.prior, problem.start.family
        known = isinstance(prior, Distribution) and prior.family == family
        regresses = plan.regresses or problem.proxy is not None or not known
        return self.plan(problem, initial_state(problem, seed, regresses=regresses))

    def plan(self, problem: Problem, state: State, n: int | None = None) -> State:
        """Plan the next batch anew around the present posterior, with n points if given."""
        _, plan, _ = self._estimator(problem, state.evaluations)
        return replace(state, batch=self._plan(problem, plan, state, n=n))

    def ask(self, problem: Problem, state: State) -> FloatArray:
        """Return the next batch: (n, dim)."""
        batch = state.batch or self.plan(problem, state).batch
        assert batch is not None
        return batch.x

    def tell(
        self,
        problem: Problem,
        state: State,
        x: FloatArray,
        risk: FloatArray,
        outputs: FloatArray | None = None,
        *,
        plans: bool = True,
    ) -> tuple[State, Info]:
        """Learn from the risks of x: approximate, solve, move (Algorithm 1).

        `plans=False` leaves the next batch to `plan`.
        """
        expected = state.planned(x).expected
        told = replace(state, evaluations=state.told(x, risk, outputs), batch=None)
        new = told.evaluations.latest(len(x))
        if problem.failure_risk is not None:
            new = new.usable(problem.failure_risk)
        if np.isnan(new.risk).all():
            return told, Info(notes=("every run of the batch failed: no step was made",))
        threshold = np.inf if state.emulator is None else state.emulator.threshold
        gain = 0.0 if state.last_step is None else state.last_step.gain
        _, plan, _ = self._estimator(problem, state.evaluations)
        ahead = is_moving(plan, state)
        trial = steps.Trial.of(new, expected, gain, threshold, ahead=ahead)
        moved, info = self._update(problem, state, told, trial, expected, plans=plans)
        return self._follow(problem, state, moved, info, plans=plans)

    def _follow(
        self, problem: Problem, before: State, state: State, info: Info, *, plans: bool
    ) -> tuple[State, Info]:
        """Make further steps if all runs were made elsewhere and enough surround the posterior.

        The next batch tests them all: together they are one step.
        """
        _, plan, _ = self._estimator(problem, state.evaluations)
        last, first = state.last_step, info
        if last is None or not begins_elsewhere(problem, plan, state):
            return state, info
        gain, runs = last.gain, state.evaluations
        for _ in range(_STEPS):
            if info.step_kl < _STILL or not surrounds(state.posterior, runs, plan.first):
                break
            state, info = self._update(problem, state, state, plans=plans)
            assert state.last_step is not None
            last, gain = state.last_step, gain + state.last_step.gain
        step = replace(last, previous=before.posterior.theta, gain=gain)
        all_of_it = replace(
            info,
            mean_risk=first.mean_risk,
            kl=first.kl,
            objective=first.objective,
            step_kl=state.posterior.kl(before.posterior),
        )
        return replace(state, last_step=step), all_of_it

    def revise(self, problem: Problem, state: State, *, plans: bool = True) -> tuple[State, Info]:
        """Find the posterior for another prior or bound, from the runs already made.

        The model of the risk depends on neither, so no query is made; the next batch is planned
        around the new posterior, within the present trust region, unless `plans` is False.
        """
        return self._update(problem, state, state, plans=plans)

    def _update(
        self,
        problem: Problem,
        state: State,
        told: State,
        trial: steps.Trial | None = None,
        expected: FloatArray | None = None,
        *,
        plans: bool = True,
    ) -> tuple[State, Info]:
        """Make one round on the evaluations of `told`."""
        runs = told.evaluations.usable(problem.failure_risk)
        if runs.ok.sum() < 3:
            return told, Info(notes=("fewer than three good runs so far: no step was made",))
        with one_thread():
            last, anchor, rng = state.last_step, state.posterior, state.rng(PROJECT)
            step_rule = self._step_rule(problem)
            estimator, plan, notes = self._estimator(problem, told.evaluations)
            looked = was_look(problem, plan, told.evaluations)
            # After a look the model is another one, of which no step has been confirmed.
            radius = None if last is None or looked else last.radius
            update = step_rule.update_radius(radius, trial)
            if last is not None and update.rejected:
                anchor = anchor.at(last.previous)
            context = _context(problem, state, runs, anchor, rng)
            context = replace(context, anew=update.rejected or looked, expected=expected)
            # f ← Approx(π, R): a model of the risk, to be projected on the statistics.
            model = estimator.fit(told.evaluations, anchor, context)
            # π ← Solve(π_p, π, f), within the trust region.
            bound = steps.SurrogateBound(problem, model, rng, int(state.rng(PRIOR).integers(2**32)))
            descend = partial(
                steps.descend,
                bound,
                step_rule,
                radius=update.radius,
                inner=self.inner or plan.inner,
                resolution=context.resolution,
            )
            descent = descend(anchor)
            if looked:  # which may have shown a better way from the start
                descent = _better(descent, descend(problem.start), context.resolution)
            # Move there, and plan the batch that will test the step.
            step = _remember(descent, anchor, update.radius, context.resolution, plan, told)
            kept = getattr(model, "state", None)
            end = descent.last.posterior
            moved = replace(told, posterior=end, last_step=step, emulator=kept)
            inside = descent.last.kl_from_start < steps.INSIDE * update.radius
            ahead = None
            if not (inside or looked) and is_moving(plan, moved):
                ahead = steps.minimum_ahead(bound, step_rule, end, plan.inner, context.resolution)
            if plans:
                batch = self._plan(problem, plan, moved, model, probing=inside, ahead=ahead)
                moved = _expecting(problem, plan, moved, batch, model, descent.last.surrogate)
            seen = bound.at(state.posterior, np.nan) if update.rejected else descent.first
            # While batches are small, and for less than a nat, that is routine.
            lost = trial is not None and trial.gain > context.resolution
            taken_back = update.rejected and lost and not is_moving(plan, state)
            made = descent, seen, trial, update
            return moved, report(runs, model, *made, notes, taken_back=taken_back)

    def _step_rule(self, problem: Problem) -> steps.StepRule:
        scaled: Callable[[int, int], steps.StepRule] | None = getattr(self.step, "scaled", None)
        if scaled is None:
            return self.step
        dim = problem.start.dim
        return scaled(dim, dim - observation_count(problem.loss))

    def _estimator(
        self, problem: Problem, evaluations: Evaluations
    ) -> tuple[Estimator, BatchPlan, tuple[str, ...]]:
        """Return the estimator, its plan, and a note if the estimator has changed."""
        notes: tuple[str, ...] = ()
        estimator = self.estimator
        if estimator is None:
            estimator, notes = default_estimator(problem, evaluations)
        plan = batch_plan(estimator, problem, len(evaluations))
        plan = plan if self.first is None else replace(plan, first=self.first)
        if problem.proxy is not None:
            estimator = WithProxy(problem.proxy, estimator)
        return estimator, plan, notes

    def _plan(
        self,
        problem: Problem,
        plan: BatchPlan,
        state: State,
        model: RiskModel | None = None,
        n: int | None = None,
        *,
        probing: bool = False,
        ahead: FloatArray | None = None,
    ) -> Batch:
        """Plan the next batch."""
        if is_first(problem, plan, state) or draws_start_again(problem, state):
            return plan_batch(problem, plan, state, n or plan.first)
        size = self.batch or batch_size(plan, state)
        if look_is_due(problem, plan, state):
            size = max(size, plan.look)
        return plan_batch(problem, plan, state, n or size, model, probing=probing, ahead=ahead)


def _better(here: steps.Descent, other: steps.Descent, resolution: float) -> steps.Descent:
    """Return the other descent if it promises to end clearly lower."""
    return other if other.last.objective + _CLEARLY * resolution < here.last.objective else here


def _expecting(
    problem: Problem,
    plan: BatchPlan,
    state: State,
    batch: Batch,
    model: RiskModel,
    surrogate: Surrogate,
) -> State:
    """Return the state with its next batch, and the risks that the model predicts for it."""
    predict = getattr(model, "predict", surrogate)
    if not look_is_due(problem, plan, state):  # of a look nothing is expected
        batch = replace(batch, expected=predict(batch.x))
    return replace(state, batch=batch)


def _remember(
    descent: steps.Descent,
    start: Distribution,
    radius: float,
    resolution: float,
    plan: BatchPlan,
    told: State,
) -> LastStep:
    """Return what the next batch and the next step need to know of this one, made at `start`."""
    end, observed, before = descent.last.posterior, plan.observed, told.last_step
    nats, shift = descent.gain / max(resolution, 1e-300), 0.0
    if end.family.is_gaussian and observed:
        simulated = slice(end.dim - observed)
        moved = (start.mean - end.mean)[simulated]
        shift = float(np.sqrt(moved @ np.linalg.solve(end.covariance[simulated, simulated], moved)))
    elif end.family.is_gaussian:
        shift = float(np.linalg.norm(end.whiten().points(start.mean[None])[0]))
    settled = before is not None and before.settled
    step = LastStep(radius, start.theta, descent.gain, nats, shift, settled, descent.last.objective)
    return replace(step, settled=settled or not step.gains_more_than(least_gain(plan, told)))


def _context(
    problem: Problem,
    state: State,
    runs: Evaluations,
    anchor: Distribution,
    rng: np.random.Generator,
) -> Context:
    """Return what the estimator may know besides the runs."""
    return Context(
        prior=problem.variation,
        resolution=_resolution(problem, runs, anchor, rng),
        failure_risk=problem.failure_risk,
        ceiling=problem.failure_risk or getattr(problem.bound, "ceiling", None) or np.inf,
        loss=problem.loss,
        state=state.emulator,
        rng=state.rng(FIT),
    )


def _resolution(
    problem: Problem, runs: Evaluations, anchor: Distribution, rng: np.random.Generator
) -> float:
    """Compute the difference of risk that is worth one nat of KL."""
    temperature = fixed_temperature(problem.bound)
    if temperature is not None:
        return temperature
    kl = max(view_prior(problem.prior, anchor, rng).kl(anchor.theta), 0.0)
    return worth_of_a_nat(problem.bound, float(np.median(runs.risk[-40:])), kl)


def default_estimator(
    problem: Problem, evaluations: Evaluations
) -> tuple[Estimator, tuple[str, ...]]:
    """Choose the estimator for a problem; return it with a note if it has changed."""
    enough = max(MANY, 10 * (problem.start.family.size + 1))
    if evaluations.drawn.sum() >= enough:
        note = f"from {enough:,} evaluations on, regression on them all replaces the emulator"
        return Ridge(), (note,)
    if problem.loss is not None and problem.proxy is None:
        return OutputEmulator(), ()
    return GaussianProcess(), ()


def report(
    runs: Evaluations,
    model: RiskModel,
    descent: steps.Descent,
    seen: steps.Visit,
    trial: steps.Trial | None,
    update: steps.RadiusUpdate,
    notes: tuple[str, ...],
    *,
    taken_back: bool = False,
) -> Info:
    """Report a round; `seen` is the posterior that drew the batch, by what is known after it.

    `taken_back` is True if it is worth a word that a step was taken back.
    """
    surrogate, posterior = seen.surrogate, descent.last.posterior
    # Within the error of predicting a run, or rounding, it may be by chance.
    error = surrogate.loo_error if np.isfinite(surrogate.loo_error) else 0.0
    slack = error + _ROUNDING * float(np.abs(runs.risk).max())
    out_of_range = not -slack <= surrogate.mean - runs.risk.min() <= np.ptp(runs.risk) + slack
    remarks = {
        RIDGE: surrogate.ridge > 0.0,
        EXTRAPOLATES: out_of_range,
        NO_STEP: descent.alpha == 0.0,
        REJECTED: taken_back,
    }
    size, k_hat = surrogate.effective_size, np.nan
    few = posterior.dim <= MANY_PARAMETERS and len(runs) <= MANY
    if hasattr(model, "predict") and few and runs.drawn.any():
        # A model that sees beyond the runs does not say how well they cover the posterior; of many
        # parameters they never do.
        weights = Importance().fit(runs, posterior).weights(posterior)
        size, k_hat = effective_size(weights), pareto_shape(weights)
    chance = getattr(model, "failure_chance", None)
    return Info(
        mean_risk=surrogate.mean,
        kl=seen.kl,
        objective=seen.objective,
        alpha=descent.alpha,
        step_kl=posterior.kl(seen.posterior),
        predicted=descent.last.objective,
        r_squared=surrogate.r_squared,
        effective_size=size,
        k_hat=k_hat,
        loo_error=surrogate.loo_error,
        radius=update.radius,
        shortfall=np.nan if trial is None else trial.shortfall,
        ratio=np.nan if trial is None else trial.ratio,
        wrong=getattr(model, "outliers", np.nan),
        failure_chance=np.nan if chance is None else chance(posterior),
        noise=getattr(model, "noise", np.nan),
        notes=(*notes, *(remark for remark, true in remarks.items() if true)),
    )
