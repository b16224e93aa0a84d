"""Runs on disk."""

from supac.store.file import (
    NotAStoreError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreMismatchError,
    StoreTooNewError,
    versions,
)
from supac.store.meta import MetaStore
from supac.store.rows import Round, columns
from supac.store.store import Store, read_config, read_runs

__all__ = [
    "MetaStore",
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
    "versions",
]
