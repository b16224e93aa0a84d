"""A line for each round of a search, for logs, where there is no terminal to draw on."""

from __future__ import annotations

import time

from supac.calibration.loop import Iteration
from supac.cli.app import inform
from supac.record.record import Record
from supac.report.standing import words_on_time
from supac.running.terminal import duration
from supac.search.algorithm import Info


class RoundLines:
    """Callback of a search that prints a line after each round."""

    def __init__(self, budget: int):
        self._budget = budget
        self._first: tuple[int, float] | None = None

    def __call__(self, event: Iteration) -> None:
        """Print the estimates of the posterior that drew the batch, and the time left."""
        now, left = time.monotonic(), ""
        if self._first is None:  # after a resume, earlier runs say nothing about the pace
            self._first = event.queries, now
        elif event.queries > self._first[0]:
            pace = (now - self._first[1]) / (event.queries - self._first[0])
            left = f"; {duration(pace * max(self._budget - event.queries, 0))} left"
        inform(_line(event.queries, self._budget, event.info) + left)


def line_of(run: Record) -> str:
    """Return the line of the last round in a store."""
    queries = int(run.history["queries"][-1])
    return f"{_line(queries, run.budget, run.rounds[-1].info)}; time left: {words_on_time(run)}"


def _line(queries: int, budget: int, info: Info) -> str:
    return (
        f"{time.strftime('%H:%M:%S')} {queries} of {budget} runs: objective {info.objective:.4g}, "
        f"mean risk {info.mean_risk:.4g}, KL {info.kl:.3g}"
    )
