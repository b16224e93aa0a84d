"""Linear algebra on one thread.

The matrices here are small: threads cost more than they bring, by a factor of a hundred where they
compete with a simulator for the cores. And the bits of a result then do not depend on the number of
cores.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import scipy.linalg  # noqa: F401 - it brings a BLAS of its own, which must be loaded to be limited
from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread within."""
    with _controller().limit(limits=1, user_api="blas"):
        yield
