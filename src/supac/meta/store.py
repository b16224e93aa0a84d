"""Meta-learning on disk: one SQLite file with the runs of all tasks, from which it can go on.

Every run is on the disk as it ends. What was learnt follows after each meta-step, all or nothing: a
resume begins at the last one, and finds the runs that were made since by their points.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from supac.codec import Spec, differences
from supac.families import Distribution
from supac.meta import MetaInfo, MetaState, TaskState
from supac.problem.evaluations import Evaluations
from supac.record.run import Run
from supac.record.store.file import (
    META_APPLICATION,
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
    record_counts,
    resolve_path,
    sound,
    write_meta,
)
from supac.record.store.rows import (
    Round,
    info_from_spec,
    info_to_spec,
    pack,
    retold,
    round_from_row,
    round_to_row,
    run_from_row,
    run_to_row,
    state_from_spec,
    state_to_spec,
    unpack,
    width_of,
)
from supac.search.algorithm import State

_SCHEMA = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
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
_FREE = ("passes", "vectorized", "timeout", "retries")
"""Settings that may change from one process to the next."""


@dataclass(eq=False)
class TaskShelf:
    """One task's part of the file."""

    store: MetaStore
    task: int
    runs: dict[int, Run] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)

    @property
    def width(self) -> int | None:
        """How many outputs a run has, where one is known."""
        return width_of(self.rounds, self.runs)

    def keep(self, runs: Sequence[Run]) -> None:
        """Runs that have ended, on the disk when this returns."""
        self.store.keep(self.task, runs)


class MetaStore:
    """The one writer of a file. `prior` is the first one, `tasks` how many there are."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        config: Mapping[str, Spec],
        prior: Distribution,
        tasks: int,
    ) -> None:
        self.path, self._prior, self._config = resolve_path(path), prior, dict(config)
        self.shelves = [TaskShelf(self, task) for task in range(tasks)]
        opened(self.path, self._open)

    def _open(self, db: sqlite3.Connection) -> None:
        self._db = db
        new = not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if not new:
            check_header(db, self.path, META_APPLICATION, _SCHEMA)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        if new:
            create(db, META_APPLICATION, _SCHEMA, json.dumps(self._config))
        self._check_config()
        for task, *row, checksum in db.execute("SELECT * FROM runs ORDER BY task, id"):
            self._verify(checksum, task, f"run {row[0]} of task {task}", *row)
            with sound(self.path, f"run {row[0]} of task {task}"):
                run = run_from_row(*row)
                if len(run.x) != self._prior.dim:
                    raise ValueError(f"it has {len(run.x)} coordinates")
            self.shelves[task].runs[run.id] = run
        for task, *row, checksum in db.execute("SELECT * FROM rounds ORDER BY task, iteration"):
            self._verify(checksum, task, f"round {row[0]} of task {task}", *row)
            with sound(self.path, f"round {row[0]} of task {task}"):
                self.shelves[task].rounds.append(round_from_row(self._prior.family, *row[1:]))
        write_meta(db, "owner", json.dumps(owner()))
        db.commit()

    def _check_config(self) -> None:
        meta = dict(self._db.execute("SELECT key, value FROM meta").fetchall())
        text = meta.get("config", "")
        if meta.get("checksum") != digest(text).hex():
            raise damaged(self.path, "its configuration")
        with sound(self.path, "its configuration"):
            kept = dict(json.loads(text))
        changed = differences(kept | {n: self._config[n] for n in _FREE}, self._config)
        if changed:
            raise StoreMismatchError(
                f"{self.path} holds other meta-learning: {'; '.join(changed)}. Give it its old "
                "settings, or another file"
            )

    def _verify(self, checksum: bytes, task: int, what: str, *row: Any) -> None:
        if checksum != digest(task, *row) or not 0 <= task < len(self.shelves):
            raise damaged(self.path, what)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        close(self._db, self.path)

    def keep(self, task: int, runs: Iterable[Run]) -> None:
        """Runs of a task that have ended, on the disk when this returns."""
        rows = [(task, *run_to_row(run)) for run in runs]
        check_owner(self._db, self.path)
        with named_errors(self.path):
            self._db.executemany(
                f"INSERT OR REPLACE INTO runs VALUES ({', '.join('?' * 12)})",
                [(*row, digest(*row)) for row in rows],
            )
            record_counts(self._db)
            self._db.commit()

    def keep_visit(self, told: Sequence[tuple[int, Round]], state: MetaState) -> None:
        """What was told since the last meta-step, and the state after this one: all or nothing."""
        check_owner(self._db, self.path)
        value = json.dumps(_to_spec(state))
        rows = []
        for task, each in told:
            rounds = self.shelves[task].rounds
            rows.append((task, *round_to_row(len(rounds), each, self._prior.family)))
            rounds.append(each)
        with named_errors(self.path):
            self._db.executemany(
                f"INSERT INTO rounds VALUES ({', '.join('?' * 7)})",
                [(*row, digest(*row)) for row in rows],
            )
            self._db.execute("DELETE FROM state")
            self._db.execute(
                "INSERT INTO state VALUES (?, ?, ?)", (state.visit, value, digest(value))
            )
            record_counts(self._db)
            self._db.commit()

    def state(self, start: MetaState, failure_losses: Sequence[float]) -> MetaState:
        """Where the last meta-step ended; `start` where there was none."""
        with named_errors(self.path):
            row = self._db.execute("SELECT visit, value, checksum FROM state").fetchone()
        if row is None:
            return start
        if row[2] != digest(row[1]):
            raise damaged(self.path, "its state")
        with sound(self.path, "its state"):
            told = [
                retold(shelf.rounds, shelf.runs, Evaluations.none(self._prior.dim), shelf.width, f)
                for shelf, f in zip(self.shelves, failure_losses, strict=True)
            ]
            return _from_spec(json.loads(row[1]), start.seed, self._prior, told)


def _to_spec(state: MetaState) -> Spec:
    """All of a state between two visits but its evaluations."""
    return {
        "prior": pack(state.prior),
        "visit": state.visit,
        "passes": state.passes,
        "left": list(state.left),
        "history": [asdict(each) for each in state.history],
        "priors": [pack(each) for each in state.priors],
        "tasks": [None if each is None else _task_to_spec(each) for each in state.tasks],
    }


def _task_to_spec(task: TaskState) -> Spec:
    return {
        "seed": task.state.seed,
        "state": state_to_spec(task.state),
        "info": info_to_spec(task.info),
        "spent": task.spent,
        "rounds": task.rounds,
        "objective": task.objective,
        "weight": task.weight,
        "prior": None if task.prior is None else pack(task.prior),
    }


def _from_spec(
    spec: Spec, seed: int, prior: Distribution, told: Sequence[Evaluations]
) -> MetaState:
    tasks = [
        None if each is None else _task_from_spec(each, prior, evaluations)
        for each, evaluations in zip(spec["tasks"], told, strict=True)
    ]
    return MetaState(
        seed=seed,
        prior=unpack(spec["prior"]),
        tasks=tuple(tasks),
        visit=int(spec["visit"]),
        passes=int(spec["passes"]),
        left=tuple(int(each) for each in spec["left"]),
        history=tuple(MetaInfo(**each) for each in spec["history"]),
        priors=tuple(unpack(each) for each in spec["priors"]),
    )


def _task_from_spec(spec: Spec, prior: Distribution, evaluations: Evaluations) -> TaskState:
    start = State(int(spec["seed"]), prior, Evaluations.none(prior.dim))
    return TaskState(
        state=state_from_spec(spec["state"], start, evaluations),
        info=info_from_spec(spec["info"]),
        spent=int(spec["spent"]),
        rounds=int(spec["rounds"]),
        objective=float(spec["objective"]),
        weight=float(spec["weight"]),
        prior=None if spec["prior"] is None else unpack(spec["prior"]),
    )
