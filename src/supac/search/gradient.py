"""The paper's baselines: gradient descent on the bound itself, plain and with momentum."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from supac.arrays import FloatArray, positive
from supac.codec import register
from supac.families import Distribution
from supac.problem import Batch, Problem
from supac.problem.bounds import slopes
from supac.search.algorithm import PROJECT, Algorithm, Info, Momentum, State, initial_state
from supac.search.ray import view_prior


@register
@dataclass(frozen=True)
class GradientDescent(Algorithm):
    """Step by `step_size` against a score-function gradient from `batch` fresh draws."""

    step_size: float = 0.05
    batch: int = 160

    def __post_init__(self) -> None:
        positive(self.step_size, "step_size")
        if self.batch < 2:
            raise ValueError(f"batch must be at least 2 to estimate a gradient, not {self.batch!r}")
        if not 0.0 <= self._momentum < 1.0:
            raise ValueError(f"momentum must be in [0, 1), not {self._momentum!r}")

    @property
    def _momentum(self) -> float:
        return 0.0

    def _move(self, velocity: FloatArray, gradient: FloatArray) -> FloatArray:
        """Return the move of c from the new velocity: with momentum, that of the look-ahead."""
        return self._momentum * velocity - self.step_size * gradient

    def init(self, problem: Problem, seed: int) -> State:
        """Return the state before the first batch."""
        if problem.proxy is not None:
            raise ValueError("gradient descent has no use for a proxy; leave it out, or use SuPAC")
        family = problem.start.family.exponential
        if family is None:
            raise TypeError(
                f"gradient descent needs an exponential family, not {problem.start.family}; use "
                "SuPAC"
            )
        return initial_state(problem, seed)

    def ask(self, problem: Problem, state: State) -> Batch:
        """Draw independent points of the current posterior."""
        return state.drawn(self.batch)

    def tell(
        self,
        problem: Problem,
        state: State,
        batch: Batch,
        risk: FloatArray,
        outputs: FloatArray | None = None,
    ) -> tuple[State, Info]:
        """Update v ← μv − ε∇, and c by the move of the method, halved until it stays in Θ."""
        step_size, momentum = self.step_size, self._momentum
        evaluations = state.told(batch, risk)
        runs = evaluations.usable(problem.failure_risk)
        fresh = runs.iteration == state.iteration
        told = replace(state, evaluations=evaluations)
        if fresh.sum() < 2:
            return told, Info(notes=("fewer than two runs of the batch are left",))
        posterior, family = state.posterior, state.posterior.exponential
        prior = view_prior(problem.prior, posterior, state.rng(PROJECT))
        mean_risk, kl = float(runs.risk[fresh].mean()), prior.kl(posterior.theta)
        by_risk, by_kl = slopes(problem.bound, mean_risk, kl)
        eta = score_projection(runs.x[fresh], runs.risk[fresh], posterior)
        # Theorem 1 and Lemma 1: ∇π[R] = I(θ)η and ∇KL = I(θ)(θ − θ_p).
        natural = by_risk * eta + by_kl * (posterior.theta - prior.theta)
        # c is kept, not recomputed from θ: of the many roots of one covariance, momentum knows one.
        last = state.momentum
        at = family.coordinates(posterior.theta) if last is None else last.coordinates
        gradient = family.pull_back(at, family.fisher(posterior.theta) @ natural)
        before = np.zeros_like(at) if last is None else last.velocity
        velocity = momentum * before - step_size * gradient
        move = self._move(velocity, gradient)
        alpha = 1.0
        while alpha > 1e-12 and not _inside(posterior, at + alpha * move):
            alpha *= 0.5
        if not _inside(posterior, at + alpha * move):
            return told, Info(mean_risk, kl, problem.bound(mean_risk, kl), notes=(_NO_STEP,))
        at = at + alpha * move
        new = posterior.at(family.from_coordinates(at))
        cut = f"the step left the family's domain: cut to {alpha:.2g} of it"
        info = Info(
            mean_risk=mean_risk,
            kl=kl,
            objective=problem.bound(mean_risk, kl),
            alpha=alpha,
            step_kl=new.kl(posterior),
            effective_size=float(fresh.sum()),
            notes=() if alpha == 1.0 else (cut,),
        )
        kept = Momentum(at, alpha * velocity) if momentum else None
        return replace(told, posterior=new, momentum=kept), info


@register
@dataclass(frozen=True)
class Nesterov(GradientDescent):
    """Accelerate gradient descent with Nesterov's momentum; the posterior is the look-ahead."""

    momentum: float = 0.9

    @property
    def _momentum(self) -> float:
        return self.momentum


@register
@dataclass(frozen=True)
class HeavyBall(GradientDescent):
    """Accelerate gradient descent with Polyak's momentum: gradients are taken where it stands."""

    momentum: float = 0.9

    @property
    def _momentum(self) -> float:
        return self.momentum

    def _move(self, velocity: FloatArray, gradient: FloatArray) -> FloatArray:
        """Return the velocity."""
        return velocity


_NO_STEP = "no share of the gradient step stays in the family's domain: no step was made"


def score_projection(x: FloatArray, risk: FloatArray, at: Distribution) -> FloatArray:
    """Estimate η = V[T]⁻¹ at[(R − mean)(T − at[T])] from draws of `at`, with the exact V."""
    whitening = at.whiten()
    return whitening.coefficients(whitening.features(x).T @ (risk - risk.mean()) / len(risk))


def _inside(current: Distribution, coordinates: FloatArray) -> bool:
    try:
        return current.family.contains(current.exponential.from_coordinates(coordinates))
    except (ValueError, np.linalg.LinAlgError):
        return False
