"""Files of predictions: their runs, and what they are predictions of."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supac.codec import from_spec, to_spec
from supac.posterior.discrepant import PredictedDiscrepancy
from supac.posterior.outputs import Outputs
from supac.problem import Parameters
from supac.problem.problem import parameters_of
from supac.record.checksums import changed_files
from supac.record.record import Record, read_store
from supac.record.run import Run
from supac.record.store.file import StoreError, StoreMismatchError

_REASONS = {
    "posterior": "the posterior is another one: the search has gone on, or it is another search",
    "ensemble": "one is of new draws, the other of the certified parameter sets",
    "seed": "the seed is another one",
    "columns": "the outputs have other names",
    "rows": "the outputs have another number of rows",
    "times": "the outputs are at other times",
    "scenario": "the scenario has changed",
    "continues": "one continues the calibration, the other is of new conditions",
    "files": "a file of the simulator or of the scenario has changed",
}


@dataclass(frozen=True, eq=False)
class Description:
    """Description of a file of runs: the prediction that they are of."""

    identity: dict[str, Any]
    """Posterior, seed and scenario: only runs that agree in these are of one prediction."""
    table: Outputs | None = None
    parameters: Parameters | None = None
    title: str = ""
    coverage: float = 0.9
    asked: int | None = None
    """Number of runs that were asked for; None in files that do not tell."""
    discrepancy: PredictedDiscrepancy | None = None
    """Discrepancy of the model at all draws that were asked for, if one was calibrated."""
    local: str = ""
    """Words on ranges of the posterior that are local; "" if none is known to be."""

    @property
    def facts(self) -> dict[str, Any]:
        """Identity, and names, rows and times of the outputs, as JSON has them."""
        table = self.table
        times = None if table is None or table.times is None else table.times.tolist()
        outputs = {
            "columns": None if table is None else table.columns,
            "rows": None if table is None else table.rows,
            "times": times,
        }
        return dict(json.loads(json.dumps({**self.identity, **outputs})))

    def to_json(self) -> str:
        """Return the description as JSON."""
        values = {name: to_spec(getattr(self, name)) for name in ("table", "parameters")}
        if self.discrepancy is not None:
            values["discrepancy"] = to_spec(self.discrepancy)
        told = {"identity": self.identity, "title": self.title, "coverage": self.coverage}
        return json.dumps(
            {"prediction": told | values | {"asked": self.asked, "local": self.local}}
        )

    @classmethod
    def of(cls, record: Record) -> Description:
        """Read the description of a file; ValueError if it is no prediction."""
        try:
            told = json.loads(record.description)["prediction"]
            table, parameters = (from_spec(told[name]) for name in ("table", "parameters"))
            smooth = from_spec(told.get("discrepancy"))
            return cls(
                dict(told["identity"]),
                table if isinstance(table, Outputs) else None,
                parameters_of(parameters),
                str(told["title"]),
                float(told["coverage"]),
                None if told.get("asked") is None else int(told["asked"]),
                smooth if isinstance(smooth, PredictedDiscrepancy) else None,
                str(told.get("local", "")),
            )
        except (ValueError, LookupError, TypeError) as error:
            raise ValueError(f"{record.path} is not a prediction") from error

    def write_to(self, record: Record) -> None:
        """Describe the file of a record; StoreMismatchError if it holds another prediction."""
        if record.description:
            old, now = Description.of(record).facts, self.facts
            other = [name for name in {**old, **now} if old.get(name) != now.get(name)]
            files = changed_files(old.get("files", {}), now.get("files", {}))
            other = [name for name in other if name != "files" or files]
            if other:
                reasons = "; ".join(_REASONS.get(name, f"{name} differs") for name in other)
                raise StoreMismatchError(
                    f"{record.path} holds another prediction: {reasons}. Give this one a file of "
                    "its own, or replace that file: delete it, or `supac predict --force`"
                )
        record.describe(self.to_json())


def read(path: Path) -> tuple[list[Run], Description]:
    """Read the runs of a prediction, and what it is; ValueError for another file."""
    record = read_store(path)
    about = Description.of(record)
    runs = [run for run in record.light_runs if run.purpose == "prediction"]
    if not runs:
        raise ValueError(f"{path} has no run yet")
    return list(record.iterate(runs)), about


def beside(record: Record, posterior: str) -> list[Path]:
    """Return the files `run.NAME.supac` beside run.supac with predictions of this posterior."""
    if record.path is None or not posterior:
        return []
    found = []
    for path in sorted(record.path.parent.glob(f"{_escaped(record.path.stem)}.*.supac")):
        try:
            kept = read_store(path)
            if kept.light_runs and Description.of(kept).identity.get("posterior") == posterior:
                found.append(path)
        except (StoreError, ValueError, OSError):
            continue
    return found


def _escaped(stem: str) -> str:
    """Return a name as a pattern that matches it alone."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in stem)


def file_for(store: Path, scenario: str) -> Path:
    """Return the file beside a store that keeps the prediction of a scenario."""
    return store.with_name(f"{store.stem}.{scenario}.supac")
