"""When and where runs were made, for those who watch a search; no result depends on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from supac.arrays import FloatArray

_PAUSE, _PAUSES = 60.0, 10.0  # shortest pause: seconds, and durations of a usual run


@dataclass(frozen=True)
class Span:
    """Times of one run, in seconds since 1970, and its worker."""

    started: float
    """For a pool that does not tell, the time of submission."""
    ended: float = np.nan
    """NaN while the run is in progress."""
    worker: str = ""
    """Empty if the pool does not tell which."""
    x: FloatArray | None = field(default=None, compare=False)
    """Point of a run in progress, (dim,); later the run itself has it."""


@dataclass(frozen=True)
class Loss:
    """A run that the machine took: it is no failure, and was made again or will be."""

    task: int
    id: int
    when: float
    """In seconds since 1970."""
    reason: str


Spans = Mapping[tuple[int, int], Span]
"""Spans by task and id of the run."""


def stretches(spans: Iterable[Span], now: float) -> list[tuple[float, float]]:
    """Return the times in which runs were made, without the pauses between processes."""
    known = sorted((each.started, each.ended if each.ended > 0.0 else now) for each in spans)
    if not known:
        return []
    usual = float(np.median([end - start for start, end in known]))
    longest = max(_PAUSE, _PAUSES * usual)
    found = [known[0]]
    for start, end in known[1:]:
        first, last = found[-1]
        if start - last > longest:
            found.append((start, end))
        else:
            found[-1] = first, max(last, end)
    return found
