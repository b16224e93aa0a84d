"""A run on disk: one SQLite file, written by one process, from which the run can go on.

Every finished run of the simulator is on the disk before anything else happens with it. After each
round the algorithm's state follows, so that a resume begins where the last round ended. Arrays are
kept as their bytes and everything else as JSON; what was damaged is noticed by its checksum, and
nothing that a file says is ever executed.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import socket
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np

from supac.algorithm import Batch, Info, State
from supac.arrays import BoolArray, FloatArray, frozen
from supac.evaluations import Evaluations
from supac.families import Distribution, Family
from supac.runs import Run, Status
from supac.specs import Spec, differences, from_spec, to_spec

VERSION = 1
_APPLICATION = 0x53755041  # "SuPA", in the header of the file
_SCHEMA = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE runs (
        id INTEGER PRIMARY KEY, x BLOB NOT NULL, status TEXT NOT NULL, risk REAL, outputs BLOB,
        seconds REAL NOT NULL, message TEXT NOT NULL, attempts INTEGER NOT NULL,
        source TEXT NOT NULL, checksum BLOB NOT NULL)""",
    """CREATE TABLE rounds (
        iteration INTEGER PRIMARY KEY, ids BLOB NOT NULL, drawn BLOB NOT NULL,
        proposal TEXT NOT NULL, info TEXT NOT NULL, checksum BLOB NOT NULL)""",
    """CREATE TABLE state (
        iteration INTEGER PRIMARY KEY, value TEXT NOT NULL, checksum BLOB NOT NULL)""",
)
_COLUMNS = "id, x, status, risk, outputs, seconds, message, attempts, source, checksum"


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


@dataclass(frozen=True, eq=False)
class Round:
    """One `tell`: which runs were told, where they came from, and what was learnt."""

    ids: tuple[int, ...]
    drawn: BoolArray
    proposal: Distribution
    info: Info


class Store:
    """The one writer of a file.

    `family` is that of the posterior; the file only names it where a proposal is of another.
    """

    def __init__(
        self, path: str | os.PathLike[str], config: Mapping[str, Spec], family: Family
    ) -> None:
        self.path, self._family = Path(path), family
        self._lock = _claim(self.path)
        try:
            self._db = _connect(self.path)
            with _named_errors(self.path):
                self._open(dict(config))
        except BaseException:
            os.close(self._lock)
            raise

    def _open(self, config: dict[str, Spec]) -> None:
        if not self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            self._create(config)
        _check_header(self._db, self.path)
        kept = _read_config(self._db, self.path)
        changed = differences({**kept, "budget": config["budget"]}, config)
        if changed:
            raise StoreMismatchError(
                f"{self.path} holds another run: {'; '.join(changed)}. Give the run its old "
                "settings, or another file"
            )
        self._write_config(config)
        self._write_meta("owner", json.dumps(_owner()))
        self._db.execute("DELETE FROM meta WHERE key = 'stopped'")
        self._db.commit()
        self.runs = {run.id: run for run in _read_runs(self._db, self.path)}
        """What was in the file when it was opened."""
        self.rounds = list(_read_rounds(self._db, self.path, self._family))

    def _create(self, config: dict[str, Spec]) -> None:
        """All or nothing: a process killed meanwhile leaves an empty file."""
        self._db.execute("BEGIN IMMEDIATE")
        self._db.execute(f"PRAGMA application_id = {_APPLICATION}")
        self._db.execute(f"PRAGMA user_version = {VERSION}")
        for table in _SCHEMA:
            self._db.execute(table)
        self._write_config(config)
        self._write_meta("created", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
        self._db.commit()

    def _write_config(self, config: dict[str, Spec]) -> None:
        text = json.dumps(config)
        self._write_meta("config", text)
        self._write_meta("checksum", _digest(text).hex())

    def _write_meta(self, key: str, value: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Fold everything into the one file, and let others in."""
        try:
            with _named_errors(self.path):
                self._db.close()
        finally:
            os.close(self._lock)

    def keep(self, runs: Iterable[Run]) -> None:
        """Runs that have ended, on the disk when this returns."""
        rows = [_row(run) for run in runs]
        with _named_errors(self.path):
            self._db.executemany(
                f"INSERT INTO runs VALUES ({', '.join('?' * 10)})",
                [(*row, _digest(*row)) for row in rows],
            )
            self._db.commit()

    def keep_round(self, told: Round, state: State) -> None:
        """What was told last, and the state after it."""
        row = (
            len(self.rounds),
            np.array(told.ids, dtype="<i8").tobytes(),
            np.asarray(told.drawn, dtype="?").tobytes(),
            json.dumps(_member_to_spec(told.proposal, self._family)),
            json.dumps(_info_to_spec(told.info)),
        )
        value = json.dumps(state_to_spec(state))
        with _named_errors(self.path):
            self._db.execute("INSERT INTO rounds VALUES (?, ?, ?, ?, ?, ?)", (*row, _digest(*row)))
            self._db.execute("DELETE FROM state")
            self._db.execute("INSERT INTO state VALUES (?, ?, ?)", (row[0], value, _digest(value)))
            self._db.commit()
        self.rounds.append(told)

    def keep_stop(self, reason: str) -> None:
        """Why the run ended, for those who look."""
        with _named_errors(self.path):
            self._write_meta("stopped", reason)
            self._db.commit()

    def state(self, start: State, failure_loss: float) -> State:
        """Where the last round ended; `start` where there was none.

        `failure_loss` is what the loss makes of a failed run.
        """
        if not self.rounds:
            return start
        with _named_errors(self.path):
            row = self._db.execute("SELECT iteration, value, checksum FROM state").fetchone()
        if row is None or row[0] != len(self.rounds) - 1 or row[2] != _digest(row[1]):
            raise StoreDamagedError(_DAMAGED.format(path=self.path, what="its state"))
        told = start.evaluations
        width = next((len(r.outputs) for r in self.runs.values() if r.outputs is not None), None)
        try:
            for each in self.rounds:
                runs = [self.runs[run] for run in each.ids]
                risk, outputs = columns(runs, width, failure_loss)
                x = np.array([run.x for run in runs])
                told = told.append(x, risk, each.proposal, outputs, each.drawn)
            return state_from_spec(json.loads(row[1]), start, told)
        except (ValueError, KeyError, TypeError) as error:
            what = f"its state: {type(error).__name__}: {error}"
            raise StoreDamagedError(_DAMAGED.format(path=self.path, what=what)) from error


def columns(
    runs: Sequence[Run], width: int | None, failure_loss: float
) -> tuple[FloatArray, FloatArray | None]:
    """Risks (n,) and outputs (n, m) of runs, failed ones with NaN or what their loss says."""
    risk = np.array([run.risk if run.status is Status.OK else failure_loss for run in runs])
    if width is None:
        return risk, None
    nothing = np.full(width, np.nan)
    return risk, np.array([nothing if run.outputs is None else run.outputs for run in runs])


# What can be read without being the writer.


def read_config(path: str | os.PathLike[str]) -> dict[str, Spec]:
    """The configuration of a run, also while it is being written."""
    with _reading(Path(path)) as db:
        return _read_config(db, Path(path))


def read_runs(path: str | os.PathLike[str]) -> list[Run]:
    """All runs in the order of their ids, also while it is being written."""
    with _reading(Path(path)) as db:
        return list(_read_runs(db, Path(path)))


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    if not path.is_file():
        raise FileNotFoundError(f"there is no store {path}")
    db = _connect(path, read_only=True)
    try:
        with _named_errors(path):
            _check_header(db, path)
            yield db
    finally:
        db.close()


# The file itself.

_DAMAGED = (
    "{path} is damaged: {what}. If there is a copy of it, use that; `sqlite3 FILE .recover` may "
    "save its runs"
)


def _claim(path: Path) -> int:
    """A lock that ends with this process, however that ends."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise StoreBusyError(
            f"{path} is being written by {_owner_of(path)}. Wait for it, stop it, or use another "
            "file"
        ) from error
    return lock


def _owner() -> dict[str, Any]:
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": since}


def _owner_of(path: Path) -> str:
    try:
        with _reading(path) as db:
            row = db.execute("SELECT value FROM meta WHERE key = 'owner'").fetchone()
        owner = json.loads(row[0])
        return f"process {owner['pid']} on {owner['host']}, since {owner['since']}"
    except (StoreError, TypeError, ValueError, KeyError):
        return "another process"


def _connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    with _named_errors(path):
        mode = "ro" if read_only else "rw"
        db = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=5.0,
            check_same_thread=False,
        )  # fmt: skip
        db.execute("PRAGMA trusted_schema = OFF")
        if not read_only:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
        return db


@contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    """SQLite's errors by our names."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        text = str(error)
        if "not a database" in text:
            raise NotAStoreError(f"{path} is not a store of supac: {text}") from error
        if "full" in text or "I/O" in text or "readonly" in text or "unable to open" in text:
            raise StoreError(
                f"{path} cannot be written: {text}. What was written before is safe: make room, "
                "and resume"
            ) from error
        raise StoreDamagedError(_DAMAGED.format(path=path, what=text)) from error
    except (UnicodeDecodeError, OverflowError) as error:
        raise StoreDamagedError(_DAMAGED.format(path=path, what=error)) from error


def _check_header(db: sqlite3.Connection, path: Path) -> None:
    application = db.execute("PRAGMA application_id").fetchone()[0]
    if application != _APPLICATION:
        raise NotAStoreError(f"{path} is a database, but not a store of supac")
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version > VERSION:
        raise StoreTooNewError(
            f"{path} has format {version}, but this version of supac reads up to {VERSION}: "
            "use a newer one"
        )
    trouble = db.execute("PRAGMA quick_check").fetchone()[0]
    if trouble != "ok":
        raise StoreDamagedError(_DAMAGED.format(path=path, what=trouble))


def _read_config(db: sqlite3.Connection, path: Path) -> dict[str, Spec]:
    meta = dict(db.execute("SELECT key, value FROM meta").fetchall())
    text = meta.get("config", "")
    if meta.get("checksum") != _digest(text).hex():
        raise StoreDamagedError(_DAMAGED.format(path=path, what="its configuration"))
    return json.loads(text)


def _digest(*parts: Any) -> bytes:
    """A checksum of texts, bytes and numbers."""
    state = hashlib.blake2b(digest_size=8)
    for part in parts:
        data = part if isinstance(part, bytes) else repr(part).encode()
        state.update(len(data).to_bytes(8, "little") + data)
    return state.digest()


def _row(run: Run) -> tuple[Any, ...]:
    outputs = None if run.outputs is None else run.outputs.astype("<f8").tobytes()
    risk = None if np.isnan(run.risk) else float(run.risk)
    return (
        int(run.id), run.x.astype("<f8").tobytes(), str(run.status.value), risk, outputs,
        float(run.seconds), run.message, int(run.attempts), run.source,
    )  # fmt: skip


def _read_runs(db: sqlite3.Connection, path: Path) -> Iterator[Run]:
    for *row, checksum in db.execute(f"SELECT {_COLUMNS} FROM runs ORDER BY id"):
        if checksum != _digest(*row):
            raise StoreDamagedError(_DAMAGED.format(path=path, what=f"run {row[0]}"))
        run, x, status, risk, outputs, seconds, message, attempts, source = row
        yield Run(
            run,
            frozen(np.frombuffer(x, dtype="<f8")),
            Status(status),
            np.nan if risk is None else risk,
            None if outputs is None else frozen(np.frombuffer(outputs, dtype="<f8")),
            seconds, message, attempts, source,
        )  # fmt: skip


def _read_rounds(db: sqlite3.Connection, path: Path, family: Family) -> Iterator[Round]:
    query = "SELECT iteration, ids, drawn, proposal, info, checksum FROM rounds ORDER BY iteration"
    for *row, checksum in db.execute(query):
        if checksum != _digest(*row):
            raise StoreDamagedError(_DAMAGED.format(path=path, what=f"round {row[0]}"))
        _, ids, drawn, proposal, info = row
        yield Round(
            tuple(np.frombuffer(ids, dtype="<i8").tolist()),
            np.frombuffer(drawn, dtype="?"),
            _member_from_spec(json.loads(proposal), family),
            _info_from_spec(json.loads(info)),
        )


def _member_to_spec(member: Distribution, family: Family) -> Spec:
    """Its θ, and its family unless that is the run's own."""
    other = None if member.family == family else to_spec(member.family)
    return {"family": other, "theta": _pack(member.theta)}


def _member_from_spec(spec: Spec, family: Family) -> Distribution:
    other = spec["family"]
    return Distribution(family if other is None else from_spec(other), _unpack(spec["theta"]))


def _info_to_spec(info: Info) -> Spec:
    return {each.name: to_spec(getattr(info, each.name)) for each in fields(Info)}


def _info_from_spec(spec: Spec) -> Info:
    return Info(**{**spec, "notes": tuple(spec["notes"])})


def state_to_spec(state: State) -> Spec:
    """All of a state but its seed and its evaluations."""
    batch, family = state.batch, state.posterior.family
    return {
        "theta": _pack(state.posterior.theta),
        "memory": {name: _pack(array) for name, array in state.memory.items()},
        "batch": None
        if batch is None
        else {
            "x": _pack(batch.x),
            "proposal": _member_to_spec(batch.proposal, family),
            "drawn": batch.drawn.tolist(),
            "expected": None if batch.expected is None else _pack(batch.expected),
        },
    }


def state_from_spec(spec: Spec, start: State, evaluations: Evaluations) -> State:
    """The state again, bit for bit."""
    family, batch = start.posterior.family, None
    if spec["batch"] is not None:
        planned = spec["batch"]
        batch = Batch(
            _unpack(planned["x"]),
            _member_from_spec(planned["proposal"], family),
            np.array(planned["drawn"], dtype=bool),
            None if planned["expected"] is None else _unpack(planned["expected"]),
        )
    memory = {name: _unpack(array) for name, array in spec["memory"].items()}
    return State(
        start.seed, Distribution(family, _unpack(spec["theta"])), evaluations, batch, memory
    )


def _pack(array: FloatArray) -> Spec:
    data = np.ascontiguousarray(array, dtype="<f8")
    return [base64.b64encode(data.tobytes()).decode(), list(np.shape(array))]


def _unpack(spec: Spec) -> FloatArray:
    data, shape = spec
    return np.frombuffer(base64.b64decode(data), dtype="<f8").reshape(shape)
