"""The SQLite file behind a record: one writer, any number of readers.

Every finished run is on the disk before anything else happens with it. After each round the state
of the algorithm follows in the same transaction, so that a resume begins where the last round
ended. Arrays are kept as their bytes and everything else as JSON; damage is noticed by checksums,
and nothing that a file says is ever executed.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from supac.arrays import FloatArray
from supac.codec import Spec, check_size, differences
from supac.families import ParametricFamily
from supac.guarantee.provenance import Provenance
from supac.record import encoding
from supac.record.earlier_roles import with_roles
from supac.record.ending import Ending
from supac.record.run import Purpose, Round, Run
from supac.record.store import schema
from supac.record.store.file import (
    Database,
    StoreDamagedError,
    StoreMismatchError,
    checked,
    journal_mode,
    open_for_writing,
    raise_if_damaged,
    resolve_path,
    with_checksum,
)
from supac.record.timeline import Loss, Span, Spans

FamilyOf = Callable[[dict[str, Spec]], ParametricFamily | None]
"""The family of the posterior, from the settings."""

# Settings by kind of search, and those that may change from one process to the next.
_SETTINGS: dict[str, dict[str, Any]] = {
    "minimize": {
        "prior": dict, "bound": dict, "algorithm": dict, "start": dict | None, "loss": dict | None,
        "data": dict | None, "held_out": dict | None, "on_failure": str, "mode": str,
        "validation": int | None, "tolerance": float | int, "seed": int, "budget": int,
        "proxy": str | None, "vectorized": bool, "timeout": float | int | None, "retries": int,
        "max_failures": float | int, "shape": str,
    },
    "runs": {"dim": int, "loss": dict | None, "data": dict | None},
    "meta_learn": {
        "prior": dict, "tasks": list, "bounds": list, "learner": dict, "features": list,
        "losses": list, "data": list | dict, "vectorized": list, "timeout": float | int | None,
        "retries": int, "on_failure": str, "seed": int, "passes": int,
    },
}  # fmt: skip
_FREE = {"budget", "shape", "vectorized", "timeout", "retries", "max_failures", "passes"}


@dataclass(frozen=True, eq=False)
class Contents:
    """A store at one moment; its runs are without their outputs."""

    config: dict[str, Spec]
    runs: tuple[Run, ...]
    widths: dict[tuple[int, int], int]
    """Number of outputs by task and id, of the runs that have any."""
    slopes: dict[tuple[int, int], int]
    """Number of rows of the Jacobian by task and id, of the runs that have one."""
    rounds: tuple[Round, ...]
    ending: Ending | None
    state: Spec | None
    """State of the algorithm after the last round."""
    description: str = ""
    created: str = ""
    made_with: str = ""
    provenance: Provenance = Provenance()
    timeline: dict[tuple[int, int], Span] = field(default_factory=dict)
    losses: tuple[Loss, ...] = ()
    """Runs that the machine took."""
    batches: tuple[int, int] | None = None
    """Runs of the first and of each further batch, if they were chosen for many workers."""
    spend_all: bool = False
    """True if the whole budget is to be spent, though the search had settled before."""

    @property
    def holds_residuals(self) -> bool:
        """True for a file of version 0.1, whose outputs are what the loss takes."""
        return bool(self.runs) and self.config["data"] == schema.RESIDUALS_SPEC


class Store:
    """The one writer of a file.

    `family_of` tells the posterior's family from the settings; the file only names a family where
    a distribution is of another. Settings of kind "runs" append to the file of any search.
    """

    def __init__(
        self, path: str | os.PathLike[str], config: Mapping[str, Spec], family_of: FamilyOf
    ) -> None:
        # Resolved: a simulator may change the folder that it is called in.
        self.path, self._family_of, self._config = resolve_path(path), family_of, dict(config)
        self._db = open_for_writing(self.path, self._open)

    def _open(self, db: Database) -> None:
        new = not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if not new:
            old = schema.format_of(db) < schema.VERSION
            db.check_pages()
            schema.check_counts(db)
        db.execute(f"PRAGMA journal_mode = {journal_mode(self.path)}")
        db.execute("PRAGMA synchronous = FULL")
        if new:
            schema.create(db, json.dumps(self._config))
        elif old:
            schema.upgrade(db)
        # First of all: the rounds of another search may be of another family.
        self._check_settings(config_of(db))
        self.contents = contents_of(db, self._family_of)
        """Contents of the file when it was opened."""
        self._count = Counter(each.task for each in self.contents.rounds)
        if not self.contents.timeline:  # none, or damaged
            db.execute("DELETE FROM timeline")
        db.execute("DELETE FROM timeline WHERE ended IS NULL")  # killed with their process
        db.write_owner()
        db.commit()

    def _check_settings(self, kept: dict[str, Spec]) -> None:
        """Refuse other settings; a larger budget is allowed, or no more errors at failures."""
        now, free = self._config, set(_FREE)
        if now["kind"] == "runs":
            now = {"kind": kept["kind"], "loss": now["loss"], "data": now["data"]}
            kept = {name: kept.get(name) for name in now}
        if kept.get("on_failure") == "raise":
            free.add("on_failure")
        if kept["data"] == schema.RESIDUALS_SPEC or _unlabelled(now["data"]) == kept["data"]:
            free.add("data")
        _check_kind(self.path, kept, now["kind"])
        changed = differences({**kept, **{name: now.get(name) for name in free & set(now)}}, now)
        if changed:
            raise StoreMismatchError(
                f"{self.path} holds another search: {'; '.join(changed)}. Give it its old "
                "settings, or another file"
            )

    def confirm(
        self, description: str | None, provenance: Provenance, *, spend_all: bool = False
    ) -> None:
        """Accept the settings: from now on they are the file's, and the search goes on."""
        data = (self.contents.config if self.contents.runs else self._config)["data"]
        with self._db.writing():
            self._db.write_config(json.dumps({**self._config, "data": data}))
            self._db.execute("DELETE FROM meta WHERE key = 'end'")
            _write_provenance(self._db, provenance)
            if spend_all:
                self._db.write_meta("spend_all", "true")
            if description is not None:
                self._db.write_meta("description", with_checksum(description))

    def describe(self, description: str) -> None:
        """Write a description of the runs."""
        with self._db.writing():
            self._db.write_meta("description", with_checksum(description))

    def check_function(self, purpose: Purpose, identity: str) -> None:
        """Refuse another function than the one that made the earlier runs for this purpose."""
        key, made = f"function {purpose}", {run.purpose for run in self.contents.runs}
        kept = self._db.meta().get(key, identity)
        if purpose in made and kept != identity:
            raise StoreMismatchError(
                f"{self.path} has runs for a {purpose} by another function: {kept} in the file, "
                f"{identity} now. Give each function a file of its own"
            )
        with self._db.writing():
            self._db.write_meta(key, identity)

    def close(self) -> None:
        """Fold everything into the one file, and release the lock."""
        self._db.release()

    def add_runs(self, runs: Iterable[Run], spans: Spans) -> None:
        """Write runs; they are on the disk when this returns. Earlier versions are replaced."""
        with self._db.writing():
            self._insert_spans(spans)
            for run in runs:
                key = (run.task, run.id)
                width = None if run.outputs is None else len(run.outputs)
                self._db.insert("runs", (*encoding.run_to_row(run), width))
                if run.outputs is None:
                    self._db.execute("DELETE FROM outputs WHERE task = ? AND id = ?", key)
                else:
                    self._db.insert("outputs", (*key, encoding.array_to_bytes(run.outputs)))
                self._insert_jacobian(run)
            self._db.write_counts()

    def _insert_jacobian(self, run: Run) -> None:
        if run.jacobian is None:
            key = (run.task, run.id)
            self._db.execute("DELETE FROM jacobians WHERE task = ? AND id = ?", key)
            return
        numbers = encoding.compress_numbers(run.jacobian.ravel())
        self._db.insert("jacobians", (run.task, run.id, len(run.jacobian), numbers))

    def add_spans(self, spans: Spans) -> None:
        """Write when and where runs began."""
        with self._db.writing():
            self._insert_spans(spans)

    def write_batches(self, batches: tuple[int, int]) -> None:
        """Write the sizes of batches that were chosen for the number of workers."""
        with self._db.writing():
            self._db.write_meta("batches", with_checksum(json.dumps(batches)))

    def write_losses(self, losses: Sequence[Loss]) -> None:
        """Write all runs that the machine took."""
        with self._db.writing():
            self._db.write_meta(
                "lost", with_checksum(json.dumps([astuple(each) for each in losses]))
            )

    def _insert_spans(self, spans: Spans) -> None:
        for key, span in spans.items():
            self._db.insert("timeline", (*key, *encoding.span_to_row(span)))

    @property
    def _own_family(self) -> ParametricFamily:
        family = self._family_of(self._config)
        if family is None:
            raise TypeError("only a search has rounds and an ending")
        return family

    def add_rounds(self, rounds: Sequence[Round], state: Spec) -> None:
        """Write rounds and the state after them, all or nothing."""
        with self._db.writing():
            for each in rounds:
                row = encoding.round_to_row(self._count[each.task], each, self._own_family)
                self._db.insert("rounds", row)
                self._count[each.task] += 1
            self._db.insert("state", (0, json.dumps(state)))
            self._db.write_counts()

    def finish(self, ending: Ending, provenance: Provenance) -> None:
        """Write the end of the search, and that its certificate was given."""
        member = partial(encoding.member_to_spec, family=self._own_family)
        text = json.dumps(encoding.ending_to_spec(ending, member))
        with self._db.writing():
            self._db.write_meta("end", with_checksum(text))
            _write_provenance(self._db, provenance)


def contents_of(db: Database, family_of: FamilyOf) -> Contents:
    """Read a store without its outputs; `family_of` tells the posterior's from the settings."""
    path, meta, config = db.path, db.meta(), config_of(db)
    family = family_of(config)
    runs, widths, rounds, ending, state = list[Run](), {}, list[Round](), None, None
    slopes = dict[tuple[int, int], int]()
    if db.columns("jacobians"):
        for task, number, rows in db.execute("SELECT task, id, rows FROM jacobians"):
            with raise_if_damaged(path, f"the Jacobian of run {number}"):
                slopes[int(task), int(number)] = int(rows)
    unknown, drawn = set[tuple[int, int]](), dict[tuple[int, int], bool]()
    names = [name for name in encoding.RUN_COLUMNS if name in db.columns("runs")]
    # As they are in the table, which the checksum goes by.
    query = f"SELECT {', '.join([*names, 'outputs'])}, checksum FROM runs ORDER BY task, id"
    for *row, width in db.rows(query, "run"):
        with raise_if_damaged(path, f"run {row[1]}"):
            told = dict.fromkeys(encoding.RUN_COLUMNS) | dict(zip(names, row, strict=True))
            run = encoding.run_from_row(told)
            runs.append(run)
            if told["role"] is None:
                unknown.add((run.task, run.id))
            if width is not None:
                widths[run.task, run.id] = int(width)
        if family is not None and len(run.x) != family.dim:
            raise db.damaged(f"run {run.id}")
    query = "SELECT * FROM rounds ORDER BY task, iteration"
    for task, number, ids, marks, *row in db.rows(query, "round"):
        with raise_if_damaged(path, f"round {number}"):
            rounds.append(encoding.round_from_row(family, task, ids, *row))
            drawn |= encoding.drawn_from_row(rounds[-1], marks)
    runs = with_roles(runs, unknown, rounds, drawn)
    for _, value in db.rows("SELECT * FROM state", "its state"):
        with raise_if_damaged(path, "its state"):
            state = json.loads(value)
    if "end" in meta and family is not None:
        with raise_if_damaged(path, "its end"):
            spec = json.loads(checked(meta["end"], path, "its end"))
            member = partial(encoding.member_from_spec, family=family)
            ending = encoding.ending_from_spec(spec, member)
    description = meta.get("description")
    return Contents(
        config,
        tuple(runs),
        widths,
        slopes,
        tuple(rounds),
        ending,
        state,
        "" if description is None else checked(description, path, "its description"),
        str(meta.get("created", "")),
        str(meta.get("made with", "")),
        _provenance_of(db),
        _timeline_of(db),
        _losses_of(db),
        _batches_of(db),
        spend_all="spend_all" in meta,
    )


def _timeline_of(db: Database) -> dict[tuple[int, int], Span]:
    """Read when runs were made; nothing if a row is damaged, as no result depends on it."""
    if not db.columns("timeline"):
        return {}
    found = {}
    try:
        for task, number, *row in db.rows("SELECT * FROM timeline", "the times of run"):
            with raise_if_damaged(db.path, f"the times of run {number}"):
                found[int(task), int(number)] = encoding.span_from_row(*row)
    except StoreDamagedError:
        db.check_length()  # more than the timeline may be lost
        return {}
    return found


def _losses_of(db: Database) -> tuple[Loss, ...]:
    """Read which runs the machine took; none in files of earlier versions."""
    told = db.meta().get("lost")
    if told is None:
        return ()
    with raise_if_damaged(db.path, "its lost runs"):
        rows = json.loads(checked(told, db.path, "its lost runs"))
        return tuple(Loss(int(t), int(n), float(when), str(why)) for t, n, when, why in rows)


def _batches_of(db: Database) -> tuple[int, int] | None:
    """Read the sizes of batches that were chosen for many workers; None if they were not."""
    told = db.meta().get("batches")
    if told is None:
        return None
    with raise_if_damaged(db.path, "its batches"):
        first, batch = json.loads(checked(told, db.path, "its batches"))
        return int(first), int(batch)


def _provenance_of(db: Database) -> Provenance:
    told = db.meta().get("provenance")
    if told is None:
        return Provenance()
    with raise_if_damaged(db.path, "its provenance"):
        return Provenance.from_spec(json.loads(checked(told, db.path, "its provenance")))


def _write_provenance(db: Database, provenance: Provenance) -> None:
    text = json.dumps(provenance.to_spec())
    db.write_meta("provenance", with_checksum(text))


def read_provenance(path: str | os.PathLike[str]) -> Provenance:
    """Read which certificates a file has given, and what has seen its data."""
    if not _there(path):
        return Provenance()
    with schema.reading(Path(path)) as db:
        return _provenance_of(db)


def add_certificate(path: str | os.PathLike[str], name: str) -> None:
    """Count a certificate in a file, if there is one; StoreBusyError while another writes it."""
    if not _there(path):
        return
    db = open_for_writing(resolve_path(path), schema.format_of)
    try:
        with db.writing():
            _write_provenance(db, _provenance_of(db).after(name))
    finally:
        db.release()


def write_description(path: str | os.PathLike[str], description: str) -> None:
    """Write another description to a file; StoreBusyError while another process writes it."""
    db = open_for_writing(resolve_path(path), schema.format_of)
    try:
        with db.writing():
            db.write_meta("description", with_checksum(description))
    finally:
        db.release()


def _there(path: str | os.PathLike[str]) -> bool:
    file = resolve_path(path)
    return file.exists() and file.stat().st_size > 0


def config_of(db: Database) -> dict[str, Spec]:
    """Return the settings of a search; whatever else a file says is not passed on to anything."""
    text = db.config()
    with raise_if_damaged(db.path, "its configuration"):
        config = json.loads(text)
        wanted = _SETTINGS[config["kind"]]
        if "held_out" in wanted:
            config.setdefault("held_out", None)
            config.setdefault("shape", "gaussian")  # of all searches before there was another
        if set(config) != {"kind", *wanted}:
            raise ValueError(f"its settings are {', '.join(map(str, config))}")
        for name, kind in wanted.items():
            if not isinstance(config[name], kind):
                raise TypeError(f"{name} is {config[name]!r:.60}")
            check_size(config[name])
        return dict(config)


def outputs_of(db: Database, run: Run, width: int) -> FloatArray:
    """Read the outputs of a run, of which there are `width`; refuse those of another point."""
    place = f"WHERE task = {int(run.task)} AND id = {int(run.id)}"
    point = db.execute(f"SELECT x FROM runs {place}").fetchone()
    if point is None or point[0] != encoding.array_to_bytes(run.x):
        raise StoreMismatchError(f"{db.path} holds other runs than when it was read: read it again")
    for _, _, numbers in db.rows(f"SELECT * FROM outputs {place}", "outputs of run"):
        with raise_if_damaged(db.path, f"outputs of run {run.id}"):
            found = encoding.array_from_bytes(numbers)
        if len(found) == width:
            return found
    raise db.damaged(f"outputs of run {run.id}")


def jacobian_of(db: Database, run: Run, rows: int) -> FloatArray:
    """Read the Jacobian of a run, of so many rows."""
    what = f"the Jacobian of run {run.id}"
    place = f"WHERE task = {int(run.task)} AND id = {int(run.id)}"
    for *_, found, numbers in db.rows(f"SELECT * FROM jacobians {place}", "the Jacobian of run"):
        with raise_if_damaged(db.path, what):
            # Of the parameters that are simulated: all, or all but those of an observation.
            whole = encoding.decompress_all(numbers, 8 * rows * len(run.x))
            if found != rows or len(whole) % rows:
                raise ValueError(f"{len(whole)} numbers in {found} rows")
            return whole.reshape(rows, -1)
    raise db.damaged(what)


def read_config(path: str | os.PathLike[str]) -> dict[str, Spec]:
    """Read the settings of a search by `minimize`, also while it is being written."""
    with schema.reading(Path(path)) as db:
        config = config_of(db)
    _check_kind(Path(path), config, "minimize")
    return config


def _unlabelled(data: Spec) -> Spec:
    """Return data without the names of measurements, which earlier versions did not keep."""
    return {k: v for k, v in data.items() if k != "labels"} if isinstance(data, dict) else data


def _check_kind(path: Path, kept: Mapping[str, Spec], wanted: str) -> None:
    if kept["kind"] != wanted:
        raise StoreMismatchError(f"{path} is a store of `{kept['kind']}`, not of `{wanted}`")
