"""When and where runs were made, for those who watch a search; no result depends on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Span:
    """Times of one run, in seconds since 1970, and its worker."""

    started: float
    """For a pool that does not tell, the time of submission."""
    ended: float = np.nan
    """NaN while the run is in progress."""
    worker: str = ""
    """Empty if the pool does not tell which."""


Spans = Mapping[tuple[int, int], Span]
"""Spans by task and id of the run."""
