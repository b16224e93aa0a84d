"""Runs on disk."""

from supac.store.contents import Contents, read_contents
from supac.store.file import (
    NotAStoreError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreMismatchError,
    StoreTooNewError,
    is_being_written,
    remove_store,
)
from supac.store.rows import Round, columns
from supac.store.store import Store, read_config, read_runs, versions

__all__ = [
    "Contents",
    "NotAStoreError",
    "Round",
    "Store",
    "StoreBusyError",
    "StoreDamagedError",
    "StoreError",
    "StoreMismatchError",
    "StoreTooNewError",
    "columns",
    "is_being_written",
    "read_config",
    "read_contents",
    "read_runs",
    "remove_store",
    "versions",
]
