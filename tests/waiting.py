"""Waiting for what other processes do: a test fails only if it never happens."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 300.0  # seconds: a busy machine is no fault of the code


def until(
    condition: Callable[[], object],
    *,
    unless: Callable[[], object] = lambda: False,
    every: float = 0.02,
) -> None:
    """Wait until a condition holds, with a look `every` so many seconds.

    `unless` says that it cannot hold any more.
    """
    end = time.monotonic() + PATIENCE
    while not condition():
        assert not unless() or condition(), "this will not happen any more"
        assert time.monotonic() < end, "this has not happened for minutes"
        time.sleep(every)
