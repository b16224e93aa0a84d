"""Points for Sobol indices over mixtures of Gaussians."""

from __future__ import annotations

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.posterior.emulation import EmulatedOutputs
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


def test_outputs_are_emulated_around_a_mixture_as_around_a_gaussian_of_its_moments() -> None:
    """Or runs that are far from it in its own widths would count as near."""
    times = np.linspace(0.0, 3.0, 12)

    def residuals(x: FloatArray) -> FloatArray:
        return np.asarray(np.exp(x[0] - times * np.exp(x[1])) - np.exp(-times) + x[2]) / 0.01

    wide = supac.gaussian(np.zeros(3), np.eye(3))
    risk = supac.Composite(residuals, supac.MeanSquare())
    result = supac.minimize(risk, wide, supac.Catoni(2.0 / 12), budget=40, shape="gaussian")
    one = result.posterior
    moved = one.mean + np.linalg.cholesky(one.covariance)[:, 0]
    both = supac.mixture([one, supac.gaussian(moved, 0.5 * one.covariance)], [0.5, 0.5])
    found = EmulatedOutputs.of(result.record, both)
    same = EmulatedOutputs.of(result.record, supac.gaussian(both.mean, both.covariance))
    np.testing.assert_array_equal(found.near, same.near)
    x = both.sample(500, 0)
    predicted, error = found.predict(x)
    truth = np.array([residuals(each) for each in x])
    assert ((predicted - truth) ** 2).mean() < 1e-2 * truth.var()
    assert (error**2).mean() < 1e-2 * truth.var()
