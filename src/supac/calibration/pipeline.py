"""Queue of asynchronous mode: waiting points, running runs, completed runs."""

from __future__ import annotations

from collections import Counter, deque

import numpy as np

from supac.record.run import Run
from supac.running.runner import Runner
from supac.search.algorithm import Batch, State


class Pipeline:
    """Runs of several batches at a time, each with its batch and row."""

    def __init__(self, runner: Runner, next_batch: Batch):
        self._runner = runner
        self._waiting: deque[tuple[Batch, int]] = deque()
        self._plans: dict[int, tuple[Batch, int]] = {}
        # An earlier process may have left completed runs, and a batch that is not complete.
        self.ended = runner.take_untold()
        rows = {point.tobytes(): row for row, point in enumerate(next_batch.x)}
        for run in self.ended:
            row = rows.pop(run.x.tobytes(), None)
            if row is not None:
                self._plans[run.id] = next_batch, row
        if self._plans:
            self._waiting.extend((next_batch, row) for row in rows.values())

    @property
    def idle(self) -> bool:
        """True if all points have been submitted."""
        return not self._waiting

    @property
    def under_way(self) -> int:
        """Number of runs completed, running or waiting."""
        return len(self.ended) + len(self._runner.pool) + len(self._waiting)

    @property
    def empty(self) -> bool:
        """True if nothing is running or waiting."""
        return self.idle and not len(self._runner.pool)

    def add(self, batch: Batch, most: int) -> int:
        """Queue at most `most` points of a batch; return their number."""
        count = max(min(len(batch.x), most), 0)
        self._waiting.extend((batch, row) for row in range(count))
        return count

    def submit(self, most: int) -> None:
        """Start runs until `most` are running."""
        while self._waiting and len(self._runner.pool) < most:
            batch, row = self._waiting.popleft()
            self._plans[self._runner.submit(batch.x[row])] = batch, row

    def collect(self) -> None:
        """Collect completed runs."""
        self.ended += self._runner.collect()

    def cut(self) -> None:
        """Cancel the points that have not started."""
        self._waiting.clear()
        self._runner.cancel()

    def take(self, state: State) -> tuple[list[Run], Batch]:
        """Return completed runs as a batch, those of the most common batch as its draws.

        Runs of other batches count as designed points. Their expected risks are kept only if most
        runs come from the last step.
        """
        runs, self.ended = sorted(self.ended, key=lambda run: run.id), []
        origins = [self._plans.pop(run.id, None) for run in runs]
        known = [origin for origin in origins if origin is not None]
        counts = Counter(id(batch) for batch, _ in known)
        main = next((b for b, _ in known if id(b) == counts.most_common(1)[0][0]), None)
        drawn = np.zeros(len(runs), dtype=bool)
        expected = np.full(len(runs), np.nan)
        for i, origin in enumerate(origins):
            if origin is not None:
                batch, row = origin
                drawn[i] = batch is main and batch.drawn[row]
                if batch.expected is not None:
                    expected[i] = batch.expected[row]
        latest = main is not None and state.batch is not None and main.x is state.batch.x
        return runs, Batch(
            np.array([run.x for run in runs]),
            state.posterior if main is None else main.proposal,
            drawn,
            expected if latest and bool(np.isfinite(expected).all()) else None,
        )
