"""Move an existing store aside during `run --force`; restore it if the new one has no good run."""

from __future__ import annotations

import itertools
from contextlib import closing, suppress
from pathlib import Path

from supac.record.run import Status
from supac.record.store.file import (
    StoreDamagedError,
    StoreError,
    connect,
    lock,
    named_errors,
    resolve_path,
    unlock,
)
from supac.record.store.schema import reading

_BESIDE = ("-wal", "-shm", "-journal", "")  # the log before the file that it belongs to


def set_aside(path: Path) -> Path | None:
    """Rename a store that nobody is writing; return where it now waits for `settle`.

    One without a good run is deleted. Whatever is no store stays where it is: NotAStoreError.
    """
    path = resolve_path(path)
    try:
        if not path.exists() or path.stat().st_size:  # one that was never begun is empty
            with reading(path):
                pass
        kept = _waiting_place(path) if has_good_run(path) else None
    except StoreDamagedError:
        kept = _waiting_place(path)  # some of it may be saved
    _move(path, kept)
    return kept


def settle(path: Path, aside: Path, *, ended: bool) -> Path | None:
    """Delete or restore the store that was set aside; return where it is, None if it is deleted.

    Without a good run in the new one it is restored; it stays aside if the new one has not `ended`,
    cannot be read, or is being written by another process.
    """
    path = resolve_path(path)
    try:
        replaced = has_good_run(path)
        if replaced and not ended:
            return aside
        lock(path)
    except StoreError:
        return aside
    try:
        _move(aside, None if replaced else path)
    finally:
        unlock(path)
    return None if replaced else path


def _waiting_place(path: Path) -> Path:
    """Return a free name beside a store."""
    names = (f"{path.name}.replaced{'' if i == 1 else f'-{i}'}" for i in itertools.count(1))
    return next(path.with_name(name) for name in names if not path.with_name(name).exists())


def has_good_run(path: Path) -> bool:
    """Return whether there is a store with a run of its own that succeeded."""
    path = resolve_path(path)
    if not path.exists() or not path.stat().st_size:
        return False
    query = "SELECT 1 FROM runs WHERE status = ? AND source = '' LIMIT 1"
    with reading(path) as db:
        return db.execute(query, (Status.OK.value,)).fetchone() is not None


def _fold(path: Path) -> None:
    """Fold the log into the file unless somebody is reading it, or the file is damaged."""
    with suppress(StoreError), closing(connect(path)) as db, named_errors(path):
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def _move(path: Path, target: Path | None) -> None:
    """Rename a store, replacing whatever is there, or delete it."""
    lock(path)
    try:
        _fold(path)
        for suffix in _BESIDE:
            source = Path(f"{path}{suffix}")
            if target is None:
                source.unlink(missing_ok=True)
            elif source.exists():
                source.replace(f"{target}{suffix}")
            else:
                Path(f"{target}{suffix}").unlink(missing_ok=True)
    finally:
        unlock(path)
