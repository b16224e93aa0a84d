"""Jacobians beside observation parameters, fields, failures, noise, workers and known runs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from supac import marginals
from supac.arrays import FloatArray

RNG = np.random.default_rng(0)
DIM, ROWS = 8, 12
WEIGHTS = RNG.standard_normal((ROWS, DIM)) / np.sqrt(DIM)
PARAMETERS = supac.Parameters({f"k{i}": marginals.LogNormal(2.0, 0.7) for i in range(DIM)})
FIELD = supac.Parameters({"k": supac.Field(marginals.LogNormal(2.0, 0.7), grid=DIM, length=0.2)})
BOUND = supac.Catoni(temperature=0.02)
TRUTH = 2.0 * np.exp(0.7 * RNG.standard_normal(DIM))


def outputs(x: FloatArray) -> FloatArray:
    z = np.log(x / 2.0) / 0.7 @ WEIGHTS.T
    return np.asarray(z + 0.2 * np.sin(2.0 * z))


def slopes(x: FloatArray) -> FloatArray:
    z = np.log(x / 2.0) / 0.7 @ WEIGHTS.T
    return np.asarray((1.0 + 0.4 * np.cos(2.0 * z))[:, None] * WEIGHTS / (0.7 * x))


def pair(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    return outputs(x), slopes(x)


DATA = supac.Observations(("A",), outputs(TRUTH), np.full(ROWS, 0.2))


def search(
    simulate: Any = pair,
    loss: Any = None,
    parameters: supac.Parameters = PARAMETERS,
    *,
    budget: int = 12,
    where: dict[str, Any] | None = None,
    observation: int = 0,
    **words: Any,
) -> supac.Result:
    loss = supac.MeanSquare() if loss is None else loss
    risk = supac.Composite(
        simulate, loss, DATA, observation=observation, jacobian=simulate is not outputs
    )
    execution = supac.Execution(progress=False, **(where or {}))
    return supac.minimize(
        risk, parameters, BOUND, budget=budget, validation=0, seed=1, execution=execution, **words
    )


def gap(result: supac.Result) -> float:
    """Mean square of the residuals at the mean of the posterior, in those at the prior's."""
    parameters = result.record.parameters
    assert parameters is not None
    means = np.stack([np.asarray(result.posterior.mean), np.zeros(len(parameters))])
    x = parameters.from_latent(means)[:, :DIM]
    left = [float(np.mean(DATA.residuals(outputs(each)) ** 2)) for each in x]
    return left[0] / left[1]


def with_jacobians(result: supac.Result) -> list[bool]:
    return [run.jacobian is not None for run in result.record.runs]


def test_observation_parameters_have_no_column() -> None:
    def loss(residuals: FloatArray, z: FloatArray) -> FloatArray:
        return np.asarray((residuals**2 / z**2 + np.log(z**2)).mean(axis=1))

    noise = {"noise": marginals.LogNormal(1.0, 0.3)}
    every = supac.Parameters({**PARAMETERS.transforms, **noise})
    found = search(loss=loss, parameters=every, observation=1)
    shapes = [run.jacobian.shape for run in found.record.runs if run.jacobian is not None]
    assert shapes == [(ROWS, DIM)] * len(found.record.runs)
    assert gap(found) < 0.1 * gap(search(outputs, loss, every, observation=1))


def test_fields() -> None:
    found = search(parameters=FIELD)
    assert all(with_jacobians(found))
    assert gap(found) < 0.1 * gap(search(outputs, parameters=FIELD))


def test_failed_runs_have_none() -> None:
    def fails(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        return outputs(x) * (np.nan if x[0] > 4.0 else 1.0), slopes(x)

    found = search(fails, where={"on_failure": "penalise"}, budget=24)
    good = [run.ok for run in found.record.runs]
    assert not all(good)
    assert with_jacobians(found) == good
    assert gap(found) < 0.1


def test_a_noisy_simulator_with_smooth_derivatives() -> None:
    def noisy(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        rng = np.random.default_rng(np.abs(x).view(np.uint64))
        return outputs(x) + 0.1 * rng.standard_normal(ROWS), slopes(x)

    assert gap(search(noisy, budget=20)) < 0.1


@pytest.mark.parametrize("vectorized", [False, True])
def test_asynchronous_and_vectorized_searches(*, vectorized: bool) -> None:
    where: dict[str, Any] = {"vectorized": True}
    if not vectorized:
        where = {"workers": ThreadPoolExecutor(1), "mode": "async"}

    def many(x: FloatArray) -> tuple[FloatArray, list[FloatArray | None]]:
        rows = [slopes(each) if i % 2 else None for i, each in enumerate(x)]
        return np.array([outputs(each) for each in x]), rows

    found = search(many if vectorized else pair, where=where, budget=16)
    assert sum(with_jacobians(found)) >= 5
    assert gap(found) < 0.1


def test_a_function_that_costs_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    store = tmp_path / "run.supac"
    risk = supac.Composite(outputs, supac.MeanSquare(), DATA, jacobian=slopes, jacobian_cost=0.5)
    options: dict[str, Any] = {"validation": 0, "seed": 1}
    whole = supac.minimize(risk, PARAMETERS, BOUND, budget=20, **options)
    supac.minimize(risk, PARAMETERS, BOUND, budget=9, store=store, **options)
    found = supac.resume(store, risk, budget=20)
    assert found.posterior == whole.posterior
    assert with_jacobians(found) != [True] * len(found.record.runs)


def test_a_search_that_is_killed_in_a_batch_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    store, calls = tmp_path / "run.supac", [0]

    def mortal(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        calls[0] += 1
        if calls[0] == 5:
            raise KeyboardInterrupt
        return pair(x)

    with pytest.raises(KeyboardInterrupt):
        search(mortal, store=store)
    risk = supac.Composite(mortal, supac.MeanSquare(), DATA, jacobian=True)
    found, whole = supac.resume(store, risk, budget=12), search()
    assert found.posterior == whole.posterior
    assert calls[0] == len(whole.record.runs) + 1  # the one that was killed is made again


def test_known_runs(tmp_path: Path) -> None:
    store = tmp_path / "known.supac"
    before = search(store=store)
    found = search(known=store, budget=8)
    assert gap(found) <= 2.0 * gap(before)
    made = [run.jacobian is not None for run in found.record.runs if not run.source]
    assert all(made)


@pytest.mark.parametrize("vectorized", [False, True])
def test_a_jacobian_is_compared_with_differences(*, vectorized: bool) -> None:
    def many(x: FloatArray) -> tuple[FloatArray, list[FloatArray]]:
        return np.array([outputs(each) for each in x]), [slopes(each) for each in x]

    risk = supac.Composite(many if vectorized else pair, supac.MeanSquare(), DATA, jacobian=True)
    found = supac.check_jacobian(risk, PARAMETERS, vectorized=vectorized)
    assert not found.wrong
    assert str(found) == "agrees with differences of the outputs in 8 parameters"


def test_wrong_units_and_columns_are_told() -> None:
    def in_decades(x: FloatArray) -> FloatArray:
        return slopes(x) * np.where(np.arange(DIM) == 2, x[2] * np.log(10.0), 1.0)

    def swapped(x: FloatArray) -> FloatArray:
        return slopes(x)[:, [0, 2, 1, *range(3, DIM)]]

    at = np.full(DIM, 3.0)
    words = {
        in_decades: "differences are 0.1448 times the column of k2: units",
        swapped: "% of the",
    }
    for wrong, told in words.items():
        risk = supac.Composite(outputs, supac.MeanSquare(), DATA, jacobian=wrong)
        found = supac.check_jacobian(risk, PARAMETERS, at)
        assert found.wrong == (("k2",) if wrong is in_decades else ("k1", "k2"))
        assert told in str(found)


def test_what_has_no_jacobian_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="risk has no Jacobian"):
        supac.check_jacobian(supac.Composite(outputs, supac.MeanSquare(), DATA), PARAMETERS)
    risk = supac.Composite(outputs, supac.MeanSquare(), DATA, jacobian=lambda x: slopes(x).T)
    with pytest.raises(ValueError, match="is transposed"):
        supac.check_jacobian(risk, PARAMETERS)
