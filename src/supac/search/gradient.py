"""The paper's baselines: gradient descent and Nesterov's acceleration on the bound itself."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from supac.arrays import FloatArray, positive
from supac.codec import register
from supac.families import Distribution, Family
from supac.problem import Problem
from supac.problem.bounds import slopes
from supac.search.algorithm import PROJECT, Info, State, initial_state
from supac.surrogate import view_prior


@register
@dataclass(frozen=True)
class GradientDescent:
    """Steps of `step_size` against a score-function gradient from `batch` fresh draws."""

    step_size: float = 0.05
    batch: int = 160

    def __post_init__(self) -> None:
        _check(self.step_size, self.batch)

    def init(self, problem: Problem, seed: int) -> State:
        """The state before the first batch."""
        return _start(problem, seed)

    def ask(self, problem: Problem, state: State) -> FloatArray:
        """Independent draws of the current posterior: (batch, dim)."""
        return state.draw(self.batch)

    def tell(
        self,
        problem: Problem,
        state: State,
        x: FloatArray,
        risk: FloatArray,
        outputs: FloatArray | None = None,
    ) -> tuple[State, Info]:
        """One step in the family's chart."""
        return _descend(problem, state, x, risk, self.step_size, momentum=0.0)


@register
@dataclass(frozen=True)
class Nesterov:
    """Gradient descent with Nesterov's momentum; the posterior is the look-ahead point."""

    step_size: float = 0.05
    batch: int = 160
    momentum: float = 0.9

    def __post_init__(self) -> None:
        _check(self.step_size, self.batch)
        if not 0.0 <= self.momentum < 1.0:
            raise ValueError(f"momentum must be in [0, 1), not {self.momentum!r}")

    def init(self, problem: Problem, seed: int) -> State:
        """The state before the first batch."""
        return _start(problem, seed)

    def ask(self, problem: Problem, state: State) -> FloatArray:
        """Independent draws of the look-ahead point: (batch, dim)."""
        return state.draw(self.batch)

    def tell(
        self,
        problem: Problem,
        state: State,
        x: FloatArray,
        risk: FloatArray,
        outputs: FloatArray | None = None,
    ) -> tuple[State, Info]:
        """One accelerated step in the family's chart."""
        return _descend(problem, state, x, risk, self.step_size, self.momentum)


def _check(step_size: float, batch: int) -> None:
    positive(step_size, "step_size")
    if batch < 2:
        raise ValueError(f"batch must be at least 2 to estimate a gradient, not {batch!r}")


def _start(problem: Problem, seed: int) -> State:
    if problem.proxy is not None:
        raise ValueError("gradient descent has no use for a proxy; leave it out, or use SuPAC")
    if not isinstance(problem.start.family, Family):
        raise TypeError(
            f"gradient descent needs an exponential family, not {problem.start.family}; use SuPAC"
        )
    return initial_state(problem, seed)


def _descend(
    problem: Problem,
    state: State,
    x: FloatArray,
    risk: FloatArray,
    step_size: float,
    momentum: float,
) -> tuple[State, Info]:
    """v ← μv − ε∇, look-ahead φ ← φ + μv − ε∇, halved until it stays in Θ."""
    evaluations = state.told(x, risk)
    batch = evaluations.usable(problem.failure_risk)
    fresh = batch.iteration == state.iteration
    told = replace(state, evaluations=evaluations)
    if fresh.sum() < 2:
        return told, Info(
            np.nan, np.nan, np.nan, notes=("fewer than two runs of the batch are left",)
        )
    posterior, family = state.posterior, state.posterior.exponential
    prior = view_prior(problem.prior, posterior, state.rng(PROJECT))
    mean_risk, kl = float(batch.risk[fresh].mean()), prior.kl(posterior.theta)
    by_risk, by_kl = slopes(problem.bound, mean_risk, kl)
    eta = score_projection(batch.x[fresh], batch.risk[fresh], posterior)
    # Theorem 1 and Lemma 1: ∇π[R] = I(θ)η and ∇KL = I(θ)(θ − θ_p).
    natural = by_risk * eta + by_kl * (posterior.theta - prior.theta)
    # φ is kept, not recomputed from θ: of the many roots of one covariance, momentum knows one.
    phi = state.memory.get("phi", family.coordinates(posterior.theta))
    gradient = family.pull_back(phi, family.fisher(posterior.theta) @ natural)
    velocity = momentum * state.memory.get("velocity", np.zeros_like(phi)) - step_size * gradient
    move = momentum * velocity - step_size * gradient
    alpha = 1.0
    while alpha > 1e-12 and not _inside(posterior, phi + alpha * move):
        alpha *= 0.5
    if not _inside(posterior, phi + alpha * move):
        return told, Info(mean_risk, kl, problem.bound(mean_risk, kl), notes=(_NO_STEP,))
    phi = phi + alpha * move
    new = posterior.at(family.from_coordinates(phi))
    notes = (
        () if alpha == 1.0 else (f"the step left the family's domain: cut to {alpha:.2g} of it",)
    )
    info = Info(
        mean_risk=mean_risk,
        kl=kl,
        objective=problem.bound(mean_risk, kl),
        alpha=alpha,
        step_kl=new.kl(posterior),
        effective_size=float(fresh.sum()),
        notes=notes,
    )
    memory = {"phi": phi, "velocity": alpha * velocity} if momentum else {}
    return replace(told, posterior=new, memory=memory), info


_NO_STEP = "no share of the gradient step stays in the family's domain: no step was made"


def score_projection(x: FloatArray, risk: FloatArray, at: Distribution) -> FloatArray:
    """η = V[T]⁻¹ at[(R − mean)(T − at[T])], V exact and the expectation from draws of `at`."""
    whitening = at.whiten()
    return whitening.coefficients(whitening.features(x).T @ (risk - risk.mean()) / len(risk))


def _inside(current: Distribution, phi: FloatArray) -> bool:
    try:
        return current.family.contains(current.exponential.from_coordinates(phi))
    except (ValueError, np.linalg.LinAlgError):
        return False
