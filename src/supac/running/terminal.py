"""The terminal during a call: its progress bar and its messages."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from typing import Literal, Protocol, Self

from supac.record.coarse_use import CoarseUse
from supac.record.run import Run
from supac.running.notebook import NotebookDisplay, in_notebook
from supac.search.algorithm import Info

Progress = bool | Literal["log"] | None
"""A bar or none, lines in a log, or None for a bar on a terminal alone."""
LOG_EVERY = 30.0  # seconds between lines in a log


class Display(Protocol):
    """Draws a bar."""

    def start(self) -> None:
        """Show the bar."""

    def stop(self) -> None:
        """Leave the last words."""

    def draw(self, completed: float, words: str) -> None:
        """Show the completed amount and a description."""

    def say(self, words: str) -> None:
        """Print a line above the bar."""


class TerminalDisplay:
    """Progress bar on standard error."""

    def __init__(self, total: float):
        from rich.console import Console  # noqa: PLC0415 - slow to import, and not always needed
        from rich.progress import (  # noqa: PLC0415
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
        )

        console = Console(stderr=True)
        self._progress = Progress(
            BarColumn(bar_width=max(6, min(24, console.width - 76))),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            console=console,
        )
        self._task = self._progress.add_task("", total=total)

    def start(self) -> None:
        """Show the bar."""
        self._progress.start()

    def stop(self) -> None:
        """Leave the bar as it is."""
        self._progress.stop()

    def draw(self, completed: float, words: str) -> None:
        """Show the completed amount and a description."""
        self._progress.update(self._task, completed=completed, description=words)

    def say(self, words: str) -> None:
        """Print a line above the bar."""
        self._progress.console.print(words, markup=False, highlight=False)


class LogDisplay:
    """Lines on standard error, for logs: of each round, and after half a minute without one."""

    def __init__(self, total: float):
        self._total, self._last = total, time.monotonic()

    def start(self) -> None:
        """Write nothing."""

    def stop(self) -> None:
        """Write nothing."""

    def draw(self, completed: float, words: str) -> None:
        """Write a line, unless there was one a short time ago."""
        if time.monotonic() - self._last >= LOG_EVERY:
            self.say(f"{completed:g} of {self._total:g} runs: {words.removeprefix('runs, ')}")

    def say(self, words: str) -> None:
        """Write a line with the time."""
        self._last = time.monotonic()
        print(f"{time.strftime('%H:%M:%S')} {words}", file=sys.stderr, flush=True)


class Bar:
    """Progress bar; by default only on a terminal, or in a notebook."""

    def __init__(self, total: int, show: Progress):
        notebook = in_notebook()
        shown = (notebook or sys.stderr.isatty()) if show is None else show
        self._display: Display | None = None
        if shown == "log":
            self._display = LogDisplay(total)
        elif shown:
            self._display = NotebookDisplay(total) if notebook else TerminalDisplay(total)
        self.runs = self.failed = 0

    def __enter__(self) -> Self:
        if self._display is not None:
            self._display.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._display is not None:
            self._display.stop()

    def draw(self, completed: float, words: str) -> None:
        """Show the completed amount and a description."""
        if self._display is not None:
            self._display.draw(completed, words)

    def say(self, words: str) -> None:
        """Print a line above the bar."""
        if self._display is not None:
            self._display.say(words)

    def watch(self, runs: Sequence[Run]) -> None:
        """Count runs that have ended, without those of a coarse model."""
        fine = [run for run in runs if not run.level]
        self.runs += len(fine)
        self.failed += sum(run.failed for run in fine)
        self.show()

    def show(self) -> None:
        """Draw the bar with the numbers of runs."""


class ProgressBar(Bar):
    """Progress bar of a search: queries, objective, KL, failures, time left."""

    def __init__(self, budget: int, show: Progress):
        super().__init__(budget, show)
        self._before, self._budget = 0, budget
        self._start, self._words, self._best = time.monotonic(), "runs", math.inf
        self._coarse = 0.0

    def resume(self, words: str, failed: int, done: int) -> None:
        """Print that a search continues, with the numbers of failed and completed runs."""
        self.failed, self._before = failed, done
        self.say(words)
        self.show()

    def update(
        self, queries: int, info: Info, busy: str = "", coarse: CoarseUse | None = None
    ) -> None:
        """Show the diagnostics of a round, and how `busy` workers are; in a log, as a line.

        With a coarse model the budget counts its runs by their cost.
        """
        busy = f", {busy}" * bool(busy)
        if coarse is not None:
            self._coarse = coarse.runs * coarse.cost
        if math.isfinite(info.objective):
            self._best = min(self._best, info.objective)
        self._words = (
            f"objective {info.objective:.3g}, best {self._best:.3g}, KL {info.kl:.3g}{busy}"
        )
        self._before = max(self._before, queries - self.runs)
        if isinstance(self._display, LogDisplay):
            runs = "runs" if coarse is None else f"runs ({coarse.runs} coarse)"
            done = queries if coarse is None else f"{queries + self._coarse:.3g}"
            self.say(
                f"{done} of {self._budget} {runs}: objective {info.objective:.4g}, mean risk "
                f"{info.mean_risk:.4g}, KL {info.kl:.3g}{busy}{self._failed_and_left}"
            )
        else:
            self.show()

    def show(self) -> None:
        """Draw the bar, with the remaining time at the pace of this process."""
        self.draw(self._before + self.runs + self._coarse, self._words + self._failed_and_left)

    @property
    def _failed_and_left(self) -> str:
        """Return the number of failed runs and the remaining time, as far as known."""
        done = self._before + self.runs + self._coarse
        words = f", {self.failed} failed" * bool(self.failed)
        if self.runs and done < self._budget:
            pace = (time.monotonic() - self._start) / (self.runs + self._coarse)
            words += f", {duration(pace * (self._budget - done))} left"
        return words


def duration(seconds: float) -> str:
    """Format a duration: 12 ms, 0.2 s, 41 s, 12 min, 3.5 h, 2.1 d."""
    units = (
        ("µs", 1e-6, 1e-3), ("ms", 1e-3, 0.1), ("s", 1.0, 100.0), ("min", 60.0, 6000.0),
        ("h", 3600.0, 172_800.0), ("d", 86_400.0, math.inf),
    )  # fmt: skip
    unit, size = next((unit, size) for unit, size, most in units if seconds < most)
    value = seconds / size
    return f"{value:.2g} {unit}" if value < 10.0 else f"{value:.0f} {unit}"
