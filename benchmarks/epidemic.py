"""An outbreak with six uncertain parameters: a small simulator with a cheaper one beside it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

import supac
from supac.arrays import FloatArray

NAMES = ("transmission", "recovery", "incubation", "first cases", "reported share", "lockdown")
USUAL = np.log([0.6, 0.2, 0.3, 20.0, 0.4, 0.5])
"""Rates a day, persons, share, and what a lockdown after 40 days leaves of the transmission."""
SPREADS = np.array([0.3, 0.3, 0.3, 0.6, 0.4, 0.4])
DAYS, PEOPLE = 98, 100_000.0
MEASURED_TO = 0.01  # the growth rate, a day


def weekly_cases(u: FloatArray, steps: int) -> FloatArray:
    """Cases of 14 weeks at latent points (n, 6) → (n, 14), by so many steps of Heun's rule each."""
    beta, gamma, sigma, infected, share, lockdown = np.exp(USUAL + SPREADS * u).T
    state = np.stack([PEOPLE - infected, 0.0 * infected, infected, 0.0 * infected])
    seen = []
    h = 7.0 / steps
    count = round(DAYS / h)

    def slope(y: FloatArray, day: float) -> FloatArray:
        rate = beta * np.where(day > 40.0, np.minimum(lockdown, 1.0), 1.0)
        new = np.minimum(rate * y[2] / PEOPLE, 1.0 / h) * y[0]  # no more than there are
        return np.stack([-new, new - sigma * y[1], sigma * y[1] - gamma * y[2], sigma * y[1]])

    for i in range(count):
        first = slope(state, i * h)
        second = slope(state + h * first, (i + 1) * h)
        state = np.maximum(state + 0.5 * h * (first + second), 0.0)
        if (i + 1) % round(7.0 / h) == 0:
            seen.append(state[3])
    return share[:, None] * np.diff(np.stack(seen, axis=1), axis=1, prepend=0.0)


def growth_rate(u: FloatArray) -> FloatArray:
    """At which cases first grow, a day: the larger eigenvalue of the linear model."""
    beta, gamma, sigma = np.exp(USUAL + SPREADS * u)[:, :3].T
    root = np.sqrt((sigma - gamma) ** 2 + 4.0 * sigma * beta)
    return np.asarray(0.5 * (root - sigma - gamma))


@dataclass(frozen=True, eq=False)
class Outbreak:
    """Data of one outbreak, and the risk of parameters: saturating, week by week, in [0, 1]."""

    cases: FloatArray
    growth: float
    """A day, as measured in an earlier outbreak of the same virus."""

    @classmethod
    def draw(cls, seed: int) -> Outbreak:
        """Parameters around the usual ones, and noise."""
        rng = np.random.default_rng([seed, 6])
        truth = 0.7 * rng.standard_normal((1, 6))
        cases = weekly_cases(truth, steps=70)[0]
        noisy = cases * np.exp(0.1 * rng.standard_normal(len(cases)))
        return cls(noisy, float(growth_rate(truth)[0] + MEASURED_TO * rng.standard_normal()))

    def risk(self, u: FloatArray, steps: int = 70) -> FloatArray:
        """(n, 6) → (n,)."""
        error = np.log1p(weekly_cases(u, steps)) - np.log1p(self.cases)
        return np.asarray(1.0 - np.exp(-(error**2))).mean(axis=1)

    def proxy(self, u: FloatArray) -> FloatArray:
        """The same with steps of almost two days: seventeen times cheaper, and wrong."""
        return self.risk(u, steps=4)


PRIOR = supac.gaussian(np.zeros(6), np.eye(6))


@dataclass(frozen=True)
class GrowthKnown:
    """The usual prior, and the growth rate that was measured in an earlier outbreak.

    The rate is a curved function of three parameters: no Gaussian has this density.
    """

    rate: float

    def _excess(self, u: FloatArray) -> FloatArray:
        return np.asarray(-0.5 * ((growth_rate(u) - self.rate) / MEASURED_TO) ** 2)

    @cached_property
    def _normaliser(self) -> float:
        return float(np.log(np.exp(self._excess(PRIOR.sample(1_000_000, 0))).mean()))

    def log_prob(self, u: FloatArray) -> FloatArray:
        """(n, 6) → (n,)."""
        return PRIOR.log_prob(u) + self._excess(u) - self._normaliser

    def gaussian(self) -> supac.Distribution:
        """The Gaussian with the same moments."""
        u = PRIOR.sample(200_000, 1)
        weights = np.exp(self._excess(u))
        return supac.gaussian(np.average(u, axis=0, weights=weights), np.cov(u.T, aweights=weights))
