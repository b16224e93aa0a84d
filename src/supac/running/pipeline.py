"""What is under way in asynchronous mode: points that wait, runs in flight and runs that ended."""

from __future__ import annotations

from collections import Counter, deque

import numpy as np

from supac.record.run import Run
from supac.running import WorkerPool
from supac.running.evaluate import Evaluator
from supac.search.algorithm import Batch, State


class Pipeline:
    """Runs of several batches at a time, each with the batch and the row that it comes from."""

    def __init__(self, evaluator: Evaluator, flight: WorkerPool, next_batch: Batch):
        self._evaluator, self._flight = evaluator, flight
        self._waiting: deque[tuple[Batch, int]] = deque()
        self._plans: dict[int, tuple[Batch, int]] = {}
        # What an earlier process left untold, and what it left undone of the batch it was making.
        self.ended = [evaluator.again(run) for run in evaluator.ledger.take_searches()]
        rows = {point.tobytes(): row for row, point in enumerate(next_batch.x)}
        for run in self.ended:
            row = rows.pop(run.x.tobytes(), None)
            if row is not None:
                self._plans[run.id] = next_batch, row
        if self._plans:
            self._waiting.extend((next_batch, row) for row in rows.values())

    @property
    def idle(self) -> bool:
        """Whether all points have been launched."""
        return not self._waiting

    @property
    def under_way(self) -> int:
        """Runs that have ended, fly or wait."""
        return len(self.ended) + len(self._flight) + len(self._waiting)

    @property
    def empty(self) -> bool:
        """Whether nothing is under way any more."""
        return self.idle and not len(self._flight)

    def add(self, batch: Batch, most: int) -> int:
        """Queue at most so many points of a batch: how many."""
        count = max(min(len(batch.x), most), 0)
        self._waiting.extend((batch, row) for row in range(count))
        return count

    def launch(self, most: int) -> None:
        """Start runs until so many are in flight."""
        while self._waiting and len(self._flight) < most:
            batch, row = self._waiting.popleft()
            self._plans[self._evaluator.launch(batch.x[row])] = batch, row

    def land(self) -> None:
        """Collect what has ended."""
        self.ended += self._evaluator.land()

    def cut(self) -> None:
        """Forget what has not begun."""
        self._waiting.clear()
        self._flight.cancel()

    def take(self, state: State) -> tuple[list[Run], Batch]:
        """The runs that have ended, as a batch: those of the most common origin as its draws.

        Stragglers of other batches count as chosen on purpose. What was expected of the runs only
        judges the last step where most of them come from it.
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
