"""Stages of a search: their table, and those of stores that were written before there were any."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import supac
from supac.problem import Role
from supac.record.encoding import state_from_spec, state_to_spec
from supac.search.algorithm import Abandoned, LastStep, State
from supac.search.placement import PLACEMENTS, PLACEMENTS_OF_DRAWS, PLACEMENTS_OF_MANY, SIZES
from supac.search.stages import TRANSITIONS, Outcome, Stage, next_stage

SPACE = supac.gaussian(np.zeros(3), np.eye(3))
PROBLEM = supac.Problem.within(SPACE, supac.Catoni(0.1))


@pytest.mark.parametrize("table", [TRANSITIONS, SIZES, PLACEMENTS, PLACEMENTS_OF_MANY])
def test_each_table_has_a_row_for_each_stage(table: dict[Stage, object]) -> None:
    assert list(table) == list(Stage)
    assert list(PLACEMENTS_OF_DRAWS) == list(Stage)


def test_the_table_leads_from_every_beginning_to_every_stage_of_a_search() -> None:
    for begun in (Stage.KNOWN, Stage.BEGUN, Stage.AGAIN, Stage.AFRESH):
        reached, new = {begun}, {begun}
        while new:
            new = {next_stage(each, way) for each in new for way in Outcome} - reached
            reached |= new
        own = {Stage.MOVING, Stage.SETTLED, Stage.RESUMED}
        assert reached - {Stage.BEGUN} >= own
        assert not reached & {Stage.OPENING, Stage.AGAIN, Stage.AFRESH} - {begun}


def with_runs(role: Role = Role.DRAW) -> State:
    state = supac.SuPAC().init(PROBLEM, 0)
    x = SPACE.sample(5, 0)
    return replace(state, evaluations=state.told(state.batch_of(x, role), x[:, 0]), batch=None)


def stepped(nats: float) -> State:
    return replace(with_runs(), last_step=LastStep(2.0, SPACE.theta, 1.0, nats))


def left(posterior: supac.Distribution) -> State:
    abandoned = Abandoned(SPACE.theta[None], np.array([0.5]))
    return replace(with_runs(), abandoned=abandoned, posterior=posterior)


AWAY = supac.gaussian(np.ones(3), np.eye(3))


@pytest.mark.parametrize(
    ("state", "settled", "stage"),
    [
        (supac.SuPAC().init(PROBLEM, 0), False, Stage.OPENING),
        (with_runs(Role.KNOWN), False, Stage.OPENING),
        (with_runs(), False, Stage.BEGUN),
        (stepped(0.0), False, Stage.BEGUN),  # of version 0.1, which did not keep it
        (stepped(4.0), False, Stage.MOVING),
        (stepped(4.0), True, Stage.SETTLED),
        (stepped(13.0), True, Stage.RESUMED),
        (left(AWAY), False, Stage.AGAIN),
        (left(SPACE), False, Stage.AFRESH),
    ],
)
def test_a_state_of_an_earlier_store_has_the_stage_of_its_last_step(
    state: State, settled: bool, stage: Stage
) -> None:
    spec = state_to_spec(replace(state, stage=Stage.RESUMED))
    start = replace(state, posterior=SPACE)
    assert state_from_spec(spec, start, state.evaluations).stage is Stage.RESUMED
    del spec["stage"]
    if settled:
        spec["memory"]["settled"] = spec["memory"]["radius"]  # any number but zero
    assert state_from_spec(spec, start, state.evaluations).stage is stage
