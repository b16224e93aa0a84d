"""A progress bar: queries, objective, KL, step."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from supac.algorithm import Info
from supac.meta import MetaInfo
from supac.runs import Run, Status


class _Bar:
    """On the standard error; silent where that is not a terminal."""

    def __init__(self, total: int, unit: str, show: bool | None):
        shown = sys.stderr.isatty() if show is None else show
        self._progress = Progress(
            TextColumn("[bold]supac"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn(unit + "  {task.description}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            disable=not shown,
        )
        self._failed = 0
        self._task = self._progress.add_task("", total=total)

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


class ProgressBar(_Bar):
    """Shows how far a run is."""

    def __init__(self, budget: int, show: bool | None):
        super().__init__(budget, "queries", show)

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


class PassBar(_Bar):
    """Shows how far meta-learning is."""

    def __init__(self, passes: int, show: bool | None):
        super().__init__(passes, "passes", show)
        self._runs, self._learnt = 0, ""

    def watch(self, runs: Sequence[Run]) -> None:
        """Show runs that have ended."""
        self._runs += len(runs)
        self._failed += sum(run.status is not Status.OK for run in runs)
        words = f"{self._learnt}{self._runs} runs" + f"  {self._failed} failed" * bool(self._failed)
        self._progress.update(self._task, description=words)

    def update(self, info: MetaInfo) -> None:
        """Show where it stands after one more meta-step."""
        self._learnt = f"mean bound {info.objective:.4g}  step {info.step_kl:.2g}  "
        self._progress.update(self._task, completed=info.passes, description=self._learnt)


class SearchBar(_Bar):
    """Shows how many of several searches are done."""

    def __init__(self, searches: int, show: bool | None):
        super().__init__(searches, "searches", show)

    def advance(self, objective: float) -> None:
        """One more."""
        self._progress.update(self._task, advance=1, description=f"objective {objective:.4g}")
