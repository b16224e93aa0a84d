"""Stages of a search, and the table of what leads from one to the next.

`placement.py` has the table of what each stage runs next.
"""

from __future__ import annotations

from enum import Enum, IntEnum

from supac.problem import Evaluations, Role
from supac.surrogate.estimator import BatchPlan


class Stage(Enum):
    """Name where a search is; its next batch is planned for it."""

    OPENING = "opening"
    """No run was made for it, nor are enough known: a first batch is due."""
    KNOWN = "known"
    """Enough runs were made elsewhere to make steps before the first run of its own."""
    BEGUN = "begun"
    """It has runs, of which too few succeeded for a step."""
    MOVING = "moving"
    """The last step gained so much that a large batch would soon be out of place."""
    SETTLED = "settled"
    """The last step gained little."""
    RESUMED = "resumed"
    """It had settled, and a step has gained much again."""
    AGAIN = "again"
    """It has left a posterior to begin again around a run."""
    AFRESH = "afresh"
    """It has left a posterior to begin again with draws of the start."""

    @property
    def moves(self) -> bool:
        """Return True if batches are small."""
        return self in (Stage.MOVING, Stage.RESUMED)

    @property
    def has_settled(self) -> bool:
        """Return True if a step must gain more than at first to count as moving."""
        return TRANSITIONS[self][Outcome.MOVES] is Stage.RESUMED


class Outcome(IntEnum):
    """Name what a round came to: a column of `TRANSITIONS`."""

    NO_STEP = 0
    """Too few runs succeeded."""
    MOVES = 1
    """A step gained much."""
    RESTS = 2
    """A step gained little."""


TRANSITIONS = {
    #               no step        moves          rests
    Stage.OPENING: (Stage.OPENING, Stage.OPENING, Stage.OPENING),
    Stage.KNOWN:   (Stage.BEGUN,   Stage.MOVING,  Stage.SETTLED),
    Stage.BEGUN:   (Stage.BEGUN,   Stage.MOVING,  Stage.SETTLED),
    Stage.MOVING:  (Stage.MOVING,  Stage.MOVING,  Stage.SETTLED),
    Stage.SETTLED: (Stage.SETTLED, Stage.RESUMED, Stage.SETTLED),
    Stage.RESUMED: (Stage.RESUMED, Stage.RESUMED, Stage.SETTLED),
    Stage.AGAIN:   (Stage.AGAIN,   Stage.MOVING,  Stage.SETTLED),
    Stage.AFRESH:  (Stage.AFRESH,  Stage.MOVING,  Stage.SETTLED),
}  # fmt: skip
"""The stage after a round. Runs, not steps, end the opening (`opened`); `restart.py` begins anew,
which leads to AGAIN or AFRESH from any stage."""


def opened(stage: Stage, runs: Evaluations, plan: BatchPlan) -> Stage:
    """Return the stage once runs are told: own ones, or enough known ones, end an opening."""
    if stage is not Stage.OPENING:
        return stage
    if (runs.role != Role.KNOWN).any():
        return Stage.BEGUN
    return Stage.KNOWN if plan.few and runs.ok.sum() >= plan.first else Stage.OPENING


def next_stage(stage: Stage, outcome: Outcome) -> Stage:
    """Return the stage after a round."""
    return TRANSITIONS[stage][outcome]
