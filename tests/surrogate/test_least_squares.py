from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalogue import FAMILIES
from supac.surrogate.least_squares import project
from weighed import PLANE


@pytest.mark.parametrize("name", FAMILIES)
def test_a_risk_in_the_span_is_found_exactly(name: str) -> None:
    at = FAMILIES[name][0]
    rng = np.random.default_rng(0)
    x = at.sample(8 * at.family.size + 20, rng)
    eta = rng.standard_normal(at.family.size)
    surrogate = project(x, at.exponential.statistics(x) @ eta + 0.7, rng.random(len(x)), at)
    np.testing.assert_allclose(surrogate.eta, eta, rtol=1e-8, atol=1e-9)
    assert surrogate.intercept == pytest.approx(0.7, rel=1e-6, abs=1e-7)
    assert surrogate.mean == pytest.approx(float(at.mean_statistics @ eta) + 0.7, rel=1e-8)
    assert surrogate.r_squared == pytest.approx(1.0)
    assert surrogate.ridge == 0.0


def test_least_squares_is_that_of_numpy() -> None:
    rng = np.random.default_rng(1)
    x, w = PLANE.sample(80, rng), rng.random(80)
    y = np.cos(x).sum(axis=1)
    surrogate = project(x, y, w, PLANE)
    design = np.column_stack([PLANE.exponential.statistics(x), np.ones(80)]) * np.sqrt(w)[:, None]
    expected = np.linalg.lstsq(design, y * np.sqrt(w), rcond=None)[0]
    np.testing.assert_allclose([*surrogate.eta, surrogate.intercept], expected, rtol=1e-9)


def test_leave_one_out_error_is_that_of_leaving_one_out() -> None:
    rng = np.random.default_rng(2)
    x, w = PLANE.sample(30, rng), rng.random(30)
    y, w = np.cos(x).sum(axis=1), w / w.sum()
    errors = []
    for i in range(30):
        kept = np.arange(30) != i
        fit = project(x[kept], y[kept], w[kept], PLANE)
        left_out = PLANE.exponential.statistics(x[i : i + 1])[0]
        errors.append(y[i] - left_out @ fit.eta - fit.intercept)
    loo = project(x, y, w, PLANE).loo_error
    assert loo == pytest.approx(np.sqrt(w @ np.square(errors)), rel=1e-8)


def test_a_saturated_fit_admits_that_it_cannot_be_judged() -> None:
    x = PLANE.sample(6, np.random.default_rng(3))
    surrogate = project(x, np.cos(x).sum(axis=1), np.ones(6), PLANE)
    assert surrogate.ridge > 0.0
    assert surrogate.loo_error > 1e-3


def test_the_ridge_is_the_one_of_largest_evidence() -> None:
    """Against the marginal likelihood of the same model, by its definition, over a fine grid."""
    rng = np.random.default_rng(4)
    x = PLANE.sample(5, rng)
    y = np.cos(x).sum(axis=1)
    ridge = project(x, y, np.ones(5), PLANE).ridge
    features = PLANE.whiten().features(x)
    design = (features - features.mean(axis=0)) / np.sqrt(5)
    target = (y - y.mean()) / np.sqrt(5)
    # Centred on their mean, five points have four degrees of freedom.
    basis = np.linalg.svd(np.eye(5) - 0.2)[0][:, :4]
    design, target = basis.T @ design, basis.T @ target

    def evidence(ridge: float) -> float:
        shape = np.eye(4) + design @ design.T / ridge
        scale = target @ np.linalg.solve(shape, target) / 4
        return float(-0.5 * (4 * np.log(scale) + np.linalg.slogdet(shape)[1]))

    best = max(evidence(float(r)) for r in np.exp(np.linspace(-20.0, 10.0, 3_001)))
    assert evidence(ridge) == pytest.approx(best, abs=1e-4)


@settings(deadline=None, max_examples=60)
@given(
    n=st.integers(1, 12),
    repeats=st.integers(1, 3),
    constant=st.booleans(),
    seed=st.integers(0, 100),
)
def test_deficient_batches_never_crash(n: int, repeats: int, constant: bool, seed: int) -> None:
    """Six coefficients from any number of points, repeated points, constant risks."""
    rng = np.random.default_rng(seed)
    x = np.repeat(PLANE.sample(n, rng), repeats, axis=0)
    y = np.full(len(x), 0.3) if constant else np.sin(x).sum(axis=1)
    surrogate = project(x, y, np.ones(len(x)), PLANE)
    assert np.isfinite(surrogate.eta).all()
    assert np.isfinite(surrogate.mean)
    if n <= PLANE.family.size:
        assert surrogate.ridge > 0.0
        # Regularised, so that a fit of noise cannot blow up.
        assert surrogate.deviation <= 10.0 * max(float(np.ptp(y)), 1e-12)  # unregularised: ∞
