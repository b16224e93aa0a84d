from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.stats
from scipy.special import ndtr, ndtri

from numerics import assert_mean
from supac.arrays import FloatArray
from supac.families.gaussian import latin_hypercube, orthogonal

Draw = Callable[[int, int, np.random.Generator], FloatArray]
BOTH = pytest.mark.parametrize("draw", [latin_hypercube, orthogonal])


@pytest.mark.parametrize(("n", "dim"), [(1, 1), (7, 3), (40, 12), (200, 2)])
def test_a_latin_hypercube_has_one_point_in_each_slice_of_each_coordinate(n: int, dim: int) -> None:
    z = latin_hypercube(n, dim, np.random.default_rng(0))
    assert z.shape == (n, dim)
    slices = np.floor(n * ndtr(z)).astype(int)
    np.testing.assert_array_equal(np.sort(slices, axis=0), np.arange(n)[:, None] + np.zeros(dim))


@pytest.mark.parametrize(("n", "dim"), [(0, 2), (1, 3), (40, 12)])
def test_a_latin_hypercube_is_that_of_scipy(n: int, dim: int) -> None:
    uniform = scipy.stats.qmc.LatinHypercube(dim, rng=np.random.default_rng(3)).random(n)
    found = latin_hypercube(n, dim, np.random.default_rng(3))
    np.testing.assert_array_equal(found, ndtri(uniform))  # to the bit


def test_a_latin_hypercube_pairs_its_slices_at_random() -> None:
    """Ranks of two coordinates are uncorrelated, over many hypercubes."""
    rng = np.random.default_rng(1)
    correlations = [
        scipy.stats.spearmanr(latin_hypercube(10, 2, rng)).statistic for _ in range(400)
    ]
    assert_mean(np.array(correlations), 0.0)


@pytest.mark.parametrize("n", [2, 6, 8])
def test_orthogonal_draws_come_in_opposite_pairs(n: int) -> None:
    z = orthogonal(n, 4, np.random.default_rng(0))
    half = n // 2
    np.testing.assert_array_equal(z[half:], -z[:half])
    np.testing.assert_allclose(z.mean(axis=0), 0.0, atol=1e-15)


@pytest.mark.parametrize(("n", "dim"), [(4, 2), (6, 5), (12, 6)])
def test_orthogonal_draws_of_one_block_are_orthogonal(n: int, dim: int) -> None:
    z = orthogonal(n, dim, np.random.default_rng(2))[: n // 2]
    gram = z @ z.T
    scale = np.sqrt(np.outer(np.diag(gram), np.diag(gram)))
    np.testing.assert_allclose(gram / scale, np.eye(n // 2), atol=1e-14)


@pytest.mark.parametrize("n", [1, 3, 7, 9, 17])
def test_an_odd_number_lacks_only_one_opposite(n: int) -> None:
    z = orthogonal(n, 4, np.random.default_rng(3))
    assert z.shape == (n, 4)
    alone = [i for i in range(n) if not (z == -z[i]).all(axis=1).any()]
    assert len(alone) == 1


def test_more_draws_than_one_block_start_a_fresh_one() -> None:
    dim = 3
    z = orthogonal(4 * dim + 2, dim, np.random.default_rng(4))
    assert z.shape == (4 * dim + 2, dim)
    for start in (0, 2 * dim):
        block = z[start : start + 2 * dim]
        np.testing.assert_array_equal(block[dim:], -block[:dim])
        gram = block[:dim] @ block[:dim].T
        np.testing.assert_allclose(gram - np.diag(np.diag(gram)), 0.0, atol=1e-13)
    np.testing.assert_array_equal(z[-1], -z[-2])
    assert np.abs(z[:dim] @ z[2 * dim : 3 * dim].T).min() > 1e-6  # blocks are independent


@BOTH
@pytest.mark.parametrize("dim", [1, 2, 5])
def test_each_draw_is_standard_normal(draw: Draw, dim: int) -> None:
    """The first of each small set, over many sets: coordinates are normal, radii χ²."""
    rng = np.random.default_rng(5)
    z = np.array([draw(2 * dim, dim, rng)[0] for _ in range(1_000)])
    assert scipy.stats.kstest((z**2).sum(axis=1), "chi2", args=(dim,)).pvalue > 1e-3
    for coordinate in z.T:
        assert scipy.stats.kstest(coordinate, "norm").pvalue > 1e-3
    assert_mean(z, 0.0)
    assert_mean(np.einsum("ni,nj->nij", z, z).reshape(len(z), -1), np.eye(dim).ravel())


def test_the_covariance_of_orthogonal_draws_is_nearer_to_the_identity() -> None:
    """Nearer than that of independent draws, in the mean over 200 sets of two whole blocks."""
    rng = np.random.default_rng(6)

    def gap(z: FloatArray) -> float:
        return float(((z.T @ z / len(z) - np.eye(z.shape[1])) ** 2).sum())

    apart = [[gap(orthogonal(32, 8, rng)), gap(rng.standard_normal((32, 8)))] for _ in range(200)]
    orthogonally, independently = np.mean(apart, axis=0)
    assert orthogonally < 0.6 * independently
    z = orthogonal(16_000, 8, rng)
    np.testing.assert_allclose(z.T @ z / len(z), np.eye(8), atol=5.0 * np.sqrt(2.0 / 8_000))


@BOTH
def test_all_randomness_is_that_of_the_generator(draw: Draw) -> None:
    before = np.random.get_state()  # noqa: NPY002
    one = draw(9, 3, np.random.default_rng(7))
    after = np.random.get_state()  # noqa: NPY002
    for left, right in zip(before, after, strict=True):
        np.testing.assert_array_equal(left, right)
    np.testing.assert_array_equal(draw(9, 3, np.random.default_rng(7)), one)
    assert (draw(9, 3, np.random.default_rng(8)) != one).all()
    rng = np.random.default_rng(7)
    draw(9, 3, rng)
    assert (draw(9, 3, rng) != one).all()  # the generator has moved on
