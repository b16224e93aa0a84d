"""Tables of a store, and how files of earlier formats are brought up to date.

Format 6 has a table of Jacobians, apart from that of outputs: they are large, and only the search
reads them.
Format 5 says of each run why it was made; runs of earlier formats keep no role, and readers tell it
from where they lie (`record/earlier_roles.py`). Format 4 has the numbers of large posteriors
compressed. Format 3 adds the timeline, when and where each run was made, which readers of format 2
do without.
Format 2 has one set of tables for all kinds of searches; outputs have a table of their own, so that
a reader that does not ask for them does not read them. Format 1, of version 0.1, had a file format
for `minimize` and another for `meta_learn`, and kept outputs beside the other columns of a run.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from supac.problem.composite import RESIDUALS
from supac.record.store.file import (
    COUNTED,
    Database,
    NotAStoreError,
    StoreTooNewError,
    checked,
    connect,
    digest,
    named_errors,
    raise_if_damaged,
    resolve_path,
)

VERSION = 6
APPLICATION = 0x53755041  # "SuPA", in the header of the file
_META_1 = 0x5375504D  # "SuPM", in that of a format 1 file of `meta_learn`
RESIDUALS_SPEC = {"other": RESIDUALS}
"""Data of a file of version 0.1: its outputs are what the loss takes."""
_META = "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)"
_ROUNDS = """CREATE TABLE rounds (
        task INTEGER, iteration INTEGER, ids BLOB NOT NULL, drawn BLOB NOT NULL,
        proposal TEXT NOT NULL, info TEXT NOT NULL, checksum BLOB NOT NULL,
        PRIMARY KEY (task, iteration))"""
# Without an index apart: whoever reads it notices that a page is missing.
_TIMELINE = """CREATE TABLE timeline (
        task INTEGER, id INTEGER, started REAL NOT NULL, ended REAL, worker TEXT NOT NULL, x BLOB,
        checksum BLOB NOT NULL, PRIMARY KEY (task, id)) WITHOUT ROWID"""
_SCHEMA_2 = (
    _META,
    """CREATE TABLE runs (
        task INTEGER, id INTEGER, x BLOB NOT NULL, status TEXT NOT NULL, risk REAL,
        seconds REAL NOT NULL, message TEXT NOT NULL, attempts INTEGER NOT NULL,
        source TEXT NOT NULL, purpose TEXT NOT NULL, outputs INTEGER, checksum BLOB NOT NULL,
        PRIMARY KEY (task, id))""",
    """CREATE TABLE outputs (
        task INTEGER, id INTEGER, numbers BLOB NOT NULL, checksum BLOB NOT NULL,
        PRIMARY KEY (task, id))""",
    _ROUNDS,
    "CREATE TABLE state (id INTEGER PRIMARY KEY, value TEXT NOT NULL, checksum BLOB NOT NULL)",
)
_SCHEMA_3 = (*_SCHEMA_2, _TIMELINE)
_RUNS = """CREATE TABLE runs (
        task INTEGER, id INTEGER, x BLOB NOT NULL, status TEXT NOT NULL, risk REAL,
        seconds REAL NOT NULL, message TEXT NOT NULL, attempts INTEGER NOT NULL,
        source TEXT NOT NULL, purpose TEXT NOT NULL, role TEXT, step INTEGER, expected REAL,
        level INTEGER, outputs INTEGER, checksum BLOB NOT NULL, PRIMARY KEY (task, id))"""
_SCHEMA_5 = (_META, _RUNS, *_SCHEMA_3[2:])
_JACOBIANS = """CREATE TABLE jacobians (
        task INTEGER, id INTEGER, rows INTEGER NOT NULL, numbers BLOB NOT NULL,
        checksum BLOB NOT NULL, PRIMARY KEY (task, id))"""
SCHEMA = (*_SCHEMA_5, _JACOBIANS)
_NO_PLAN = (None, None, None, None)  # role, step, expected risk and level of an earlier run
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
    _ROUNDS,
    "CREATE TABLE state (visit INTEGER PRIMARY KEY, value TEXT NOT NULL, checksum BLOB NOT NULL)",
)
_KNOWN = {
    (APPLICATION, VERSION): SCHEMA,
    (APPLICATION, 5): _SCHEMA_5,
    (APPLICATION, 4): _SCHEMA_3,
    (APPLICATION, 3): _SCHEMA_3,
    (APPLICATION, 2): _SCHEMA_2,
    (APPLICATION, 1): _SCHEMA_1,
    (_META_1, 1): _META_SCHEMA_1,
}


def create(db: Database, config: str) -> None:
    """Make the tables, all or nothing: a process killed meanwhile leaves an empty file."""
    db.execute("BEGIN IMMEDIATE")
    _mark(db)
    for table in SCHEMA:
        db.execute(table)
    db.write_config(config)
    db.write_meta("created", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    # The bits of a result depend on these libraries.
    numerics = f"NumPy {np.__version__}, SciPy {scipy.__version__}"
    db.write_meta("made with", f"supac {metadata.version('supac')}, {numerics}")
    db.commit()


def _mark(db: Database) -> None:
    db.execute(f"PRAGMA application_id = {APPLICATION}")
    db.execute(f"PRAGMA user_version = {VERSION}")


def format_of(db: Database) -> int:
    """Return the format of a store; raise where it is something else, or not whole."""
    kind = db.execute("PRAGMA application_id").fetchone()[0]
    if kind not in (APPLICATION, _META_1):
        raise NotAStoreError(f"{db.path} is a database, but not a store of supac")
    found = int(db.execute("PRAGMA user_version").fetchone()[0])
    if found > VERSION:
        raise StoreTooNewError(
            f"{db.path} has format {found}, but this version of supac reads up to {VERSION}: "
            "use a newer one"
        )
    # Exactly our tables: no view or trigger that would do something else in their place.
    tables = db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    if sorted(tables) != sorted((table,) for table in _KNOWN.get((kind, found), ())):
        raise db.damaged("its tables are not those of a store")
    return found


def check_counts(db: Database) -> None:
    """Raise StoreDamagedError if rows are missing, or the table of settings is damaged.

    Every round must be there, with all the runs that it learnt from. Stores of version 0.1 have no
    counts; nor does that version change them, so that there may be more rows than were counted.
    """
    db.check_pages("integrity_check(meta)")
    task = "task" if "task" in db.columns("runs") else "0"
    with raise_if_damaged(db.path, "its rows"):
        kept = db.execute("SELECT value FROM meta NOT INDEXED WHERE key = 'counts'").fetchone()
        least = json.loads(checked(kept[0], db.path, "its counts")) if kept else {}
        for table in sorted(set(COUNTED) & set(least)):
            left = db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            if left < least[table]:
                raise db.damaged(f"{left} of {least[table]} {table} are left")
        runs = db.execute(f"SELECT {task}, id FROM runs").fetchall()
        known = set(runs)
        if len(known) < len(runs):
            raise db.damaged("it has runs twice")
        query = f"SELECT {task}, iteration, ids FROM rounds ORDER BY 1, iteration"
        rounds = dict[Any, int]()
        for where, iteration, ids in db.execute(query):
            if iteration != rounds.setdefault(where, 0):
                raise db.damaged(f"round {rounds[where]} is missing")
            rounds[where] += 1
            for run in np.frombuffer(ids, dtype="<i8").tolist():
                if (where, run) not in known:
                    raise db.damaged(f"run {run} of round {iteration} is missing")
        state = db.execute("SELECT * FROM state").fetchone()
        of_last = state is not None and state[0] == rounds.get(0, 0) - 1
        if rounds and not (of_last if "iteration" in db.columns("state") else state):
            raise db.damaged("its state is missing, or that of another round")


@contextmanager
def reading(path: Path) -> Iterator[Database]:
    """Open a store for reading, also while another process writes to it."""
    if not resolve_path(path).exists():
        raise FileNotFoundError(f"there is no store {path}")
    with closing(connect(path, read_only=True)) as db, named_errors(path):
        db.execute("BEGIN")  # what another process writes meanwhile is not half seen
        old = format_of(db) < 2  # later formats only lack tables and columns
        check_counts(db)
        if not old:
            yield db
            return
        with closing(sqlite3.connect(":memory:", factory=Database)) as copy:
            copy.path = path
            db.backup(copy)
            upgrade(copy)
            yield copy


def upgrade(db: Database) -> None:
    """Bring the tables up to date, in a transaction that the caller commits."""
    found = format_of(db)
    if found == 1:
        _upgrade_1(db)
    else:
        db.execute("BEGIN IMMEDIATE")
        if found == 2:
            db.execute(_TIMELINE)
        if found < 5:
            _upgrade_runs(db)
        if found < VERSION:
            db.execute(_JACOBIANS)
    _mark(db)


def _upgrade_runs(db: Database) -> None:
    """Give the table of runs the columns that say why they were made, empty for earlier ones."""
    db.execute("ALTER TABLE runs RENAME TO earlier")
    db.execute(_RUNS)
    for *row, width in db.rows("SELECT * FROM earlier", "run"):
        db.insert("runs", (*row, *_NO_PLAN, width))
    db.execute("DROP TABLE earlier")


def _upgrade_1(db: Database) -> None:
    config = _config_1(db)
    runs, rounds, states = (list(_rows_1(db, table)) for table in ("runs", "rounds", "state"))
    if db.in_transaction:
        db.rollback()
    db.execute("BEGIN IMMEDIATE")
    for table in ("runs", "rounds", "state"):
        db.execute(f"DROP TABLE {table}")
    for statement in SCHEMA[1:]:
        db.execute(statement)
    for task, number, x, status, risk, outputs, *rest in runs:
        width = None if outputs is None else len(outputs) // 8
        db.insert("runs", (task, number, x, status, risk, *rest, *_NO_PLAN, width))
        if outputs is not None:
            db.insert("outputs", (task, number, outputs))
    for row in rounds:
        db.insert("rounds", row)
    for _, value in states[-1:]:
        db.insert("state", (0, value))
    db.write_config(json.dumps(config))
    db.write_counts()


def _config_1(db: Database) -> dict[str, Any]:
    """Settings of format 1, with those that are new."""
    text = db.config()
    with raise_if_damaged(db.path, "its configuration"):
        config = json.loads(text)
        kind = "minimize" if "budget" in config else "meta_learn"
        losses = config.get("losses", [config.get("loss")])
        none = None if kind == "minimize" else [None] * len(losses)
        later = {"held_out": None, "shape": "gaussian"} if kind == "minimize" else {}
        return {**later, "kind": kind, "data": RESIDUALS_SPEC if any(losses) else none, **config}


def _rows_1(db: Database, table: str) -> Iterator[tuple[Any, ...]]:
    """Rows of format 1 without their checksums, those of `minimize` with task 0."""
    many = "task" in db.columns(table)
    order = {"runs": "id", "rounds": "iteration", "state": "1"}[table]
    for *row, checksum in db.execute(
        f"SELECT * FROM {table} ORDER BY {'task, ' if many else ''}{order}"
    ):
        # A state's checksum is of its value alone, and not of its number.
        if checksum != digest(*(row[1:] if table == "state" else row)):
            raise db.damaged(f"a row of its {table}")
        yield tuple(row) if many or table == "state" else (0, *row)
