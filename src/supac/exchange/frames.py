"""Convert tables to pandas and xarray, which are imported on demand."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from supac.exchange.table import Table, apart, columns_of, is_output
from supac.problem import Parameters

if TYPE_CHECKING:
    import pandas
    import xarray

_DIMENSIONS = ("run", "output", "outputs", "draw", "chain")
OUTPUTS = "outputs"


def as_pandas(table: Table) -> pandas.DataFrame:
    """Return a data frame; NaN for unknown numbers."""
    try:
        import pandas  # noqa: PLC0415
    except ImportError as error:
        raise ImportError("to_pandas needs pandas: pip install 'supac[pandas]'") from error
    return pandas.DataFrame({name: _array(column) for name, column in table.items()})


def as_xarray(table: Table, parameters: Parameters | None, dimension: str) -> xarray.Dataset:
    """Return one variable per column, with units; all outputs are one variable."""
    xarray = load_xarray()
    outputs = [name for name in table if dimension == "run" and is_output(name)]
    units = {}
    if parameters is not None:  # columns of runs may be renamed
        names = columns_of(parameters.names) if dimension == "run" else parameters.names
        units = dict(zip(names, parameters.units, strict=True))
    columns = [name for name in table if name not in outputs]
    # A variable must not have the name of a dimension.
    free = apart(columns, lambda name: name in _DIMENSIONS)
    variables: dict[str, Any] = {
        variable: (dimension, _array(table[name]), _unit(units.get(name, "")))
        for name, variable in zip(columns, free, strict=True)
    }
    if outputs:
        together = np.column_stack([_array(table[name]) for name in outputs])
        variables[OUTPUTS] = ((dimension, "output"), together)
    return xarray.Dataset(variables)


def _array(column: list[Any]) -> npt.NDArray[Any]:
    """Convert a column to an array; NaN for missing numbers."""
    if any(isinstance(value, str) for value in column):
        return np.array(column, dtype=object)
    missing = any(value is None for value in column)
    return np.array(column, dtype=np.float64 if missing or not column else None)


def _unit(words: str) -> dict[str, str]:
    return {"units": words} if words else {}


def load_xarray() -> ModuleType:
    """Import xarray; an ImportError names the extra."""
    try:
        import xarray  # noqa: PLC0415
    except ImportError as error:
        raise ImportError("to_xarray needs xarray: pip install 'supac[xarray]'") from error
    return xarray
