"""Certificates by bets on the loss of each datum: of ensembles, posteriors and held-out data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.guarantee import ensemble
from supac.guarantee.basis import Bets, basis_of, losses_are_known
from supac.guarantee.betting import posterior_limit
from supac.guarantee.kl_inf import kl_inf_inverse, log_regret
from supac.guarantee.provenance import Provenance
from supac.guarantee.stakes import mixture_limit

DELTA, N, WELSCH = 0.05, 24, supac.Welsch()
PRIOR = supac.gaussian(np.zeros(2), np.eye(2))
BOUND = supac.MaurerLangfordSeeger(N, DELTA)
RNG = np.random.default_rng(3)
VALUES = 0.4 + 0.1 * RNG.standard_normal(N)


def simulate(x: FloatArray) -> FloatArray:
    return np.asarray(x[0] + 0.1 * x[1] * np.linspace(-1.0, 1.0, N))


def observed(**options: Any) -> supac.Observations:
    return supac.Observations(("y",), VALUES, np.full(N, 0.1), **options)


def risk(loss: Any = WELSCH, **options: Any) -> supac.Composite:
    return supac.Composite(simulate, loss, observed(**options))


@pytest.fixture(scope="module")
def result() -> supac.Result:
    return supac.minimize(risk(), PRIOR, BOUND, budget=60)


def losses_of(result: supac.Result) -> FloatArray:
    outputs = result.ensemble.outputs
    assert outputs is not None
    return supac.Welsch().each(observed().residuals(outputs))


def test_the_certificate_of_an_ensemble_is_form_m(result: supac.Result) -> None:
    given = result.certificate
    assert given is not None
    ratio = result.ensemble.log_ratio
    expected = mixture_limit(losses_of(result), np.ones(N), ratio, given.delta_pac)
    assert (given.bound, given.n) == ("Betting", N)
    assert given.value == pytest.approx(expected, rel=1e-9)
    assert given.value == given.bounds["Betting"]
    seeger = supac.MaurerLangfordSeeger(N, given.delta_pac)(given.mean_risk, given.kl)
    assert given.bounds["MaurerLangfordSeeger"] == pytest.approx(seeger)
    assert given.value < 0.9 * seeger


def test_many_losses_are_pooled(result: supac.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ensemble, "_SOLVED_IN_A_SECOND", 100)
    given = supac.minimize(risk(), PRIOR, BOUND, budget=60).certificate
    assert given is not None
    assert given.bound == "PooledBetting"
    losses = losses_of(result).ravel()
    nats = (given.kl + log_regret(N) - np.log(given.delta_pac)) / N
    pooled = kl_inf_inverse(losses, np.full(len(losses), 1.0 / len(losses)), nats)
    assert given.value == pytest.approx(pooled)
    assert given.value < given.bounds["MaurerLangfordSeeger"]


def test_the_bound_that_is_minimised_does_not_matter() -> None:
    """The statement is by betting for all of them, those that are no bound included."""
    for bound in (supac.Catoni(0.05), supac.McAllester(N, DELTA), supac.Catoni("auto", N, DELTA)):
        given = supac.minimize(risk(), PRIOR, bound, budget=40).certificate
        assert given is not None
        assert given.bound == "Betting"


def test_a_mean_alone_and_a_sequence_are_certified_by_the_bound() -> None:
    mean = supac.minimize(lambda x: float(np.tanh(x @ x)), PRIOR, BOUND, budget=40).certificate
    assert mean is not None
    assert mean.bound == "MaurerLangfordSeeger"
    sequence, bound = risk(sequential=True), supac.McAllester(N, DELTA)
    assert not losses_are_known(sequence)
    given = supac.minimize(sequence, PRIOR, bound, budget=40).certificate
    assert given is not None
    assert given.bound == "McAllester"
    assert "Betting" not in given.bounds


def bets_of(composite: supac.Composite, n: int | None = None) -> Bets:
    residuals = np.linspace(-3.0, 3.0, 2 * N).reshape(2, N)
    basis = basis_of(composite, supac.Catoni(0.1, ceiling=2.0), n=n)
    bets = basis.bets(composite.loss(residuals), residuals)
    assert bets is not None
    means = basis.means(composite.loss(residuals), residuals) / basis.top
    if composite.data.blocks is None:  # type: ignore[union-attr]
        np.testing.assert_allclose(bets.losses.mean(axis=1), means)
    return bets


def test_blocks_are_bet_on_as_a_whole() -> None:
    labels = np.repeat([4.0, 1.0, 2.0], [12, 8, 4])
    bets = bets_of(risk(blocks=labels))
    each = supac.Welsch().each(np.linspace(-3.0, 3.0, 2 * N).reshape(2, N))
    wanted = [each[:, labels == label].mean(axis=1) for label in (1.0, 2.0, 4.0)]
    np.testing.assert_allclose(bets.losses.T, wanted)
    np.testing.assert_allclose(bets.exponents, 2 * np.array([8, 4, 12]) / 24)
    assert bets.exponents.max() <= 1.0


def test_fewer_stretches_than_data_are_bet_on_datum_by_datum() -> None:
    bets = bets_of(risk(), n=6)
    assert bets.losses.shape == (2, N)
    np.testing.assert_allclose(bets.exponents, 0.25)


def test_bets_on_data_are_never_above_those_on_their_stretches() -> None:
    """So the wealth is valid wherever the stretches begin and end."""
    losses = np.random.default_rng(0).beta(0.5, 2.0, (3, N))
    stretches = losses.reshape(3, 6, 4).mean(axis=2)
    ratio = np.full(3, 2.0)
    data = mixture_limit(losses, np.full(N, 0.25), ratio, DELTA)
    assert data >= mixture_limit(stretches, np.ones(6), ratio, DELTA)


def test_a_root_is_certified_through_the_mean_and_capped_losses_are_shares() -> None:
    bets = bets_of(risk(supac.RootMeanSquare()))
    squares = np.linspace(-3.0, 3.0, 2 * N).reshape(2, N) ** 2
    np.testing.assert_allclose(bets.losses, np.minimum(squares, 4.0) / 4.0)
    bound = supac.MaurerLangfordSeeger(N, DELTA, ceiling=2.0)
    given = supac.minimize(risk(supac.RootMeanSquare()), PRIOR, bound, budget=60).certificate
    assert given is not None
    assert given.bound == "Betting"
    assert given.mean_risk < given.value < given.bounds["MaurerLangfordSeeger"]


def test_failed_runs_have_the_largest_loss() -> None:
    composite = risk()
    basis = basis_of(composite, supac.Catoni(0.1))
    residuals = np.full((2, N), np.nan)
    residuals[0] = 0.5
    bets = basis.bets(np.array([supac.Welsch()(residuals[:1])[0], np.nan]), residuals)
    assert bets is not None
    np.testing.assert_array_equal(bets.losses[1], 1.0)


def test_the_posterior_is_certified_by_the_wealth_over_data_and_draws(
    result: supac.Result,
) -> None:
    given = result.certify(risk(), draws=300)
    assert given.bound == "PooledBetting"
    assert given.without_draws is not None
    assert given.mean_risk < given.without_draws < given.value
    assert given.value < given.bounds["MaurerLangfordSeeger"]
    assert result.certify(risk(), draws=400).value < given.value


@pytest.mark.parametrize("spread", [0.0, 0.2])
def test_the_limit_of_a_posterior_holds_at_every_number_of_draws(spread: float) -> None:
    """The event of the data is given; draws alone fail at most as often as δ.

    The complexity is the largest growth at the true mean over the whole posterior, so that the
    first event holds with equality at one stake.
    """
    rng, delta, repeats, true = np.random.default_rng(1), 0.2, 300, 0.3
    own = np.clip(0.1 + 0.3 * rng.beta(1.0, 3.0, 4_000) * spread / 0.2, 0.0, 1.0)
    every = np.column_stack([own, 0.5 * own, 0.0 * own])
    stakes = np.linspace(0.0, 1.0, 400)[:-1]
    gains = (true - every) / (1.0 - true)
    nats = 3.0 * max(np.log1p(stake * gains).mean() for stake in stakes)
    failed = 0
    for _ in range(repeats):
        drawn = every[rng.integers(0, len(every), 30)]
        failed += posterior_limit(drawn, np.ones(3), nats, delta) < true
    assert failed / repeats <= delta + 3.0 * np.sqrt(delta * (1.0 - delta) / repeats)
    draws = every[:200]
    limits = [posterior_limit(draws[:m], np.ones(3), nats, delta) for m in (5, 20, 80, 200)]
    assert limits == sorted(limits, reverse=True)


def by_seeger(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make certificates as versions did that knew no bets."""
    monkeypatch.setattr("supac.calibration.certify.losses_are_known", lambda risk: False)
    monkeypatch.setattr("supac.guarantee.basis.Basis.bets", lambda *_: None)


def test_a_certificate_that_an_earlier_version_gave_stays_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps its name, its number and its δ; form A is never above it, so both hold together."""
    store = tmp_path / "run.supac"
    with monkeypatch.context() as before:
        by_seeger(before)
        old = supac.minimize(risk(), PRIOR, BOUND, budget=40, store=store)
        posterior = old.certify(risk(), draws=20, store=store)
    assert old.certificate is not None
    assert old.certificate.bound == "MaurerLangfordSeeger"
    assert supac.read_store(store).certificate == old.certificate
    again = supac.resume(store, risk()).certificate
    assert again is not None
    assert (again.bound, again.name) == ("PooledBetting", old.certificate.name)
    assert again.value < old.certificate.value
    assert again.delta_pac == old.certificate.delta_pac
    assert again.bounds["MaurerLangfordSeeger"] == old.certificate.value
    same = supac.read_store(store).result().certify(risk(), draws=20, store=store)
    assert same == posterior
    more = supac.resume(store, risk(), budget=60).certificate
    assert more is not None
    assert (more.bound, more.earlier) == ("Betting", 1)


def test_a_bound_of_your_own_is_certified_by_its_own_theorem() -> None:
    assert not Mine.betting
    given = supac.minimize(risk(), PRIOR, Mine(N, DELTA), budget=40).certificate
    assert given is not None
    assert given.bound == "Mine"


class Mine(supac.McAllester, proof="a test", of_draws=True):
    pass


def test_what_has_seen_the_data_is_refused_with_bets_too(result: supac.Result) -> None:
    learnt = Provenance(prior_is_independent=False)
    with pytest.raises(supac.CertificateError, match="learnt on the same data"):
        supac.certify(result.posterior, PRIOR, risk(), BOUND, draws=5, provenance=learnt)
