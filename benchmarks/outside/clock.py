"""Workers on a virtual clock: searches without batches that do not depend on the machine's load."""

from __future__ import annotations

import heapq
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

import numpy as np

from supac.running.futures import FuturesPool

_LOOK = 0.01  # seconds between two looks at whether the search waits for a result


class VirtualWorkers(Executor):
    """Make each run at once, and hand it over when it is the next to end by the virtual clock.

    A run takes 0.5 to 1.5 units of time, and learning none: the clock stands still until all
    workers are busy, or the search, which is in the thread that makes these workers, waits.
    """

    def __init__(self, workers: int, seed: int) -> None:
        self.num_workers = workers
        self.now = 0.0
        self._rng = np.random.default_rng([seed, workers])
        self._running: list[tuple[float, int, Future[Any], Any]] = []
        self._submitted = 0
        self._changed = threading.Condition()
        self._closed = False
        self._search = threading.get_ident()
        threading.Thread(target=self._attend, daemon=True).start()

    def submit(self, function: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        """Make a run; if all workers are busy now, the first of them ends."""
        answer, future = function(*given, **named), Future[Any]()
        with self._changed:
            end = self.now + self._rng.uniform(0.5, 1.5)
            heapq.heappush(self._running, (end, self._submitted, future, answer))
            self._submitted += 1
            ended = self._next() if len(self._running) >= self.num_workers else None
            self._changed.notify()
        if ended is not None:
            ended[0].set_result(ended[1])
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the thread that waits."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _attend(self) -> None:
        """Hand over a result whenever the search waits, at two looks without a run between."""
        seen = -1
        while True:
            with self._changed:
                self._changed.wait(_LOOK)
                if self._closed:
                    return
                waits = self._waits() and self._running
                ended = self._next() if waits and seen == self._submitted else None
                seen = self._submitted if waits and ended is None else -1
            if ended is not None:
                ended[0].set_result(ended[1])

    def _waits(self) -> bool:
        frame = sys._current_frames().get(self._search)
        return frame is not None and frame.f_code is FuturesPool._wait.__code__

    def _next(self) -> tuple[Future[Any], Any]:
        self.now, _, future, answer = heapq.heappop(self._running)
        return future, answer
