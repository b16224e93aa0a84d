"""The meta-step: compute a better prior from the posteriors of the tasks.

The prior of a task with features φ is the member θ_p = A·φ of the family; without features φ = 1
and A is θ_p itself. At fixed posteriors θ̂_i the meta-objective is Σ_i λ_i KL(θ̂_i, Aφ_i) plus terms
independent of A, λ_i the slope of the task's bound in KL. It is convex in A, with gradient

    Σ_i λ_i (∇g(Aφ_i) − ∇g(θ̂_i)) φ_iᵀ.

The derivative of θ̂_i does not enter, since θ̂_i minimises its bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from supac.arrays import BoolArray, FloatArray, positive, whole
from supac.codec import register
from supac.families import Family

_NEWTON, _ENOUGH = 50, 1e-12
_HALVINGS = 60
_TRIALS = 60  # of bisection, to the last bit
_COLUMNS = ("features", "posteriors", "priors", "weights", "recent")


@dataclass(frozen=True, eq=False)
class Lesson:
    """Posteriors of the tasks, with features, priors and weights."""

    family: Family
    features: FloatArray
    """φ_i: (n, k), all 1 if tasks have none."""
    posteriors: FloatArray
    """θ̂_i: (n, size)."""
    priors: FloatArray
    """Prior for which each was optimised: (n, size)."""
    weights: FloatArray
    """λ_i: (n,)."""
    recent: BoolArray
    """True for tasks optimised for the current prior: (n,)."""
    origin: FloatArray
    """θ_0, the prior before learning: (size,)."""

    @property
    def rows(self) -> Iterator[tuple[float, FloatArray, FloatArray]]:
        """Weight, posterior and features of each task."""
        return zip(self.weights, self.posteriors, self.features, strict=True)

    @property
    def latest(self) -> Lesson:
        """Tasks optimised for the current prior."""
        rows: dict[str, Any] = {name: getattr(self, name)[self.recent] for name in _COLUMNS}
        return replace(self, **rows)

    def followed(self, prior: FloatArray) -> Lesson:
        """Return the posteriors on their surrogates under another prior: Aφ_i − η_i/λ_i."""
        moved = np.array([prior_of(prior, phi) for phi in self.features]) - self.priors
        return replace(self, posteriors=self.posteriors + moved)

    def kl_to(self, other: Lesson) -> float:
        """Compute the mean KL(other's posterior, own) over tasks; infinite outside Θ."""
        with np.errstate(all="ignore"):  # far outside Θ numbers overflow, and that is an answer
            pairs = zip(other.posteriors, self.posteriors, strict=True)
            return float(np.mean([self.family.kl(theta, own) for theta, own in pairs]))

    def with_pseudo_tasks(self, count: float) -> Lesson:
        """Add `count` tasks with posterior θ_0, spread over the features of the tasks."""
        if not count:
            return self
        extra = np.full(len(self.weights), count * self.weights.mean() / len(self.weights))
        added: dict[str, Any] = {name: getattr(self, name) for name in _COLUMNS}
        added |= {"posteriors": np.tile(self.origin, (len(extra), 1)), "weights": extra}
        both: dict[str, Any] = {
            name: np.concatenate([getattr(self, name), new]) for name, new in added.items()
        }
        return replace(self, **both)


class MetaStep(Protocol):
    """Protocol of meta-steps."""

    def move(self, prior: FloatArray, lesson: Lesson) -> FloatArray:
        """Return A (size, k) after the step."""


def prior_of(prior: FloatArray, features: FloatArray) -> FloatArray:
    """Compute θ_p = A·φ, exactly A without features: (size,)."""
    return prior[:, 0] * features[0] if len(features) == 1 else prior @ features


def meta_gradient(prior: FloatArray, lesson: Lesson) -> FloatArray:
    """Compute ∂/∂A of the mean over tasks: (size, k)."""
    g = lesson.family.mean_statistics
    # The paper prints the opposite sign; finite differences of the objective give this one.
    rows = [
        weight * np.outer(g(prior_of(prior, phi)) - g(theta), phi)
        for weight, theta, phi in lesson.rows
    ]
    return np.sum(rows, axis=0) / len(rows)


def best_prior(prior: FloatArray, lesson: Lesson) -> FloatArray:
    """Compute the minimiser in A at fixed posteriors: (size, k).

    Without features ∇g(θ_p) = Σλ_i∇g(θ̂_i)/Σλ_i, moment matching. With features it is a regression
    with the family's canonical link, solved from `prior` on by Newton's method.
    """
    family, weights = lesson.family, lesson.weights / lesson.weights.sum()
    if lesson.features.shape[1] == 1 and (lesson.features == 1.0).all():
        means = np.array([family.mean_statistics(theta) for theta in lesson.posteriors])
        return family.from_mean_statistics(weights @ means)[:, None]
    scaled = replace(lesson, weights=weights * len(weights))
    for _ in range(_NEWTON):
        slope = meta_gradient(prior, scaled)
        direction = -_newton(prior, lesson.features, weights, family, slope)
        decrease = -float(np.vdot(slope, direction))
        if decrease < _ENOUGH:
            break
        prior = _descended(prior, direction, decrease, scaled)
    return prior


def _newton(
    prior: FloatArray, features: FloatArray, weights: FloatArray, family: Family, slope: FloatArray
) -> FloatArray:
    """Compute H⁻¹·slope, H = Σ w_i I(Aφ_i) ⊗ φ_iφ_iᵀ: (size, k)."""
    size, k = prior.shape
    hessian = np.zeros((size, k, size, k))
    for weight, phi in zip(weights, features, strict=True):
        fisher = family.fisher(prior_of(prior, phi))
        hessian += weight * np.einsum("ab,i,j->aibj", fisher, phi, phi)
    matrix = hessian.reshape(size * k, size * k)
    # Features with few distinct values make H singular.
    matrix[np.diag_indices(len(matrix))] *= 1.0 + 1e-9
    return np.asarray(cho_solve(cho_factor(matrix), slope.ravel())).reshape(size, k)


def _misfit(prior: FloatArray, lesson: Lesson) -> float:
    """Compute the mean of λ_i KL(θ̂_i, Aφ_i); infinite outside Θ."""
    kl = lesson.family.kl
    terms = [weight * kl(theta, prior_of(prior, phi)) for weight, theta, phi in lesson.rows]
    value = float(np.mean(terms))
    return value if np.isfinite(value) else np.inf


def _descended(
    prior: FloatArray, direction: FloatArray, decrease: float, lesson: Lesson
) -> FloatArray:
    """Make a step along a direction, halved until it is inside Θ and lowers the misfit."""
    before, share = _misfit(prior, lesson), 1.0
    for _ in range(_HALVINGS):
        new = prior + share * direction
        with np.errstate(all="ignore"):  # far outside Θ numbers overflow, and that is an answer
            after = _misfit(new, lesson)
        if after <= before - 1e-4 * share * decrease:
            return new
        share *= 0.5
    return prior


def limited(prior: FloatArray, target: FloatArray, lesson: Lesson, kl_max: float) -> FloatArray:
    """Move towards `target` until the prior of a task has moved by `kl_max`.

    KL(new, old) of each task grows on the way, and is infinite outside Θ.
    """
    family, features = lesson.family, np.unique(lesson.features, axis=0)

    def allowed(share: float) -> bool:
        new = prior + share * (target - prior)
        with np.errstate(all="ignore"):
            moved = [family.kl(prior_of(new, p), prior_of(prior, p)) for p in features]
        return bool(np.max(moved) <= kl_max)  # NaN, far outside Θ, is not

    if allowed(1.0):
        return target
    low, high = 0.0, 1.0
    for _ in range(_TRIALS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if allowed(middle) else (low, middle)
    return prior + low * (target - prior)


@register
@dataclass(frozen=True)
class ClosedForm:
    """The best prior in closed form, the posteriors following it on their surrogates.

    Moment matching gives the best prior at fixed posteriors. Alternating it with new posteriors is
    slow, like expectation maximisation, if these stay close to the prior. But the optimum of a task
    also gives its surrogate η_i = λ_i(θ_p − θ̂_i), on which the posterior for any other prior θ is
    θ − η_i/λ_i. So both are alternated on the surrogates, without a query, until the posteriors
    have moved by `kl_max` nats on average, or `iterations` times; 1 is moment matching alone. There
    is no step size. With Catoni's bound and ν = 0 the objective on the surrogates falls each time;
    for bounds without a temperature λ_i is that of the last posterior, and this is approximate.

    `pseudo_tasks` ν regularises: it adds ν tasks whose posterior is the first prior, that is
    ∇g(θ_p) = (Σλ_i∇g(θ̂_i) + νλ̄∇g(θ_0))/(Σλ_i + νλ̄). With n tasks the covariance of a Gaussian
    prior then keeps at least the share ν/(n + ν) of the first, in every direction.
    """

    pseudo_tasks: float = 0.03
    kl_max: float = 4.0
    iterations: int = 200

    def __post_init__(self) -> None:
        if not 0.0 <= self.pseudo_tasks < np.inf:
            raise ValueError(f"pseudo_tasks must be 0 or more, not {self.pseudo_tasks!r}")
        positive(self.kl_max, "kl_max")
        whole(self.iterations, "iterations", least=1)

    def move(self, prior: FloatArray, lesson: Lesson) -> FloatArray:
        """Return A after the alternation, from the latest posteriors of all tasks."""
        new = best_prior(prior, lesson.with_pseudo_tasks(self.pseudo_tasks))
        for _ in range(self.iterations - 1):
            followed = lesson.followed(new)
            if not lesson.kl_to(followed) <= self.kl_max:  # infinity and NaN: outside Θ
                break
            last = new
            new = best_prior(last, followed.with_pseudo_tasks(self.pseudo_tasks))
            if np.allclose(new, last, rtol=1e-6, atol=0.0):
                break
        return new


@register
@dataclass(frozen=True)
class GradientStep:
    """The paper's step: A − size·∇M of the tasks just optimised, no prior moving beyond `kl_max`.

    It is not regularised: with few tasks the prior may collapse, which `ClosedForm` prevents.
    """

    size: float
    kl_max: float = 0.2

    def __post_init__(self) -> None:
        positive(self.size, "size")
        positive(self.kl_max, "kl_max")

    def move(self, prior: FloatArray, lesson: Lesson) -> FloatArray:
        """Make one step of stochastic gradient descent."""
        lesson = lesson.latest
        slope = meta_gradient(prior, lesson)
        return limited(prior, prior - self.size * slope, lesson, self.kl_max)
