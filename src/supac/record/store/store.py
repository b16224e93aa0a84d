"""A run on disk: one SQLite file, written by one process, from which the run can go on.

Every finished run of the simulator is on the disk before anything else happens with it. After each
round the algorithm's state follows, so that a resume begins where the last round ended. Arrays are
kept as their bytes and everything else as JSON; what was damaged is noticed by its checksum, and
nothing that a file says is ever executed.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

from supac.codec import Spec, differences
from supac.families import Distribution, ParametricFamily
from supac.record.run import Run
from supac.record.store.file import (
    APPLICATION,
    SCHEMA,
    StoreMismatchError,
    check_header,
    check_owner,
    close,
    create,
    damaged,
    digest,
    named_errors,
    opened,
    owner,
    reading,
    record_counts,
    resolve_path,
    sound,
    write_config,
    write_meta,
)
from supac.record.store.rows import (
    FREE,
    Round,
    member_to_spec,
    read_config_of,
    read_rounds,
    read_runs_of,
    retold,
    round_to_row,
    run_to_row,
    sealed,
    state_from_spec,
    state_to_spec,
    width_of,
)
from supac.search.algorithm import State


class Store:
    """The one writer of a file.

    `family` is that of the posterior; the file only names it where a proposal is of another.
    """

    def __init__(
        self, path: str | os.PathLike[str], config: Mapping[str, Spec], family: ParametricFamily
    ) -> None:
        # Resolved: a simulator may change the folder that it is called in.
        self.path, self._family, self._config = resolve_path(path), family, dict(config)
        opened(self.path, self._open)

    def _open(self, db: sqlite3.Connection) -> None:
        self._db, config = db, self._config
        new = not self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if not new:
            check_header(self._db, self.path)  # before anything is changed in what may not be ours
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        if new:
            create(self._db, APPLICATION, SCHEMA, json.dumps(config))
        kept = read_config_of(self._db, self.path)
        # A larger budget goes on, and so does another policy where no failure was let through.
        free = [*FREE, *(["on_failure"] if kept["on_failure"] == "raise" else [])]
        changed = differences(kept | {name: config[name] for name in free}, config)
        if changed:
            raise StoreMismatchError(
                f"{self.path} holds another run: {'; '.join(changed)}. Give the run its old "
                "settings, or another file"
            )
        self.runs = {run.id: run for run in read_runs_of(self._db, self.path)}
        """What was in the file when it was opened."""
        for run in self.runs.values():
            if len(run.x) != self._family.dim or (run.outputs is not None and not config["loss"]):
                raise damaged(self.path, f"run {run.id}")
        self.rounds = list(read_rounds(self._db, self.path, self._family))
        write_meta(self._db, "owner", json.dumps(owner()))
        self._db.commit()
        version = self._db.execute("SELECT value FROM meta WHERE key = 'made with'").fetchone()
        self.made_with = "" if version is None else str(version[0])
        """The versions of the libraries that began the run."""

    def confirm(self, description: str | None = None) -> None:
        """The settings are accepted: from now on they are the file's."""
        with named_errors(self.path):
            write_config(self._db, json.dumps(self._config))
            self._db.execute("DELETE FROM meta WHERE key = 'end'")
            if description is not None:
                write_meta(self._db, "description", sealed(description))
            self._db.commit()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Fold everything into the one file, and let others in."""
        close(self._db, self.path)

    def keep(self, runs: Iterable[Run]) -> None:
        """Runs that have ended, on the disk when this returns; what was there is replaced."""
        rows = [run_to_row(run) for run in runs]
        check_owner(self._db, self.path)
        with named_errors(self.path):
            self._db.executemany(
                f"INSERT OR REPLACE INTO runs VALUES ({', '.join('?' * 11)})",
                [(*row, digest(*row)) for row in rows],
            )
            record_counts(self._db)
            self._db.commit()

    def keep_round(self, told: Round, state: State) -> None:
        """What was told last, and the state after it."""
        row = round_to_row(len(self.rounds), told, self._family)
        value = json.dumps(state_to_spec(state))
        check_owner(self._db, self.path)
        with named_errors(self.path):
            self._db.execute("INSERT INTO rounds VALUES (?, ?, ?, ?, ?, ?)", (*row, digest(*row)))
            self._db.execute("DELETE FROM state")
            self._db.execute("INSERT INTO state VALUES (?, ?, ?)", (row[0], value, digest(value)))
            record_counts(self._db)
            self._db.commit()
        self.rounds.append(told)

    def keep_end(self, end: Mapping[str, Spec], posterior: Distribution) -> None:
        """How the run ended and what it returned, for those who look."""
        words = json.dumps({**end, "posterior": member_to_spec(posterior, self._family)})
        check_owner(self._db, self.path)
        with named_errors(self.path):
            write_meta(self._db, "end", sealed(words))
            self._db.commit()

    @property
    def width(self) -> int | None:
        """How many outputs the first good run has, those that were learnt from first."""
        return width_of(self.rounds, self.runs)

    def state(self, start: State, failure_loss: float) -> State:
        """Where the last round ended; `start` where there was none.

        `failure_loss` is what the loss makes of a failed run.
        """
        if not self.rounds:
            return start
        with named_errors(self.path):
            row = self._db.execute("SELECT iteration, value, checksum FROM state").fetchone()
        if row is None or row[0] != len(self.rounds) - 1 or row[2] != digest(row[1]):
            raise damaged(self.path, "its state")
        with sound(self.path, "its state"):
            told = retold(self.rounds, self.runs, start.evaluations, self.width, failure_loss)
            return state_from_spec(json.loads(row[1]), start, told)


def read_config(path: str | os.PathLike[str]) -> dict[str, Spec]:
    """The configuration of a run, also while it is being written."""
    with reading(Path(path)) as db:
        return read_config_of(db, Path(path))


def read_runs(path: str | os.PathLike[str]) -> list[Run]:
    """All runs in the order of their ids, also while it is being written."""
    with reading(Path(path)) as db:
        return list(read_runs_of(db, Path(path)))
