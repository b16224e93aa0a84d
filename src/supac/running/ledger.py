"""The runs of one search: their numbers, what was made before, and what is on the disk."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from supac.arrays import FloatArray, frozen
from supac.exchange import KnownRuns
from supac.problem.parameters import Parameters
from supac.record.run import Run, Status
from supac.record.store import Round


class Shelf(Protocol):
    """Where the runs of one search are kept: a store, or one task's part of one."""

    @property
    def runs(self) -> Mapping[int, Run]:
        """What was there at the beginning."""

    @property
    def rounds(self) -> Sequence[Round]:
        """What had been told."""

    @property
    def width(self) -> int | None:
        """How many outputs a run has, where one is known."""

    def keep(self, runs: Sequence[Run]) -> None:
        """Runs that have ended, on the disk when this returns."""


class Ledger:
    """Gives each run its number, and finds those that an earlier process has made.

    A run is known again by its point. Of several at one point the first made is the first found.
    """

    def __init__(self, store: Shelf | None = None):
        self._store = store
        kept = {} if store is None else store.runs
        told = {run for each in (() if store is None else store.rounds) for run in each.ids}
        self.width = None if store is None else store.width
        """Outputs of a good run, where there was one."""
        self.any_good = any(run.status is Status.OK for run in kept.values())
        untold = [run for run in kept.values() if run.id not in told]
        self._untold: dict[bytes, deque[Run]] = {}
        for run in untold:
            if not run.source:
                self._untold.setdefault(run.x.tobytes(), deque()).append(run)
        self._adopted = [run for run in untold if run.source]
        self._imported = {(run.source, run.x.tobytes()) for run in kept.values() if run.source}
        self._used = set(kept)
        self._highest = max(kept, default=-1)
        self._next = len(told)

    def find(self, x: FloatArray) -> Run | None:
        """A run at this point that was made, but not learnt from; each is found once."""
        runs = self._untold.get(x.tobytes())
        return runs.popleft() if runs else None

    def take_searches(self) -> list[Run]:
        """All such runs that were made to search, not to validate."""
        runs = [run for each in self._untold.values() for run in each if run.purpose == "search"]
        self._untold = {
            point: deque(run for run in each if run.purpose != "search")
            for point, each in self._untold.items()
        }
        return sorted(runs, key=lambda run: run.id)

    def number(self, ahead: int = 0) -> int:
        """The id of the run that is asked for after so many others."""
        number = self._next + ahead
        if number in self._used:  # by a run of the same file under another budget
            number = self._highest + 1
        self._used.add(number)
        self._highest = max(self._highest, number)
        return number

    def advance(self, count: int) -> None:
        """So many runs were asked for."""
        self._next += count

    def record(self, runs: Sequence[Run]) -> None:
        """On the disk when this returns; a run that is there already is replaced."""
        if self._store is not None and runs:
            self._store.keep(runs)

    def adopt(self, known: KnownRuns | None, parameters: Parameters | None) -> list[Run]:
        """Runs that were made elsewhere and are not yet learnt from, recorded with their source."""
        before, self._adopted = self._adopted, []
        if known is None:
            return before
        runs = []
        for row, point in enumerate(known.latent(parameters)):
            if (known.sources[row], point.tobytes()) in self._imported:
                continue
            outputs = None if known.outputs is None else known.outputs[row]
            values = known.risk[row] if outputs is None else outputs
            good = known.statuses[row] is Status.OK and bool(np.isfinite(values).all())
            run = Run(
                self.number(),
                frozen(np.array(point)),
                Status.OK if good else known.failure(row),
                float(known.risk[row]) if good and outputs is None else np.nan,
                seconds=float(known.seconds[row]),
                message="" if good else known.messages[row] or "no value",
                source=known.sources[row],
            )
            runs.append(run if outputs is None or not good else replace(run, outputs=outputs))
            self.advance(1)
        return before + runs
