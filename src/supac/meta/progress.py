"""Progress bars of meta-learning: passes over the tasks, and searches of new ones."""

from __future__ import annotations

from collections.abc import Sequence

from supac.meta.state import MetaInfo
from supac.record.run import Run, Status
from supac.running.progress import Bar


class PassBar(Bar):
    """Progress bar of `meta_learn`."""

    def __init__(self, passes: int, show: bool | None):
        super().__init__(passes, show)
        self._runs, self._passes, self._words = 0, 0.0, "passes"

    def watch(self, runs: Sequence[Run]) -> None:
        """Show runs that have ended."""
        self._runs += len(runs)
        self.failed += sum(run.status is not Status.OK for run in runs)
        self._show()

    def update(self, info: MetaInfo) -> None:
        """Show the diagnostics of a meta-step."""
        self._words = f"passes, mean bound {info.objective:.4g}, step {info.step_kl:.2g}"
        self._passes = info.passes
        self._show()

    def _show(self) -> None:
        failed = f", {self.failed} failed" * bool(self.failed)
        self.draw(self._passes, f"{self._words}, {self._runs} runs{failed}")


class SearchBar(Bar):
    """Progress bar of several searches."""

    def __init__(self, searches: int, show: bool | None):
        super().__init__(searches, show)
        self._done = 0

    def advance(self, objective: float) -> None:
        """Count one more search as done."""
        self._done += 1
        self.draw(self._done, f"searches, objective {objective:.4g}")
