"""Facts of a round: what is known of the search when its runs are told, computed once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from supac.families import Distribution
from supac.problem import Batch, Evaluations, Problem
from supac.problem.bounds import Declared, fixed_temperature, worth_of_a_nat
from supac.search.algorithm import FIT, PRIOR, PROJECT, LastStep, State
from supac.search.descent import Descent, SurrogateBound
from supac.search.ray import view_prior
from supac.search.stages import Outcome, next_stage
from supac.search.trust import Judgement, StepRule, trials_of
from supac.surrogate.estimator import BatchPlan, Context, Estimator, RiskModel


@dataclass(frozen=True)
class Chosen:
    """Hold the estimator for the runs so far, and what it plans."""

    estimator: Estimator
    plan: BatchPlan
    notes: tuple[str, ...] = ()
    """Words on a change of the estimator."""


@dataclass(frozen=True, eq=False)
class Facts:
    """Hold what a round goes by."""

    problem: Problem
    state: State
    """State that asked for the runs."""
    told: State
    """State with them."""
    runs: Evaluations
    """Runs to learn from, with the risks of failed ones if they count."""
    chosen: Chosen
    rule: StepRule
    judged: Judgement
    """Verdict on the steps that they test."""
    anchor: Distribution
    """Posterior that the next step begins at."""
    context: Context
    rng: np.random.Generator

    @classmethod
    def of(
        cls,
        problem: Problem,
        state: State,
        told: State,
        batch: Batch | None,
        chosen: Chosen,
        rule: StepRule,
    ) -> Facts:
        """Compute the facts of a round, of which `batch` holds the new runs, if there are any."""
        runs = told.evaluations.usable(problem.failure_risk)
        rng = state.rng(PROJECT)
        radius = None if state.last_step is None else state.last_step.radius
        judged = _judged(problem, state, told, batch, rule, radius)
        anchor = state.posterior if judged.back is None else state.posterior.at(judged.back)
        context = Context(
            prior=problem.variation,
            user_scales=problem.user_scales,
            resolution=_resolution(problem, runs, anchor, rng),
            failure_risk=problem.failure_risk,
            ceiling=problem.failure_risk or Declared.by(problem.bound).ceiling or np.inf,
            loss=problem.loss,
            memory=state.emulator,
            rng=state.rng(FIT),
            anew=judged.update.rejected,
            expected=None if batch is None else batch.expected,
        )
        return cls(problem, state, told, runs, chosen, rule, judged, anchor, context, rng)

    @property
    def plan(self) -> BatchPlan:
        """Return the estimator's plan of batches."""
        return self.chosen.plan

    def fit(self) -> RiskModel:
        """Fit the model of the risk; TypeError if the estimator returns none."""
        model = self.chosen.estimator.fit(self.told.evaluations, self.anchor, self.context)
        if isinstance(model, RiskModel):
            return model
        raise TypeError(
            f"{self.chosen.estimator!r}.fit must return a model of a class that derives from "
            f"supac.RiskModel and has project, not {model!r}"
        )

    def bound(self, model: RiskModel) -> SurrogateBound:
        """Return the bound of the modelled risk."""
        common = int(self.state.rng(PRIOR).integers(2**32))
        return SurrogateBound(self.problem, model, self.rng, common, self.state.tuning)

    def is_inside(self, descent: Descent) -> bool:
        """Return True if a descent did not meet the limit of the trust region."""
        share = self.state.tuning.placement.inside
        return descent.last.kl_from_start < share * self.judged.update.radius

    @property
    def taken_back(self) -> bool:
        """Return True if it is worth a word that a step was taken back.

        While batches are small, and for less than a nat, that is routine.
        """
        update, trial = self.judged.update, self.judged.trial
        lost = trial is not None and trial.gain > self.context.resolution
        return update.rejected and lost and not self.state.stage.moves

    def moved(self, descent: Descent, model: RiskModel) -> State:
        """Return the state after a step, without its next batch."""
        step = self._made(descent)
        return replace(
            self.told,
            posterior=descent.last.posterior,
            last_step=step,
            untested=self.judged.untested,
            emulator=model.memory,
            stage=next_stage(self.told.stage, self.outcome(step.nats)),
        )

    def _made(self, descent: Descent) -> LastStep:
        """Return what the next batch and the next step need to know of the step just made."""
        start, end, observed = self.anchor, descent.last.posterior, self.plan.observed
        shift = 0.0
        if end.family.is_gaussian and observed:
            simulated = slice(end.dim - observed)
            moved, spread = (start.mean - end.mean)[simulated], end.covariance[simulated, simulated]
            shift = float(np.sqrt(moved @ np.linalg.solve(spread, moved)))
        elif end.family.is_gaussian:
            shift = float(np.linalg.norm(end.whiten().points(start.mean[None])[0]))
        return LastStep(
            self.judged.update.radius,
            start.theta,
            descent.gain,
            descent.gain / max(self.context.resolution, 1e-300),
            shift,
            descent.last.objective,
            number=self.told.iteration,
        )

    def outcome(self, nats: float) -> Outcome:
        """Return what a round came to whose step gained so many nats.

        The posteriors of estimators that have no small batches never move.
        """
        tuning = self.told.tuning.moving
        least = tuning.again if self.told.stage.has_settled else self._least_gain
        if self.plan.few and nats > least:
            return Outcome.MOVES
        return Outcome.RESTS

    @property
    def _least_gain(self) -> float:
        """Return the nats that a step must gain while the posterior has not settled.

        Noise levels make up for what an emulator does not know yet: with observation parameters a
        step gains little long before its end, as long as there are few runs.
        """
        tuning, observed = self.told.tuning.moving, self.plan.observed
        enough = tuning.observed_runs * (self.told.posterior.dim - observed)
        early = observed and len(self.told.evaluations) < enough
        return tuning.observed if early else tuning.gain


def _judged(
    problem: Problem,
    state: State,
    told: State,
    batch: Batch | None,
    rule: StepRule,
    radius: float | None,
) -> Judgement:
    """Judge the steps that runs of the batch have tested; without one nothing is judged."""
    if batch is None or state.last_step is None:
        return Judgement(rule.update_radius(radius, None))
    made = (*state.untested, state.last_step)
    threshold = np.inf if state.emulator is None else state.emulator.threshold
    trials = trials_of(
        made, batch, told.evaluations, threshold, problem.failure_risk, state.tuning.trust
    )
    return Judgement.of(rule, made, trials, radius)


def _resolution(
    problem: Problem, runs: Evaluations, anchor: Distribution, rng: np.random.Generator
) -> float:
    """Compute the difference of risk that is worth one nat of KL."""
    temperature = fixed_temperature(problem.bound)
    if temperature is not None:
        return temperature
    kl = max(view_prior(problem.prior, anchor, rng).kl(anchor.theta), 0.0)
    return worth_of_a_nat(problem.bound, float(np.median(runs.risk[-40:])), kl)


def surrounds(state: State, n: int) -> bool:
    """Return True if n good runs lie where a somewhat wider posterior would draw them."""
    posterior, runs = state.posterior, state.evaluations
    z = posterior.whiten().points(runs.x[runs.ok])
    reach = state.tuning.known.surround**2 * posterior.dim
    return int((np.einsum("ij,ij->i", z, z) < reach).sum()) >= n
