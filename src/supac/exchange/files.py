"""Tables as files: CSV, and Parquet with the extra."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

from supac.codec import UnknownSpecError, from_spec
from supac.exchange.table import Table, table_of_runs
from supac.problem.parameters import Parameters
from supac.record.store import read_contents


def export(
    store: str | os.PathLike[str], path: str | os.PathLike[str], *, force: bool = False
) -> int:
    """All runs of a store as a table, `.csv` or `.parquet`: how many there are.

    Parameters are in the user's units; a file that is there already is kept, unless `force`.
    """
    target = table_file(path, force=force)
    contents = read_contents(store)
    try:
        prior = from_spec(contents.config["prior"])
    except UnknownSpecError:
        prior = None
    parameters = prior if isinstance(prior, Parameters) else None
    write_table(
        target, table_of_runs(contents.runs, [ids for ids, _ in contents.rounds], parameters)
    )
    return len(contents.runs)


def table_file(path: str | os.PathLike[str], *, force: bool) -> Path:
    """Where a table may be written."""
    target = Path(path)
    if target.suffix not in (".csv", ".parquet"):
        raise ValueError(f"the table must be a .csv or a .parquet, not {target.name}")
    return vacant(target, force=force)


def vacant(target: Path, *, force: bool) -> Path:
    """A file that is not there yet, or may be replaced."""
    if target.exists() and not force:
        raise FileExistsError(f"{target} is there already; pass force=True to replace it")
    return target


def write_table(target: Path, table: Table) -> None:
    """One row a run, or a draw; an empty cell where a value is not known."""
    if target.suffix == ".parquet":
        _write_parquet(target, table)
        return
    with target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(
            [_cell(value) for value in row] for row in zip(*table.values(), strict=True)
        )


def _cell(value: Any) -> Any:
    return "" if value is None else repr(value) if isinstance(value, float) else value


def _write_parquet(path: Path, table: Table) -> None:
    try:
        import pyarrow  # noqa: PLC0415
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise ImportError("Parquet needs pyarrow: pip install 'supac[parquet]'") from error
    parquet.write_table(pyarrow.table(table), path)
