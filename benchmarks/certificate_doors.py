"""Certificates with one condition broken on purpose, beside the same ones with it kept.

Each function takes a seed and returns two outcomes, of the broken and of the valid certificate:
whether it was violated, or None if it was refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np

import supac
from certificate_laws import (
    DELTA,
    SETS,
    Case,
    Gibbs,
    Regression,
    autoregressive_noise,
    block_noise,
    fixed_catoni,
    outlier_noise,
)
from supac.arrays import FloatArray
from supac.guarantee.basis import CertificateError, basis_of
from supac.guarantee.certificate import Losses
from supac.guarantee.ensemble import ensemble_certificate
from supac.guarantee.provenance import Provenance

Outcome = bool | None
Door = Callable[[int], tuple[Outcome, Outcome]]
SEEGER = "MaurerLangfordSeeger"
REPEATS = 100


def _violated(case: Case, name: str = SEEGER) -> bool:
    """Return whether the certificate of the ensemble is below its mean true risk."""
    values, truth = case.of_ensemble()
    return values[name] < truth


@cache
def _outliers() -> Regression:
    return Regression(dim=1, noise=outlier_noise(0.3, 0.01, 5.0), cap=1.0)


def mean_in_range(seed: int) -> tuple[Outcome, Outcome]:
    """Only the mean of the squares lies in [0, 1], one datum in a hundred may be far above."""
    law, rng = _outliers(), np.random.default_rng(seed)
    a, y = law.data(rng)
    posterior, prior = law.posterior(a, y)
    capped = law.case_of(a, y, posterior, prior, rng, SETS)
    x = posterior.sample(SETS, rng)
    basis = basis_of(None, fixed_catoni(law.n))
    try:
        means = basis.means(((y - x @ a.T) ** 2).mean(axis=1), None)
    except CertificateError:
        return None, _violated(capped)
    variance = 0.99 * 0.3**2 + 0.01 * 5.0**2
    truth = variance + (x[:, 0] - law.truth) ** 2
    ratio = posterior.log_prob(x) - prior.log_prob(x)
    opened = replace(capped, basis=basis, means=means, log_ratio=ratio, true_risk=truth)
    return _violated(opened), _violated(capped)


@cache
def _rare() -> Regression:
    return Regression(
        n=400, dim=1, noise=outlier_noise(0.004, 0.0015, 50.0), cap=1.0, root=True, truth=0.0,
        prior_sd=0.003, precision=1.0,
    )  # fmt: skip


def root_as_mean(seed: int) -> tuple[Outcome, Outcome]:
    """A root mean square is certified as if it were a mean; residuals rarely reach their cap."""
    valid = _rare().case(np.random.default_rng(seed), SETS)
    basis = basis_of(None, fixed_catoni(_rare().n))
    opened = replace(valid, basis=basis, means=np.sqrt(valid.means))
    return _violated(opened), _violated(valid)


@cache
def _half() -> Regression:
    labels = np.concatenate([np.zeros(400), np.repeat(np.arange(1.0, 101.0), 4)])
    noise = block_noise(labels, sd=1.0, shared=1.0)
    return Regression(n=800, dim=1, noise=noise, cap=1.0, blocks=labels, precision=0.05)


def blocks_as_equal(seed: int) -> tuple[Outcome, Outcome]:
    """101 independent blocks, of which one has half of the data, count as 101 equal ones."""
    valid = _half().case(np.random.default_rng(seed), SETS)
    return _violated(replace(valid, basis=basis_of(None, fixed_catoni(101)))), _violated(valid)


@cache
def _slow() -> Regression:
    labels = np.repeat(np.arange(10.0), 1_000)
    noise = autoregressive_noise(0.995, sd=1.0)
    return Regression(n=10_000, dim=1, noise=noise, cap=1.0, blocks=labels, precision=0.002)


def rows_of_a_series(seed: int) -> tuple[Outcome, Outcome]:
    """Rows of a series with ρ = 0.995 count as independent; valid: ten blocks of 1,000 rows."""
    valid = _slow().case(np.random.default_rng(seed), SETS)
    return _violated(replace(valid, basis=basis_of(None, fixed_catoni(10_000)))), _violated(valid)


@cache
def _many() -> Regression:
    return Regression(n=60, dim=40, prior_sd=0.01)


def learnt_prior(seed: int) -> tuple[Outcome, Outcome]:
    """The prior is a fit to the same 60 data, 40 parameters; valid: to 45 of them, tested on 15."""
    law, rng = _many(), np.random.default_rng(seed)
    a, y = law.data(rng)
    opened = law.case_of(a, y, *law.posterior(a, y, _fit(a, y)), rng, SETS)
    fit, a, y = _fit(a[:45], y[:45]), a[45:], y[45:]
    return _violated(opened), _violated(law.case_of(a, y, *law.posterior(a, y, fit), rng, SETS))


def _fit(a: FloatArray, y: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.lstsq(a, y, rcond=None)[0], dtype=np.float64)


def best_of_many(seed: int) -> tuple[Outcome, Outcome]:
    """The smallest of a hundred certificates of single draws, each with the δ of a first one."""
    case = Gibbs(n=30, inverse=0.0, predictors=2_000, coins=True).case(
        np.random.default_rng(seed), REPEATS
    )
    bound = supac.Catoni(1.0 / float(np.sqrt(-8.0 * 30 * np.log(DELTA))), 30, DELTA)
    lowest = [
        min(
            ensemble_certificate(
                Losses(case.means[k : k + 1], case.basis), case.log_ratio[k : k + 1], bound,
                delta=DELTA, selection=1.0, provenance=Provenance(earlier=k if paid else 0),
            ).value
            for k in range(REPEATS)
        )
        for paid in (False, True)
    ]  # fmt: skip
    return lowest[0] < 0.5, lowest[1] < 0.5


def without_ratio(seed: int) -> tuple[Outcome, Outcome]:
    """The log density ratio of the draws is left out; 2,000 predictors that guess."""
    valid = Gibbs(n=30, inverse=8.0, predictors=2_000, coins=True).case(
        np.random.default_rng(seed), SETS
    )
    return _violated(replace(valid, log_ratio=np.zeros(SETS))), _violated(valid)


DOORS: dict[str, tuple[Door, str]] = {
    "only the mean loss in [0, C]": (
        mean_in_range, "each datum is capped; the limit is then on the capped loss",
    ),
    "a root mean square taken for a mean": (
        root_as_mean, "the mean square is certified, and the root taken of the limit",
    ),
    "unequal blocks counted as equal": (blocks_as_equal, "n = 1/max w"),
    "rows of AR(1), ρ = 0.995": (rows_of_a_series, "`blocks` of 1,000 rows; a claim of many "
        "more data than the residuals show is warned of"),
    "a prior learnt on the same data": (learnt_prior, "refused where it is known; learnt on 45 of "
        "the 60, certified with 15"),
    f"the best of {REPEATS} certificates": (
        best_of_many, "together they have δ: 0.95 of it, 0.04, then a fifth each time",
    ),
    "no log density ratio": (without_ratio, "its mean over the draws stands for KL"),
}  # fmt: skip
