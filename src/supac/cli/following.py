"""Read a store again and again while another process writes to it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from supac.cli.app import warn
from supac.record.record import Record, read_store
from supac.record.store.file import NotAStoreError, is_being_written, resolve_path

_SHARE = 5.0  # large files take long to read: leave most of the time to the writer


def follow(path: Path, pause: float) -> Iterator[Record]:
    """Yield the record in a store, at most every `pause` seconds, until no process writes to it.

    Wait for a store that is not there yet.
    """
    resolve_path(path)  # an error where no store can ever appear
    if not path.absolute().parent.is_dir():
        raise ValueError(f"there is no folder {path.parent}: nothing can appear in it")
    if not has_begun(path):
        warn(f"waiting for {path}; Ctrl-C leaves")
    while True:
        start = time.monotonic()
        run = _look(path) if has_begun(path) else None
        if run is not None:
            yield run
            if not run.running:
                return
        time.sleep(max(pause, _SHARE * (time.monotonic() - start)))


def _look(path: Path) -> Record | None:
    """Read a store; return None while it is just being created."""
    making = is_being_written(path)
    try:
        return read_store(path)
    except NotAStoreError:
        if making:
            return None
        raise


def has_begun(path: Path) -> bool:
    """Return False if the file is missing or empty."""
    return path.is_file() and path.stat().st_size > 0
