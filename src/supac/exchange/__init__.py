"""Exchange of runs and results with other tools."""

from supac.exchange.files import export, table_file, vacant, write_table
from supac.exchange.frames import as_pandas, as_xarray
from supac.exchange.inference import as_arviz
from supac.exchange.known import KnownRuns, read_csv
from supac.exchange.result_json import ResultFormatError, from_json, to_json
from supac.exchange.table import Table, rows_of, table_of

__all__ = [
    "KnownRuns",
    "ResultFormatError",
    "Table",
    "as_arviz",
    "as_pandas",
    "as_xarray",
    "export",
    "from_json",
    "read_csv",
    "rows_of",
    "table_file",
    "table_of",
    "to_json",
    "vacant",
    "write_table",
]
