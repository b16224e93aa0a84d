"""Certificates from data that the search has not seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.guarantee.basis import basis_of
from supac.guarantee.certificate import Losses
from supac.guarantee.held_out import held_out_certificate
from supac.guarantee.provenance import Provenance
from supac.guarantee.stakes import held_out_limit
from supac.problem.bounds import binary_kl

TIMES = np.linspace(0.0, 5.0, 40)
PRIOR = supac.Parameters({
    "a": supac.marginals.LogNormal(1.0, 0.5), "k": supac.marginals.LogNormal(1.0, 0.5)
})  # fmt: skip
BOUND = supac.MaurerLangfordSeeger(20, 0.05)


def decay(x: FloatArray) -> FloatArray:
    return np.asarray(x[0] * np.exp(-x[1] * TIMES))


def measured(seed: int = 0, noise: float = 0.1) -> supac.Observations:
    rng = np.random.default_rng(seed)
    values = 2.0 * np.exp(-0.7 * TIMES) + noise * rng.standard_normal(40)
    return supac.Observations(("y",), values, np.full(40, noise))


@pytest.fixture(scope="module")
def result() -> supac.Result:
    train, test = measured().split(np.arange(40) % 2 == 1)
    risk = supac.Composite(decay, supac.Welsch(), train, test)
    return supac.minimize(risk, PRIOR, BOUND, budget=60)


def test_the_search_does_not_see_the_test_part(result: supac.Result) -> None:
    train, _ = measured().split(np.arange(40) % 2 == 1)
    plain = supac.minimize(supac.Composite(decay, supac.Welsch(), train), PRIOR, BOUND, budget=60)
    assert plain.posterior == result.posterior
    assert plain.held_out is None
    assert plain.certificate is not None
    assert result.certificate is not None
    assert plain.certificate.delta == 2.0 * result.certificate.delta == 0.05


def test_the_held_out_certificate_bets_on_the_same_sets(result: supac.Result) -> None:
    _, test = measured().split(np.arange(40) % 2 == 1)
    outputs = result.ensemble.outputs
    assert outputs is not None
    losses = supac.Welsch().each(test.residuals(outputs)).mean(axis=0)
    mean = losses.mean()
    given = result.held_out
    assert given is not None
    assert (given.subject, given.n, given.draws) == ("held-out", 20, result.validated)
    assert given.mean_risk == pytest.approx(mean)
    share = 0.025 * Provenance().share
    assert given.bound == "Betting"
    assert given.value == held_out_limit(losses, np.ones(20), share)
    assert given.value < given.bounds["Chernoff"]
    assert binary_kl(mean, given.bounds["Chernoff"]) == pytest.approx(-np.log(share) / 20)
    assert "on data like the held-out ones" in str(given)
    assert "log density ratio" not in str(given)


def test_it_comes_back_from_a_store(tmp_path: Path) -> None:
    train, test = measured().split(np.arange(40) % 2 == 1)
    risk = supac.Composite(decay, supac.Welsch(), train, test)
    wanted = supac.minimize(risk, PRIOR, BOUND, budget=60, store=tmp_path / "run.supac")
    again = supac.read_store(tmp_path / "run.supac").result()
    assert again.held_out == wanted.held_out
    assert again.certificate == wanted.certificate
    np.testing.assert_array_equal(again.ensemble.x, wanted.ensemble.x)


def test_other_test_data_are_another_search(tmp_path: Path) -> None:
    """Otherwise they could be exchanged until the certificate pleases, each time at full δ."""
    store, (train, test) = tmp_path / "run.supac", measured().split(np.arange(40) % 2 == 1)
    risk = supac.Composite(decay, supac.Welsch(), train, test)
    supac.minimize(risk, PRIOR, BOUND, budget=60, store=store)
    assert supac.resume(store, risk).held_out is not None
    for other in (measured(1).split(np.arange(40) % 2 == 1)[1], None):
        with pytest.raises(supac.StoreMismatchError, match="held_out"):
            supac.resume(store, supac.Composite(decay, supac.Welsch(), train, other))


def test_chernoffs_bound_holds_for_data_of_any_distributions() -> None:
    """Losses of means 0.05 … 0.4, Bernoulli: at most δ violations, within three standard errors."""
    rng, delta, repeats = np.random.default_rng(0), 0.2, 4_000
    basis = basis_of(None, supac.MaurerLangfordSeeger(16, 0.05))
    means = np.linspace(0.05, 0.4, 16)
    violated = 0
    for _ in range(repeats):
        seen = (rng.random(16) < means).mean()
        given = held_out_certificate(Losses(np.array([seen]), basis), delta=delta)
        violated += given.value < means.mean()
    assert violated / repeats <= delta + 3.0 * np.sqrt(delta * (1.0 - delta) / repeats)


def test_sequences_have_no_independent_test_part() -> None:
    data = supac.Observations(("y",), np.zeros(4), np.ones(4), sequential=True)
    basis = basis_of(supac.Composite(decay, supac.Welsch(), data), supac.Catoni(0.1))
    with pytest.raises(supac.CertificateError, match="not independent of its training part"):
        held_out_certificate(Losses(np.array([0.1]), basis), delta=0.05)


def test_data_are_split_by_rows_or_by_columns() -> None:
    both = supac.Observations(("a", "b"), np.arange(6.0), np.ones(6))
    train, test = both.split("b")
    assert (train.measured, test.measured) == (3, 3)
    assert np.isnan(train.values[3:]).all()
    train, test = both.split([True, False, False])
    np.testing.assert_array_equal(test.values[[0, 3]], [0.0, 3.0])
    assert test.measured == 2
    with pytest.raises(ValueError, match="names of columns"):
        both.split("c")
    with pytest.raises(ValueError, match="both the training and the test part"):
        both.split([True, True, True])


def test_blocks_are_held_out_as_a_whole() -> None:
    """Rows of one block depend on each other: a test part of some of them would not be new."""
    blocks = np.repeat([0.0, 1.0, 2.0], 2)
    both = supac.Observations(("a", "b"), np.arange(12.0), np.ones(12), blocks=blocks)
    train, test = both.split(blocks == 2.0)
    assert (train.measured, test.measured) == (8, 4)
    for wrong in (np.arange(6) % 2 == 0, "b"):
        with pytest.raises(ValueError, match="hold out whole blocks"):
            both.split(wrong)
    sequence = supac.Observations(("a",), np.arange(6.0), np.ones(6), sequential=True)
    with pytest.raises(ValueError, match="none of a sequence"):
        sequence.split(np.arange(6) > 3)


def test_a_smaller_n_says_that_held_out_data_are_dependent_too() -> None:
    train, test = measured().split(np.arange(40) % 2 == 1)
    risk = supac.Composite(decay, supac.Welsch(), train, test)
    result = supac.minimize(risk, PRIOR, supac.MaurerLangfordSeeger(5, 0.05), budget=60)
    assert result.certificate is not None
    assert result.held_out is None
    assert "give blocks of rows" in result.uncertified


def test_a_prior_from_the_training_part_leaves_the_held_out_certificate() -> None:
    train, test = measured().split(np.arange(40) % 2 == 1)
    risk = supac.Composite(decay, supac.Welsch(), train, test)
    first = supac.minimize(risk, PRIOR, BOUND, budget=60)
    learnt = PRIOR.with_prior(first.posterior)
    again = supac.reoptimize(first, risk, prior=learnt, budget=30)
    assert again.certificate is None
    assert again.held_out is not None
