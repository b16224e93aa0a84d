"""Tables of all runs: one row per run, per true objective on the way, and per epoch."""

from __future__ import annotations

import csv
import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path

import numpy as np

from calibration import ASTRAY, HOPELESS, PATIENCE, STEPS_A_DAY, Calibration
from meta import EPOCHS, TEST_DRAWS, Experiment, Lesson, learner, test_plan
from settings import LOOK_DRAWS, TEMPERATURE, Setting
from supac.arrays import FloatArray

RUNS = (
    "data", "setting", "print", "repeat", "queries", "objective", "mean_risk", "kl",
    "algorithm_seconds", "simulator_seconds", "seconds",
)  # fmt: skip
CURVES = ("data", "setting", "print", "repeat", "queries", "objective")
META = (
    "learner", "temperature", "environment", "print", "epoch", "queries", "train", "test_mean",
    "test_q20", "test_q80", "test_error", "train_end", "seconds",
)  # fmt: skip
SITTINGS = ("began", "command", "processes", "cores", "runs", "minutes")
Row = dict[str, str]
EMBEDDED, PAPER_DATA = "embedded", "LF 3c39fa4b"
"""Names of data sets; one from outside is known by its content, wherever it lies."""


@dataclass(frozen=True)
class Folder:
    """Read and write the tables of a folder; only one process writes them."""

    path: Path

    def keep_run(self, data: str, setting: Setting, repeat: int, run: Calibration) -> None:
        """Store a calibration: its curve, then the row that says that it is complete."""
        key = (data, setting.name, fingerprint(setting), repeat)
        self._append("curves", CURVES, [(*key, q, f"{value:.6g}") for q, value in run.curve])
        times = (run.algorithm_seconds, run.simulator_seconds, run.seconds)
        seconds = tuple(f"{each:.3f}" for each in times)
        numbers = (run.curve[-1][1], run.mean_risk, run.kl)
        shown = (f"{each:.6g}" for each in numbers)
        self._append("runs", RUNS, [(*key, run.queries, *shown, *seconds)])

    def keep_lesson(self, experiment: Experiment, lesson: Lesson) -> None:
        """Store meta-learning, one row per epoch; the last row says that it is complete."""
        key = _key(experiment)
        rows = []
        for k, epoch in enumerate(lesson.epochs):
            ends = ("", "")
            if epoch == lesson.epochs[-1]:
                ends = (f"{lesson.train_end:.6g}", f"{lesson.seconds:.1f}")
            shown = (f"{lesson.queries[k]:.6g}", f"{lesson.train[k]:.6g}")
            rows.append((*key, epoch, *shown, *_summary(lesson.tests[k]), *ends))
        self._append("meta", META, rows)

    def keep_sitting(self, *row: object) -> None:
        """Store a call of the program: when it begins, and again when it ends."""
        self._append("sittings", SITTINGS, [row])

    def read(self, name: str) -> list[Row]:
        """Return all complete rows of a table."""
        path = self._table(name)
        if not path.exists():
            return []
        with path.open(newline="") as file:
            # A killed process may have left half a line.
            return [row for row in csv.DictReader(file) if None not in row.values()]

    def remove(self) -> None:
        """Delete all tables and kept states."""
        for name in ("runs", "curves", "meta", "sittings"):
            self._table(name).unlink(missing_ok=True)
        for kept in self.path.glob("*.pickle"):
            kept.unlink()

    def _table(self, name: str) -> Path:
        return self.path / f"{name}.csv"

    def _append(self, name: str, header: tuple[str, ...], rows: Iterable[Iterable[object]]) -> None:
        path = self._table(name)
        new = not path.exists()
        torn = not new and not path.read_bytes().endswith(b"\n")
        with path.open("a", newline="") as file:
            if torn:
                file.write("\n")
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([header, *rows] if new else rows)
            file.flush()
            os.fsync(file.fileno())


def name_data(folder: Path | None) -> str:
    """Return the name of a data set, which has a hash of its content."""
    if folder is None:
        return EMBEDDED
    found = hashlib.sha256()
    for name in ("feed.csv", "obs.csv", "init_state.json"):
        found.update((folder / "train_data" / name).read_bytes())
    name = found.hexdigest()[:8]
    return PAPER_DATA if PAPER_DATA.endswith(name) else f"data {name}"


@cache
def fingerprint(what: Setting | Experiment) -> str:
    """Hash everything that a result depends on: rows with another hash do not count."""
    if isinstance(what, Setting):
        chosen: tuple[object, ...] = (
            replace(what, repeats=0),  # more of them leave the others as they are
            TEMPERATURE, LOOK_DRAWS, what.end_draws, HOPELESS, PATIENCE, ASTRAY, STEPS_A_DAY,
        )  # fmt: skip
    else:
        chosen = (what, learner(what), test_plan(what), EPOCHS, TEST_DRAWS)
    return hashlib.sha256(repr(chosen).encode()).hexdigest()[:8]


def _key(experiment: Experiment) -> tuple[str, ...]:
    each = experiment
    return (each.learner, f"{each.temperature:g}", str(each.environment), fingerprint(each))


def _summary(tests: tuple[float, ...]) -> tuple[str, ...]:
    if not tests:
        return ("",) * 4
    low, high = np.quantile(tests, [0.2, 0.8])
    error = np.std(tests, ddof=1) / np.sqrt(len(tests))
    return tuple(f"{each:.6g}" for each in (np.mean(tests), low, high, error))


@dataclass(frozen=True, eq=False)
class Results:
    """Answer questions about the runs on one data set."""

    folder: Folder
    data: str
    settings: dict[str, Setting]
    experiments: list[Experiment] = field(default_factory=list)

    @cached_property
    def _runs(self) -> dict[tuple[str, int], Row]:
        return {
            (row["setting"], int(row["repeat"])): row
            for row in self.folder.read("runs")
            if self._current(row)
        }

    @cached_property
    def _looks(self) -> dict[tuple[str, int], dict[int, float]]:
        looks: dict[tuple[str, int], dict[int, float]] = {}
        for row in self.folder.read("curves"):
            if self._current(row):
                own = looks.setdefault((row["setting"], int(row["repeat"])), {})
                own[int(row["queries"])] = float(row["objective"])
        return looks

    def _current(self, row: Row) -> bool:
        setting = self.settings.get(row["setting"])
        return (
            row["data"] == self.data
            and setting is not None
            and row["print"] == fingerprint(setting)
            and int(row["repeat"]) < setting.repeats
        )

    @property
    def on_paper_data(self) -> bool:
        """True if these are the paper's data."""
        return self.data == PAPER_DATA

    @property
    def seconds(self) -> float:
        """Sum of the seconds of all runs."""
        lessons = [rows[-1] for each in self.experiments if (rows := self.rows(each))]
        rows = [*self._runs.values(), *lessons]
        return sum(float(row["seconds"]) for row in rows)

    def has(self, name: str, repeat: int) -> bool:
        """Return True if this run is complete."""
        return (name, repeat) in self._runs

    def complete(self, names: Iterable[str], budget: int | None = None) -> bool:
        """Return True if all repeats of these settings are there, with this budget if given."""
        return all(
            name in self.settings
            and len(self.repeats(name)) == self.settings[name].repeats > 1
            and budget in (None, self.settings[name].budget)
            for name in names
        )

    def repeats(self, name: str) -> list[int]:
        """Return the complete repeats of a setting."""
        return sorted(repeat for setting, repeat in self._runs if setting == name)

    def end(self, name: str, column: str = "objective") -> FloatArray:
        """Return a column of the runs of a setting, by default the final objective: (repeats,)."""
        return np.array([float(self._runs[name, each][column]) for each in self.repeats(name)])

    def curve(self, name: str) -> tuple[FloatArray, FloatArray]:
        """Return the queries (k,) and true objectives (repeats, k) on the way."""
        curves = [self._looks[name, each] for each in self.repeats(name)]
        queries = sorted(set.intersection(*(set(each) for each in curves))) if curves else []
        objective = np.array([[each[q] for q in queries] for each in curves])
        return np.array(queries, float), objective.reshape(len(curves), len(queries))

    def at(self, name: str, queries: float) -> FloatArray:
        """Return each run's last true objective after at most `queries` queries: (repeats,)."""
        made, objectives = self.curve(name)
        return objectives[:, max(int(np.searchsorted(made, queries, side="right")) - 1, 0)]

    def lesson(self, learner: str, temperature: float) -> dict[str, FloatArray] | None:
        """Return the columns of meta-learning, means over environments; NaN if not measured."""
        own = [
            self.columns(each)
            for each in self.experiments
            if (each.learner, each.temperature) == (learner, temperature) and self.rows(each)
        ]
        if not own:
            return None
        found = {name: np.mean([each[name] for each in own], axis=0) for name in own[0]}
        errors = np.array([each["test_error"] for each in own])
        found["test_error"] = np.sqrt((errors**2).sum(axis=0)) / len(own)
        return found

    def columns(self, experiment: Experiment) -> dict[str, FloatArray]:
        """Return the columns of one experiment, one entry per epoch."""
        rows = self.rows(experiment)
        return {
            name: np.array([float(row[name]) if row[name] else np.nan for row in rows])
            for name in META[4:]
        }

    def rows(self, experiment: Experiment) -> list[Row]:
        """Return the rows of one experiment; none if it is not complete."""
        names = META[:4]
        rows = {
            int(row["epoch"]): row
            for row in self.folder.read("meta")
            if tuple(row[name] for name in names) == _key(experiment)
        }
        last = rows.get(experiment.epochs)
        return [rows[k] for k in sorted(rows)] if last is not None and last["seconds"] else []
