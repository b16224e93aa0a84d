"""A store that gives its place to another, and takes it back where nothing comes of that."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from supac.runs import Status
from supac.store.file import StoreDamagedError, StoreError, opened, reading, release
from supac.store.store import read_runs

_BESIDE = ("-wal", "-shm", "")  # the log before the file that it belongs to


def set_aside(path: Path) -> Path | None:
    """Free the place of a store that nobody is writing: where it now waits for `settle`.

    One without a good run is deleted. Whatever is no store stays where it is: NotAStoreError.
    """
    path = path.resolve()
    if path.stat().st_size:  # one that was never begun is empty
        with reading(path):
            pass
    try:
        kept = path.with_name(f"{path.name}.replaced") if _has_good_run(path) else None
    except StoreDamagedError:
        kept = path.with_name(f"{path.name}.replaced")  # some of it may be saved
    _move(path, kept)
    return kept


def settle(path: Path, aside: Path) -> bool:
    """Delete the store that was set aside if the new one has a good run, else put it back.

    True where it is back.
    """
    path = path.resolve()
    try:
        replaced = path.exists() and _has_good_run(path)
    except StoreError:
        replaced = False
    if replaced:
        _move(aside, None)
    else:
        _move(aside, path)
    return not replaced


def _has_good_run(path: Path) -> bool:
    return path.stat().st_size > 0 and any(
        run.status is Status.OK and not run.source for run in read_runs(path)
    )


def _fold(db: sqlite3.Connection) -> None:
    """The log into the file, as far as nobody is reading it."""
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def _move(path: Path, target: Path | None) -> None:
    """Rename a store, in the place of whatever is there, or delete it."""
    opened(path, _fold).close()
    try:
        for suffix in _BESIDE:
            source = Path(f"{path}{suffix}")
            if target is None:
                source.unlink(missing_ok=True)
            elif source.exists():
                source.replace(f"{target}{suffix}")
            else:
                Path(f"{target}{suffix}").unlink(missing_ok=True)
    finally:
        release(path)
