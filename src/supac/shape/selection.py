"""The choice between the search's own posterior and mixtures fitted to particles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from supac.arrays import FloatArray
from supac.families import Distribution
from supac.problem import Function
from supac.problem.bounds import Bound, worth_of_a_nat
from supac.shape.mixtures import fit_mixture
from supac.shape.particles import Particles

MOST_PARAMETERS = 40
"""Number of parameters up to which a posterior may have any shape."""
COUNTS = (2, 3, 4, 6, 8, 12, 16)
"""Numbers of components that are tried."""
_LEAST_GAIN = 0.1  # nats, for which a mixture is worth its place
_PARTICLES_EACH = 3  # for each number that describes a component
_DRAWS = 4_000


@dataclass(frozen=True, eq=False)
class Shape:
    """Hold the posterior with the lowest predicted bound."""

    posterior: Distribution
    predicted: float
    """Its bound, with the modelled risk."""
    gain: float
    """Nats by which it is lower than that of the search's own posterior; 0 for that one."""


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A posterior, with the modelled risk and the log-ratio to the prior of its draws."""

    posterior: Distribution
    risk: FloatArray
    log_ratio: FloatArray

    def bound(self, bound: Bound) -> float:
        """Predict the bound."""
        return bound(float(self.risk.mean()), max(float(self.log_ratio.mean()), 0.0))

    def error(self, nat: float) -> float:
        """Return the standard error of the predicted bound, in nats."""
        nats = self.risk / nat + self.log_ratio
        return float(nats.std() / np.sqrt(len(nats)))


def choose_shape(
    own: Distribution,
    particles: Particles,
    risk: Function,
    prior: Distribution,
    bound: Bound,
    rng: np.random.Generator,
    counts: Sequence[int] = COUNTS,
) -> Shape:
    """Return the search's own posterior, or the mixture whose predicted bound is clearly lower."""
    first = _candidate(own, risk, prior, rng)
    nat = worth_of_a_nat(bound, float(first.risk.mean()), float(first.log_ratio.mean()))
    as_it_is = Shape(own, first.bound(bound), 0.0)
    # No posterior at all has a lower bound than the minimiser that the particles are drawn from.
    least = bound(particles.mean_risk, particles.kl)
    if not (as_it_is.predicted - least) / nat > _LEAST_GAIN:
        return as_it_is
    n, dim = particles.x.shape
    most = max(n // (_PARTICLES_EACH * (1 + dim + dim * (dim + 1) // 2)), 1)
    tried = [fit_mixture(particles.x, k, rng) for k in (1, *counts) if k <= most]
    candidates = [_candidate(each, risk, prior, rng) for each in tried]
    best = min(candidates, key=lambda each: each.bound(bound))
    gain = (first.bound(bound) - best.bound(bound)) / nat
    doubt = 2.0 * np.hypot(first.error(nat), best.error(nat))
    if not gain > max(_LEAST_GAIN, doubt):
        return as_it_is
    return Shape(best.posterior, best.bound(bound), gain)


def _candidate(
    posterior: Distribution, risk: Function, prior: Distribution, rng: np.random.Generator
) -> _Candidate:
    x = posterior.sample(_DRAWS, rng)
    return _Candidate(posterior, risk(x), posterior.log_prob(x) - prior.log_prob(x))
