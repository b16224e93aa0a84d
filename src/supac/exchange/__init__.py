"""Runs and results to and from other tools."""

from supac.exchange.files import export, table_file, vacant, write_table
from supac.exchange.frames import as_pandas, as_xarray
from supac.exchange.inference import as_arviz
from supac.exchange.known import KnownRuns, read_csv
from supac.exchange.record import ResultFormatError, from_record, to_record
from supac.exchange.table import Table, table_of_draws, table_of_evaluations, table_of_runs

__all__ = [
    "KnownRuns",
    "ResultFormatError",
    "Table",
    "as_arviz",
    "as_pandas",
    "as_xarray",
    "export",
    "from_record",
    "read_csv",
    "table_file",
    "table_of_draws",
    "table_of_evaluations",
    "table_of_runs",
    "to_record",
    "vacant",
    "write_table",
]
