"""Notice that a cluster is gone or has no workers left, while runs wait without a word."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from concurrent.futures import BrokenExecutor

_INTERVAL = 10.0  # seconds between questions to a cluster that is silent
_PATIENCE = 120.0  # seconds without any worker after which the user should know
_RECONNECT = 5.0  # seconds in which a lost connection must be back


class ExecutionError(RuntimeError):
    """The workers can make no more runs."""


def no_more_runs(reason: object) -> ExecutionError:
    """Return the error for workers that have failed, with advice on how to continue."""
    advice = (
        ". A pool of the standard library breaks when one of its processes dies: pass execution=N, "
        "a number of processes, which are replaced"
    )
    return ExecutionError(
        f"the workers can make no more runs ({reason}). Those that have ended are in the store, "
        f"if there is one: go on with supac.resume{advice * isinstance(reason, BrokenExecutor)}"
    )


class Watchdog:
    """Warn once if a cluster has no worker for two minutes, and raise if its scheduler is gone.

    More workers may come, so that the runs wait for them.

    Parameters
    ----------
    workers
        Asks for the number of workers, and gives up after a while of its own.
    connection
        Returns the state of the connection to the scheduler: "running" if it stands, "closed" if
        it is given up, anything else while it is being made again.

    """

    def __init__(self, workers: Callable[[], int], connection: Callable[[], str]):
        self._workers, self._connection = workers, connection
        self._warned = False
        self._connected = time.monotonic()
        self.reset()

    def reset(self) -> None:
        """Begin to wait: a run has been submitted, or one has ended and somebody is there."""
        self._seen = self._asked = time.monotonic()

    def check(self) -> None:
        """Look at the cluster if that is due: no run has ended since the last call."""
        now = time.monotonic()
        state = self._connection()
        if state == "running":
            self._connected = now
        elif state == "closed" or now - self._connected >= _RECONNECT:
            raise no_more_runs("the connection to the Dask scheduler is lost: it may be dead")
        if self._warned or now - self._asked < _INTERVAL:
            return
        self._asked = now
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
                f"the cluster has {lacks} for {now - self._seen:.0f} s; the runs wait until one "
                "comes: look at the cluster, or stop with Ctrl-C",
                RuntimeWarning,
                stacklevel=2,
            )
