"""Simulators in JAX: outputs, Jacobians in double precision, and a search with them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

import supac
from supac import marginals
from supac.arrays import FloatArray

jnp = pytest.importorskip("jax.numpy")

TIMES = np.linspace(0.5, 6.0, 8)


def decay(x: Any) -> Any:
    return x[1] * jnp.exp(-x[0] * TIMES)


def slopes(x: FloatArray) -> FloatArray:
    return np.column_stack([-TIMES * x[1], np.ones(8)]) * np.exp(-x[0] * TIMES)[:, None]


X = np.array([0.3, 2.0])


@pytest.mark.parametrize("pickled", [False, True])
def test_outputs_and_jacobian_are_those_of_the_formula(pickled: bool) -> None:
    simulate = supac.with_jacobian(decay)
    if pickled:
        simulate(X)
        simulate = cloudpickle.loads(cloudpickle.dumps(simulate))
    outputs, jacobian = simulate(X)
    np.testing.assert_allclose(outputs, X[1] * np.exp(-X[0] * TIMES), rtol=1e-14)
    np.testing.assert_allclose(jacobian, slopes(X), rtol=1e-13)
    many = simulate(np.stack([X, 2.0 * X]))
    np.testing.assert_allclose(many[1], [slopes(X), slopes(2.0 * X)], rtol=1e-13)


def test_fewer_outputs_than_parameters_and_outputs_by_name() -> None:
    outputs, jacobian = supac.with_jacobian(lambda x: {"A": jnp.sum(x**2)[None]})(np.arange(4.0))
    np.testing.assert_allclose(outputs["A"], [14.0])
    np.testing.assert_allclose(jacobian["A"], [[0.0, 2.0, 4.0, 6.0]])


def test_a_search_uses_it_without_further_words() -> None:
    parameters = supac.Parameters(
        {"k": marginals.LogNormal(0.4, 0.5), "c0": marginals.LogNormal(2.0, 0.5)}
    )
    data = supac.Observations(("c",), 2.3 * np.exp(-0.3 * TIMES), np.full(8, 0.05))
    simulate = supac.with_jacobian(decay)
    results = [
        supac.minimize(
            supac.Composite(simulate, supac.MeanSquare(), data),
            parameters,
            supac.Catoni(temperature=0.25),
            budget=9,
            validation=0,
            execution=supac.Execution(vectorized=vectorized, progress=False),
        )
        for vectorized in (False, True)
    ]
    assert all(run.jacobian is not None for run in results[0].record.runs)
    for found in results:
        mean = parameters.from_latent(np.asarray(found.posterior.mean)[None])[0]
        np.testing.assert_allclose(mean, [0.3, 2.3], rtol=0.05)


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(TypeError, match="function must be a function of a point"):
        supac.with_jacobian(3)  # type: ignore[arg-type]


def test_the_example_of_the_documentation_runs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "jacobians.md").read_text()
    plain, jax = re.findall(r"^```python\n(.*?)^```", page, flags=re.M | re.S)[0], ""
    jax = next(b for b in re.findall(r"^```py\n(.*?)^```", page, flags=re.M | re.S) if "jax" in b)
    session: dict[str, Any] = {}
    exec(plain, session)
    by_hand = session["result"]
    exec(jax, session)
    found = session["result"]
    learnt = [run for run in found.record.runs if run.purpose == "search"]
    assert all(run.jacobian is not None for run in learnt)
    np.testing.assert_allclose(found.posterior.mean, by_hand.posterior.mean, atol=1e-4)
