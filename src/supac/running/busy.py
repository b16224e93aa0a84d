"""Share of their time in which workers make runs."""

from __future__ import annotations

import time
from collections.abc import Sequence

from supac.running.simulator import Answer, WorkerPool


class BusyShare:
    """Compare the time of runs that have ended with the time that there were workers for them."""

    def __init__(self) -> None:
        self._last: float | None = None
        self._runs = self._workers = 0.0
        self._latest = 0

    def add(self, ended: Sequence[Answer], pool: WorkerPool) -> None:
        """Count runs that have ended, and the workers since the last call."""
        now = time.monotonic()
        if self._last is not None:
            self._workers += pool.capacity * (now - self._last)
        self._last, self._latest = now, pool.capacity
        self._runs += sum(each.seconds for each in ended)

    @property
    def share(self) -> float:
        """Share of the workers' time, at most 1; 1 before any is known."""
        return min(self._runs / self._workers, 1.0) if self._workers else 1.0

    @property
    def words(self) -> str:
        """Say how busy the workers are; "" for a single one."""
        if self._latest < 2 or not self._runs:
            return ""
        return f"{100.0 * self.share:.0f} % of {self._latest} workers busy"
