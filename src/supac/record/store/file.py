"""The file of a store: find, lock and connect to it; raise its errors by name."""

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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from supac.record.store.owner import Ownership, claim, is_shared, owner_of
from supac.record.store.snapshot import UnsteadyError, as_rollback, read_steady

_LOOK = 0.05  # seconds, far longer than `is_being_written` holds its lock
_STALE, _AGAIN = 30.0, 0.2  # seconds for which a shared disk may tell of files that are gone
_PASSING = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR)
_DATABASE = b"SQLite format 3\0"
COUNTED = ("runs", "rounds", "outputs", "jacobians")
"""Tables whose numbers of rows are kept."""


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


def may_be_store(path: Path) -> bool:
    """Return whether a file is a database, or empty, or missing."""
    if not path.is_file():
        return True
    with path.open("rb") as file:
        return file.read(len(_DATABASE)) in (b"", _DATABASE)


# Locks


class _Writer(NamedTuple):
    """A file that this process writes: its lock, and its connection once there is one."""

    lock: int
    db: Database | None = None
    ownership: Ownership | None = None
    """On a disk that hosts share, where the lock keeps out processes of this host only."""


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
        shared = is_shared(path)
        _lock(file, path, shared=shared)
        ownership = _owned(path) if shared else None
    except BaseException:
        os.close(file)
        raise
    _writers[path] = _Writer(file, ownership=ownership)
    return path


def _owned(path: Path) -> Ownership:
    """Become the owner of a file on a shared disk; StoreBusyError if another one is alive."""
    try:
        return claim(path)
    except FileExistsError as error:
        found = owner_of(path)
        who, advice = ("another process", "") if found is None else (found.words, found.advice)
        raise StoreBusyError(
            f"{path} is being written by {who}. Wait for it, stop it, or use another file; {advice}"
        ) from error
    except OSError as error:
        raise StoreError(f"{path} cannot be owned: {error.strerror}") from error


def unlock(path: Path) -> None:
    """Let other processes write the file."""
    writer = _writers.pop(Path(os.path.realpath(path)))
    if writer.ownership is not None:
        writer.ownership.release()
    os.close(writer.lock)


def _lock(file: int, path: Path, *, shared: bool) -> None:
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
        if not shared:  # otherwise its owner is known by a file
            raise StoreError(f"{path} cannot be locked: {error.strerror}") from error


def _owner_of(path: Path) -> str:
    try:
        with closing(connect(path, read_only=True)) as db:
            owner = json.loads(db.meta()["owner"])
        return f"process {owner['pid']} on {owner['host']}, since {owner['since']}"
    except (sqlite3.Error, StoreError, OSError, TypeError, ValueError, KeyError):
        return "another process"


def _disown() -> None:
    """In a forked copy: neither keep others out nor ever close the connections.

    SQLite must not be used across a fork. Closing a connection would fold the log into the file,
    which may be another process's by then: one more reference keeps each alive until the end.
    """
    for file, db, ownership in _writers.values():
        os.close(file)
        if ownership is not None:
            ownership.stop()
        if db is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(db))
    _writers.clear()


os.register_at_fork(after_in_child=_disown)


def is_being_written(path: Path) -> bool:
    """Return whether some process has the file open for writing, as far as can be told."""
    with suppress(StoreError, ValueError, OSError):
        path = resolve_path(path)
        if path in _writers:
            return True
        if is_shared(path):
            found = owner_of(path)
            return found is not None and found.alive
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    return False


def writer_of(path: Path) -> str:
    """Describe the process that writes to a file, as far as that is known."""
    path = resolve_path(path)
    if is_shared(path):
        found = owner_of(path)
        return found.words if found is not None and found.alive else ""
    return _owner_of(path)


def journal_mode(path: Path) -> str:
    """Return the journal that a file is written with: no log of WAL on a disk that hosts share."""
    return "DELETE" if is_shared(path) else "WAL"


# Connections


class Database(sqlite3.Connection):
    """A connection to the file at `path`, whose rows have checksums."""

    path: Path

    def damaged(self, what: object) -> StoreDamagedError:
        """Return the error for a file that cannot be trusted any more."""
        return _damaged(self.path, what)

    def check_pages(self, pragma: str = "quick_check") -> None:
        """Have SQLite read all of the file; raise StoreDamagedError where it is not whole."""
        trouble = self.execute(f"PRAGMA {pragma}").fetchone()[0]
        if trouble != "ok":
            raise self.damaged(trouble)

    def check_length(self) -> None:
        """Raise StoreDamagedError if the file ends within a page: SQLite reads zeros there."""
        page = int(self.execute("PRAGMA page_size").fetchone()[0])
        if self.path.stat().st_size % page:
            raise self.damaged("its end is missing")

    def columns(self, table: str) -> set[str]:
        """Return the names of the columns of a table."""
        return {row[1] for row in self.execute(f"PRAGMA table_info({table})")}

    def rows(self, query: str, what: str) -> Iterator[list[Any]]:
        """Yield the rows of a query whose last column is the checksum of the others, without it."""
        for *row, checksum in self.execute(query):
            if checksum != digest(*row):
                raise self.damaged(f"{what} {row[1]}" if isinstance(row[1], int) else what)
            yield row

    def meta(self) -> dict[str, str]:
        """Return the facts about the file."""
        return dict(self.execute("SELECT key, value FROM meta").fetchall())

    def config(self) -> str:
        """Return the configuration, as JSON; StoreDamagedError if it was changed."""
        meta = self.meta()
        text = meta.get("config", "")
        if meta.get("checksum") != digest(text).hex():
            raise self.damaged("its configuration")
        return text

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Commit what is written meanwhile.

        StoreError unless this very process opened the file for writing and has not closed it.
        """
        if not self._owned:
            raise StoreError(
                f"{self.path} cannot be written by process {os.getpid()}: that is a copy of the "
                "process that opened it (a fork), or it has closed it already. Only that one may "
                "write"
            )
        ownership = _writers[self.path].ownership
        if ownership is not None and not ownership.holds:
            raise StoreBusyError(
                f"{self.path} was taken over by {writer_of(self.path) or 'another process'}: this "
                "one was silent for too long, or its owner was removed. Its runs until then are "
                "in the store"
            )
        with named_errors(self.path):
            yield
            self.commit()

    @property
    def _owned(self) -> bool:
        return self.path in _writers and _writers[self.path].db is self

    def insert(self, table: str, row: tuple[Any, ...]) -> None:
        """Insert or replace a row, with its checksum."""
        places = ", ".join("?" * (len(row) + 1))
        self.execute(f"INSERT OR REPLACE INTO {table} VALUES ({places})", (*row, digest(*row)))

    def write_meta(self, key: str, value: str) -> None:
        """Write a fact about the file."""
        self.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def write_config(self, text: str) -> None:
        """Write the configuration, as JSON, and its checksum."""
        self.write_meta("config", text)
        self.write_meta("checksum", digest(text).hex())

    def write_owner(self) -> None:
        """Describe this process, for those who find the file locked."""
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
        self.write_meta("owner", json.dumps(owner))

    def write_counts(self) -> None:
        """Write the numbers of runs and rounds, within the transaction that adds some.

        They are counted once for a connection; from then on, triggers of its own follow them.
        """
        if not self.execute("SELECT count(*) FROM sqlite_temp_master").fetchone()[0]:
            counts = ", ".join(f"(SELECT count(*) FROM {each}) AS {each}" for each in COUNTED)
            self.execute(f"CREATE TEMP TABLE counts AS SELECT {counts}")
            self.execute("PRAGMA recursive_triggers = ON")  # a replaced row is deleted first
            for table in COUNTED:
                for event, sign in (("INSERT", "+"), ("DELETE", "-")):
                    self.execute(
                        f"CREATE TEMP TRIGGER {table}_{event} AFTER {event} ON main.{table} "
                        f"BEGIN UPDATE counts SET {table} = {table} {sign} 1; END"
                    )
        found = self.execute(f"SELECT {', '.join(COUNTED)} FROM temp.counts").fetchone()
        counts = json.dumps(dict(zip(COUNTED, found, strict=True)))
        self.write_meta("counts", with_checksum(counts))

    def release(self) -> None:
        """Fold the log into the file and unlock it; do nothing in a forked copy of the process."""
        if self._owned:
            try:
                with named_errors(self.path):
                    self.close()
            finally:
                unlock(self.path)


def connect(path: Path, *, read_only: bool = False) -> Database:
    """Connect to a file that is there; nothing in its schema is trusted."""
    real, options = resolve_path(path), "mode=rw"
    if is_shared(real):
        return read_copy(real) if read_only else _connect_alone(real)
    with named_errors(path):
        if read_only:
            # A writer has a log beside the file. Where there is none, nothing is left there either,
            # and the folder may be one that nobody can write.
            options = "mode=ro" if Path(f"{real}-wal").exists() else "mode=ro&immutable=1"
        return _opened(f"{real.as_uri()}?{options}", path)


def _opened(uri: str, path: Path) -> Database:
    db = sqlite3.connect(uri, uri=True, timeout=5.0, check_same_thread=False, factory=Database)
    db.path = path
    db.execute("PRAGMA trusted_schema = OFF")
    db.execute("PRAGMA cell_size_check = ON")
    return db


def _connect_alone(path: Path) -> Database:
    """Connect to a file of which this process is the owner, on a disk that hosts share.

    Without locks, which may not work there, and without a log in shared memory (WAL, mmap), which
    never does.
    """
    with named_errors(path):
        if _is_log_of_wal(path):  # written on a local disk before
            with closing(_opened(f"{path.as_uri()}?mode=rw", path)) as db:
                db.execute("PRAGMA locking_mode = EXCLUSIVE")
                db.execute("PRAGMA journal_mode = DELETE").fetchone()
        end = time.monotonic() + _STALE
        while True:
            db = _opened(f"{path.as_uri()}?mode=rw&nolock=1", path)
            try:
                db.execute("PRAGMA mmap_size = 0")
                db.execute("PRAGMA locking_mode = EXCLUSIVE")  # no look for another's journal
                db.execute("SELECT count(*) FROM sqlite_master").fetchone()
            except sqlite3.OperationalError as error:
                db.close()
                if error.sqlite_errorcode & 0xFF not in _PASSING or time.monotonic() > end:
                    raise
                time.sleep(_AGAIN)
            else:
                return db


def read_copy(path: Path) -> Database:
    """Return a copy in memory of a file that another host may be writing."""
    with named_errors(path):
        try:
            data = as_rollback(read_steady(path))
        except UnsteadyError as error:
            raise StoreError(str(error)) from error
        db = _opened("file::memory:", path)
        db.deserialize(data)
        return db


def _is_log_of_wal(path: Path) -> bool:
    """Return True if a file keeps what is new in a write-ahead log."""
    with path.open("rb") as file:
        return file.read(20)[18:20] == b"\2\2"


def open_for_writing(path: Path, check: Callable[[Database], object]) -> Database:
    """Lock a file, connect to it, and let `check` look at it and make its tables."""
    with ExitStack() as undo:
        path = lock(path)
        undo.callback(unlock, path)
        db = undo.enter_context(closing(connect(path)))
        _writers[path] = _writers[path]._replace(db=db)
        with named_errors(path):
            check(db)
        undo.pop_all()
    return db


# Errors and checksums

_SQLITE_ERRORS: tuple[tuple[set[int], type[StoreError], str], ...] = (
    ({sqlite3.SQLITE_NOTADB}, NotAStoreError, "is not a store of supac: {}"),
    (
        {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED},
        StoreBusyError,
        "is in use by another program: {}. Close that, and resume",
    ),
    (
        {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR},
        StoreError,
        "cannot be written: {}. What was written before is safe: make room, and resume",
    ),
    (
        {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM},
        StoreError,
        "cannot be opened: {}. Look at the permissions of the file and of its folder, or copy it "
        "elsewhere",
    ),
)


def _damaged(path: Path, what: object) -> StoreDamagedError:
    return StoreDamagedError(
        f"{path} is damaged: {what}. If there is a copy of it, use that; `sqlite3 FILE .recover` "
        "may save its runs"
    )


@contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Raise SQLite's errors as errors of stores."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        for codes, kind, words in _SQLITE_ERRORS:
            if code in codes:
                raise kind(f"{path} {words.format(error)}") from error
        raise _damaged(path, error) from error
    except (UnicodeDecodeError, OverflowError) as error:
        raise _damaged(path, error) from error


@contextmanager
def raise_if_damaged(path: Path, what: str) -> Iterator[None]:
    """Raise StoreDamagedError for whatever goes wrong with the contents of a file."""
    try:
        yield
    except (
        ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError,
        MemoryError,
    ) as error:  # fmt: skip
        raise _damaged(path, f"{what}: {type(error).__name__}: {error!s:.200}") from error


def with_checksum(text: str) -> str:
    """Put a checksum before a text, for `checked`."""
    return f"{digest(text).hex()} {text}"


def checked(words: str, path: Path, what: str) -> str:
    """Return the text of `with_checksum`; StoreDamagedError if it was changed."""
    checksum, _, text = words.partition(" ")
    if checksum != digest(text).hex():
        raise _damaged(path, what)
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
