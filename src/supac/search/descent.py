"""Descent: closed-form updates on the projections of one model of the risk."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supac.arrays import FloatArray
from supac.families import Distribution
from supac.problem import Problem
from supac.search.steps import StepRule
from supac.surrogate import LocalPrior, RiskModel, Surrogate, ray_minimiser, view_prior

INSIDE = 0.97
"""Share of the radius within which a step did not meet the limit of the trust region."""
_SETTLED, _PATIENCE = 0.02, 3  # nats that a few updates must gain to be worth another
_SHORTEST = 1e-4  # share of the way to the minimiser that is not worth trying


@dataclass(frozen=True, eq=False)
class Visit:
    """Hold the surrogate at a posterior, and the minimiser of the bound on it."""

    posterior: Distribution
    kl_from_start: float
    surrogate: Surrogate
    prior: LocalPrior
    target: FloatArray
    kl: float
    objective: float


@dataclass(frozen=True, eq=False)
class SurrogateBound:
    """Bound the modelled risk at any posterior."""

    problem: Problem
    model: RiskModel
    rng: np.random.Generator
    common: int
    """Seed of draws that all visits share, so that their differences have no noise."""

    def at(self, posterior: Distribution, kl_from_start: float) -> Visit:
        """Approximate the risk by its projection, then solve for the minimiser (Algorithm 1)."""
        surrogate = self.model.project(posterior, self.rng)
        common = np.random.default_rng(self.common)
        prior = view_prior(self.problem.prior, posterior, common)
        minimiser = ray_minimiser(self.problem.bound, surrogate, prior)
        target = posterior.family.aim(posterior.theta, minimiser)
        kl = prior.kl(posterior.theta)
        objective = self.problem.bound(surrogate.mean, kl)
        return Visit(posterior, kl_from_start, surrogate, prior, target, kl, objective)


@dataclass(frozen=True, eq=False)
class Descent:
    """Hold the updates of one round."""

    first: Visit
    last: Surrogate
    posterior: Distribution
    predicted: float
    alpha: float
    kl_from_start: float

    @property
    def gain(self) -> float:
        """Return the predicted decrease of the bound."""
        return self.first.objective - self.predicted


def descend(
    bound: SurrogateBound,
    step_rule: StepRule,
    start: Distribution,
    radius: float,
    inner: int,
    resolution: float,
) -> Descent:
    """Make up to `inner` updates on the model's projections, within the radius around `start`."""
    here = bound.at(start, 0.0)
    if inner == 1:
        step = step_rule.move(start, here.target, start, radius)
        theta = step.posterior.theta
        predicted = bound.problem.bound(here.surrogate.mean_under(theta), here.prior.kl(theta))
        return Descent(here, here.surrogate, step.posterior, predicted, step.alpha, step.kl)
    first, share, alpha = here, 1.0, 0.0
    gains: list[float] = []
    for _ in range(inner):
        theta = here.posterior.theta
        target = theta + share * (here.target - theta)
        step = step_rule.move(here.posterior, target, start, radius)
        there = bound.at(step.posterior, step.kl)
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
        if settled or step.kl > INSIDE * radius:
            break
    return Descent(first, here.surrogate, here.posterior, here.objective, alpha, here.kl_from_start)
