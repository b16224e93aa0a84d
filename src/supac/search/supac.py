"""Surrogate PAC-Bayes learning: the paper's Algorithms 1 and 2, and what we recommend instead."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from supac.arrays import FloatArray, whole
from supac.codec import register
from supac.emulator import GatedModel, GaussianProcess, OutputEmulator
from supac.families import Distribution, NormalWhitening, gaussian
from supac.families.draws import latin_hypercube
from supac.problem import Problem
from supac.problem.bounds import fixed_temperature, worth_of_a_nat
from supac.problem.evaluations import Evaluations
from supac.search.algorithm import (
    DRAW,
    FIT,
    NO_STEP,
    PRIOR,
    PROJECT,
    Batch,
    Info,
    State,
    initial_state,
)
from supac.search.blas import one_thread
from supac.search.steps import FixedStep, StepRule, Trial, TrustRegion
from supac.surrogate import (
    Context,
    Corrected,
    Estimator,
    LocalPrior,
    Ridge,
    RiskModel,
    Surrogate,
    Uniform,
    Voronoi,
    pareto_shape,
    ray_minimiser,
    view_prior,
)
from supac.surrogate.importance import Importance

_INSIDE = 0.97
_SETTLED, _PATIENCE = 0.02, 3  # nats that a few inner updates must gain to be worth another
_SHORTEST = 1e-4  # share of the way to the minimiser that is not worth trying
_MOST_LEFT_OUT = 0.3  # share of a batch that may be wrong without the step being to blame
_MANY = 1_500  # evaluations from which regression on them all is as good as an emulator


@register
@dataclass(frozen=True)
class SuPAC:
    """An estimator × a step rule × a batch plan.

    By default the risk is emulated: its outputs where it is a `Composite`, else the risk itself,
    and beyond some thousand evaluations by regression on them all. A round fits one model of the
    risk and makes up to `inner` closed-form updates on it within the trust region; the paper makes
    one. The first batch has `first` points, the others `batch`: the number of workers, or what the
    estimator needs.
    """

    estimator: Estimator | None = None
    step: StepRule = field(default_factory=TrustRegion)
    first: int | None = None
    batch: int | None = None
    inner: int | None = None

    def __post_init__(self) -> None:
        for name in ("first", "batch", "inner"):
            if getattr(self, name) is not None:
                whole(getattr(self, name), name, least=1)
        if (self.inner or 1) > 1 and isinstance(self.estimator, Uniform):
            raise ValueError("inner > 1 needs an estimator that can look beyond the last batch")
        known = self.estimator is None or hasattr(self.estimator, "fit")
        if not known or not hasattr(self.step, "move"):
            raise TypeError(
                "SuPAC takes an estimator, such as GaussianProcess(), and a step rule, such as "
                f"TrustRegion(), not {self.estimator!r} and {self.step!r}"
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

    def validation(self, budget: int) -> int:
        """How many queries of a budget to keep for checking the last posterior."""
        return min(budget // 5, 60) if isinstance(self.step, TrustRegion) else 0

    def init(self, problem: Problem, seed: int) -> State:
        """The state before the first batch."""
        return self.plan(problem, initial_state(problem, seed))

    def plan(self, problem: Problem, state: State) -> State:
        """The state with its next batch planned anew, around the present posterior."""
        return replace(state, batch=self._plan(problem, state))

    def ask(self, problem: Problem, state: State) -> FloatArray:
        """The next batch: (n, dim), draws around the current posterior and probes of its tails."""
        batch = self._plan(problem, state) if state.batch is None else state.batch
        return batch.x

    def tell(
        self,
        problem: Problem,
        state: State,
        x: FloatArray,
        risk: FloatArray,
        outputs: FloatArray | None = None,
    ) -> tuple[State, Info]:
        """Fit the risk, then alternate `approximate` and `solve` (Algorithm 1)."""
        evaluations = state.told(x, risk, outputs)
        runs = evaluations.usable(problem.failure_risk)
        told = replace(state, evaluations=evaluations, batch=None)
        if not (runs.iteration == state.iteration).any():
            return told, _nothing_learnt("every run of the batch failed: no step was made")
        if runs.ok.sum() < 3:
            return told, _nothing_learnt("fewer than three good runs so far: no step was made")
        with one_thread():
            return self._learn(problem, state, told, runs, state.planned(x).expected)

    def _learn(
        self,
        problem: Problem,
        state: State,
        told: State,
        runs: Evaluations,
        expected: FloatArray | None,
    ) -> tuple[State, Info]:
        trial = _trial(state, told.evaluations, expected)
        radius = state.memory.get("radius")
        verdict = self.step.judge(None if radius is None else float(radius[0]), trial)
        anchor = state.posterior
        if verdict.rejected:
            anchor = anchor.at(state.memory["previous"])
        draws = _Draws.of(state)
        memory = {**state.memory, **({"rejected": np.ones(1)} if verdict.rejected else {})}
        context = _context(problem, state, runs, anchor, draws)
        context = replace(context, memory=memory, expected=expected)
        model, note = self._fit(problem, told.evaluations, anchor, context)
        new, descent = self._move(problem, model, told, anchor, verdict.radius, context, draws)
        seen = descent.first
        if verdict.rejected:
            seen = _Visit.at(problem, model, state.posterior, np.nan, draws)
        info = _report(problem, runs, model, descent, seen, trial)
        info = replace(info, radius=verdict.radius, notes=(*note, *info.notes))
        if verdict.rejected:
            info = replace(info, notes=(*info.notes, _REJECTED))
        return new, info

    def revise(self, problem: Problem, state: State) -> tuple[State, Info]:
        """The posterior for another prior or bound than before, from the runs already made.

        What was learnt of the risk depends on neither. Nothing is asked of the risk; the next
        batch is planned around where this leads, within the trust region as it is.
        """
        runs = state.evaluations.usable(problem.failure_risk)
        if runs.ok.sum() < 3:
            return state, _nothing_learnt("fewer than three good runs so far: no step was made")
        with one_thread():
            radius = state.memory.get("radius")
            verdict = self.step.judge(None if radius is None else float(radius[0]), None)
            draws, anchor = _Draws.of(state), state.posterior
            context = _context(problem, state, runs, anchor, draws)
            model, note = self._fit(problem, state.evaluations, anchor, context)
            new, descent = self._move(problem, model, state, anchor, verdict.radius, context, draws)
            info = _report(problem, runs, model, descent, descent.first, None)
        return new, replace(info, radius=verdict.radius, notes=(*note, *info.notes))

    def _move(
        self,
        problem: Problem,
        model: RiskModel,
        told: State,
        anchor: Distribution,
        radius: float,
        context: Context,
        draws: _Draws,
    ) -> tuple[State, _Descent]:
        """Descend on the model, and plan the batch that will judge it."""
        descent = self._descend(problem, model, anchor, radius, context.resolution, draws)
        new = replace(told, posterior=descent.posterior)
        inside = descent.kl_from_start < _INSIDE * radius
        batch = self._plan(problem, new, model if inside else None)
        batch = replace(batch, expected=_expect(model, descent, batch.x))
        memory = {
            **getattr(model, "memory", {}),
            "radius": np.array([radius]),
            "previous": anchor.theta,
            "gain": np.array([descent.first.objective - descent.predicted]),
        }
        return replace(new, batch=batch, memory=memory), descent

    def _fit(
        self,
        problem: Problem,
        evaluations: Evaluations,
        current: Distribution,
        context: Context,
    ) -> tuple[RiskModel, tuple[str, ...]]:
        estimator, note = self._estimator(problem, evaluations)
        if problem.proxy is None:
            return estimator.fit(evaluations, current, context), note
        return Corrected.fit(problem.proxy, evaluations, estimator, current, context), note

    def _estimator(
        self, problem: Problem, evaluations: Evaluations | None = None
    ) -> tuple[Estimator, tuple[str, ...]]:
        """The estimator to use, and why where that is not obvious."""
        if self.estimator is not None:
            return self.estimator, ()
        enough = max(_MANY, 10 * (problem.start.family.size + 1))
        if evaluations is not None and evaluations.drawn.sum() >= enough:
            note = f"from {enough:,} evaluations on, regression on them all replaces the emulator"
            return Ridge(), (note,)
        if problem.loss is not None and problem.proxy is None:
            return OutputEmulator(), ()
        return GaussianProcess(), ()

    def _plan(self, problem: Problem, state: State, model: RiskModel | None = None) -> Batch:
        """The next batch: wider than the posterior where it is emulated, with probes of `model`."""
        n = self._size(problem, state)
        estimator, _ = self._estimator(problem, state.evaluations)
        posterior = state.posterior
        whitening = posterior.whiten()
        if not (
            isinstance(estimator, GaussianProcess | OutputEmulator)
            and isinstance(whitening, NormalWhitening)
        ):
            return Batch.plain(state.draw(n), posterior)
        rng = state.rng(DRAW)
        wide = estimator.widening[min(state.iteration, 1)]
        emulator = _emulator(model)
        count = max(round(estimator.probes * n), 1) if emulator is not None and n > 3 else 0
        x = whitening.spread(wide * latin_hypercube(n - count, posterior.dim, rng))
        if emulator is not None and count:
            x = np.concatenate([x, emulator.probes(count, posterior, rng)])
        return Batch(x, _widened(posterior, wide), np.arange(n) < n - count)

    def _size(self, problem: Problem, state: State) -> int:
        """How many points to evaluate next."""
        begun = bool(state.evaluations.drawn.any())  # runs that were made elsewhere do not count
        chosen = self.batch if begun else self.first
        if chosen is not None:
            return chosen
        unknowns = problem.start.family.size + 1
        estimator, _ = self._estimator(problem, state.evaluations)
        if begun:
            small = isinstance(estimator, GaussianProcess | OutputEmulator | Ridge)
            return max(10, len(state.evaluations) // 20) if small else (unknowns + 1) // 2
        if isinstance(estimator, OutputEmulator):
            return min(max(problem.start.dim, 10), 20)
        return 20 if isinstance(estimator, GaussianProcess) else 2 * unknowns

    def _descend(
        self,
        problem: Problem,
        model: RiskModel,
        start: Distribution,
        radius: float,
        resolution: float,
        draws: _Draws,
    ) -> _Descent:
        """Closed-form updates on the model's projections, within the radius around `start`."""
        inner = self.inner or (1 if _emulator(model) is None else 25)
        here = _Visit.at(problem, model, start, 0.0, draws)
        if inner == 1:
            step = self.step.move(start, here.target, start, radius)
            predicted = problem.bound(
                here.surrogate.mean_under(step.posterior.theta),
                here.prior.kl(step.posterior.theta),
            )
            return _Descent(here, here.surrogate, step.posterior, predicted, step.alpha, step.kl)
        first, share, alpha = here, 1.0, 0.0
        gains: list[float] = []
        for _ in range(inner):
            theta = here.posterior.theta
            target = theta + share * (here.target - theta)
            step = self.step.move(here.posterior, target, start, radius)
            there = _Visit.at(problem, model, step.posterior, step.kl, draws)
            gain = here.objective - there.objective
            if not gain > 0.0:
                # Too far: the projection is only valid around where it was made.
                share *= 0.5 * step.alpha
                if share < _SHORTEST:
                    break
                continue
            gains.append(gain)
            here, alpha, share = there, step.alpha * share, min(2.0 * share, 1.0)
            settled = len(gains) >= _PATIENCE and sum(gains[-_PATIENCE:]) < _SETTLED * resolution
            if settled or step.kl > _INSIDE * radius:
                break
        return _Descent(
            first, here.surrogate, here.posterior, here.objective, alpha, here.kl_from_start
        )


@dataclass(frozen=True, eq=False)
class _Draws:
    """The random numbers of one round: for models, and those that every visit has in common."""

    fresh: np.random.Generator
    common: int
    """A seed: what is compared between visits must not differ by its noise."""

    @classmethod
    def of(cls, state: State) -> _Draws:
        """Those of the present round."""
        return cls(state.rng(PROJECT), int(state.rng(PRIOR).integers(2**32)))


@dataclass(frozen=True, eq=False)
class _Visit:
    """A posterior as the model sees it, and where its surrogate's minimiser lies."""

    posterior: Distribution
    kl_from_start: float
    surrogate: Surrogate
    prior: LocalPrior
    target: FloatArray
    kl: float
    objective: float

    @classmethod
    def at(
        cls,
        problem: Problem,
        model: RiskModel,
        posterior: Distribution,
        kl_from_start: float,
        draws: _Draws,
    ) -> _Visit:
        """`approximate`, then `solve` (Algorithm 1)."""
        surrogate = model.project(posterior, draws.fresh)
        prior = view_prior(problem.prior, posterior, np.random.default_rng(draws.common))
        minimiser = ray_minimiser(problem.bound, surrogate, prior)
        target = posterior.family.aim(posterior.theta, minimiser)
        kl = prior.kl(posterior.theta)
        objective = problem.bound(surrogate.mean, kl)
        return cls(posterior, kl_from_start, surrogate, prior, target, kl, objective)


@dataclass(frozen=True, eq=False)
class _Descent:
    """The updates of one round, and where they led."""

    first: _Visit
    last: Surrogate
    posterior: Distribution
    predicted: float
    alpha: float
    kl_from_start: float


def _trial(state: State, evaluations: Evaluations, expected: FloatArray | None) -> Trial | None:
    """What the fresh batch says of the last step; nothing, if there was none."""
    new = evaluations.select(evaluations.iteration == state.iteration)
    gain = float(state.memory.get("gain", np.zeros(1))[0])
    if expected is None or not gain > 0.0:
        return None
    judged = new.drawn & np.isfinite(new.risk)
    residual = (new.risk - expected)[judged]
    usual = new.ok[judged] & (residual <= state.memory.get("delta", np.array([np.inf]))[0])
    if usual.sum() >= (1.0 - _MOST_LEFT_OUT) * len(usual):
        residual = residual[usual]
    return Trial(gain, residual) if len(residual) >= 2 else None


def _emulator(model: RiskModel | None) -> GatedModel | None:
    """The emulator in a model, of the risk or of what a proxy misses: it sees beyond the runs."""
    if isinstance(model, Corrected):
        model = model.correction
    return model if isinstance(model, GatedModel) else None


def _expect(model: RiskModel, descent: _Descent, x: FloatArray) -> FloatArray:
    """What the model predicts at x; where it cannot, what its last projection does."""
    emulator = _emulator(model)
    if emulator is not None:
        known = model.scale * model.proxy(x) if isinstance(model, Corrected) else 0.0
        return known + emulator.predict(x)
    return descent.last(x)


def _context(
    problem: Problem,
    state: State,
    runs: Evaluations,
    anchor: Distribution,
    draws: _Draws,
) -> Context:
    """What an estimator may know besides the runs."""
    prior = problem.prior if isinstance(problem.prior, Distribution) else problem.start
    return Context(
        prior=problem.scale or prior,
        resolution=_resolution(problem, runs, anchor, draws.fresh),
        failure_risk=problem.failure_risk,
        loss=problem.loss,
        memory=state.memory,
        rng=state.rng(FIT),
    )


def _resolution(
    problem: Problem, runs: Evaluations, at: Distribution, rng: np.random.Generator
) -> float:
    """The difference of risk that is worth one nat of KL around `at`: λ for Catoni's bound."""
    temperature = fixed_temperature(problem.bound)
    if temperature is not None:
        return temperature
    kl = max(view_prior(problem.prior, at, rng).kl(at.theta), 0.0)
    return worth_of_a_nat(problem.bound, float(np.median(runs.risk[-40:])), kl)


def _widened(posterior: Distribution, factor: float) -> Distribution:
    """A Gaussian with the same mean and a wider covariance, in the same family if that has it."""
    if factor == 1.0:
        return posterior
    mean, covariance = posterior.family.moments(posterior.theta)
    wide = posterior.at(posterior.exponential.from_moments(mean, factor**2 * covariance))
    if np.allclose(wide.covariance, factor**2 * covariance, rtol=1e-9, atol=0.0):
        return wide
    return gaussian(mean, factor**2 * covariance)


def _report(
    problem: Problem,
    runs: Evaluations,
    model: RiskModel,
    descent: _Descent,
    seen: _Visit,
    trial: Trial | None,
) -> Info:
    """`seen` is the posterior that drew the batch, by what is known after it."""
    surrogate = seen.surrogate
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
    if descent.alpha == 0.0:
        notes.append(NO_STEP)
    size, k_hat = surrogate.effective_size, np.nan
    emulator = _emulator(model)
    if emulator is not None and len(runs) <= _MANY and runs.drawn.any():
        weights = Importance().fit(runs, descent.posterior).weights(descent.posterior)
        size, k_hat = 1.0 / float(weights @ weights), pareto_shape(weights)
    return Info(
        mean_risk=surrogate.mean,
        kl=seen.kl,
        objective=seen.objective,
        alpha=descent.alpha,
        step_kl=descent.posterior.kl(seen.posterior),
        predicted=descent.predicted,
        r_squared=surrogate.r_squared,
        effective_size=size,
        k_hat=k_hat,
        loo_error=surrogate.loo_error,
        shortfall=np.nan if trial is None else trial.shortfall,
        ratio=np.nan if trial is None else trial.ratio,
        wrong=np.nan if emulator is None else emulator.wrong,
        failure_chance=np.nan if emulator is None else emulator.chance(descent.posterior),
        notes=tuple(notes),
    )


_REJECTED = "a step made things worse than predicted and was taken back"


def _nothing_learnt(note: str) -> Info:
    return Info(np.nan, np.nan, np.nan, notes=(note,))
