"""The certificate of the parameter sets that were drawn to validate a posterior."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import supac
from supac.arrays import FloatArray
from supac.guarantee.basis import Basis, CertificateError, basis_of
from supac.guarantee.certificate import Losses
from supac.guarantee.ensemble import ensemble_certificate
from supac.guarantee.provenance import Provenance
from supac.problem.bounds import Bound

DELTA = 0.05
BOUNDS: dict[str, Callable[[int], Bound]] = {
    "catoni": lambda n: supac.Catoni(0.1, n, DELTA),
    "auto": lambda n: supac.Catoni("auto", n, DELTA),
    "mcallester": lambda n: supac.McAllester(n, DELTA),
    "mls": lambda n: supac.MaurerLangfordSeeger(n, DELTA),
    "tolstikhin": lambda n: supac.TolstikhinSeldin(n, DELTA),
    "thiemann": lambda n: supac.Thiemann(n, DELTA),
}


def equal(n: int, ceiling: float = 1.0) -> Basis:
    return basis_of(None, supac.MaurerLangfordSeeger(n, DELTA, ceiling))


@pytest.mark.parametrize("name", BOUNDS)
def test_ensemble_bound_is_the_bound_at_the_means_of_the_draws(name: str) -> None:
    """Seeger's and the others with the sample's own mean risk and mean log density ratio."""
    risk, ratio = np.array([0.1, 0.2, 0.15]), np.array([2.0, -1.0, 5.0])
    given = ensemble_certificate(
        Losses(risk, equal(200)), ratio, BOUNDS[name](200), delta=DELTA, selection=1.0
    )
    share = DELTA * 0.95  # the rest is for further certificates of the same search
    assert given.delta_pac == pytest.approx(share)
    bounds: dict[str, Bound] = {
        "catoni": supac.Catoni(0.1, 200, share),
        "auto": supac.Catoni("auto", 200, share),
        "mcallester": supac.McAllester(200, share),
        "mls": supac.MaurerLangfordSeeger(200, share),
        "tolstikhin": supac.TolstikhinSeldin(200, share),
        "thiemann": supac.Thiemann(200, share),
    }
    assert given.value == pytest.approx(bounds[name](0.15, 2.0), rel=1e-12)
    assert given.mean_risk_upper == given.mean_risk
    assert "these 3 parameter sets" in str(given)


@pytest.mark.parametrize("draws", [1, 5])
@pytest.mark.parametrize("name", BOUNDS)
def test_ensemble_theorem_holds_for_gibbs_posteriors_over_coins(name: str, draws: int) -> None:
    """500 predictors that guess, each of true risk ½, and posteriors that seek the luckiest.

    The share of violations is at most δ = 0.2, within three standard errors.
    """
    rng, coins, n, delta, repeats = np.random.default_rng(0), 500, 20, 0.2, 1_000
    bound = BOUNDS[name](n)
    violated = 0
    for _ in range(repeats):
        risk = rng.binomial(n, 0.5, coins) / n
        log_weights = -risk * n * rng.choice([0.5, 1.0, 2.0, 8.0])
        log_weights -= logsumexp(log_weights)
        drawn = rng.choice(coins, draws, p=np.exp(log_weights))
        given = ensemble_certificate(
            Losses(risk[drawn], equal(n)),
            log_weights[drawn] + np.log(coins),
            bound,
            delta=delta,
            selection=1.0,
        )
        violated += given.value < 0.5
    assert violated / repeats <= delta + 3.0 * np.sqrt(delta * (1.0 - delta) / repeats)


def test_without_the_log_density_ratio_the_coins_break_it() -> None:
    """The test above can fail: leaving the price of the choice out violates far more often."""
    rng, coins, n = np.random.default_rng(0), 500, 10
    violated = 0
    for _ in range(100):
        risk = rng.binomial(n, 0.5, coins) / n
        best = np.full(3, np.argmin(risk))
        given = ensemble_certificate(
            Losses(risk[best], equal(n)), np.zeros(3), BOUNDS["mls"](n), delta=0.2
        )
        violated += given.value < 0.5
    assert violated > 20


def test_the_three_samples_of_validation_share_delta() -> None:
    from supac.guarantee.ensemble import FIRST, PASSED, SECOND  # noqa: PLC0415

    assert pytest.approx(1.0) == PASSED + FIRST + SECOND


def test_repeated_certificates_share_delta() -> None:
    shares = [Provenance(earlier=k).share for k in range(60)]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1.0)


def test_failed_runs_count_as_the_ceiling() -> None:
    basis = equal(100)
    losses = Losses(basis.means(np.array([0.1, np.nan]), None), basis, 1)
    given = ensemble_certificate(losses, np.ones(2), BOUNDS["mls"](100), delta=DELTA)
    assert given.mean_risk == pytest.approx(0.55)
    assert any("1 of 2 draws failed" in each for each in given.corrections)


@pytest.mark.parametrize(
    ("ratio", "message"),
    [(np.array([np.inf, 0.0]), "prior excludes"), (np.array([]), "at least one fresh draw")],
)
def test_what_has_no_certificate_is_refused(ratio: FloatArray, message: str) -> None:
    losses = Losses(np.full(len(ratio), 0.1), equal(100))
    with pytest.raises(CertificateError, match=message):
        ensemble_certificate(losses, ratio, BOUNDS["mls"](100), delta=DELTA)


class Wide:
    """A density that may be normalised or not."""

    def __init__(self, normalised: bool):
        self.normalised = normalised

    def log_prob(self, x: FloatArray) -> FloatArray:
        return np.asarray(stats.t(5).logpdf(x).sum(axis=1))


def test_an_unnormalised_prior_has_no_certificate() -> None:
    start = supac.gaussian(np.zeros(1), np.eye(1))
    for normalised in (True, False):
        result = supac.minimize(
            lambda x: float(np.tanh(x @ x)), Wide(normalised), BOUNDS["mls"](50), budget=30,
            start=start,
        )  # fmt: skip
        assert (result.certificate is not None) is normalised
        assert ("normalised = True" in result.uncertified) is not normalised
