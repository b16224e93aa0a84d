"""A search at one moment, as the parts of the live page need it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from supac.arrays import FloatArray
from supac.record.many_parameters import shown
from supac.record.outlook import Promise, promise, seconds_left
from supac.record.record import Record
from supac.record.run import Run
from supac.record.timeline import Span
from supac.report.account import Account

RUNNING, LOST = "running", "lost"
"""Status of a run in progress, and of one whose process ended before it did."""
_PARAMETERS = 12  # of many, those in the table
_LONG = 3.0  # times the usual duration of a run, from which it is called long


@dataclass(frozen=True)
class Begun:
    """A run that has begun and not ended."""

    id: int
    span: Span
    seconds: float
    """Time since it began."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """An account of a search, and the time at which it was read."""

    account: Account
    now: float
    """Seconds since 1970."""

    @property
    def record(self) -> Record:
        """The record of the search."""
        return self.account.record

    @property
    def live(self) -> bool:
        """True while a process writes to the file."""
        return self.record.running

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """Runs of the search and its validation, in the order of their ids."""
        return self.record.search_runs

    @cached_property
    def spans(self) -> dict[int, Span]:
        """When and where the runs of the search were made, by id; also those in progress.

        Lost runs end where they begin: nobody knows when they were lost.
        """
        other = {r.id for r in self.record.light_runs} - {run.id for run in self.runs}
        return {
            i: span if self.live or span.ended > 0.0 else replace(span, ended=span.started)
            for (task, i), span in self.record.timeline.items()
            if task == 0 and i not in other
        }

    @cached_property
    def begun(self) -> list[Begun]:
        """Runs without an end, the longest first."""
        made = {run.id for run in self.runs}
        open_ends = {i: span for i, span in self.spans.items() if i not in made}
        return sorted(
            (Begun(i, span, max(self.now - span.started, 0.0)) for i, span in open_ends.items()),
            key=lambda each: -each.seconds,
        )

    @cached_property
    def usual(self) -> float:
        """Median duration of the successful runs, in seconds; NaN if there are none."""
        known = [run.seconds for run in self.runs if run.ok and not run.source]
        return float(np.median(known)) if known else math.nan

    def is_long(self, seconds: float) -> bool:
        """Return True for a duration far above the usual one."""
        return seconds > _LONG * self.usual + 0.2

    @cached_property
    def rounds_of(self) -> dict[int, int]:
        """Number of the round that learnt from each run, from 1 on; 0 for fresh runs."""
        fresh = {run.id: 0 for run in self.runs if run.purpose == "validation"}
        told = {i: k for k, each in enumerate(self.record.rounds, start=1) for i in each.ids}
        return told | fresh

    @cached_property
    def columns(self) -> list[int]:
        """Indices of the parameters in the table: of many, those that changed most."""
        rows = self.account.learnt
        if len(self.account.names) > _PARAMETERS and rows:
            return sorted(shown(rows, self.record.parameters, _PARAMETERS)[:_PARAMETERS])
        return list(range(min(len(self.account.names), _PARAMETERS)))

    @cached_property
    def points(self) -> FloatArray:
        """Points of the runs in the user's units: (n, dim)."""
        return self.record.points(self.runs)

    def point_of(self, run: Begun) -> list[float]:
        """Return the parameters in the table of a run in progress, in the user's units."""
        x, parameters = run.span.x, self.record.parameters
        if x is None or len(x) != len(self.account.names):
            return [math.nan] * len(self.columns)
        units = x if parameters is None else parameters.from_latent(x[None])[0]
        return [float(units[i]) for i in self.columns]

    @cached_property
    def promise(self) -> Promise:
        """Gain that another 20 runs would bring."""
        return promise(self.record)

    @cached_property
    def seconds_left(self) -> float:
        """Seconds until the budget is spent; NaN if unknown."""
        return seconds_left(self.record, self.now)
