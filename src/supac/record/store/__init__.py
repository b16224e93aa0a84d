"""Runs on disk."""

from supac.record.store.contents import Contents, read_contents
from supac.record.store.file import (
    NotAStoreError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreMismatchError,
    StoreTooNewError,
    is_being_written,
    may_be_store,
    resolve_path,
    versions,
)
from supac.record.store.replaced import has_good_run, set_aside, settle
from supac.record.store.rows import Round, columns
from supac.record.store.store import Store, read_config, read_runs

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
    "has_good_run",
    "is_being_written",
    "may_be_store",
    "read_config",
    "read_contents",
    "read_runs",
    "resolve_path",
    "set_aside",
    "settle",
    "versions",
]
