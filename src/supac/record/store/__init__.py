"""The SQLite file behind a record."""

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
from supac.record.store.schema import reading
from supac.record.store.store import (
    Contents,
    Store,
    contents_of,
    outputs_of,
    read_config,
)

__all__ = [
    "Contents",
    "NotAStoreError",
    "Store",
    "StoreBusyError",
    "StoreDamagedError",
    "StoreError",
    "StoreMismatchError",
    "StoreTooNewError",
    "contents_of",
    "has_good_run",
    "is_being_written",
    "may_be_store",
    "outputs_of",
    "read_config",
    "reading",
    "resolve_path",
    "set_aside",
    "settle",
    "versions",
]
