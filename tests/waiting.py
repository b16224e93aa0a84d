"""Waiting for what other processes do: a test fails only if it never happens."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 300.0  # seconds: a busy machine is no fault of the code


def until(condition: Callable[[], object], *, unless: Callable[[], object] = lambda: False) -> None:
    """Wait until a condition holds; `unless` says that it cannot any more."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert not unless() or condition(), "this will not happen any more"
        assert time.monotonic() < end, "this has not happened for minutes"
        time.sleep(0.02)
