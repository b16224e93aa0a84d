from __future__ import annotations

import numpy as np
import pytest

import supac
from numerics import assert_mean
from quadrature import exact_projection
from supac.arrays import FloatArray
from supac.emulator import GatedModel
from supac.problem import Evaluations
from supac.surrogate.estimator import Context
from supac.surrogate.least_squares import project_known
from supac.surrogate.proxy import WithProxy
from weighed import PLANE, evaluations


def test_a_perfect_proxy_leaves_nothing_to_learn() -> None:
    def risk(x: FloatArray) -> FloatArray:
        return np.sin(x).sum(axis=1)

    runs = evaluations((PLANE, 8))
    model = WithProxy(risk, supac.Voronoi(draws=500)).fit(runs, PLANE)
    assert model.scale == pytest.approx(1.0)
    projected = model.project(PLANE, np.random.default_rng(0))
    alone = project_known(risk, PLANE, np.random.default_rng(model.seed))
    np.testing.assert_allclose(projected.eta, alone.eta)
    assert projected.mean == pytest.approx(alone.mean)


def test_an_unrelated_proxy_gets_little_weight() -> None:
    runs = evaluations((PLANE, 2_000))
    model = WithProxy(lambda x: np.cos(37.0 * x[:, 0]), supac.Importance()).fit(runs, PLANE)
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
        model = WithProxy(proxy, supac.FreshDraws()).fit(runs, PLANE, Context(rng=rng))
        projected = model.project(PLANE, rng)
        etas.append(projected.eta)
        means.append(projected.mean)
    assert_mean(np.array(etas), exact.eta)
    assert_mean(np.array(means), exact.mean)


def test_a_correction_can_do_what_the_model_of_the_rest_can() -> None:
    """Its prediction is of the whole risk; a model that only projects leaves it nothing else."""
    runs = evaluations((PLANE, 30))
    emulated = WithProxy(lambda x: x[:, 0], supac.GaussianProcess()).fit(runs, PLANE)
    rest = emulated.inner
    assert isinstance(rest, GatedModel)
    x = PLANE.sample(7, 4)
    np.testing.assert_array_equal(emulated.predict(x), emulated.scale * x[:, 0] + rest.predict(x))
    assert emulated.memory is rest.memory
    assert emulated.outliers == rest.outliers
    assert emulated.failure_chance(PLANE) == rest.failure_chance(PLANE)
    probes = rest.probes(3, PLANE, np.random.default_rng(0))
    np.testing.assert_array_equal(emulated.probes(3, PLANE, np.random.default_rng(0)), probes)
    known = (emulated.explained, emulated.noise, emulated.severity)
    np.testing.assert_array_equal(known, (rest.explained, rest.noise, rest.severity))
    weighed = WithProxy(lambda x: x[:, 0], supac.Importance()).fit(runs, PLANE)
    assert weighed.predict(x) is None
    assert np.isnan(weighed.failure_chance(PLANE))


def test_a_search_with_a_proxy_chooses_points_where_they_tell_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As it does without one: what is known of the rest is known of the whole."""
    chosen: list[int] = []
    choose = GatedModel.informative

    def counted(
        self: GatedModel, n: int, pool: FloatArray, about: FloatArray, given: FloatArray
    ) -> FloatArray:
        chosen.append(n)
        return choose(self, n, pool, about, given)

    monkeypatch.setattr(GatedModel, "informative", counted)

    def risk(x: FloatArray) -> float:
        return float(1.0 - np.exp(-0.3 * (x - 0.5) @ (x - 0.5)))

    def proxy(x: FloatArray) -> FloatArray:
        return 0.2 * (x**2).sum(axis=1)

    for each in (None, proxy):
        chosen.clear()
        supac.minimize(risk, PLANE, supac.Catoni(0.05), budget=80, proxy=each, validation=0)
        assert sum(chosen) > 0
