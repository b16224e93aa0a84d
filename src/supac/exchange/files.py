"""Write tables to files: CSV, and Parquet with the extra."""

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
    """Write all runs of a store to a `.csv` or `.parquet`, and return their number.

    Parameters are in the user's units; an existing file is replaced only with `force`.
    """
    target, record = table_file(path, force=force), read_store(store)
    if target.suffix == ".parquet":
        write_table(target, table_of_runs(record))
    else:
        _write_csv(target, rows_of(record))
    return len(record.light_runs)


def table_file(path: str | os.PathLike[str], *, force: bool) -> Path:
    """Return the path of a table to write; raise for another suffix or an existing file."""
    target = Path(path)
    if target.suffix not in (".csv", ".parquet"):
        raise ValueError(f"the table must be a .csv or a .parquet, not {target.name}")
    return vacant(target, force=force)


def vacant(target: Path, *, force: bool) -> Path:
    """Return the path; FileExistsError if it exists and `force` is false."""
    if target.exists() and not force:
        raise FileExistsError(f"{target} already exists; pass force=True to replace it")
    return target


def write_table(target: Path, table: Table) -> None:
    """Write a table to a file; an unknown value is an empty cell."""
    if target.suffix == ".parquet":
        _write_parquet(target, table)
    else:
        _write_csv(target, chain([list(table)], zip(*table.values(), strict=True)))


def _write_csv(target: Path, rows: Iterable[Iterable[Any]]) -> None:
    """Write rows one at a time; floats with all their digits, None as an empty cell."""
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
