"""Descent: the updates of the posterior on one model of the risk."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from supac.arrays import FloatArray
from supac.families import Distribution
from supac.problem import Problem
from supac.search.ray import LocalPrior, ray_minimiser, view_prior
from supac.search.trust import StepRule
from supac.search.tuning import DEFAULT, Tuning
from supac.surrogate.estimator import NOISY, RiskModel, Surrogate
from supac.surrogate.regime import Regime

_UNLIMITED = 1e3  # nats
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
    tuning: Tuning = DEFAULT

    def at(self, posterior: Distribution, kl_from_start: float) -> Visit:
        """Approximate the risk by its projection, then solve for the minimiser (Algorithm 1)."""
        surrogate = self.model.project(posterior, self.rng)
        prior = view_prior(self.problem.prior, posterior, self.common)
        minimiser = ray_minimiser(self.problem.bound, surrogate, prior)
        target = posterior.family.aim(posterior.theta, minimiser)
        kl = prior.kl(posterior.theta)
        objective = self.problem.bound(surrogate.mean, kl)
        return Visit(posterior, kl_from_start, surrogate, prior, target, kl, objective)

    def settle(self, here: Visit, simulated: int | None, little: float) -> Visit:
        """Improve the observation parameters given the others, whose marginal stays as it is.

        What they do is known, so that nothing limits them but the reach of one projection, and no
        run tests what they gain. Stop where a few updates gain less than `little`.
        """
        tuning = self.tuning.descent
        family, share, gains = here.posterior.family.gaussian, 1.0, [np.inf] * tuning.patience
        if simulated is None or family is None:
            return here
        leap = tuning.observed_leap * (family.dim - simulated)
        for _ in range(tuning.observed_updates):
            if share < _SHORTEST or sum(gains[-tuning.patience :]) < little:
                break
            theta = here.posterior.theta
            aim = theta + share * (here.target - theta)
            with np.errstate(all="ignore"):  # far away numbers overflow, and that is an answer
                new = family.with_marginal(simulated, aim, theta)
                there = here
                if new is not None and family.kl(new, theta) < leap:
                    there = self.at(here.posterior.at(new), here.kl_from_start)
            if not here.objective - there.objective > 0.0:
                share *= tuning.back_off**2
                continue
            gains.append(here.objective - there.objective)
            here, share = there, min(2.0 * share, 1.0)
        return here


@dataclass(frozen=True, eq=False)
class Descent:
    """Hold the ends of the updates of one round."""

    first: Visit
    last: Visit
    alpha: float
    """Share of the way to the minimiser of the last update."""
    settled: Visit | None = None
    """The first, with the best observation parameters: that these gain needs no trial."""

    @property
    def gain(self) -> float:
        """Return the predicted decrease of the bound that runs are to confirm."""
        return (self.settled or self.first).objective - self.last.objective


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
        # The paper's single update: the surrogate of the start predicts its end.
        there = replace(here, posterior=step.posterior, kl_from_start=step.kl, objective=predicted)
        return Descent(here, there, step.alpha)
    first, share, alpha, tuning = here, 1.0, 0.0, bound.tuning.descent
    gains: list[float] = []
    little = tuning.little * Regime.excess(start.dim) * resolution
    simulated = step_rule.simulated
    here = settled = bound.settle(here, simulated, little)
    for _ in range(inner):
        theta = here.posterior.theta
        target = theta + share * (here.target - theta)
        step = step_rule.move(here.posterior, target, start, radius)
        there = bound.at(step.posterior, step.kl)
        gain = here.objective - there.objective
        if not gain > 0.0:
            # Too far: the projection is only valid around where it was made.
            share *= tuning.back_off * step.alpha
            if share < _SHORTEST:
                break
            continue
        gains.append(gain)
        here, alpha, share = there, step.alpha * share, min(2.0 * share, 1.0)
        # Short steps gain little wherever they are: only half of the way or more tells the end.
        enough = share == 1.0 and len(gains) >= tuning.patience
        if enough and sum(gains[-tuning.patience :]) < little:
            break
        if step.kl > bound.tuning.placement.inside * radius:
            break
    return Descent(first, bound.settle(here, simulated, little), alpha, settled)


def minimum_ahead(
    bound: SurrogateBound, step_rule: StepRule, end: Distribution, inner: int, resolution: float
) -> FloatArray | None:
    """Return the mean where the model sees the minimum beyond the trust region: (dim,).

    None if nothing is to be gained there, if that is farther away than draws of the start ever are,
    or if one run would not tell: of a noisy simulator, or of the risk alone.
    """
    if bound.model.noise > NOISY or bound.problem.loss is None:
        return None
    tuning = bound.tuning.placement
    with np.errstate(all="ignore"):  # far away numbers overflow, and nothing is gained there
        descent = descend(bound, step_rule, end, _UNLIMITED, inner, resolution)
    mean = descent.last.posterior.mean
    distance = float(np.linalg.norm(bound.problem.start.whiten().points(mean[None])))
    near = distance < np.sqrt(end.dim) + tuning.ahead_beyond
    return mean if near and descent.gain > tuning.ahead_gain * resolution else None
