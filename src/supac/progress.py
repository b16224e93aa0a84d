"""A progress bar: queries, objective, KL, step."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from supac.algorithm import Info
from supac.runs import Run, Status


class ProgressBar:
    """Shows how far a run is, on the standard error; silent where that is not a terminal."""

    def __init__(self, budget: int, show: bool | None):
        shown = sys.stderr.isatty() if show is None else show
        self._progress = Progress(
            TextColumn("[bold]supac"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("queries  {task.description}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            disable=not shown,
        )
        self._failed = 0
        self._task = self._progress.add_task("", total=budget)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def resume(self, words: str, failed: int) -> None:
        """Say that a run is gone on with, of which so many runs had failed."""
        self._failed = failed
        if not self._progress.disable:
            self._progress.console.print(words, markup=False, highlight=False)

    def watch(self, runs: Sequence[Run]) -> None:
        """Show runs that have ended."""
        self._failed += sum(run.status is not Status.OK for run in runs)
        self._progress.advance(self._task, len(runs))

    def update(self, queries: int, info: Info) -> None:
        """Show where the run stands after one more iteration."""
        words = f"objective {info.objective:.4g}  KL {info.kl:.3g}  step {info.step_kl:.2g}"
        words += f"  {self._failed} failed" * bool(self._failed)
        self._progress.update(self._task, completed=queries, description=words)
