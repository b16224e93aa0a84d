"""Runs on disk."""

from supac.store.file import (
    NotAStoreError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreMismatchError,
    StoreTooNewError,
)
from supac.store.rows import Round
from supac.store.store import Store, columns, read_config, read_runs

__all__ = [
    "NotAStoreError",
    "Round",
    "Store",
    "StoreBusyError",
    "StoreDamagedError",
    "StoreError",
    "StoreMismatchError",
    "StoreTooNewError",
    "columns",
    "read_config",
    "read_runs",
]
