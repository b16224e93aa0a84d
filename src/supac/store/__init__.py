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
    may_be_store,
    versions,
)
from supac.store.meta import MetaStore
from supac.store.replaced import has_good_run, set_aside, settle
from supac.store.rows import Round, columns
from supac.store.store import Store, read_config, read_runs

__all__ = [
    "Contents",
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
    "has_good_run",
    "is_being_written",
    "may_be_store",
    "read_config",
    "read_contents",
    "read_runs",
    "set_aside",
    "settle",
    "versions",
]
