from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import supac
from supac.problem.bounds import binary_kl, kl_inverse

N, DELTA = 500, 0.05
SAMPLE_BOUNDS = [
    supac.McAllester(N, DELTA),
    supac.MaurerLangfordSeeger(N, DELTA),
    supac.TolstikhinSeldin(N, DELTA),
    supac.Thiemann(N, DELTA),
]
unit = st.floats(0.0, 1.0)
kls = st.floats(0.0, 200.0)


def complexity(kl: float) -> float:
    return float((kl + np.log(2.0 * np.sqrt(N) / DELTA)) / N)


def test_catoni_has_its_constant() -> None:
    bound = supac.Catoni(0.1, n=100, delta=0.05, ceiling=2.0)
    assert bound(0.3, 2.0) == pytest.approx(0.3 + 0.2 + 4.0 / 80.0 - 0.1 * np.log(0.05))
    assert supac.Catoni(0.1)(0.3, 2.0) == pytest.approx(0.5)


@given(q=unit, c=st.floats(1e-6, 5.0))
def test_kl_inverse_inverts(q: float, c: float) -> None:
    p = kl_inverse(q, c)
    assert q <= p <= 1.0
    if p < 1.0 - 1e-9 and p > 1e-9:
        # p is found to 1e-15, and kl is steep near 1: there its digits are few.
        assert binary_kl(q, p) == pytest.approx(c, rel=1e-4, abs=1e-12)


def test_kl_inverse_at_zero_is_closed_form() -> None:
    assert kl_inverse(0.0, 0.3) == pytest.approx(1.0 - np.exp(-0.3))


@given(risk=unit, kl=kls)
def test_seeger_is_the_tightest_of_the_four(risk: float, kl: float) -> None:
    """The other three relax it (Pinsker's inequality and its refinement)."""
    seeger = supac.MaurerLangfordSeeger(N, DELTA)(risk, kl)
    for bound in SAMPLE_BOUNDS:
        assert bound(risk, kl) >= seeger - 1e-9


@given(risk=unit, kl=kls, more=st.floats(0.0, 1.0))
def test_bounds_grow_with_risk_and_with_kl(risk: float, kl: float, more: float) -> None:
    for bound in [*SAMPLE_BOUNDS, supac.Catoni(0.1, N, DELTA)]:
        assert bound(min(risk + more, 1.0), kl) >= bound(risk, kl) - 1e-12
        assert bound(risk, kl + more) >= bound(risk, kl) - 1e-12


@given(risk=unit, kl=kls, trade_off=st.floats(0.01, 1.99))
def test_thiemann_minimises_over_its_trade_off(risk: float, kl: float, trade_off: float) -> None:
    fixed = supac.Thiemann(N, DELTA, trade_off=trade_off)(risk, kl)
    assert supac.Thiemann(N, DELTA)(risk, kl) <= fixed + 1e-9


def test_thiemann_is_quasi_convex_in_its_trade_off() -> None:
    trade_offs = np.linspace(0.005, 1.995, 400)
    for risk, kl in [(0.0, 1.0), (0.1, 5.0), (0.5, 50.0)]:
        values = np.array([supac.Thiemann(N, DELTA, trade_off=t)(risk, kl) for t in trade_offs])
        downhill = np.diff(values) < 0.0
        assert (np.diff(downhill.astype(int)) <= 0).all()  # never down again after going up


def test_formulas() -> None:
    c = complexity(7.0)
    assert supac.McAllester(N, DELTA)(0.2, 7.0) == pytest.approx(0.2 + np.sqrt(c / 2.0))
    fast = 0.2 + np.sqrt(0.4 * c) + 2.0 * c
    assert supac.TolstikhinSeldin(N, DELTA)(0.2, 7.0) == pytest.approx(fast)
    slow = 0.2 / 0.5 + c / 0.5
    assert supac.Thiemann(N, DELTA, trade_off=1.0)(0.2, 7.0) == pytest.approx(slow)


def test_a_ceiling_scales_the_risk() -> None:
    for bound in SAMPLE_BOUNDS:
        scaled = type(bound)(N, DELTA, ceiling=3.0)
        assert scaled(0.6, 4.0) == pytest.approx(3.0 * bound(0.2, 4.0))


def test_surrogates_may_predict_nonsense() -> None:
    for bound in SAMPLE_BOUNDS:
        assert bound(-0.5, 4.0) == bound(0.0, 4.0)
        assert bound(0.2, np.inf) == np.inf
        assert bound(0.2, np.nan) == np.inf
        assert bound(0.2, -1e-9) == bound(0.2, 0.0)
        assert bound(3.0, 1.0) >= 3.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: supac.Catoni(0.0), "temperature must be a positive number, not 0.0"),
        (lambda: supac.Catoni(-1.0), "temperature must be a positive number, not -1.0"),
        (lambda: supac.Catoni(np.nan), "temperature contains NaN"),
        (lambda: supac.Catoni(0.1, n=10), "give both n and delta"),
        (lambda: supac.Catoni(0.1, n=10, delta=0.1, ceiling=0.0), "ceiling must be a positive"),
        (
            lambda: supac.McAllester(0, 0.1),
            "n, the number of data, must be a whole number, 1 or more",
        ),
        (lambda: supac.McAllester(10, 1.5), r"delta.* must be in \(0, 1\), not 1.5"),
        (lambda: supac.Thiemann(10, 0.1, trade_off=2.0), "trade_off must be between 0 and 2"),
    ],
)
def test_bad_bounds_are_refused(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]
