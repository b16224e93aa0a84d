"""Ids of the runs of one task, and runs of an earlier process that no round has used yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace

from supac.arrays import FloatArray
from supac.record.record import Record
from supac.record.run import Purpose, Run


class RunIndex:
    """Assign ids, and find runs of an earlier process by their points, the oldest first."""

    def __init__(self, record: Record, task: int = 0):
        told = {run for each in record.rounds if each.task == task for run in each.ids}
        mine = [run for run in record.light_runs if run.task == task]
        self.task = task
        untold = [run for run in mine if run.id not in told]
        self._untold: dict[tuple[Purpose, bytes], deque[Run]] = {}
        for run in untold:
            if not run.source:
                self._untold.setdefault((run.purpose, run.x.tobytes()), deque()).append(run)
        self._adopted = [run for run in untold if run.source]
        self._imported = {(run.source, run.x.tobytes()) for run in mine if run.source}
        self._used = {run.id for run in mine}
        self._highest = max(self._used, default=-1)
        self._next = len(told)

    def find(self, x: FloatArray, purpose: Purpose) -> Run | None:
        """Take an unused run of an earlier process with this point and purpose, if there is one.

        Like those of `take_searches` and `adopt`, it may lack its outputs: see `Record.iterate`.
        """
        runs = self._untold.get((purpose, x.tobytes()))
        if not runs:
            return None
        self._next += 1
        return runs.popleft()

    def take_searches(self) -> list[Run]:
        """Take all unused search runs of an earlier process, in the order of their ids."""
        mine = [key for key in self._untold if key[0] == "search"]
        runs = [run for key in mine for run in self._untold.pop(key)]
        return sorted(runs, key=lambda run: run.id)

    def reserve(self) -> int:
        """Return the id of the next requested run."""
        number = self._next
        if number in self._used:  # by a run of the same file under another budget
            number = self._highest + 1
        self._used.add(number)
        self._highest = max(self._highest, number)
        self._next += 1
        return number

    def adopt(self, imported: Iterable[Run]) -> list[Run]:
        """Return imported runs that no round has used: recorded ones, then new ones with ids."""
        runs, self._adopted = self._adopted, []
        for run in imported:
            if (run.source, run.x.tobytes()) not in self._imported:
                runs.append(replace(run, id=self.reserve(), task=self.task))
        return runs
