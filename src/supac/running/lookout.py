"""Notices that a cluster has no workers left, where a run would wait without a word."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

_GLANCE = 10.0  # seconds between questions to a cluster that is silent
_PATIENCE = 120.0  # seconds without any worker after which the user should know


class Lookout:
    """Warns once when there has been no worker for two minutes; more may come, so the run waits.

    `workers` asks how many there are, and gives up after a while of its own.
    """

    def __init__(self, workers: Callable[[], int]):
        self._workers = workers
        self._seen = self._looked = time.monotonic()
        self._warned = False

    def launched(self) -> None:
        """A run begins to wait: nobody may have looked for as long as the last fit took."""
        self._seen = self._looked = time.monotonic()

    def landed(self) -> None:
        """A run has ended: somebody is there."""
        self._seen = self._looked = time.monotonic()

    def nothing(self) -> None:
        """No run has ended since the last word: look, if that is due."""
        now = time.monotonic()
        if self._warned or now - self._looked < _GLANCE:
            return
        self._looked = now
        lacks = "had no worker"
        try:
            if self._workers():
                self._seen = now
                return
        except Exception as error:  # of the network: whether the runs are lost, they say themselves
            lacks = f"not said whether it has workers ({type(error).__name__}: {error})"
        if now - self._seen >= _PATIENCE:
            self._warned = True
            warnings.warn(
                f"the executor has {lacks} for {now - self._seen:.0f} s; the runs wait until one "
                "comes: look at the cluster, or stop with Ctrl-C",
                RuntimeWarning,
                stacklevel=2,
            )
