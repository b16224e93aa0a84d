"""Read a store that another host may be writing, without any lock."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path

_TRIES, _PAUSE = 200, 0.05  # and seconds between them: a commit takes a few milliseconds
_COUNTER = slice(24, 28)  # of the header: it changes with every commit
_JOURNAL = slice(18, 20)
_BEGUN = bytes.fromhex("d9d505f920a163d7")
"""Beginning of the journal of a commit that has not ended; otherwise it is empty, or zeros."""
_ROLLBACK = b"\1\1"


class UnsteadyError(OSError):
    """A file did not stand still long enough to be copied."""


def read_steady(path: Path) -> bytes:
    """Return the content of a database between two commits of its writer.

    While a commit is written there is a journal beside it; a copy is whole if there was none before
    and after, and if a second look finds the same counter of commits, size and time. What is left
    to chance, a disk that answers from an old cache, is noticed by the checksums of the store.
    """
    last = b""
    for attempt in range(_TRIES):
        before = _look(path)
        data = path.read_bytes()
        if before is not None and _look(path) == before and data[_COUNTER] == before[0]:
            return data
        if before is None and data and data == last and attempt > _TRIES // 2:
            return _rolled_back(path, data)  # its writer was killed: the journal undoes the rest
        last = data
        time.sleep(_PAUSE)
    raise UnsteadyError(
        f"{path} changes so often that it cannot be read from here: try again, or look at it on "
        "the host that writes it"
    )


def _look(path: Path) -> tuple[bytes, int, int] | None:
    """Return the counter of commits, size and time of a file; None while it is being written."""
    with suppress(FileNotFoundError), _journal(path).open("rb") as journal:
        if journal.read(len(_BEGUN)) == _BEGUN:
            return None
    with path.open("rb") as file:
        header = file.read(100)
        found = os.fstat(file.fileno())
    return header[_COUNTER], found.st_size, found.st_mtime_ns


def _journal(path: Path) -> Path:
    return path.with_name(f"{path.name}-journal")


def _rolled_back(path: Path, data: bytes) -> bytes:
    """Return a copy with what its writer had not committed undone, as SQLite does."""
    import tempfile  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        copy.write_bytes(data)
        try:
            _journal(copy).write_bytes(_journal(path).read_bytes())
        except FileNotFoundError:  # just now
            return read_steady(path)
        with sqlite3.connect(copy) as db:
            db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        db.close()
        return copy.read_bytes()


def as_rollback(data: bytes) -> bytes:
    """Return a database that needs no log: one in memory cannot have any."""
    return data[: _JOURNAL.start] + _ROLLBACK + data[_JOURNAL.stop :]
