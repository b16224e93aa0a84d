"""Surrogate PAC-Bayes learning: the paper's Algorithms 1 and 2."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from supac.algorithm import PROJECT, Info, Problem, State, initial_state
from supac.arrays import FloatArray, whole
from supac.evaluations import Evaluations
from supac.families import Distribution
from supac.steps import FixedStep, Step, StepRule
from supac.surrogate import (
    Estimator,
    RiskModel,
    Surrogate,
    Uniform,
    Voronoi,
    ray_minimiser,
    view_prior,
)
from supac.surrogate.known import Corrected


@dataclass(frozen=True)
class SuPAC:
    """An estimator × a step rule × a batch plan.

    The first batch has `first` points, by default two for each dimension of the surrogate; the
    others `batch`, by default one for two. A round fits one model of the risk and makes `inner`
    closed-form updates on it; the paper makes one.
    """

    estimator: Estimator = field(default_factory=Voronoi)
    step: StepRule = field(default_factory=FixedStep)
    first: int | None = None
    batch: int | None = None
    inner: int = 1

    def __post_init__(self) -> None:
        for name in ("first", "batch", "inner"):
            if getattr(self, name) is not None:
                whole(getattr(self, name), name, least=1)
        if self.inner > 1 and isinstance(self.estimator, Uniform):
            raise ValueError("inner > 1 needs an estimator that can look beyond the last batch")
        if not hasattr(self.estimator, "fit") or not hasattr(self.step, "move"):
            raise TypeError(
                "SuPAC takes an estimator, such as Voronoi(), and a step rule, such as "
                f"FixedStep(), not {self.estimator!r} and {self.step!r}"
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
        """SuPAC-CE (Algorithm 2), by default with the hyperparameters of its ADM1 experiment."""
        return cls(Voronoi(draws=draws), FixedStep(alpha_max, kl_max), first, batch)

    def init(self, problem: Problem, seed: int) -> State:
        """The state before the first batch."""
        return initial_state(problem, seed)

    def ask(self, problem: Problem, state: State) -> FloatArray:
        """Independent draws of the current posterior: (n, dim)."""
        surrogate_size = problem.start.family.size + 1
        if state.iteration == 0:
            return state.draw(self.first or 2 * surrogate_size)
        return state.draw(self.batch or (surrogate_size + 1) // 2)

    def tell(
        self, problem: Problem, state: State, x: FloatArray, risk: FloatArray
    ) -> tuple[State, Info]:
        """Fit the risk, then alternate `approximate` and `solve` (Algorithm 1)."""
        evaluations = state.told(x, risk)
        runs = evaluations.usable(problem.failure_risk)
        told = replace(state, evaluations=evaluations)
        if not (runs.iteration == state.iteration).any():
            return told, _nothing_learnt()
        rng = state.rng(PROJECT)
        model = self._fit(problem, runs, state.posterior)
        posterior, rounds = state.posterior, []
        for _ in range(self.inner):
            surrogate = model.project(posterior, rng)
            prior = view_prior(problem.prior, posterior, rng)
            target = ray_minimiser(problem.bound, surrogate, prior)
            step = self.step.move(posterior, target, anchor=state.posterior)
            kl = prior.kl(posterior.theta), prior.kl(step.posterior.theta)
            rounds.append((surrogate, step, kl))
            posterior = step.posterior
        return replace(told, posterior=posterior), _report(problem, runs, rounds)

    def _fit(self, problem: Problem, runs: Evaluations, current: Distribution) -> RiskModel:
        if problem.proxy is None:
            return self.estimator.fit(runs, current)
        return Corrected.fit(problem.proxy, runs, self.estimator, current)


def _report(
    problem: Problem,
    runs: Evaluations,
    rounds: list[tuple[Surrogate, Step, tuple[float, float]]],
) -> Info:
    """The first inner round tells of the posterior that drew the batch, the last of the new one."""
    surrogate, _, (kl, _) = rounds[0]
    last, step, (_, new_kl) = rounds[-1]
    notes = []
    if surrogate.ridge > 0.0:
        notes.append(
            "the runs do not determine the surrogate, which was fitted with a ridge; a larger "
            "first batch avoids it"
        )
    if not runs.risk.min() <= surrogate.mean <= runs.risk.max():
        notes.append(
            "the surrogate's mean risk is outside the range of all risks seen: it extrapolates; "
            "smaller steps or larger batches avoid it"
        )
    if step.alpha == 0.0:
        notes.append("no step towards the surrogate's minimiser stays within the trust region")
    return Info(
        mean_risk=surrogate.mean,
        kl=kl,
        objective=problem.bound(surrogate.mean, kl),
        alpha=step.alpha,
        step_kl=step.kl,
        predicted=problem.bound(last.mean_under(step.posterior.theta), new_kl),
        r_squared=surrogate.r_squared,
        effective_size=surrogate.effective_size,
        loo_error=surrogate.loo_error,
        notes=tuple(notes),
    )


def _nothing_learnt() -> Info:
    note = "every run of the batch failed: no step was made"
    return Info(np.nan, np.nan, np.nan, notes=(note,))
