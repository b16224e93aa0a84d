from __future__ import annotations

import numpy as np
import pytest

from numerics import derivative
from supac.simulators.synthetic import Environment, SyntheticRisk, Variant, example


@pytest.mark.parametrize("variant", Variant)
def test_formula_and_gradient(variant: Variant) -> None:
    rng = np.random.default_rng(0)
    risk = Environment.draw(rng, variant=variant).draw_task(rng)
    x = rng.standard_normal(8)
    q = float((((x - risk.minimum) @ risk.matrix) ** 2).sum())
    wave = np.cos(risk.frequency * q)
    height = (wave - 1) / risk.frequency + q if variant == "code" else wave + risk.frequency * q
    assert risk(x[None])[0] == pytest.approx(np.tanh(height / 10))
    numeric = derivative(lambda at: risk(at[None])[0], x)
    np.testing.assert_allclose(risk.gradient(x[None])[0], numeric, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("variant", Variant)
def test_the_minimum_is_the_minimum(variant: Variant) -> None:
    rng = np.random.default_rng(1)
    risk = Environment.draw(rng, variant=variant).draw_task(rng)
    lowest = risk(risk.minimum[None])[0]
    around = risk.minimum + rng.standard_normal((10_000, 8)) * rng.random((10_000, 1))
    assert (risk(around) > lowest).all()
    assert risk(around).max() < 1.0


def test_environment_is_as_the_paper_describes_it() -> None:
    environment = Environment.draw(np.random.default_rng(2))
    assert np.linalg.norm(environment.centre) == pytest.approx(2.0)
    deviations = np.sort(np.linalg.svd(environment.root, compute_uv=False))
    np.testing.assert_allclose(deviations[:6], 0.05)
    assert (deviations[6:] > np.exp(-0.5)).all()
    assert (deviations[6:] < np.exp(0.5)).all()


def test_example_is_seeded() -> None:
    np.testing.assert_array_equal(example(3).minimum, example(3).minimum)
    assert isinstance(example(3), SyntheticRisk)
    assert (example(3).minimum != example(4).minimum).any()
