"""Tables as files: CSV, and Parquet with the extra."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

from supac.exchange.table import Table, rows_of, table_of_runs
from supac.record.record import read_store


def export(
    store: str | os.PathLike[str], path: str | os.PathLike[str], *, force: bool = False
) -> int:
    """All runs of a store as a table, `.csv` or `.parquet`: how many there are.

    Parameters are in the user's units; a file that is there already is kept, unless `force`.
    """
    target, record = table_file(path, force=force), read_store(store)
    if target.suffix == ".parquet":
        write_table(target, table_of_runs(record))
    else:
        _write_csv(target, rows_of(record))
    return len(record.light_runs)


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
    else:
        _write_csv(target, chain([list(table)], zip(*table.values(), strict=True)))


def _write_csv(target: Path, rows: Iterable[Iterable[Any]]) -> None:
    """Write rows one after the other; a float with all its digits, an unknown value as nothing."""
    with target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        for row in rows:
            writer.writerow(
                ["" if v is None else repr(v) if isinstance(v, float) else v for v in row]
            )


def _write_parquet(path: Path, table: Table) -> None:
    try:
        import pyarrow  # noqa: PLC0415
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise ImportError("Parquet needs pyarrow: pip install 'supac[parquet]'") from error
    parquet.write_table(pyarrow.table(table), path)
