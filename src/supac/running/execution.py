"""Settings of how runs are made."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np

from supac.arrays import whole
from supac.simulators.process_guard import parse_stop

Policy = Literal["raise", "penalise", "drop"]
Mode = Literal["batch", "async"]
_PLACE = ("workers", "capacity", "stop", "cluster", "progress")
"""Fields that say where runs are made and shown: no part of a search."""


@dataclass(frozen=True)
class Execution:
    """Workers, mode, time limit and treatment of failures of the runs.

    Parameters
    ----------
    workers
        None for this process; a number of local processes; any `concurrent.futures.Executor`; or a
        Dask client, cluster or the address of a scheduler. With a `cluster`, the largest number of
        workers: runs begin with the first that arrives.
    cluster
        Where the workers are jobs of a batch system: `Slurm(queue="compute")` or another
        `BatchSystem`, whose jobs end with the call (extra `cluster`).
    capacity
        Number of runs that an executor makes at the same time, if it does not tell; others do.
    stop
        Signal by which a run is ended that takes too long, and the seconds until it is killed,
        "TERM 10" by default: time for `srun`, `mpirun` or a container to end what it has started.
    mode
        "batch" gives identical results whatever the workers. With "async" no worker waits for a
        slower one, and results depend on the order in which runs end.
    timeout
        Seconds after which a run is killed.
    retries
        Number of further attempts after the process of a run died or its worker was lost.
    on_failure
        Treatment of a run that raises, returns no finite number, takes too long or crashes: "raise"
        an error; "penalise", count it as the bound's ceiling; "drop", leave it out, so that the
        bound holds for successful runs only.
    max_failures
        Share of failed runs above which the search stops.
    vectorized
        True if the risk takes many points at a time, (n, dim) → (n,); workers pass one at a time.
    progress
        Show a progress bar; by default if the standard error is a terminal. "log" writes a line
        for each round instead, and one after each half a minute of a longer round.

    """

    workers: Any = None
    mode: Mode = "batch"
    timeout: float | None = None
    retries: int = 2
    on_failure: Policy = "raise"
    max_failures: float = 0.5
    vectorized: bool = False
    progress: bool | Literal["log"] | None = None
    capacity: int | None = None
    stop: str | None = None
    cluster: Any = None

    def __post_init__(self) -> None:
        if self.mode not in ("batch", "async"):
            raise ValueError(f'mode must be "batch" or "async", not {self.mode!r}')
        if self.mode == "async" and self.workers is None and self.cluster is None:
            raise ValueError('mode="async" needs workers, such as Execution(4, mode="async")')
        timeout = self.timeout
        if timeout is not None and not (isinstance(timeout, int | float) and timeout > 0.0):
            raise ValueError(f"timeout must be a positive number of seconds, not {timeout!r}")
        whole(self.retries, "retries", least=0)
        if self.stop is not None:
            parse_stop(self.stop)
        if self.capacity is not None:
            whole(self.capacity, "capacity", least=1)
        if self.on_failure not in ("raise", "penalise", "drop"):
            raise ValueError(
                f'on_failure must be "raise", "penalise" or "drop", not {self.on_failure!r}'
            )
        if not 0.0 <= self.max_failures <= 1.0:
            raise ValueError(f"max_failures must be a share from 0 to 1, not {self.max_failures!r}")

    @property
    def given(self) -> frozenset[str]:
        """Names of the fields that differ from their defaults; a resumed search keeps others."""
        return frozenset(
            each.name for each in fields(self) if getattr(self, each.name) != each.default
        )

    @property
    def settings(self) -> dict[str, Any]:
        """All fields but where runs are made and shown, for a store: others may continue it."""
        names = [each.name for each in fields(self) if each.name not in _PLACE]
        return {name: getattr(self, name) for name in names}

    @classmethod
    def of(cls, given: Any) -> Execution:
        """Return an `Execution` unchanged; make one with anything else as its workers."""
        if isinstance(given, Execution):
            return given
        if isinstance(given, bool | np.bool_):
            raise TypeError(f"execution must be an Execution or its workers, not {given!r}")
        return cls() if given is None else cls(workers=given)

    def failure_risk(self, bound: object) -> float | None:
        """Return the risk that a failed run counts as; None if it is left out or an error."""
        if self.on_failure != "penalise":
            return None
        from supac.problem.bounds import Declared  # noqa: PLC0415  SciPy, for children

        ceiling = Declared.by(bound).ceiling
        if ceiling is None:
            raise ValueError(
                'on_failure="penalise" counts a failed run as the ceiling of the risk, but '
                f"{bound!r} has no attribute `ceiling`; give it one"
            )
        return float(ceiling)
