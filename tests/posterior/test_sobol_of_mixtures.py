"""Points for Sobol indices over mixtures of Gaussians."""

from __future__ import annotations

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.posterior.sobol import PickFreeze

SPREAD = np.array([[1.0, 0.5, 0.2], [0.5, 1.0, -0.3], [0.2, -0.3, 0.6]])
ONE = supac.gaussian([0.0, 1.0, -1.0], SPREAD)
TWO = supac.mixture([ONE, supac.gaussian([3.0, -1.0, 0.5], 0.4 * np.eye(3))], [0.4, 0.6])
GROUPS = [np.array([0]), np.array([1, 2])]


@pytest.mark.parametrize("i", [0, 1])
def test_points_with_coordinates_drawn_anew_have_the_law_of_the_mixture(i: int) -> None:
    sets = PickFreeze.draw(TWO, GROUPS, 40_000, np.random.default_rng(0))
    for points in (sets.kept[i], sets.anew[i]):
        np.testing.assert_allclose(points.mean(axis=0), TWO.mean, atol=0.04)
        np.testing.assert_allclose(np.cov(points.T), TWO.covariance, atol=0.08)
        # Equal only if the joint law is: the mean log-density is the negative entropy.
        logs = [TWO.log_prob(each) for each in (points, sets.x)]
        assert logs[0].mean() == pytest.approx(logs[1].mean(), abs=0.04)
    rest = np.setdiff1d(np.arange(3), GROUPS[i])
    np.testing.assert_array_equal(sets.kept[i][:, GROUPS[i]], sets.x[:, GROUPS[i]])
    np.testing.assert_array_equal(sets.anew[i][:, rest], sets.x[:, rest])


def test_a_mixture_of_one_has_the_indices_of_its_gaussian() -> None:
    def shares(of: supac.Distribution) -> FloatArray:
        sets = PickFreeze.draw(of, GROUPS, 40_000, np.random.default_rng(1))
        x = sets.points
        values = np.column_stack([x[:, 0] + 2.0 * x[:, 1], x[:, 0] * x[:, 2]])
        parts = sets.parts(values)
        return np.asarray(parts[1:] / parts[0])

    np.testing.assert_allclose(shares(supac.mixture([ONE])), shares(ONE), atol=0.03)
