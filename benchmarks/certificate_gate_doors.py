"""Doors of the gate, opened: certificates that would be given if an abuse were not noticed.

Each function takes a seed and returns two truth values: whether the certificate by bets was
violated with the door open, and as supac gives it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np

import supac
from certificate_laws import DELTA, Regression, autoregressive_noise, gaussian_noise
from supac.arrays import BoolArray, FloatArray
from supac.guarantee.basis import Bets
from supac.guarantee.ensemble import PASSED
from supac.guarantee.provenance import Provenance
from supac.guarantee.stakes import held_out_limit, mixture_limit

SETS = 20
SHARE = DELTA * PASSED * Provenance().share
_MANY = 400


def _limit(bets: Bets, ratio: FloatArray) -> float:
    return mixture_limit(bets.losses, bets.exponents, ratio, SHARE)


@cache
def _line() -> Regression:
    return Regression(n=_MANY, dim=2, noise=gaussian_noise(0.7), cap=1.5)


def _sets(
    law: Regression, a: FloatArray, y: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Draw sets from the posterior of these rows: points, and log density ratios."""
    posterior, prior = law.posterior(a, y)
    x = posterior.sample(SETS, rng)
    return x, posterior.log_prob(x) - prior.log_prob(x)


def _losses(law: Regression, a: FloatArray, y: FloatArray, x: FloatArray) -> Bets:
    losses = np.minimum(((y - x @ a.T) / law.cap) ** 2, 1.0)
    return Bets(losses, np.ones(len(y)))


def _honest(law: Regression, seed: int) -> bool:
    rng = np.random.default_rng([seed, 8])
    a, y = law.data(rng)
    x, ratio = _sets(law, a, y, rng)
    return _limit(_losses(law, a, y, x), ratio) < law.true_risk(x).mean()


def _worst(law: Regression, a: FloatArray, y: FloatArray, share: float) -> BoolArray:
    """Return True for the rows that a first fit, at the truth, is farthest from."""
    far = np.abs(y - a @ np.full(law.dim, law.truth))
    return np.asarray(far > np.quantile(far, 1.0 - share))


def rows_removed(seed: int) -> tuple[bool, bool]:
    """Drop the worst 30 % of the rows after a first result."""
    law, rng = _line(), np.random.default_rng([seed, 8])
    a, y = law.data(rng)
    kept = ~_worst(law, a, y, 0.3)
    x, ratio = _sets(law, a[kept], y[kept], rng)
    opened = _limit(_losses(law, a[kept], y[kept], x), ratio) < law.true_risk(x).mean()
    return bool(opened), _honest(law, seed)


def noise_raised(seed: int) -> tuple[bool, bool]:
    """Raise the noise of the worst 30 % of the rows five times; the truth has the old noise."""
    law, rng = _line(), np.random.default_rng([seed, 8])
    a, y = law.data(rng)
    noise = np.where(_worst(law, a, y, 0.3), 5.0, 1.0)
    x, ratio = _sets(law, a / noise[:, None], y / noise, rng)
    opened = _limit(_losses(law, a / noise[:, None], y / noise, x), ratio)
    return bool(opened < law.true_risk(x).mean()), _honest(law, seed)


@cache
def _days() -> Regression:
    labels = np.repeat(np.arange(10.0), 200)
    noise = autoregressive_noise(0.99, sd=1.0)
    return Regression(n=len(labels), dim=1, noise=noise, cap=1.0, blocks=labels, precision=0.005)


def blocks_removed(seed: int) -> tuple[bool, bool]:
    """Take the blocks of 200 dependent rows away after a result."""
    law, rng = _days(), np.random.default_rng([seed, 8])
    case = law.case(rng, SETS)
    assert case.bets is not None
    a, y = law.data(np.random.default_rng([seed, 8]))
    every = _losses(law, a, y, case.x)
    truth = case.true_risk.mean()
    opened = _limit(every, case.log_ratio)
    return bool(opened < truth), bool(_limit(case.bets, case.log_ratio) < truth)


@cache
def _many() -> Regression:
    return Regression(n=60, dim=25, noise=gaussian_noise(0.7), cap=1.5, precision=50.0)


def held_out_seen(seed: int) -> tuple[bool, bool]:
    """Hold out rows that an earlier search has seen, and from which the new one begins."""
    law, rng, share = _many(), np.random.default_rng([seed, 8]), DELTA * Provenance().share
    a, y = law.data(rng)
    test, found = np.arange(60) % 2 == 1, []
    for rows in (np.ones(60, dtype=bool), ~test):
        x, _ = _sets(law, a[rows], y[rows], rng)
        losses = _losses(law, a[test], y[test], x).losses.mean(axis=0)
        limit = held_out_limit(losses, np.ones(len(losses)), share)
        found.append(bool(limit < law.true_risk(x).mean()))
    return found[0], found[1]


def prior_of_the_data(seed: int) -> tuple[bool, bool]:
    """Learn the prior on all rows but one: through a table, a shift of 1e-12, or other tasks."""
    law, rng = _many(), np.random.default_rng([seed, 8])
    a, y = law.data(rng)
    found = []
    for rows in (slice(0, 59), slice(0, 0)):
        prior = supac.gaussian(np.zeros(law.dim), law.prior_sd**2 * np.eye(law.dim))
        if rows.stop:
            prior = law.posterior(a[rows], y[rows])[0]
        posterior = law.posterior(a, y)[0]
        x = posterior.sample(SETS, rng)
        ratio = posterior.log_prob(x) - prior.log_prob(x)
        limit = _limit(_losses(law, a, y, x), ratio)
        found.append(bool(limit < law.true_risk(x).mean()))
    return found[0], found[1]


def repeated_normals(seed: int) -> tuple[bool, bool]:
    """Fit the posterior to the very normals that validate it, from which the best fit follows."""
    law, rng = replace(_many(), precision=1.0), np.random.default_rng([seed, 8])
    a, y = law.data(rng)
    fit = np.linalg.lstsq(a, y, rcond=None)[0]
    prior = supac.gaussian(np.zeros(law.dim), np.eye(law.dim))
    normals, found = rng.standard_normal(law.dim), []
    for fresh in (normals, rng.standard_normal(law.dim)):
        # Wide, but where it sends these normals is the best fit: nothing seems to be learnt.
        posterior = supac.gaussian(fit - 3.0 * normals, 9.0 * np.eye(law.dim))
        x = (posterior.mean + 3.0 * fresh)[None]
        ratio = posterior.log_prob(x) - prior.log_prob(x)
        limit = _limit(_losses(law, a, y, x), ratio)
        found.append(bool(limit < law.true_risk(x)[0]))
    return found[0], found[1]


def duplicated_rows(seed: int) -> tuple[bool, bool]:
    """Have each of 20 rows ten times, as tables that were joined twice do."""
    law, rng = replace(_line(), n=20, precision=2.0), np.random.default_rng([seed, 8])
    a, y = law.data(rng)
    x, ratio = _sets(law, np.repeat(a, 10, axis=0), np.repeat(y, 10), rng)
    truth, once = law.true_risk(x).mean(), _losses(law, a, y, x)
    ten = Bets(np.repeat(once.losses, 10, axis=1), np.ones(200))
    return bool(_limit(ten, ratio) < truth), bool(_limit(once, ratio) < truth)


DOORS: dict[str, Callable[[int], tuple[bool, bool]]] = {
    "the worst 30 % of the rows removed after a result": rows_removed,
    "their noise raised after a result": noise_raised,
    "blocks taken away after a result": blocks_removed,
    "rows held out that a search has seen": held_out_seen,
    "a prior learnt on all rows but one": prior_of_the_data,
    "fresh sets from normals that the posterior was fitted to": repeated_normals,
    "each row ten times (said, not refused)": duplicated_rows,
}
