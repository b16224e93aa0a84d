"""Tables of a store, and how files of version 0.1 are brought up to date.

Format 2 has one set of tables for all kinds of searches; outputs have a table of their own, so that
a reader that does not ask for them does not read them. Format 1, of version 0.1, had a file format
for `minimize` and another for `meta_learn`, and kept outputs beside the other columns of a run.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from supac.record.store.file import (
    NotAStoreError,
    StoreTooNewError,
    check_counts,
    connect,
    damaged,
    digest,
    named_errors,
    raise_if_damaged,
    record_counts,
    resolve_path,
    write_config,
)

VERSION = 2
APPLICATION = 0x53755041  # "SuPA", in the header of the file
_META_1 = 0x5375504D  # "SuPM", in that of a format 1 file of `meta_learn`
RESIDUALS = {"other": "residuals"}
"""Data of a file of version 0.1: its outputs are what the loss takes."""
_META = "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)"
SCHEMA = (
    _META,
    """CREATE TABLE runs (
        task INTEGER, id INTEGER, x BLOB NOT NULL, status TEXT NOT NULL, risk REAL,
        seconds REAL NOT NULL, message TEXT NOT NULL, attempts INTEGER NOT NULL,
        source TEXT NOT NULL, purpose TEXT NOT NULL, outputs INTEGER, checksum BLOB NOT NULL,
        PRIMARY KEY (task, id))""",
    """CREATE TABLE outputs (
        task INTEGER, id INTEGER, numbers BLOB NOT NULL, checksum BLOB NOT NULL,
        PRIMARY KEY (task, id))""",
    """CREATE TABLE rounds (
        task INTEGER, iteration INTEGER, ids BLOB NOT NULL, drawn BLOB NOT NULL,
        proposal TEXT NOT NULL, info TEXT NOT NULL, checksum BLOB NOT NULL,
        PRIMARY KEY (task, iteration))""",
    "CREATE TABLE state (id INTEGER PRIMARY KEY, value TEXT NOT NULL, checksum BLOB NOT NULL)",
)
_SCHEMA_1 = (
    _META,
    """CREATE TABLE runs (
        id INTEGER PRIMARY KEY, x BLOB NOT NULL, status TEXT NOT NULL, risk REAL, outputs BLOB,
        seconds REAL NOT NULL, message TEXT NOT NULL, attempts INTEGER NOT NULL,
        source TEXT NOT NULL, purpose TEXT NOT NULL, checksum BLOB NOT NULL)""",
    """CREATE TABLE rounds (
        iteration INTEGER PRIMARY KEY, ids BLOB NOT NULL, drawn BLOB NOT NULL,
        proposal TEXT NOT NULL, info TEXT NOT NULL, checksum BLOB NOT NULL)""",
    """CREATE TABLE state (
        iteration INTEGER PRIMARY KEY, value TEXT NOT NULL, checksum BLOB NOT NULL)""",
)
_META_SCHEMA_1 = (
    _META,
    """CREATE TABLE runs (
        task INTEGER, id INTEGER, x BLOB NOT NULL, status TEXT NOT NULL, risk REAL, outputs BLOB,
        seconds REAL NOT NULL, message TEXT NOT NULL, attempts INTEGER NOT NULL,
        source TEXT NOT NULL, purpose TEXT NOT NULL, checksum BLOB NOT NULL,
        PRIMARY KEY (task, id))""",
    """CREATE TABLE rounds (
        task INTEGER, iteration INTEGER, ids BLOB NOT NULL, drawn BLOB NOT NULL,
        proposal TEXT NOT NULL, info TEXT NOT NULL, checksum BLOB NOT NULL,
        PRIMARY KEY (task, iteration))""",
    "CREATE TABLE state (visit INTEGER PRIMARY KEY, value TEXT NOT NULL, checksum BLOB NOT NULL)",
)
_KNOWN = {
    (APPLICATION, VERSION): SCHEMA,
    (APPLICATION, 1): _SCHEMA_1,
    (_META_1, 1): _META_SCHEMA_1,
}


def format_of(db: sqlite3.Connection, path: Path) -> int:
    """Return the format of a store; raise where it is something else, or not whole."""
    kind = db.execute("PRAGMA application_id").fetchone()[0]
    if kind not in (APPLICATION, _META_1):
        raise NotAStoreError(f"{path} is a database, but not a store of supac")
    found = int(db.execute("PRAGMA user_version").fetchone()[0])
    if found > VERSION:
        raise StoreTooNewError(
            f"{path} has format {found}, but this version of supac reads up to {VERSION}: "
            "use a newer one"
        )
    # Exactly our tables: no view or trigger that would do something else in their place.
    tables = db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    if sorted(tables) != sorted((table,) for table in _KNOWN.get((kind, found), ())):
        raise damaged(path, "its tables are not those of a store")
    return found


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a store for reading, also while another process writes to it."""
    if not resolve_path(path).exists():
        raise FileNotFoundError(f"there is no store {path}")
    db = connect(path, read_only=True)
    try:
        with named_errors(path):
            db.execute("BEGIN")  # what another process writes meanwhile is not half seen
            old = format_of(db, path) < VERSION
            check_counts(db, path)
            if old:
                copy = sqlite3.connect(":memory:")
                db.backup(copy)
                db.close()
                db = copy
                upgrade(db, path)
            yield db
    finally:
        db.close()


def upgrade(db: sqlite3.Connection, path: Path) -> None:
    """Bring the tables of format 1 up to date, in a transaction that the caller commits."""
    config = _config_1(db, path)
    runs = list(_rows_1(db, path, "runs"))
    rounds = list(_rows_1(db, path, "rounds"))
    states = list(_rows_1(db, path, "state"))
    if db.in_transaction:
        db.rollback()
    db.execute("BEGIN IMMEDIATE")
    for table in ("runs", "rounds", "state"):
        db.execute(f"DROP TABLE {table}")
    for statement in SCHEMA[1:]:
        db.execute(statement)
    for task, number, x, status, risk, outputs, *rest in runs:
        width = None if outputs is None else len(outputs) // 8
        insert(db, "runs", (task, number, x, status, risk, *rest, width))
        if outputs is not None:
            insert(db, "outputs", (task, number, outputs))
    for row in rounds:
        insert(db, "rounds", row)
    for _, value in states[-1:]:
        insert(db, "state", (0, value))
    write_config(db, json.dumps(config))
    db.execute(f"PRAGMA application_id = {APPLICATION}")
    db.execute(f"PRAGMA user_version = {VERSION}")
    record_counts(db)


def _config_1(db: sqlite3.Connection, path: Path) -> dict[str, Any]:
    """Settings of format 1, with those that are new."""
    meta = dict(db.execute("SELECT key, value FROM meta").fetchall())
    text = meta.get("config", "")
    if meta.get("checksum") != digest(text).hex():
        raise damaged(path, "its configuration")
    with raise_if_damaged(path, "its configuration"):
        config = json.loads(text)
        kind = "minimize" if "budget" in config else "meta_learn"
        losses = config.get("losses", [config.get("loss")])
        none = None if kind == "minimize" else [None] * len(losses)
        return {"kind": kind, "data": RESIDUALS if any(losses) else none, **config}


def _rows_1(db: sqlite3.Connection, path: Path, table: str) -> Iterator[tuple[Any, ...]]:
    """Rows of format 1 without their checksums, those of `minimize` with task 0."""
    many = db.execute("PRAGMA application_id").fetchone()[0] == _META_1
    order = "" if table == "state" else " ORDER BY task, " if many else " ORDER BY "
    order += {"runs": "id", "rounds": "iteration", "state": ""}[table]
    for *row, checksum in db.execute(f"SELECT * FROM {table}{order}"):
        # A state's checksum is of its value alone, and not of its number.
        if checksum != digest(*(row[1:] if table == "state" else row)):
            raise damaged(path, f"a row of its {table}")
        yield tuple(row) if many or table == "state" else (0, *row)


def insert(db: sqlite3.Connection, table: str, row: tuple[Any, ...]) -> None:
    """Insert or replace a row, with its checksum."""
    places = ", ".join("?" * (len(row) + 1))
    db.execute(f"INSERT OR REPLACE INTO {table} VALUES ({places})", (*row, digest(*row)))


def checked_rows(db: sqlite3.Connection, path: Path, query: str, what: str) -> Iterator[list[Any]]:
    """Rows of a query whose last column is the checksum of the others, without it."""
    for *row, checksum in db.execute(query):
        if checksum != digest(*row):
            raise damaged(path, f"{what} {row[1] if len(row) > 1 else ''}".strip())
        yield row
