"""Settings in which forms of certificates are compared: a reaction, and lines with four losses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import stats
from scipy.optimize import brentq
from scipy.special import ndtr

import supac
from supac.arrays import FloatArray, IntArray
from supac.guarantee.ensemble import PASSED
from supac.guarantee.kl_inf import kl_inf, kl_inf_inverse, log_regret
from supac.guarantee.provenance import Provenance
from supac.guarantee.stakes import held_out_limit, mixture_limit
from supac.problem.bounds import kl_inverse

DELTA = 0.05
SHARE = DELTA * PASSED * Provenance().share
"""Share of δ of the first certificate of a search."""
SETS = 20
TEMPERATURES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
Loss = Callable[[FloatArray], FloatArray]
WELSCH, CAPPED = supac.Welsch().each, supac.CappedSquare().each


def wrong(residuals: FloatArray) -> FloatArray:
    """Return 1 for a residual above one noise standard deviation, else 0."""
    return (np.abs(residuals) > 1.0).astype(float)


@dataclass(frozen=True)
class Setting:
    """A simulator with noise of 1, a loss, and the law of the noise as nodes with weights."""

    n: int
    simulate: Callable[[FloatArray, int], FloatArray]
    truth: tuple[float, ...]
    prior_sd: float
    loss: Loss
    draw: Callable[[np.random.Generator, int], FloatArray]
    nodes: FloatArray
    weights: FloatArray

    @cached_property
    def exact(self) -> FloatArray:
        """Return the outputs at the true parameters: (n,)."""
        return self.simulate(np.array([self.truth]), self.n)[0]

    @cached_property
    def _expected(self) -> tuple[FloatArray, FloatArray]:
        """Return errors of a simulation, and the expected loss at each."""
        errors = np.linspace(0.0, 60.0, 3_001)
        return errors, np.array([self.weights @ self.loss(e + self.nodes) for e in errors])

    def true_risk(self, x: FloatArray) -> float:
        """Compute the mean true risk of points (m, dim)."""
        errors = np.abs(self.simulate(x, self.n) - self.exact)
        return float(np.interp(errors, *self._expected).mean())

    def fit(self, y: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Fit by Gauss and Newton's method on some rows; return the point and the information."""
        u, steps = np.array(self.truth), 1e-4 * np.eye(len(self.truth))
        prior = np.eye(len(u)) / self.prior_sd**2
        for _ in range(12):
            f = self.simulate(u[None], self.n)[0]
            slopes = ((self.simulate(u + steps, self.n) - f) / 1e-4).T[rows]
            r = (y - f)[rows]
            weighed = slopes * self._weights_of(r)[:, None] / 9.0
            information = slopes.T @ weighed
            gradient = weighed.T @ r - prior @ u / 50.0
            u = u + np.linalg.solve(information + prior / 50.0, gradient)
        return u, information

    def _weights_of(self, r: FloatArray) -> FloatArray:
        if self.loss is WELSCH:
            return np.asarray(np.exp(-0.5 * (r / 3.0) ** 2))
        return np.asarray((np.abs(r) < 3.0) * 1.0 if self.loss is CAPPED else 1.0 / (1.0 + r**2))


def _reaction(u: FloatArray, n: int) -> FloatArray:
    """Simulate A → B → C in units of the noise, from latent points: (m, 3) → (m, n)."""
    t = np.linspace(0.4, 8.0, n // 2)
    start, first = 0.5 + 4.5 * ndtr(u[:, :1]), 0.5 * np.exp(0.8 * u[:, 1:2])
    second = 0.5 * np.exp(0.8 * u[:, 2:3])
    second = np.where(np.abs(first - second) < 1e-6, second + 1e-5, second)
    a, b = np.exp(-first * t), np.exp(-second * t)
    return np.hstack([start * a, start * first / (second - first) * (a - b)]) / 0.05


def _cubic(u: FloatArray, n: int) -> FloatArray:
    """Evaluate cubic polynomials: (m, 4) → (m, n)."""
    t = np.linspace(-1.0, 1.0, n)
    return np.asarray(u @ np.stack([t**k for k in range(4)]))


_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(120)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_START, _LINE = (-0.4, 0.2, -0.3), (1.0, -0.5, 0.3, 0.8)


def _normal(rng: np.random.Generator, n: int) -> FloatArray:
    return rng.standard_normal(n)


def _outliers(rng: np.random.Generator, n: int) -> FloatArray:
    return np.where(rng.random(n) < 0.03, 20.0, 0.3) * rng.standard_normal(n)


_GRID = stats.norm.ppf((np.arange(2_000) + 0.5) / 2_000)  # for a loss with steps
TIGHT: dict[str, Setting] = {
    **{
        f"starter model, n = {n}": Setting(
            n, _reaction, _START, 1.0, WELSCH, _normal, _NODES, _WEIGHTS
        )
        for n in (24, 100, 1000)
    },
    **{
        f"capped square, n = {n}": Setting(
            n, _cubic, _LINE, 3.0, CAPPED, _normal, _NODES, _WEIGHTS
        )
        for n in (100, 1000)
    },
    **{
        f"near zero with outliers, n = {n}": Setting(
            n, _cubic, _LINE, 3.0, WELSCH, _outliers, np.append(0.3 * _NODES, 20.0 * _NODES),
            np.append(0.97 * _WEIGHTS, 0.03 * _WEIGHTS),
        )
        for n in (100, 1000)
    },
    "0/1 losses, n = 100": Setting(
        100, _cubic, _LINE, 3.0, wrong, _normal, _GRID, np.full(2_000, 1 / 2_000)
    ),
}  # fmt: skip


@dataclass(frozen=True)
class _Candidate:
    """Sets drawn from a posterior."""

    x: FloatArray
    losses: FloatArray
    ratio: FloatArray

    def complexity(self, n: int, log_xi: float) -> float:
        """Return (mean ρ + log ξ/δ)/n."""
        return float((self.ratio.mean() + log_xi - np.log(SHARE)) / n)


def _candidates(law: Setting, y: FloatArray, seed: int) -> list[_Candidate]:
    """Return sets from Gaussians around the fit, of six temperatures."""
    mean, information = law.fit(y, np.arange(law.n))
    prior = supac.gaussian(np.zeros(len(mean)), law.prior_sd**2 * np.eye(len(mean)))
    found = []
    for temperature in TEMPERATURES:
        inverse = temperature * information + np.eye(len(mean)) / law.prior_sd**2
        spread = np.linalg.inv(inverse)
        posterior = supac.gaussian(mean, 0.5 * (spread + spread.T))
        x = posterior.sample(SETS, np.random.default_rng([seed, 1]))
        losses = law.loss(y - law.simulate(x, law.n))
        found.append(_Candidate(x, losses, posterior.log_prob(x) - prior.log_prob(x)))
    return found


def tight(name: str, seed: int) -> list[float]:
    """Certify one data set: true risk, Seeger, A, M, held out by Chernoff and bets, oracle."""
    law = TIGHT[name]
    y, n = law.exact + law.draw(np.random.default_rng(seed), law.n), law.n
    every = _candidates(law, y, seed)
    seegers = [
        kl_inverse(c.losses.mean(), c.complexity(n, float(np.log(2.0 * np.sqrt(n))))) for c in every
    ]
    first = every[int(np.argmin(seegers))]
    pooled = [
        kl_inf_inverse(c.losses.ravel(), np.full(c.losses.size, 1.0 / c.losses.size),
                       c.complexity(n, log_regret(n)))
        for c in every
    ]  # fmt: skip
    best = every[int(np.argmin(pooled))]
    form_m = mixture_limit(best.losses, np.ones(n), best.ratio, SHARE)
    held_out = _held_out(law, y, seed)
    return [law.true_risk(best.x), min(seegers), min(pooled), form_m, *held_out,
            _oracle(law, first)]  # fmt: skip


def _held_out(law: Setting, y: FloatArray, seed: int) -> tuple[float, float]:
    """Fit every other datum, and test on the others."""
    test = np.arange(law.n) % 2 == 1
    mean, information = law.fit(y, np.flatnonzero(~test))
    inverse = 16.0 * information + np.eye(len(mean)) / law.prior_sd**2
    x = supac.gaussian(mean, np.linalg.inv(inverse)).sample(SETS, np.random.default_rng([seed, 2]))
    losses = law.loss(y - law.simulate(x, law.n))[:, test].mean(axis=0)
    share = DELTA * Provenance().share
    chernoff = kl_inverse(losses.mean(), -float(np.log(share)) / len(losses))
    return chernoff, held_out_limit(losses, np.ones(len(losses)), share)


def _oracle(law: Setting, chosen: _Candidate) -> float:
    """Return the limit for known laws of the losses: their KL_inf is what was paid, without ξ."""
    losses = law.loss(law.nodes)
    paid = chosen.complexity(law.n, 0.0)

    def excess(mean: float) -> float:
        return kl_inf(losses, law.weights, mean) - paid

    own = float(law.weights @ losses) + 1e-9
    return float(brentq(excess, own, 1.0 - 1e-6)) if excess(1.0 - 1e-6) > 0.0 else 1.0
