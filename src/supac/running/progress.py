"""Progress bars: queries, objective, KL, failures, time left."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from supac.record.run import Run, Status
from supac.search.algorithm import Info

if TYPE_CHECKING:
    from rich.progress import Progress


class Bar:
    """Progress bar on standard error; by default only on a terminal."""

    def __init__(self, total: int, show: bool | None):
        shown = sys.stderr.isatty() if show is None else show
        self._progress = _make_bar() if shown else None
        self._task = None if self._progress is None else self._progress.add_task("", total=total)
        self.failed = 0

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def draw(self, completed: float, words: str) -> None:
        """Show the completed amount and a description."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=completed, description=words)


class ProgressBar(Bar):
    """Progress bar of a search."""

    def __init__(self, budget: int, show: bool | None):
        super().__init__(budget, show)
        self._landed, self._done, self._budget = 0, 0, budget
        self._start, self._words, self._best = time.monotonic(), "runs", math.inf

    def resume(self, words: str, failed: int, done: int) -> None:
        """Print that a search continues, with the numbers of failed and completed runs."""
        self.failed, self._done = failed, done
        if self._progress is not None:
            self._progress.console.print(words, markup=False, highlight=False)
        self._show()

    def watch(self, runs: Sequence[Run]) -> None:
        """Count completed runs."""
        self.failed += sum(run.status is not Status.OK for run in runs)
        self._landed += len(runs)
        self._done += len(runs)
        self._show()

    def update(self, queries: int, info: Info) -> None:
        """Show the diagnostics of a round."""
        if math.isfinite(info.objective):
            self._best = min(self._best, info.objective)
        self._words = f"objective {info.objective:.3g}, best {self._best:.3g}, KL {info.kl:.3g}"
        self._done = max(self._done, queries)
        self._show()

    def _show(self) -> None:
        words = self._words + f", {self.failed} failed" * bool(self.failed) + self._left()
        self.draw(self._done, words)

    def _left(self) -> str:
        """Estimate the remaining time from the pace of this process."""
        if not self._landed or self._done >= self._budget:
            return ""
        seconds = (time.monotonic() - self._start) / self._landed * (self._budget - self._done)
        return f", {duration(seconds)} left"


def _make_bar() -> Progress:
    from rich.console import Console  # noqa: PLC0415 - slow to import, and not always needed
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
    )

    console = Console(stderr=True)
    return Progress(
        BarColumn(bar_width=max(6, min(24, console.width - 76))),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        console=console,
    )


def duration(seconds: float) -> str:
    """Format a duration: 12 ms, 0.2 s, 41 s, 12 min, 3.5 h, 2.1 d."""
    units = (
        ("µs", 1e-6, 1e-3), ("ms", 1e-3, 0.1), ("s", 1.0, 100.0), ("min", 60.0, 6000.0),
        ("h", 3600.0, 172_800.0), ("d", 86_400.0, math.inf),
    )  # fmt: skip
    unit, size = next((unit, size) for unit, size, most in units if seconds < most)
    value = seconds / size
    return f"{value:.2g} {unit}" if value < 10.0 else f"{value:.0f} {unit}"
