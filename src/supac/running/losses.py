"""Runs that the machine took: they are made again, and a search that loses one too often ends."""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from functools import partial

import numpy as np

from supac.record.record import Record
from supac.record.run import Run
from supac.record.timeline import Loss
from supac.running.futures import ExecutionError
from supac.running.simulator import Answer
from supac.simulators.lost import OUT_OF_MEMORY

_UNSTARTED = 20  # losses of a run that had not begun: somebody takes every worker away
_LATEST, _MOST_OF_THEM = 100, 0.9  # runs by which, and the share of them after which, one ends


class RunsLostError(ExecutionError):
    """A run was lost again and again: the search ends, and learns nothing from it."""


class Losses:
    """Count the losses of each run, and keep them in the record apart from its runs."""

    def __init__(self, record: Record, retries: int):
        self._record, self._retries = record, retries
        self._counted, self._unstarted = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
        self._seconds: defaultdict[int, deque[float]] = defaultdict(partial(deque, maxlen=_LATEST))
        self.time_runs(record.light_runs)

    def usual(self, level: int) -> float:
        """Seconds that nine of ten runs of a level take at most; 0 as long as none has ended."""
        known = self._seconds[level]
        return float(np.quantile(known, _MOST_OF_THEM)) if known else 0.0

    def time_runs(self, runs: Iterable[Run]) -> None:
        """Learn from runs that have ended how long others of their level will take."""
        for run in runs:
            if run.ok and not run.source:
                self._seconds[run.level].append(run.seconds)

    def note(self, task: int, run: int, place: str, answer: Answer) -> None:
        """Record a loss; RunsLostError if this run was lost too often to be made again."""
        key = task, run
        self._counted[key] += answer.attempts > 0
        self._unstarted[key] += answer.attempts == 0
        if not answer.late or answer.attempts:  # it was only sent elsewhere
            self._record.note_losses([Loss(task, run, time.time(), answer.message)])
        counted, unstarted = self._counted[key], self._unstarted[key]
        if counted <= self._retries and unstarted <= _UNSTARTED:
            return
        times = "once" if counted == 1 else f"{counted or unstarted} times"
        raise RunsLostError(
            f"the run at {place} was lost {times}, the last time {answer.message}. "
            f"{_advice(answer)} The search has learnt nothing from it: once that is mended, go on "
            "with supac resume"
        )


def _advice(answer: Answer) -> str:
    """Say where to look for the cause."""
    if OUT_OF_MEMORY in answer.message:
        return "Give the runs more memory (memory of the job, fewer workers on a node)."
    if answer.late or "SIGTERM" in answer.message:
        return "Look at the walltime of the jobs: it must be longer than a run."
    return "Look at the log of its job: at memory and walltime first, then at the node."
