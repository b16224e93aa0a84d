"""Runs of a coarse model, and the stage of a search that makes them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Generic, TypeVar

import numpy as np

from supac.arrays import BoolArray, FloatArray, IntArray
from supac.problem import Evaluations, Role

_State = TypeVar("_State")


class CoarseStage(Enum):
    """Stage of a search with a coarse model."""

    PAIRS = "pairs"
    """The first points are run on both levels."""
    REST = "rest"
    """The coarse model is of no use: the first batch of fine runs is completed."""
    SEARCH = "search"
    """The coarse model is searched."""
    BESIDE = "beside"
    """Fine runs are made, each with a coarse one beside it."""
    BETWEEN = "between"
    """Steps are made on coarse runs alone, until fine ones test them together."""
    ENDED = "ended"
    """No further coarse run is made."""


@dataclass(frozen=True, eq=False)
class Together:
    """Hold the gain of steps that the next fine runs test together."""

    previous: FloatArray
    """θ before the first of them."""
    gain: float
    nats: float
    shift: float
    count: int = 0
    """Steps on coarse runs alone."""


@dataclass(frozen=True, eq=False)
class CoarseRuns(Generic[_State]):
    """Hold the coarse runs of a search, and what it does with them.

    Their columns have the same rounds as those of the fine runs: a round without coarse runs is
    there, with none.
    """

    stage: CoarseStage
    runs: Evaluations
    cost: float
    """Cost of a coarse run in fine ones; NaN if it is to be measured."""
    useful: bool = True
    """False if the first pairs of runs have shown that the coarse model is of no use."""
    differs: float = np.nan
    """Share of the differences between fine runs that the coarse model misses."""
    search: _State | None = None
    """State of the search of the coarse model; the last one, after it."""
    idle: int = 0
    """Rounds, the last ones, in which coarse runs were of no use."""
    together: Together | None = None
    settled: int = 0
    """Good coarse runs after which the search of the coarse model had settled; 0 before."""


def of_level(runs: Evaluations, level: int) -> Evaluations:
    """Return the runs of one level, in the rounds of all."""
    return runs.select(runs.level == level)


def made_here(runs: Evaluations) -> BoolArray:
    """Return True for runs that were not made elsewhere: (n,)."""
    return runs.role != Role.KNOWN


def without_round(runs: Evaluations, number: int) -> Evaluations:
    """Return the runs with those of one round told in the next; all if there is no such round."""
    iteration: IntArray = np.where(runs.iteration > number, runs.iteration - 1, runs.iteration)
    iteration.flags.writeable = False
    proposals = (*runs.proposals[:number], *runs.proposals[number + 1 :])
    return replace(runs, iteration=iteration, proposals=proposals)
