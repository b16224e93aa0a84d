from __future__ import annotations

import json
import sqlite3
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.codec import from_spec
from supac.problem import Batch, Evaluations, Role
from supac.record.encoding import state_from_spec, state_to_spec, unpack
from supac.record.store.store import read_config
from supac.search.algorithm import (
    State,
    TooManyStatisticsError,
    initial_state,
)

STORES = Path(__file__).parents[1] / "stores"
PLANE = supac.gaussian([0.0, 0.0], np.eye(2))
PROBLEM = supac.Problem.within(PLANE, supac.Catoni(0.1))


def stored(path: Path) -> list[Any]:
    """The states of a store as JSON: one, or one a task."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        value = json.loads(db.execute("SELECT value FROM state").fetchone()[0])
    db.close()
    return [task["state"] for task in value["tasks"] if task] if "tasks" in value else [value]


def without_later(spec: dict[str, Any]) -> dict[str, Any]:
    """A state as JSON without what version 0.1 did not know: of the last step, and of roles."""
    memory, batch = dict(spec["memory"]), dict(spec["batch"])
    words = ("nats", "shift", "promised", "step", "runs")
    later = [unpack(memory.pop(word)).item() for word in words]
    np.testing.assert_array_equal(later, [0.0, 0.0, np.nan, 0.0, 0.0])
    roles = batch.pop("role")
    assert batch.pop("step") == batch.pop("level") == [0] * len(roles)
    batch["drawn"] = [Role[role.upper()].drawn for role in roles]
    if np.isnan(unpack(batch["expected"])).all():
        batch["expected"] = None
    assert spec["untested"] == []
    return {"theta": spec["theta"], "memory": memory, "batch": batch}


@pytest.mark.parametrize(
    "name", ["composite-ended", "composite-killed", "problem-killed", "scalar-ended"]
)
def test_states_of_version_0_1_are_read_and_written_alike(name: str) -> None:
    prior = from_spec(read_config(STORES / f"{name}.supac")["prior"])
    start = prior.prior if isinstance(prior, supac.Parameters) else prior
    (spec,) = stored(STORES / f"{name}.supac")
    evaluations = Evaluations.none(start.dim)
    state = state_from_spec(spec, State(0, start, evaluations), evaluations)
    assert state.emulator is not None
    assert state.last_step is not None
    assert state.emulator.outliers.dtype == bool
    assert len(state.emulator.outliers) == len(state.emulator.inflation)
    assert without_later(state_to_spec(state)) == spec


def test_states_of_tasks_of_version_0_1_are_read_and_written_alike() -> None:
    specs = stored(STORES / "meta-killed.supac")
    assert len(specs) > 1
    for spec in specs:
        dim = spec["batch"]["x"][1][1]
        start = supac.gaussian(np.zeros(dim), np.eye(dim))
        evaluations = Evaluations.none(dim)
        state = state_from_spec(spec, State(0, start, evaluations), evaluations)
        assert without_later(state_to_spec(state)) == spec


@pytest.mark.parametrize(
    "algorithm",
    [
        supac.SuPAC(),
        supac.SuPAC(supac.Importance()),
        supac.SuPAC.paper(first=20, draws=500),
        supac.GradientDescent(batch=10),
        supac.Nesterov(batch=10),
        supac.HeavyBall(batch=10),
    ],
    ids=["emulator", "weights", "paper", "gradient", "nesterov", "heavy ball"],
)
def test_every_part_of_a_state_survives_a_file(algorithm: supac.Algorithm) -> None:
    """The state that was read goes on to the same bits as the one that was written."""
    state = algorithm.init(PROBLEM, 4)
    for _ in range(3):
        batch = algorithm.ask(PROBLEM, state)
        x = batch.x
        state, _ = algorithm.tell(PROBLEM, state, batch, np.sin(x).sum(axis=1))
    spec = json.loads(json.dumps(state_to_spec(state)))
    read = state_from_spec(spec, algorithm.init(PROBLEM, 4), state.evaluations)
    for part in ("last_step", "emulator", "momentum"):
        assert (getattr(read, part) is None) == (getattr(state, part) is None)
    batch = algorithm.ask(PROBLEM, state)
    x = batch.x
    np.testing.assert_array_equal(algorithm.ask(PROBLEM, read).x, x)
    on, _ = algorithm.tell(PROBLEM, state, batch, np.sin(x).sum(axis=1))
    again, _ = algorithm.tell(PROBLEM, read, batch, np.sin(x).sum(axis=1))
    np.testing.assert_array_equal(again.posterior.theta, on.posterior.theta)


def test_runs_say_why_they_were_made_in_whatever_order_they_come() -> None:
    x = PLANE.sample(6, 0)
    roles = [Role.MEAN, Role.BESIDE, Role.AHEAD, Role.DRAW, Role.TELLS, Role.PROBE]
    batch = Batch.of(x, PLANE, roles, 0, np.arange(6.0))
    order = [3, 1, 5, 0, 2, 4]
    planned = batch.planned
    late = Batch.gathered([planned[i] for i in order], PLANE, 2)
    np.testing.assert_array_equal(late.x, x[order])
    np.testing.assert_array_equal(late.role, np.array(roles)[order])
    np.testing.assert_array_equal(late.expected, order)
    told = initial_state(PROBLEM, 0).told(late, np.zeros(6))
    np.testing.assert_array_equal(told.drawn, [True, True, False, True, False, False])


def test_draws_are_the_same_until_a_batch_is_told() -> None:
    state = initial_state(PROBLEM, 7)
    x = state.draw(5)
    np.testing.assert_array_equal(state.draw(5), x)
    assert (state.draw(5, stream=3) != x).all()
    told = replace(state, evaluations=state.told(state.batch_of(x), np.zeros(5)))
    assert told.iteration == 1
    assert (told.draw(5) != x).all()
    assert (initial_state(PROBLEM, 8).draw(5) != x).all()


def test_wrong_shapes_are_refused() -> None:
    state = initial_state(PROBLEM, 0)
    x = state.draw(4)
    with pytest.raises(ValueError, match=r"risk must hold one number a point, shape \(4,\)"):
        state.told(state.batch_of(x), np.zeros(3))
    with pytest.raises(ValueError, match=r"outputs must hold one row a point, \(4, m\)"):
        state.told(state.batch_of(x), np.zeros(4), np.zeros(4))
    with pytest.raises(ValueError, match="risk"):
        state.told(state.batch_of(x), np.array([0.0, np.inf, 0.0, 0.0]))


def test_algorithms_are_widened_for_many_workers() -> None:
    supac_, nesterov = supac.SuPAC(), supac.Nesterov()
    assert nesterov.widened(400, 1_000, 0) is nesterov
    assert supac_.widened(10, 1_000, 0) is supac_
    assert supac_.widened(100, 1_000, 0) == supac.SuPAC(first=100, batch=25)
    assert supac_.widened(100, 60, 0) == supac.SuPAC(first=60, batch=25)
    assert supac_.widened(100, 5_000, 2_000) == supac.SuPAC(first=100, batch=100)
    chosen = supac.SuPAC(first=7, batch=9)
    assert chosen.widened(100, 1_000, 500) == chosen


def never(x: FloatArray) -> float:
    raise AssertionError(f"no run may be made, not even at {x}")


@pytest.mark.parametrize(
    ("algorithm", "dim", "message"),
    [
        (None, 1_001, r"1,001 parameters, and at most 1,000 .*coarser grid"),
        *[
            (each, 200, r"20,300 statistics.*default algorithm.*blocks=")
            for each in (supac.SuPAC.paper(), supac.Nesterov(), supac.SuPAC(supac.Ridge()))
        ],
    ],
)
def test_more_statistics_than_can_be_solved_for_are_refused(
    algorithm: supac.Algorithm | None, dim: int, message: str, tmp_path: Path
) -> None:
    prior = supac.gaussian(np.zeros(dim), np.eye(dim))
    store = tmp_path / "run.supac"
    tracemalloc.start()
    try:
        with pytest.raises(TooManyStatisticsError, match=message):
            supac.minimize(
                never, prior, supac.Catoni(0.1), budget=10**6, algorithm=algorithm, store=store
            )
        assert tracemalloc.get_traced_memory()[1] < 10 * 8 * dim**2 + 20 * 2**20
    finally:
        tracemalloc.stop()
    assert not store.exists()


@pytest.mark.parametrize(
    "prior",
    [
        supac.gaussian(np.zeros(64), np.eye(64)),
        supac.gaussian(np.zeros(200), np.eye(200)),
        supac.gaussian(np.zeros(200), np.ones(200)),
        supac.gaussian(np.zeros(200), np.eye(200), blocks=[range(40), range(40, 60)]),
    ],
    ids=["64", "200", "diagonal", "blocks"],
)
def test_problems_below_that_size_begin(prior: supac.Distribution) -> None:
    problem = supac.Problem.within(prior, supac.Catoni(0.1))
    algorithm = supac.SuPAC()
    batch = algorithm.ask(problem, algorithm.init(problem, 0))
    x = batch.x
    assert x.shape == (20, prior.dim)
