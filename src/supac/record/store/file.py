"""The file of a store: find, lock, open and check it; raise its errors by name."""

from __future__ import annotations

import ctypes
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
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy

_LOOK = 0.05  # seconds, far longer than `is_being_written` holds its lock
_COUNTED = ("runs", "rounds", "outputs")  # tables, of which a format may lack some
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
    """Return the error for a file that cannot be trusted any more."""
    return StoreDamagedError(_DAMAGED.format(path=path, what=what))


def resolve_path(path: str | os.PathLike[str]) -> Path:
    """Return the file behind symbolic links, beside which SQLite keeps its log.

    It may be missing. StoreError if something else is there, ValueError if no file can be.
    """
    try:
        real = Path(os.path.realpath(path))
        mode = real.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return real
    except ValueError as error:
        raise ValueError(f"store = {os.fspath(path)!r} is no path: {error}") from error
    except OSError as error:
        raise StoreError(f"{path} cannot be a store: {error.strerror}") from error
    if not stat.S_ISREG(mode):
        kind = "a folder: name a file in it" if stat.S_ISDIR(mode) else "no file on a disk"
        raise NotAStoreError(f"{path} is {kind}")
    return real


class _Writer(NamedTuple):
    """A file that this process writes: its lock, and its connection once there is one."""

    lock: int
    db: sqlite3.Connection | None = None


_writers: dict[Path, _Writer] = {}


def lock(path: Path) -> Path:
    """Lock a file until `unlock` or the end of this process, however that ends; resolve its path.

    The file is made if it is missing.
    """
    path = resolve_path(path)
    # Not even opened a second time: closing it again would undo SQLite's own locks on the first.
    if path in _writers:
        raise StoreBusyError(f"{path} is being written by another call in this process")
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except FileNotFoundError as error:
        raise StoreError(f"{path} cannot be written: there is no folder {path.parent}") from error
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}") from error
    try:
        _lock(file, path)
    except BaseException:
        os.close(file)
        raise
    _writers[path] = _Writer(file)
    return path


def unlock(path: Path) -> None:
    """Let other processes write the file."""
    os.close(_writers.pop(Path(os.path.realpath(path))).lock)


def _lock(file: int, path: Path) -> None:
    links = os.fstat(file).st_nlink
    if links > 1:
        raise StoreError(
            f"{path} has {links} names (hard links), and its log would be found beside one of them "
            "only: copy it, and use the copy"
        )
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


def check_owner(db: sqlite3.Connection, path: Path) -> None:
    """Raise StoreError unless this very process opened `db` for writing and has not closed it."""
    if not _owns(db, path):
        raise StoreError(
            f"{path} cannot be written by process {os.getpid()}: that is a copy of the process "
            "that opened it (a fork), or it has closed it already. Only that one may write"
        )


def _owns(db: sqlite3.Connection, path: Path) -> bool:
    return path in _writers and _writers[path].db is db


def _disown() -> None:
    """In a forked copy: neither keep others out nor ever close the connections.

    SQLite must not be used across a fork. Closing a connection would fold the log into the file,
    which may be another process's by then: one more reference keeps each alive until the end.
    """
    for file, db in _writers.values():
        os.close(file)
        if db is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(db))
    _writers.clear()


os.register_at_fork(after_in_child=_disown)


def may_be_store(path: Path) -> bool:
    """Return whether a file is a database, or empty, or missing."""
    if not path.is_file():
        return True
    with path.open("rb") as file:
        return file.read(len(_DATABASE)) in (b"", _DATABASE)


def is_being_written(path: Path) -> bool:
    """Return whether some process has the file open for writing, as far as can be told."""
    try:
        path = resolve_path(path)
        if path in _writers:
            return True
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (StoreError, ValueError, OSError):
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
    """Describe this process, for those who find the file locked."""
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
    """Connect to a file that is there; nothing in its schema is trusted."""
    path = resolve_path(path)
    with named_errors(path):
        options = "mode=rw"
        if read_only:
            # A writer has a log beside the file. Where there is none, nothing is left there either,
            # and the folder may be one that nobody can write.
            options = "mode=ro" if Path(f"{path}-wal").exists() else "mode=ro&immutable=1"
        db = sqlite3.connect(
            f"{path.as_uri()}?{options}", uri=True, timeout=5.0,
            check_same_thread=False,
        )  # fmt: skip
        db.execute("PRAGMA trusted_schema = OFF")
        db.execute("PRAGMA cell_size_check = ON")
        return db


@contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Raise SQLite's errors as errors of stores."""
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
def raise_if_damaged(path: Path, what: str) -> Iterator[None]:
    """Raise StoreDamagedError for whatever goes wrong with the contents of a file."""
    try:
        yield
    except (
        ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError,
        MemoryError,
    ) as error:  # fmt: skip
        raise damaged(path, f"{what}: {type(error).__name__}: {error!s:.200}") from error


def open_for_writing(path: Path, check: Callable[[sqlite3.Connection], None]) -> sqlite3.Connection:
    """Lock a file, connect to it, and let `check` look at it and make its tables."""
    path = lock(path)
    try:
        db = connect(path)
        _writers[path] = _writers[path]._replace(db=db)
        try:
            with named_errors(path):
                check(db)
        except BaseException:
            db.close()
            raise
    except BaseException:
        unlock(path)
        raise
    return db


def close(db: sqlite3.Connection, path: Path) -> None:
    """Fold the log into the file and unlock it; do nothing in a forked copy of the process."""
    if _owns(db, path):
        try:
            with named_errors(path):
                db.close()
        finally:
            unlock(path)


def create(
    db: sqlite3.Connection, application: int, schema: Sequence[str], config: str, version: int
) -> None:
    """Make the tables, all or nothing: a process killed meanwhile leaves an empty file."""
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
    """Write the configuration, as JSON, and its checksum."""
    write_meta(db, "config", text)
    write_meta(db, "checksum", digest(text).hex())


def write_meta(db: sqlite3.Connection, key: str, value: str) -> None:
    """Write a fact about the file."""
    db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))


def versions() -> str:
    """Return the versions of the libraries that the bits of a result depend on."""
    return f"supac {metadata.version('supac')}, NumPy {np.__version__}, SciPy {scipy.__version__}"


def check_pages(db: sqlite3.Connection, path: Path, pragma: str = "quick_check") -> None:
    """Have SQLite read all of a file; raise StoreDamagedError where it is not whole."""
    trouble = db.execute(f"PRAGMA {pragma}").fetchone()[0]
    if trouble != "ok":
        raise damaged(path, trouble)


def _columns(db: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in db.execute(f"PRAGMA table_info({table})")}


def record_counts(db: sqlite3.Connection) -> None:
    """Write the numbers of runs and rounds, within the transaction that adds some.

    They are counted once for a connection; from then on, triggers of its own follow them.
    """
    tables = [each for each in _COUNTED if _columns(db, each)]
    if not db.execute("SELECT count(*) FROM sqlite_temp_master").fetchone()[0]:
        counts = ", ".join(f"(SELECT count(*) FROM {each}) AS {each}" for each in tables)
        db.execute(f"CREATE TEMP TABLE counts AS SELECT {counts}")
        db.execute("PRAGMA recursive_triggers = ON")  # a row that is replaced is deleted first
        for table in tables:
            for event, sign in (("INSERT", "+"), ("DELETE", "-")):
                db.execute(
                    f"CREATE TEMP TRIGGER {table}_{event} AFTER {event} ON main.{table} "
                    f"BEGIN UPDATE counts SET {table} = {table} {sign} 1; END"
                )
    found = db.execute(f"SELECT {', '.join(tables)} FROM temp.counts").fetchone()
    write_meta(db, "counts", with_checksum(json.dumps(dict(zip(tables, found, strict=True)))))


def check_counts(db: sqlite3.Connection, path: Path) -> None:
    """Raise StoreDamagedError if rows are missing, or the table of settings is damaged.

    Every round must be there, with all the runs that it learnt from. Stores of version 0.1 have no
    counts; nor does that version change them, so that there may be more rows than were counted.
    """
    check_pages(db, path, "integrity_check(meta)")
    task = "task" if "task" in _columns(db, "runs") else "0"
    with raise_if_damaged(path, "its rows"):
        kept = db.execute("SELECT value FROM meta NOT INDEXED WHERE key = 'counts'").fetchone()
        least = json.loads(checked(kept[0], path, "its counts")) if kept else {}
        runs = db.execute(f"SELECT {task}, id FROM runs").fetchall()
        for table in sorted(set(_COUNTED) & set(least)):
            count = f"SELECT count(*) FROM {table}"
            left = len(runs) if table == "runs" else db.execute(count).fetchone()[0]
            if left < least[table]:
                raise damaged(path, f"{left} of {least[table]} {table} are left")
        known = set(runs)
        if len(known) < len(runs):
            raise damaged(path, "it has runs twice")
        query = f"SELECT {task}, iteration, ids FROM rounds ORDER BY 1, iteration"
        rounds = dict[Any, int]()
        for where, iteration, ids in db.execute(query):
            if iteration != rounds.setdefault(where, 0):
                raise damaged(path, f"round {rounds[where]} is missing")
            rounds[where] += 1
            for run in np.frombuffer(ids, dtype="<i8").tolist():
                if (where, run) not in known:
                    raise damaged(path, f"run {run} of round {iteration} is missing")
        state = db.execute("SELECT * FROM state").fetchone()
        of_last = state is not None and state[0] == rounds.get(0, 0) - 1
        if rounds and not (of_last if "iteration" in _columns(db, "state") else state):
            raise damaged(path, "its state is missing, or that of another round")


def with_checksum(text: str) -> str:
    """Put a checksum before a text, for `checked`."""
    return f"{digest(text).hex()} {text}"


def checked(words: str, path: Path, what: str) -> str:
    """Return the text of `with_checksum`; StoreDamagedError if it was changed."""
    checksum, _, text = words.partition(" ")
    if checksum != digest(text).hex():
        raise damaged(path, what)
    return text


def digest(*parts: Any) -> bytes:
    """Return a checksum of texts, bytes and numbers."""
    state = hashlib.blake2b(digest_size=8)
    for part in parts:
        # SQLite returns −0 as 0.
        known = part + 0.0 if isinstance(part, float) else part
        data = known if isinstance(known, bytes) else repr(known).encode()
        state.update(len(data).to_bytes(8, "little") + data)
    return state.digest()
