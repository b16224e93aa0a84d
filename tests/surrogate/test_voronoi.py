from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import cKDTree

import supac
from supac.problem import Evaluations
from supac.surrogate.nearest import search_all, search_graph
from weighed import PLANE, evaluations


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


def test_repeated_points_share_their_cell() -> None:
    at = supac.gaussian([0.0], [[1.0]])
    runs = Evaluations.none(1).append(np.array([[-1.0], [1.0], [-1.0]]), np.zeros(3), at)
    weights = supac.Voronoi(draws=10_000).fit(runs, at).weights(at, np.random.default_rng(0))
    assert weights[0] == weights[2]
    assert weights[1] == pytest.approx(0.5, abs=5.0 * 0.5 / np.sqrt(10_000))


def test_bad_voronoi_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="k and draws must be at least 1"):
        supac.Voronoi(k=0)
    with pytest.raises(ValueError, match="k and draws must be at least 1"):
        supac.ReusedVoronoi(0)
