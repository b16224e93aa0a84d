"""The file of a store: opened, locked and checked, its errors by name."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import socket
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import scipy

_LOOK = 0.05  # seconds, far longer than `is_being_written` holds its lock
_DATABASE = b"SQLite format 3\0"


class StoreError(RuntimeError):
    """A store cannot be used."""


class NotAStoreError(StoreError):
    """The file is something else."""


class StoreDamagedError(StoreError):
    """The file is torn, or its bytes have changed."""


class StoreTooNewError(StoreError):
    """The file was written by a later version."""


class StoreBusyError(StoreError):
    """Another process is writing the file."""


class StoreMismatchError(StoreError):
    """The file holds another problem than the one it was opened for."""


_DAMAGED = (
    "{path} is damaged: {what}. If there is a copy of it, use that; `sqlite3 FILE .recover` may "
    "save its runs"
)


def damaged(path: Path, what: object) -> StoreDamagedError:
    """The error for what cannot be trusted any more."""
    return StoreDamagedError(_DAMAGED.format(path=path, what=what))


_open: dict[Path, int] = {}  # the files that this process writes, with their locks


def claim(path: Path) -> int:
    """A lock that ends with this process, however that ends."""
    # Not even opened a second time: closing it again would undo SQLite's own locks on the first.
    if path.resolve() in _open:
        raise StoreBusyError(f"{path} is being written by another call in this process")
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except FileNotFoundError as error:
        raise StoreError(f"{path} cannot be written: there is no folder {path.parent}") from error
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}") from error
    try:
        _lock(lock, path)
    except BaseException:
        os.close(lock)
        raise
    _open[path.resolve()] = lock
    return lock


def release(path: Path) -> None:
    """Let others in."""
    os.close(_open.pop(path.resolve()))


def may_be_store(path: Path) -> bool:
    """Whether a file is a database, or empty, or not there."""
    if not path.is_file():
        return True
    with path.open("rb") as file:
        return file.read(len(_DATABASE)) in (b"", _DATABASE)


def _forget() -> None:
    """A forked process does not write, and must not keep others out when its parent is dead."""
    for lock in _open.values():
        os.close(lock)
    _open.clear()


os.register_at_fork(after_in_child=_forget)


def _lock(file: int, path: Path) -> None:
    if not stat.S_ISREG(os.fstat(file).st_mode):
        raise NotAStoreError(f"{path} is no file on a disk")
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # perhaps only someone who looks whether it is being written
            time.sleep(_LOOK)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise StoreBusyError(
            f"{path} is being written by {_owner_of(path)}. Wait for it, stop it, or use another "
            "file"
        ) from error
    except OSError as error:
        raise StoreError(f"{path} cannot be locked: {error.strerror}. Use a local disk") from error


def is_being_written(path: Path) -> bool:
    """Whether some process has the file open for writing, as far as can be told."""
    if path.resolve() in _open:
        return True
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(file)
    return False


def owner() -> dict[str, Any]:
    """Who we are, for those who find the file locked."""
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": since}


def _owner_of(path: Path) -> str:
    try:
        db = connect(path, read_only=True)
        try:
            row = db.execute("SELECT value FROM meta WHERE key = 'owner'").fetchone()
        finally:
            db.close()
        owner = json.loads(row[0])
        return f"process {owner['pid']} on {owner['host']}, since {owner['since']}"
    except (sqlite3.Error, StoreError, OSError, TypeError, ValueError, KeyError):
        return "another process"


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection to a file that is there; nothing in its schema is trusted."""
    with named_errors(path):
        options = "mode=rw"
        if read_only:
            # A writer has a log beside the file. Where there is none, nothing is left there either,
            # and the folder may be one that nobody can write.
            options = "mode=ro" if Path(f"{path}-wal").exists() else "mode=ro&immutable=1"
        db = sqlite3.connect(
            f"{path.absolute().as_uri()}?{options}", uri=True, timeout=5.0,
            check_same_thread=False,
        )  # fmt: skip
        db.execute("PRAGMA trusted_schema = OFF")
        db.execute("PRAGMA cell_size_check = ON")
        return db


@contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """SQLite's errors by our names."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code == sqlite3.SQLITE_NOTADB:
            raise NotAStoreError(f"{path} is not a store of supac: {error}") from error
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise StoreBusyError(
                f"{path} is in use by another program: {error}. Close that, and resume"
            ) from error
        if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            raise StoreError(
                f"{path} cannot be written: {error}. What was written before is safe: make room, "
                "and resume"
            ) from error
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
            raise StoreError(
                f"{path} cannot be opened: {error}. Look at the permissions of the file and of its "
                "folder, or copy it elsewhere"
            ) from error
        raise damaged(path, error) from error
    except (UnicodeDecodeError, OverflowError) as error:
        raise damaged(path, error) from error


@contextmanager
def sound(path: Path, what: str) -> Iterator[None]:
    """What cannot be understood is damage."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        what = f"{what}: {type(error).__name__}: {error}"
        raise damaged(path, what) from error


def opened(path: Path, check: Callable[[sqlite3.Connection], None]) -> sqlite3.Connection:
    """A connection to a file that nobody else writes, once `check` has had a look at it."""
    claim(path)
    try:
        db = connect(path)
        try:
            with named_errors(path):
                check(db)
        except BaseException:
            db.close()
            raise
    except BaseException:
        release(path)
        raise
    return db


def create(
    db: sqlite3.Connection, application: int, schema: Sequence[str], config: str, version: int
) -> None:
    """All or nothing: a process killed meanwhile leaves an empty file."""
    db.execute("BEGIN IMMEDIATE")
    db.execute(f"PRAGMA application_id = {application}")
    db.execute(f"PRAGMA user_version = {version}")
    for table in schema:
        db.execute(table)
    write_config(db, config)
    write_meta(db, "created", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    write_meta(db, "made with", versions())
    db.commit()


def write_config(db: sqlite3.Connection, text: str) -> None:
    """The configuration as JSON, with its checksum."""
    write_meta(db, "config", text)
    write_meta(db, "checksum", digest(text).hex())


def write_meta(db: sqlite3.Connection, key: str, value: str) -> None:
    """A fact about the file."""
    db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))


def versions() -> str:
    """Of what the bits of a result depend on."""
    return f"supac {version('supac')}, NumPy {np.__version__}, SciPy {scipy.__version__}"


def digest(*parts: Any) -> bytes:
    """A checksum of texts, bytes and numbers."""
    state = hashlib.blake2b(digest_size=8)
    for part in parts:
        # SQLite returns −0 as 0.
        known = part + 0.0 if isinstance(part, float) else part
        data = known if isinstance(known, bytes) else repr(known).encode()
        state.update(len(data).to_bytes(8, "little") + data)
    return state.digest()
