"""Particles of prior · exp(−β·risk), the minimiser of a bound over all distributions.

Sequential Monte Carlo (Del Moral, Doucet & Jasra, 2006) goes from a reference r to a target γ by
r^(1 − t) γ^t, t from 0 to 1: reweight, resample, move. Each step is as long as the effective share
of the particles allows, and the mean weights multiply to the ratio of the normalising constants.

A bound without a temperature has its minimiser on the same ray: at the β at which a nat of KL is
worth 1/β of mean risk. There dKL = −β · d(mean risk), so the bound falls along the ray until then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from supac.arrays import FloatArray, IntArray
from supac.families import Distribution, gaussian, mixture
from supac.problem import Function
from supac.problem.bounds import Bound, fixed_temperature, trade_off

_EFFECTIVE = 0.5  # share of the particles that a step has to leave
_MOVES, _LAST_MOVES = 6, 15  # after each step, and after the last one
_HALVINGS = 40
_ACCEPTED = 0.25  # share of local moves that their length aims at
_PACE = 0.8  # change of the log of that length for each unit of acceptance
_LOCAL, _JUMP = 2.38, 1.68  # times 1/√dim: a random walk, and differences of two particles
_JITTER = 1e-3
_WIDER = 1.2  # standard deviations of independent proposals, in those of the particles
_SAME = 1e-3  # relative change of β that ends the ray
_MOST_TEMPERATURES = 30
_BEGIN = 3.0  # standard deviations where particles begin, in those of a posterior
_ROOM = 0.5  # widths, in those of where they began, from which on they begin again
_SAME_WIDTH = 1.2  # ratio of variances by which the new beginning must be wider
_MOST_BEGINNINGS = 5


@dataclass(frozen=True, eq=False)
class Particles:
    """Hold equally weighted points of prior · exp(−β·risk)/Z."""

    x: FloatArray
    """(n, dim)."""
    risk: FloatArray
    """Modelled risks: (n,)."""
    beta: float
    """Inverse temperature."""
    log_evidence: float
    """log Z = log E_prior exp(−β·risk)."""
    error: float
    """Standard error of `log_evidence`, if particles are independent after each step."""

    @property
    def mean_risk(self) -> float:
        """Mean of the modelled risks."""
        return float(self.risk.mean())

    @property
    def kl(self) -> float:
        """KL of the minimiser to the prior, −β · mean risk − log Z."""
        return max(-self.beta * self.mean_risk - self.log_evidence, 0.0)


def sample_minimiser(
    risk: Function,
    prior: Distribution,
    bound: Bound,
    reference: Distribution,
    n: int,
    rng: np.random.Generator,
) -> Particles:
    """Draw n particles of the distribution that minimises bound(π[risk], KL(π, prior)).

    They begin as draws of `reference`, whose mean risk and KL give the first β.
    """
    cloud = _Cloud(risk, prior, reference, n, rng)
    fixed = fixed_temperature(bound)
    if fixed is not None:
        cloud.temper(np.array([1.0, 1.0 / fixed, 0.0]))
    else:
        mean, kl = float(np.median(cloud.risk)), max(reference.divergence(prior, 0).value, 0.0)
        beta = trade_off(bound, mean, kl)
        for _ in range(_MOST_TEMPERATURES):
            cloud.temper(np.array([1.0, beta, 0.0]))
            found = cloud.particles
            beta = trade_off(bound, found.mean_risk, found.kl)
            if abs(beta - found.beta) <= _SAME * found.beta:
                break
    cloud.move(_LAST_MOVES)
    return cloud.particles


def sample_ray(
    risk: Function,
    prior: Distribution,
    reference: Distribution,
    betas: Sequence[float],
    n: int,
    rng: np.random.Generator,
) -> Iterator[Particles]:
    """Yield n particles of prior · exp(−β·risk)/Z for each β in ascending order."""
    cloud = _Cloud(risk, prior, reference, n, rng)
    for beta in betas:
        cloud.temper(np.array([1.0, beta, 0.0]))
        yield cloud.particles


def sample_around(
    risk: Function,
    prior: Distribution,
    bound: Bound,
    posterior: Distribution,
    n: int,
    rng: np.random.Generator,
) -> Particles:
    """Draw n particles of the minimiser, beginning about a posterior, as widely as they need.

    Moves follow a curved ridge slowly: where the particles nearly fill what they began in, they
    begin again about themselves.
    """
    reference = widened(posterior, prior)
    found = sample_minimiser(risk, prior, bound, reference, n, rng)
    for _ in range(_MOST_BEGINNINGS - 1):
        root = _root(found.x)
        if _largest_ratio(root, _root_of(reference.covariance)) < _ROOM:
            break
        again = widened(gaussian(found.x.mean(axis=0), root @ root.T), prior)
        if _largest_ratio(again.covariance, reference.covariance) < _SAME_WIDTH:
            break
        reference = again
        found = sample_minimiser(risk, prior, bound, reference, n, rng)
    return found


def widened(posterior: Distribution, prior: Distribution) -> Distribution:
    """Return a posterior with a larger spread, which is nowhere above that of the prior."""
    family = posterior.family
    log_shares, parts = np.zeros(1), posterior.theta[None]
    if family.mixture is not None:
        log_shares, parts = family.mixture.split(posterior.theta)
        family = family.mixture.base
    components = []
    for theta in parts:
        mean, covariance = family.moments(theta)
        wide = _BEGIN**2 * covariance  # (wide⁻¹ + prior⁻¹)⁻¹, of a singular one, too
        narrower = wide @ np.linalg.solve(wide + prior.covariance, prior.covariance)
        components.append(gaussian(mean, 0.5 * (narrower + narrower.T)))
    return mixture(components, np.exp(log_shares).tolist()) if len(parts) > 1 else components[0]


def _largest_ratio(one: FloatArray, other: FloatArray) -> float:
    """Return the largest singular value of other⁻¹·one: of roots, a ratio of widths."""
    return float(np.linalg.norm(np.linalg.solve(other, one), 2))


class _Cloud:
    """Particles of a density a·log prior − b·risk + c·log reference, on its way to another."""

    def __init__(
        self,
        risk: Function,
        prior: Distribution,
        reference: Distribution,
        n: int,
        rng: np.random.Generator,
    ):
        self._risk, self._prior, self._reference, self._rng = risk, prior, reference, rng
        self.x = reference.sample(n, rng)
        self.logs = self._logs(self.x)
        self.coefficients = np.array([0.0, 0.0, 1.0])
        self.log_evidence, self.variance, self._length = 0.0, 0.0, 1.0

    def _logs(self, x: FloatArray) -> FloatArray:
        """Return log prior, minus the risk, and log reference of points: (n, 3)."""
        values = [self._prior.log_prob(x), -self._risk(x), self._reference.log_prob(x)]
        found = np.column_stack(values)
        found[~np.isfinite(found).all(axis=1)] = -np.inf
        return found

    @property
    def risk(self) -> FloatArray:
        """Modelled risks of the particles."""
        return -self.logs[:, 1]

    @property
    def particles(self) -> Particles:
        """The particles as they are."""
        beta, error = float(self.coefficients[1]), float(np.sqrt(self.variance))
        return Particles(self.x, self.risk, beta, self.log_evidence, error)

    def temper(self, target: FloatArray) -> None:
        """Move the particles to the density with these coefficients."""
        while not np.array_equal(self.coefficients, target):
            ahead = _log_density(self.logs, target - self.coefficients)
            step = _longest_step(ahead)
            log_weights = step * ahead
            weights = np.exp(log_weights - logsumexp(log_weights))
            n = len(weights)
            self.log_evidence += float(logsumexp(log_weights) - np.log(n))
            self.variance += float((weights**2).sum() - 1.0 / n)
            chosen = chosen_by_weight(weights, self._rng)
            self.x, self.logs = self.x[chosen], self.logs[chosen]
            way = target - self.coefficients
            self.coefficients = target.copy() if step == 1.0 else self.coefficients + step * way
            self.move(_MOVES)

    def move(self, times: int) -> None:
        """Move each particle by Metropolis–Hastings steps that leave the density unchanged.

        In turn a random walk, the difference of two other particles, and independent draws of the
        Gaussian with the moments of all.
        """
        rng, (n, dim) = self._rng, self.x.shape
        for k in range(times):
            root = _root(self.x)
            centre = self.x.mean(axis=0)
            z = rng.standard_normal((n, dim))
            correction = np.zeros(n)
            if k % 3 == 0:
                x = self.x + self._length * _LOCAL / np.sqrt(dim) * z @ root.T
            elif k % 3 == 1:
                a, b = rng.permutation(n), rng.permutation(n)
                jump = _JUMP / np.sqrt(dim) * (self.x[a] - self.x[b])
                x = self.x + jump + _JITTER * z @ root.T
            else:
                x = centre + _WIDER * z @ root.T
                back = np.linalg.solve(root, (self.x - centre).T).T / _WIDER
                correction = 0.5 * ((z**2).sum(axis=1) - (back**2).sum(axis=1))
            logs = self._logs(x)
            before = _log_density(self.logs, self.coefficients)
            gain = _log_density(logs, self.coefficients) - before
            accepted = np.log(rng.random(n)) < gain + correction
            self.x = np.where(accepted[:, None], x, self.x)
            self.logs = np.where(accepted[:, None], logs, self.logs)
            if k % 3 == 0:
                self._length *= float(np.exp(_PACE * (accepted.mean() - _ACCEPTED)))


def _log_density(logs: FloatArray, coefficients: FloatArray) -> FloatArray:
    """Return a sum of log-densities with coefficients, −∞ where a part is: (n, 3) → (n,)."""
    finite = np.isfinite(logs[:, 0])
    return np.where(finite, np.where(finite[:, None], logs, 0.0) @ coefficients, -np.inf)


def chosen_by_weight(weights: FloatArray, rng: np.random.Generator) -> IntArray:
    """Choose as many rows as there are, each as often as its weight says (systematically)."""
    n = len(weights)
    places = (rng.random() + np.arange(n)) / n
    return np.searchsorted(np.cumsum(weights)[:-1], places, side="right")


def _longest_step(ahead: FloatArray) -> float:
    """Return the largest t ≤ 1 for which weights exp(t·ahead) leave enough effective particles."""

    def enough(t: float) -> bool:
        w = np.exp(t * ahead - np.max(t * ahead))
        return bool(w.sum() ** 2 >= _EFFECTIVE * len(w) * (w**2).sum())

    if enough(1.0):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if enough(middle) else (low, middle)
    return max(low, 1e-9)


def _root(x: FloatArray) -> FloatArray:
    """Return the Cholesky factor of the covariance of points."""
    covariance = np.atleast_2d(np.cov(x.T))
    return _root_of(covariance)


def _root_of(covariance: FloatArray) -> FloatArray:
    return np.linalg.cholesky(covariance + 1e-12 * np.trace(covariance) * np.eye(len(covariance)))
