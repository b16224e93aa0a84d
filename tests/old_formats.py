"""Stores as earlier versions wrote them, made of those of this version."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np

from supac.problem import Role
from supac.record.encoding import unpack
from supac.record.store.file import checked, digest, with_checksum
from supac.record.store.schema import _SCHEMA_3

DRAWN = {each.name.lower(): each.drawn for each in Role}


def downgrade(store: Path, version: int) -> None:
    """Make a store one of format 2 to 5: without Jacobians, before 5 without roles, and so on."""
    db = sqlite3.connect(store)
    db.execute("DROP TABLE jacobians")
    _forget_count(db, "jacobians")
    if version == 5:
        db.execute(f"PRAGMA user_version = {version}")
        db.commit()
        db.close()
        return
    names = ["task", "id", "x", "status", "risk", "seconds", "message", "attempts", "source"]
    names += ["purpose", "outputs"]
    runs = db.execute(f"SELECT {', '.join(names)}, role FROM runs ORDER BY task, id").fetchall()
    db.execute("DROP TABLE runs")
    db.execute(_SCHEMA_3[1])
    for *row, _ in runs:
        _insert(db, "runs", row)
    drawn = {(row[0], row[1]): DRAWN[role] for *row, role in runs}
    for task, number, ids, _, *row in db.execute("SELECT * FROM rounds").fetchall():
        marks = [drawn[task, i] for i in np.frombuffer(ids, dtype="<i8").tolist()]
        _insert(db, "rounds", [task, number, ids, np.array(marks, dtype="?").tobytes(), *row[:-1]])
    for number, value, _ in db.execute("SELECT * FROM state").fetchall():
        _insert(db, "state", [number, json.dumps(earlier(json.loads(value)))])
    if version == 2:
        db.execute("DROP TABLE timeline")
    db.execute(f"PRAGMA user_version = {version}")
    db.commit()
    db.close()


def earlier(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a state as format 4 had it."""
    later = ("step", "runs")
    memory = {word: value for word, value in spec["memory"].items() if word not in later}
    batch = spec["batch"]
    if batch is not None:
        expected = None if np.isnan(unpack(batch["expected"])).all() else batch["expected"]
        drawn = [DRAWN[role] for role in batch["role"]]
        kept = {name: batch[name] for name in ("x", "proposal")}
        batch = {**kept, "drawn": drawn, "expected": expected}
    return {"theta": spec["theta"], "memory": memory, "batch": batch}


def _forget_count(db: sqlite3.Connection, table: str) -> None:
    (kept,) = db.execute("SELECT value FROM meta WHERE key = 'counts'").fetchone()
    counts = json.loads(checked(kept, Path(), "its counts"))
    counts.pop(table)
    db.execute(
        "UPDATE meta SET value = ? WHERE key = 'counts'", (with_checksum(json.dumps(counts)),)
    )


def _insert(db: sqlite3.Connection, table: str, row: list[Any]) -> None:
    places = ", ".join("?" * (len(row) + 1))
    db.execute(f"INSERT OR REPLACE INTO {table} VALUES ({places})", (*row, digest(*row)))
