"""The SQLite file behind a record: one writer, any number of readers.

Every finished run is on the disk before anything else happens with it. After each round the state
of the algorithm follows in the same transaction, so that a resume begins where the last round
ended. Arrays are kept as their bytes and everything else as JSON; damage is noticed by checksums,
and nothing that a file says is ever executed.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supac.arrays import FloatArray
from supac.codec import Spec, check_size, differences
from supac.families import ParametricFamily
from supac.record.ending import Ending
from supac.record.round import Round
from supac.record.run import Purpose, Run
from supac.record.store.file import (
    StoreMismatchError,
    check_counts,
    check_owner,
    check_pages,
    checked,
    close,
    create,
    damaged,
    digest,
    named_errors,
    open_for_writing,
    owner,
    raise_if_damaged,
    record_counts,
    resolve_path,
    with_checksum,
    write_config,
    write_meta,
)
from supac.record.store.rows import (
    RUN_COLUMNS,
    array_from_bytes,
    array_to_bytes,
    ending_from_spec,
    ending_to_spec,
    round_from_row,
    round_to_row,
    run_from_row,
    run_to_row,
)
from supac.record.store.schema import (
    APPLICATION,
    RESIDUALS,
    SCHEMA,
    VERSION,
    checked_rows,
    format_of,
    insert,
    reading,
    upgrade,
)

# Settings by kind of search, and those that may change from one process to the next.
_SETTINGS: dict[str, dict[str, Any]] = {
    "minimize": {
        "prior": dict, "bound": dict, "algorithm": dict, "start": dict | None, "loss": dict | None,
        "data": dict | None, "on_failure": str, "mode": str, "validation": int | None,
        "tolerance": float | int, "seed": int, "budget": int, "proxy": str | None,
        "vectorized": bool, "timeout": float | int | None, "retries": int,
        "max_failures": float | int,
    },
    "runs": {"dim": int, "loss": dict | None, "data": dict | None},
    "meta_learn": {
        "prior": dict, "tasks": list, "bounds": list, "learner": dict, "features": list,
        "losses": list, "data": list | dict, "vectorized": list, "timeout": float | int | None,
        "retries": int, "on_failure": str, "seed": int, "passes": int,
    },
}  # fmt: skip
_FREE = {"budget", "vectorized", "timeout", "retries", "max_failures", "passes"}


@dataclass(frozen=True, eq=False)
class Contents:
    """A store at one moment; its runs are without their outputs."""

    config: dict[str, Spec]
    runs: tuple[Run, ...]
    widths: dict[tuple[int, int], int]
    """Number of outputs by task and id, of the runs that have any."""
    rounds: tuple[Round, ...]
    ending: Ending | None
    state: Spec | None
    """State of the algorithm after the last round."""
    description: str = ""
    created: str = ""
    made_with: str = ""


class Store:
    """The one writer of a file.

    `family_of` tells the posterior's family from the settings; the file only names a family where
    a distribution is of another. Settings of kind "runs" append to the file of any search.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        config: Mapping[str, Spec],
        family_of: Callable[[dict[str, Spec]], ParametricFamily | None],
    ) -> None:
        # Resolved: a simulator may change the folder that it is called in.
        self.path, self._family_of, self._config = resolve_path(path), family_of, dict(config)
        open_for_writing(self.path, self._open)

    def _open(self, db: sqlite3.Connection) -> None:
        self._db = db
        new = not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if not new:
            old = format_of(db, self.path) < VERSION
            check_pages(db, self.path)
            check_counts(db, self.path)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        if new:
            create(db, APPLICATION, SCHEMA, json.dumps(self._config), VERSION)
        elif old:
            upgrade(db, self.path)
        # First of all: the rounds of another search may be of another family.
        self._check_settings(config_of(_meta(db), self.path))
        self.contents = contents_of(db, self.path, self._family_of)
        """What the file held when it was opened."""
        self._count = {0: 0}
        for each in self.contents.rounds:
            self._count[each.task] = self._count.get(each.task, 0) + 1
        write_meta(db, "owner", json.dumps(owner()))
        db.commit()

    def _check_settings(self, kept: dict[str, Spec]) -> None:
        """Refuse other settings; a larger budget is allowed, or no more errors at failures."""
        now, free = self._config, set(_FREE)
        if now["kind"] == "runs":
            now = {"kind": kept["kind"], "loss": now["loss"], "data": now["data"]}
            kept = {name: kept.get(name) for name in now}
        if kept.get("on_failure") == "raise":
            free.add("on_failure")
        if kept["data"] == RESIDUALS:
            free.add("data")
        _check_kind(self.path, kept, now["kind"])
        changed = differences({**kept, **{name: now.get(name) for name in free & set(now)}}, now)
        if changed:
            raise StoreMismatchError(
                f"{self.path} holds another search: {'; '.join(changed)}. Give it its old "
                "settings, or another file"
            )

    @property
    def holds_residuals(self) -> bool:
        """True for a file of version 0.1, whose outputs are what the loss takes."""
        return bool(self.contents.runs) and self.contents.config["data"] == RESIDUALS

    def confirm(self, description: str | None = None) -> None:
        """Accept the settings: from now on they are the file's, and the search goes on."""
        data = (self.contents.config if self.contents.runs else self._config)["data"]
        with named_errors(self.path):
            write_config(self._db, json.dumps({**self._config, "data": data}))
            self._db.execute("DELETE FROM meta WHERE key = 'end'")
            if description is not None:
                write_meta(self._db, "description", with_checksum(description))
            self._db.commit()

    def check_function(self, purpose: Purpose, identity: str) -> None:
        """Refuse another function than the one that made the earlier runs for this purpose."""
        key, made = f"function {purpose}", {run.purpose for run in self.contents.runs}
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        if row is not None and purpose in made and row[0] != identity:
            raise StoreMismatchError(
                f"{self.path} has runs for a {purpose} by another function: {row[0]} in the file, "
                f"{identity} now. Give each function a file of its own"
            )
        with named_errors(self.path):
            write_meta(self._db, key, identity)
            self._db.commit()

    def close(self) -> None:
        """Fold everything into the one file, and release the lock."""
        close(self._db, self.path)

    def add_runs(self, runs: Iterable[Run]) -> None:
        """Write runs; they are on the disk when this returns. Earlier versions are replaced."""
        check_owner(self._db, self.path)
        with named_errors(self.path):
            for run in runs:
                width = None if run.outputs is None else len(run.outputs)
                insert(self._db, "runs", (*run_to_row(run), width))
                if run.outputs is None:
                    key = (run.task, run.id)
                    self._db.execute("DELETE FROM outputs WHERE task = ? AND id = ?", key)
                else:
                    numbers = array_to_bytes(run.outputs)
                    insert(self._db, "outputs", (run.task, run.id, numbers))
            record_counts(self._db)
            self._db.commit()

    @property
    def _own_family(self) -> ParametricFamily:
        family = self._family_of(self._config)
        if family is None:
            raise TypeError("only a search has rounds and an ending")
        return family

    def add_rounds(self, rounds: Sequence[Round], state: Spec) -> None:
        """Write rounds and the state after them, all or nothing."""
        check_owner(self._db, self.path)
        with named_errors(self.path):
            for each in rounds:
                number = self._count.get(each.task, 0)
                insert(self._db, "rounds", round_to_row(number, each, self._own_family))
                self._count[each.task] = number + 1
            insert(self._db, "state", (0, json.dumps(state)))
            record_counts(self._db)
            self._db.commit()

    def finish(self, ending: Ending) -> None:
        """Write the end of the search."""
        check_owner(self._db, self.path)
        with named_errors(self.path):
            write_meta(
                self._db, "end", with_checksum(json.dumps(ending_to_spec(ending, self._own_family)))
            )
            self._db.commit()


def contents_of(
    db: sqlite3.Connection,
    path: Path,
    family_of: Callable[[dict[str, Spec]], ParametricFamily | None],
) -> Contents:
    """Read a store without its outputs; `family_of` tells the posterior's from the settings."""
    meta = _meta(db)
    config = config_of(meta, path)
    family = family_of(config)
    runs, widths, rounds, ending, state = [], {}, [], None, None
    for *row, width in checked_rows(
        db, path, f"SELECT {RUN_COLUMNS}, outputs, checksum FROM runs ORDER BY task, id", "run"
    ):
        with raise_if_damaged(path, f"run {row[1]}"):
            runs.append(run_from_row(*row))
            if width is not None:
                widths[runs[-1].task, runs[-1].id] = int(width)
    query = "SELECT * FROM rounds ORDER BY task, iteration"
    for task, number, *row in checked_rows(db, path, query, "round"):
        with raise_if_damaged(path, f"round {number}"):
            rounds.append(round_from_row(family, task, *row))
    for _, value in checked_rows(db, path, "SELECT * FROM state", "its state"):
        with raise_if_damaged(path, "its state"):
            state = json.loads(value)
    if "end" in meta and family is not None:
        with raise_if_damaged(path, "its end"):
            ending = ending_from_spec(json.loads(checked(meta["end"], path, "its end")), family)
    _check_rows(path, runs, rounds, family)
    description = meta.get("description")
    return Contents(
        config,
        tuple(runs),
        widths,
        tuple(rounds),
        ending,
        state,
        "" if description is None else checked(description, path, "its description"),
        str(meta.get("created", "")),
        str(meta.get("made with", "")),
    )


def _check_rows(
    path: Path, runs: Sequence[Run], rounds: Sequence[Round], family: ParametricFamily | None
) -> None:
    """Raise where rounds name runs that are not there, or runs are of another dimension."""
    there = {(run.task, run.id) for run in runs}
    for each in rounds:
        for number in each.ids:
            if (each.task, number) not in there:
                raise damaged(path, f"run {number} is missing")
    for run in runs:
        if family is not None and len(run.x) != family.dim:
            raise damaged(path, f"run {run.id}")


def config_of(meta: Mapping[str, str], path: Path) -> dict[str, Spec]:
    """Return the settings of a search; whatever else a file says is not passed on to anything."""
    text = meta.get("config", "")
    if meta.get("checksum") != digest(text).hex():
        raise damaged(path, "its configuration")
    with raise_if_damaged(path, "its configuration"):
        config = json.loads(text)
        wanted = _SETTINGS[config["kind"]]
        if set(config) != {"kind", *wanted}:
            raise ValueError(f"its settings are {', '.join(map(str, config))}")
        for name, kind in wanted.items():
            if not isinstance(config[name], kind):
                raise TypeError(f"{name} is {config[name]!r:.60}")
            check_size(config[name])
        return dict(config)


def outputs_of(db: sqlite3.Connection, path: Path, run: Run, width: int) -> FloatArray:
    """Read the outputs of a run, of which there are `width`; refuse those of another point."""
    place = f"WHERE task = {int(run.task)} AND id = {int(run.id)}"
    point = db.execute(f"SELECT x FROM runs {place}").fetchone()
    if point is None or point[0] != array_to_bytes(run.x):
        raise StoreMismatchError(f"{path} holds other runs than when it was read: read it again")
    query = f"SELECT * FROM outputs {place}"
    for _, _, numbers in checked_rows(db, path, query, "outputs of run"):
        with raise_if_damaged(path, f"outputs of run {run.id}"):
            found = array_from_bytes(numbers)
        if len(found) == width:
            return found
    raise damaged(path, f"outputs of run {run.id}")


def read_config(path: str | os.PathLike[str]) -> dict[str, Spec]:
    """Read the settings of a search by `minimize`, also while it is being written."""
    with reading(Path(path)) as db:
        config = config_of(_meta(db), Path(path))
    _check_kind(Path(path), config, "minimize")
    return config


def _check_kind(path: Path, kept: Mapping[str, Spec], wanted: str) -> None:
    if kept["kind"] != wanted:
        raise StoreMismatchError(f"{path} is a store of `{kept['kind']}`, not of `{wanted}`")


def _meta(db: sqlite3.Connection) -> dict[str, str]:
    return dict(db.execute("SELECT key, value FROM meta").fetchall())
