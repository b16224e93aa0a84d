"""Runs to and from tables: CSV, and Parquet with the extra."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from supac.arrays import FloatArray, frozen
from supac.evaluations import Evaluations
from supac.parameters import Parameters
from supac.runs import Run, Status
from supac.specs import UnknownSpecError, from_spec
from supac.store import read_config, read_runs

_OUTPUT = "output_"
_BOOKKEEPING = ("risk", "status", "seconds", "attempts", "message", "source", "purpose", "id")


@dataclass(frozen=True, eq=False)
class KnownRuns:
    """Runs that were made elsewhere, column by column."""

    x: FloatArray
    """(n, dim), in the user's units."""
    risk: FloatArray
    """(n,), NaN for a failed run."""
    outputs: FloatArray | None
    """(n, m) for a `Composite`; NaN for a failed run."""
    seconds: FloatArray
    statuses: tuple[Status, ...]
    messages: tuple[str, ...]
    sources: tuple[str, ...]
    """Where each comes from."""

    @classmethod
    def of(cls, x: FloatArray, evaluations: Evaluations, source: str = "earlier runs") -> KnownRuns:
        """Evaluations of another search, with their points in the user's units."""
        n, ok = len(x), evaluations.ok
        return cls(
            x,
            np.where(ok, evaluations.risk, np.nan),
            evaluations.outputs,
            np.zeros(n),
            tuple(Status.OK if each else Status.INVALID for each in ok),
            ("failed before",) * n,
            (source,) * n,
        )

    def __len__(self) -> int:
        return len(self.x)

    def latent(self, parameters: Parameters | None) -> FloatArray:
        """Their latent points."""
        if parameters is None:
            return self.x
        for row, point in enumerate(self.x):
            try:
                parameters.to_latent(point[None])
            except ValueError as error:
                raise ValueError(f"known run {row + 1} of {self.sources[row]}: {error}") from error
        return parameters.to_latent(self.x)

    def failure(self, row: int) -> Status:
        """How a run failed, as far as is known."""
        return Status.INVALID if self.statuses[row] is Status.OK else self.statuses[row]

    def check_risks(self, runs: Sequence[Run]) -> None:
        """ValueError where risks were given as well that contradict the loss of the outputs."""
        if self.outputs is None:
            return
        risks = {y.tobytes(): risk for y, risk in zip(self.outputs, self.risk, strict=True)}
        for run in runs:
            told = np.nan if run.outputs is None else risks.get(run.outputs.tobytes(), np.nan)
            if run.status is Status.OK and np.isfinite(told) and not np.isclose(run.risk, told):
                raise ValueError(
                    f"a known run of {run.source} has risk {told:.6g}, but its outputs have the "
                    f"loss {run.risk:.6g}: they are not outputs of this simulator and loss"
                )


def read_csv(
    path: str | os.PathLike[str], names: Parameters | Sequence[str], *, source: str = ""
) -> KnownRuns:
    """Runs from a table with one column a parameter, and `risk` or `output_0`, `output_1`, ….

    An empty cell means a failed run; `status`, `message`, `seconds` and `source` are kept where
    there are such columns, and others are not looked at. `source` says where the runs come from:
    by default the name of the file.
    """
    path = Path(path)
    wanted = list(names.names if isinstance(names, Parameters) else names)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:  # spreadsheets write a signature
            reader = csv.DictReader(file)
            header, rows = list(reader.fieldnames or ()), list(reader)
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a table of comma-separated values: {error}") from error
    wanted = [_renamed(name) if _renamed(name) in header else name for name in wanted]
    missing = [name for name in wanted if name not in header]
    outputs = sorted(
        (name for name in set(header) - set(wanted) if _is_output(name)),
        key=lambda name: int(name.removeprefix(_OUTPUT)),
    )
    if missing or not (outputs or "risk" in header):
        lacks = ", ".join(missing) or "risk, or output_0, output_1, …"
        raise ValueError(f"{path} has no column {lacks}; its columns are {', '.join(header)}")

    def column(name: str) -> FloatArray:
        try:
            return np.array([float(row[name] or "nan") for row in rows])
        except ValueError as error:
            raise ValueError(f"{path}, column {name}: {error}") from error

    x = np.column_stack([column(name) for name in wanted])
    if not np.isfinite(x).all():
        bad = int(np.flatnonzero(~np.isfinite(x).all(axis=1))[0])
        raise ValueError(f"{path}, row {bad + 2}: every parameter needs a finite value")
    own = source or path.name
    known = {status.value: status for status in Status}
    return KnownRuns(
        x=frozen(x),
        risk=column("risk") if "risk" in header else np.full(len(rows), np.nan),
        outputs=np.column_stack([column(name) for name in outputs]) if outputs else None,
        seconds=np.nan_to_num(column("seconds")) if "seconds" in header else np.zeros(len(rows)),
        statuses=tuple(known.get(row.get("status") or "ok", Status.INVALID) for row in rows),
        messages=tuple(row.get("message") or "" for row in rows),
        sources=tuple(f"{row['source']}, by {own}" if row.get("source") else own for row in rows),
    )


def export(
    store: str | os.PathLike[str], path: str | os.PathLike[str], *, force: bool = False
) -> int:
    """All runs of a store as a table, `.csv` or `.parquet`: how many there are.

    Parameters are in the user's units; a file that is there already is kept, unless `force`.
    """
    target = Path(path)
    if target.suffix not in (".csv", ".parquet"):
        raise ValueError(f"the table must be a .csv or a .parquet, not {target.name}")
    if target.exists() and not force:
        raise FileExistsError(f"{target} is there already; pass force=True to replace it")
    runs = read_runs(store)
    table = _table(runs, _names(read_config(store)["prior"], runs))
    if target.suffix == ".parquet":
        _write_parquet(target, table)
    else:
        with target.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(table)
            writer.writerows(
                [_cell(value) for value in row] for row in zip(*table.values(), strict=True)
            )
    return len(runs)


def _names(prior: Any, runs: Sequence[Run]) -> Parameters | list[str]:
    try:
        known = from_spec(prior)
    except UnknownSpecError:
        known = None
    if isinstance(known, Parameters):
        return known
    return [f"x{i}" for i in range(len(runs[0].x) if runs else 0)]


def _table(runs: Sequence[Run], names: Parameters | list[str]) -> dict[str, list[Any]]:
    x = np.array([run.x for run in runs])
    columns: list[str] = list(names.names if isinstance(names, Parameters) else names)
    if isinstance(names, Parameters) and len(runs):
        x = names.from_latent(x)
    width = max((len(run.outputs) for run in runs if run.outputs is not None), default=0)
    nothing = [None] * width
    outputs = [nothing if run.outputs is None else run.outputs.tolist() for run in runs]
    return {
        "id": [run.id for run in runs],
        **{
            name: x[:, i].tolist() if len(runs) else []
            for i, name in enumerate(map(_renamed, columns))
        },
        "risk": [None if np.isnan(run.risk) else run.risk for run in runs],
        "status": [run.status.value for run in runs],
        "seconds": [run.seconds for run in runs],
        "attempts": [run.attempts for run in runs],
        "message": [run.message for run in runs],
        "source": [run.source for run in runs],
        "purpose": [run.purpose for run in runs],
        **{f"{_OUTPUT}{i}": [row[i] for row in outputs] for i in range(width)},
    }


def _renamed(name: str) -> str:
    """The column of a parameter: not one of those that say what became of a run."""
    return f"{name}_" if name in _BOOKKEEPING or _is_output(name) else name


def _is_output(name: str) -> bool:
    return re.fullmatch(rf"{_OUTPUT}[0-9]+", name) is not None


def _cell(value: Any) -> Any:
    return "" if value is None else repr(value) if isinstance(value, float) else value


def _write_parquet(path: Path, table: dict[str, list[Any]]) -> None:
    try:
        import pyarrow  # noqa: PLC0415
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise ImportError("Parquet needs pyarrow: pip install 'supac[parquet]'") from error
    parquet.write_table(pyarrow.table(table), path)
