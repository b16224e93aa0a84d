from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import cKDTree

import supac
from catalogue import FAMILIES
from numerics import assert_mean
from quadrature import exact_projection
from supac.arrays import FloatArray
from supac.problem.evaluations import Evaluations
from supac.surrogate import Context, Corrected, project_known, view_prior
from supac.surrogate.importance import log_mixture
from supac.surrogate.least_squares import project
from supac.surrogate.voronoi import search_all, search_graph

PLANE = supac.gaussian([1.0, -1.0], [[2.0, 0.5], [0.5, 1.0]])


def evaluations(*batches: tuple[supac.Distribution, int], seed: int = 0) -> Evaluations:
    rng = np.random.default_rng(seed)
    runs = Evaluations.none(batches[0][0].dim)
    for distribution, n in batches:
        x = distribution.sample(n, rng)
        runs = runs.append(x, np.sin(x).sum(axis=1), distribution)
    return runs


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


def test_exact_search_finds_the_nearest() -> None:
    rng = np.random.default_rng(3)
    points, draws = rng.standard_normal((500, 7)), rng.standard_normal((2_000, 7))
    for k in (1, 4):
        expected = cKDTree(points).query(draws, k=range(1, k + 1))[1]
        found = search_all(points.astype(np.float32), draws.astype(np.float32), k)
        assert (np.sort(found) == np.sort(expected)).all(axis=1).mean() > 0.999  # float32 ties


def test_graph_search_finds_nearly_the_nearest() -> None:
    pytest.importorskip("faiss", reason="faiss is an extra")
    rng = np.random.default_rng(4)
    points = rng.standard_normal((2_000, 6)).astype(np.float32)
    draws = rng.standard_normal((500, 6)).astype(np.float32)
    agree = search_graph(points, draws, 1)[:, 0] == search_all(points, draws, 1)[:, 0]
    assert agree.mean() > 0.98  # all agree here; a graph search may miss a few


def test_approximate_and_exact_cells_weigh_alike() -> None:
    pytest.importorskip("faiss", reason="faiss is an extra")
    runs = evaluations((PLANE, 200))
    exact, rough = (
        supac.Voronoi(draws=20_000, approximate=a)
        .fit(runs, PLANE)
        .weights(PLANE, np.random.default_rng(5))
        for a in (False, True)
    )
    # The same draws, so only missed neighbours differ, each in two weights: as in the last test.
    assert np.abs(exact - rough).sum() < 2.0 * 0.02


def test_voronoi_weights_are_the_masses_of_the_cells() -> None:
    """In one dimension the cells are intervals between midpoints, in any metric."""
    at = supac.gaussian([1.0], [[4.0]])
    x = np.array([[-3.0], [0.0], [0.5], [2.0], [7.0]])
    runs = Evaluations.none(1).append(x, np.zeros(5), at)
    draws = 200_000
    weights = supac.Voronoi(draws=draws).fit(runs, at).weights(at, np.random.default_rng(6))
    edges = (x[1:, 0] + x[:-1, 0]) / 2.0
    from scipy.stats import norm  # noqa: PLC0415

    masses = np.diff(norm.cdf([-np.inf, *edges, np.inf], loc=1.0, scale=2.0))
    errors = np.sqrt(masses * (1.0 - masses) / draws)
    assert (np.abs(weights - masses) < 5.0 * errors).all()


def test_voronoi_uses_the_mahalanobis_metric() -> None:
    """A stretched problem gives the weights of the same problem in standard coordinates."""
    rng = np.random.default_rng(7)
    stretch = np.array([[100.0, 0.0], [3.0, 0.01]])
    z = rng.standard_normal((50, 2))
    standard = supac.gaussian(np.zeros(2), np.eye(2))
    stretched = supac.gaussian(np.zeros(2), stretch @ stretch.T)
    weights = []
    for x, at in ((z, standard), (z @ stretch.T, stretched)):
        runs = Evaluations.none(2).append(x, np.zeros(50), at)
        weights.append(
            supac.Voronoi(draws=100_000).fit(runs, at).weights(at, np.random.default_rng(8))
        )
    errors = np.sqrt(2.0 * np.maximum(*weights) / 100_000)  # of a difference of two shares
    assert (np.abs(weights[0] - weights[1]) <= 5.0 * errors).all()


def test_voronoi_shares_each_draw_between_k_neighbours() -> None:
    runs = evaluations((PLANE, 5))
    weights = (
        supac.Voronoi(k=5, draws=100).fit(runs, PLANE).weights(PLANE, np.random.default_rng(9))
    )
    np.testing.assert_allclose(weights, 0.2)
    weights = (
        supac.Voronoi(k=9, draws=100).fit(runs, PLANE).weights(PLANE, np.random.default_rng(9))
    )
    np.testing.assert_allclose(weights, 0.2)  # no more neighbours than there are


def test_importance_weights_are_unbiased_for_any_mixture_of_proposals() -> None:
    """The balance heuristic against the exact mean of a smooth function, over many data sets."""
    wide, narrow = supac.gaussian([0.0], [[4.0]]), supac.gaussian([1.0], [[0.5]])
    at = supac.gaussian([0.5], [[1.0]])
    estimates = []
    for seed in range(200):
        runs = evaluations((wide, 60), (narrow, 40), seed=seed)
        ratio = np.exp(at.log_prob(runs.x) - log_mixture(runs))
        estimates.append(np.mean(ratio * runs.risk))
    assert_mean(np.array(estimates), np.sin(0.5) * np.exp(-0.5))


def test_importance_reports_its_own_error() -> None:
    at = supac.gaussian([0.5], [[1.0]])
    inside = 0
    for seed in range(200):
        runs = evaluations((supac.gaussian([0.0], [[2.0]]), 100), seed=seed)
        mean, error, size = supac.Importance().fit(runs, at).mean_risk(at)
        assert 1.0 <= size <= 100.0
        inside += abs(mean - np.sin(0.5) * np.exp(-0.5)) < 2.0 * error
    assert inside >= 180  # 95 % expected; 180 is more than three standard deviations below


def test_fresh_draws_are_the_last_batch_alone() -> None:
    runs = evaluations((PLANE, 40), (supac.gaussian([0.0, 0.0], np.eye(2)), 30))
    surrogate = supac.FreshDraws().fit(runs, PLANE).project(PLANE, np.random.default_rng(0))
    assert surrogate.effective_size == pytest.approx(30.0)
    fresh = project(runs.x[40:], runs.risk[40:], np.ones(30), PLANE)
    np.testing.assert_array_equal(surrogate.eta, fresh.eta)


def test_a_perfect_proxy_leaves_nothing_to_learn() -> None:
    def risk(x: FloatArray) -> FloatArray:
        return np.sin(x).sum(axis=1)

    runs = evaluations((PLANE, 8))
    model = Corrected.fit(risk, runs, supac.Voronoi(draws=500), PLANE)
    assert model.scale == pytest.approx(1.0)
    projected = model.project(PLANE, np.random.default_rng(0))
    alone = project_known(risk, PLANE, np.random.default_rng(model.seed))
    np.testing.assert_allclose(projected.eta, alone.eta)
    assert projected.mean == pytest.approx(alone.mean)


def test_an_unrelated_proxy_gets_little_weight() -> None:
    runs = evaluations((PLANE, 2_000))
    model = Corrected.fit(lambda x: np.cos(37.0 * x[:, 0]), runs, supac.Importance(), PLANE)
    assert abs(model.scale) < 5.0 / np.sqrt(2_000)  # five standard errors of no slope


def test_a_corrected_proxy_is_the_projection_of_the_risk() -> None:
    """A risk that is 0.7 × proxy + something in the span: found up to the proxy's own draws."""

    def proxy(x: FloatArray) -> FloatArray:
        return np.exp(-0.5 * (x**2).sum(axis=1))

    def risk(x: FloatArray) -> FloatArray:
        return 0.7 * proxy(x) + 0.3 * x[:, 0] - 0.1 * x[:, 1] ** 2

    exact = exact_projection(risk, PLANE)
    etas, means = [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x = PLANE.sample(400, rng)
        runs = Evaluations.none(2).append(x, risk(x), PLANE)
        model = Corrected.fit(proxy, runs, supac.FreshDraws(), PLANE, Context(rng=rng))
        projected = model.project(PLANE, rng)
        etas.append(projected.eta)
        means.append(projected.mean)
    assert_mean(np.array(etas), exact.eta)
    assert_mean(np.array(means), exact.mean)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_prior_that_does_not_say_that_it_is_a_member_is_seen_as_one(name: str) -> None:
    """log dπ_p/dπ_ref is in the span, so θ_p and KL come out exactly, base measure and all."""
    at, prior = FAMILIES[name]

    class Anonymous:
        def log_prob(self, x: FloatArray) -> FloatArray:
            return prior.log_prob(x)

    view = view_prior(Anonymous(), at, np.random.default_rng(0))
    np.testing.assert_allclose(view.theta, prior.theta, rtol=1e-7, atol=1e-8)
    assert view.kl(at.theta) == pytest.approx(at.kl(prior), rel=1e-7)
    assert view.kl(prior.theta) == pytest.approx(0.0, abs=1e-7)


def test_a_prior_that_does_not_cover_the_family_is_refused() -> None:
    with pytest.raises(ValueError, match="the prior must cover"):
        view_prior(supac.exponential(1.0), supac.gaussian([0.0], [[1.0]]), np.random.default_rng(0))


def test_repeated_points_share_their_cell() -> None:
    at = supac.gaussian([0.0], [[1.0]])
    runs = Evaluations.none(1).append(np.array([[-1.0], [1.0], [-1.0]]), np.zeros(3), at)
    weights = supac.Voronoi(draws=10_000).fit(runs, at).weights(at, np.random.default_rng(0))
    assert weights[0] == weights[2]
    assert weights[1] == pytest.approx(0.5, abs=5.0 * 0.5 / np.sqrt(10_000))


def test_bad_voronoi_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="k and draws must be at least 1"):
        supac.Voronoi(k=0)
