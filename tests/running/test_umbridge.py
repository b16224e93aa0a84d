from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

import supac
from extras import needs
from servers import free_port, serving
from supac.arrays import FloatArray
from supac.simulators.umbridge import UMBridgeError

needs("umbridge")

PLANE = supac.gaussian([0.0, 0.0], np.eye(2))
QUICK = supac.SuPAC(supac.Voronoi(draws=500), supac.FixedStep(), first=10, batch=10)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving() as (url, _):
        yield url


def wave(x: FloatArray) -> float:
    return 0.5 + 0.15 * (math.sin(x[0]) + math.sin(x[1]))


def misfit(x: FloatArray) -> list[float]:
    return [x[0] - 1.0, x[1] + 0.5, x[0] * x[1]]


def minimize(risk: object, **options: object) -> supac.Result:
    settings: dict[str, object] = {"budget": 30, "algorithm": QUICK, **options}
    return supac.minimize(risk, PLANE, supac.Catoni(0.05), **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("executor", [None, 2])
def test_a_risk_behind_a_server_gives_the_bits_of_the_function(
    server: str, executor: int | None
) -> None:
    model = supac.UMBridge(server, "wave")
    assert minimize(model, execution=executor).posterior == minimize(wave).posterior


def test_all_outputs_of_a_model_are_those_of_a_composite(server: str) -> None:
    model = supac.UMBridge(server, "misfit")
    far, near = (
        minimize(supac.Composite(simulate, supac.MeanSquare()), algorithm=None, budget=24)
        for simulate in (model, misfit)
    )
    assert far.posterior == near.posterior
    np.testing.assert_array_equal(far.evaluations.outputs, near.evaluations.outputs)


def test_a_model_is_told_its_config(server: str) -> None:
    assert supac.UMBridge(server, "wave", {"height": 0.0})([0.3, 0.4]) == [0.5]


def test_a_model_travels_without_its_connection(server: str) -> None:
    model = supac.UMBridge(server, "wave")
    here = model([0.3, 0.4])
    result = minimize(model, execution=1)
    assert len(result.evaluations) == 30
    assert model([0.3, 0.4]) == here


def dead_server() -> str:
    return f"http://127.0.0.1:{free_port()}"


def test_errors_are_translated(server: str) -> None:
    point = [1.0, 2.0]
    with pytest.raises(UMBridgeError, match="no UM-Bridge server answers at http://127"):
        supac.UMBridge(dead_server(), "wave")(point)
    with pytest.raises(UMBridgeError, match=r"has no model 'waves', but wave, misfit"):
        supac.UMBridge(server, "waves")(point)
    with pytest.raises(UMBridgeError, match="'wave' takes 2 parameters, not 3"):
        supac.UMBridge(server, "wave")([1.0, 2.0, 3.0])
    with pytest.raises(UMBridgeError, match="the server failed: Model returned error of type Inv"):
        supac.UMBridge(server, "wrong")(point)
    for name in ("dry", "nowhere"):
        with pytest.raises(UMBridgeError, match=f"'{name}' raises an exception or returns NaN"):
            supac.UMBridge(server, name)(point)


@pytest.mark.parametrize("executor", [None, 2])
def test_failures_of_the_server_are_recorded_and_penalised(
    server: str, executor: int | None
) -> None:
    model = supac.UMBridge(server, "dry")
    result = minimize(model, execution=supac.Execution(executor, on_failure="penalise"))
    assert len(result.failures) == (result.evaluations.x[:, 0] > 0.5).sum() > 0
    assert all(run.status is supac.Status.RAISED for run in result.failures)
    assert all("UMBridgeError: the server failed" in run.message for run in result.failures)


@pytest.mark.parametrize("executor", [None, 1])
def test_without_the_server_or_the_model_no_run_can_be_made(
    server: str, executor: int | None
) -> None:
    for url, message in ((dead_server(), "no UM-Bridge server answers"), (server, "has no model")):
        with pytest.raises(supac.EvaluationError, match=f"UMBridgeError: .*{message}"):
            minimize(
                supac.UMBridge(url, "waves"),
                execution=supac.Execution(executor, on_failure="penalise"),
            )


def test_a_server_that_dies_is_a_failure_of_the_runs_after_it() -> None:
    with serving() as (url, process):
        calls: list[int] = []

        def stop(iteration: supac.Iteration) -> None:
            calls.append(iteration.queries)
            process.kill()
            process.wait()

        result = minimize(
            supac.UMBridge(url, "wave"),
            execution=supac.Execution(on_failure="penalise"),
            callback=stop,
        )
    assert calls[0] == 10
    assert len(result.failures) == len(result.evaluations) - 10 > 0
    assert all("UMBridgeError: the server failed" in run.message for run in result.failures)


def test_the_wrong_number_of_parameters_is_an_error_that_says_so(server: str) -> None:
    line = supac.gaussian([0.0], [[1.0]])
    with pytest.raises(supac.EvaluationError, match="takes 2 parameters, not 1"):
        supac.minimize(supac.UMBridge(server, "wave"), line, supac.Catoni(0.1), budget=40)
