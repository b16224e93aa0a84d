"""Dependent data: the warning, and certificates of the mean conditional risk."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

import supac
from supac.arrays import FloatArray
from supac.guarantee.basis import basis_of
from supac.guarantee.dependence import effective_number, warning_of_dependence
from supac.guarantee.gate import admitted
from supac.guarantee.provenance import Provenance


def autoregressive(rng: np.random.Generator, n: int, correlation: float) -> FloatArray:
    noise = rng.standard_normal(n + 200) * np.sqrt(1.0 - correlation**2)
    return np.asarray(lfilter([1.0], [1.0, -correlation], noise))[200:]


def test_the_effective_number_is_that_of_theory() -> None:
    """AR(1): n(1 − ρ)/(1 + ρ); the mean of 40 estimates, within 15 %."""
    rng = np.random.default_rng(0)
    for correlation in (0.5, 0.8):
        wanted = 2_000 * (1.0 - correlation) / (1.0 + correlation)
        found = [effective_number([autoregressive(rng, 2_000, correlation)]) for _ in range(40)]
        assert np.mean(found) == pytest.approx(wanted, rel=0.15)


def test_independent_residuals_give_no_warning() -> None:
    rng = np.random.default_rng(1)
    warned = [
        bool(warning_of_dependence([rng.standard_normal(25), rng.standard_normal(25)], 50))
        for _ in range(200)
    ]
    assert sum(warned) <= 4


def test_strong_dependence_gives_a_warning() -> None:
    rng = np.random.default_rng(2)
    words = warning_of_dependence([autoregressive(rng, 200, 0.95)], 200)
    assert words
    assert "blocks of rows" in words[0]
    assert " but " not in words[0]  # tables write "but" before it
    assert not warning_of_dependence([autoregressive(rng, 200, 0.95)], 10)


@pytest.mark.parametrize("kind", [supac.Catoni, supac.McAllester])
def test_the_martingale_form_holds_without_independence(kind: type[supac.Bound]) -> None:
    """Each loss depends on the one before: at most δ violations of the mean conditional risk."""
    rng, n, delta, repeats = np.random.default_rng(3), 30, 0.2, 3_000
    weights = np.full(n, 1.0 / n)
    bound = kind.for_data(kind.data_in(weights, sequential=True), delta, 1.0)
    chance, state = np.zeros(repeats), np.zeros(repeats)
    seen = np.zeros(repeats)
    for _ in range(n):
        p = 0.1 + 0.6 * state
        state = (rng.random(repeats) < p).astype(float)
        chance, seen = chance + p / n, seen + state / n
    values = np.array([bound(float(each), 0.0) for each in seen])
    violated = float((values < chance).mean())
    assert violated <= delta + 3.0 * np.sqrt(delta * (1.0 - delta) / repeats)


def test_bounds_that_need_independence_are_refused_for_sequences() -> None:
    data = supac.Observations(("a", "b"), np.zeros(8), np.ones(8), sequential=True)
    risk = supac.Composite(lambda x: np.zeros(8), supac.Welsch(), data)
    basis = basis_of(risk, supac.Catoni(0.1))
    assert len(basis.weights) == 4  # what is measured at once is not independent
    assert "conditional expectations" in basis.assumptions[0]
    admitted(supac.McAllester(4, 0.05), basis, 0.05, Provenance())
    with pytest.raises(supac.CertificateError, match="use McAllester or Catoni"):
        admitted(supac.MaurerLangfordSeeger(4, 0.05), basis, 0.05, Provenance())
