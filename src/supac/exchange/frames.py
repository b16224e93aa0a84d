"""Tables for pandas and xarray; each library is imported when it is asked for."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from supac.exchange.table import Table, column_of, is_output
from supac.parameters import Parameters

if TYPE_CHECKING:
    import pandas
    import xarray

_DIMENSIONS = ("run", "output", "outputs", "draw", "chain")
OUTPUTS = "outputs"


def as_pandas(table: Table) -> pandas.DataFrame:
    """One row a run, or a draw; NaN where a number is not known."""
    try:
        import pandas  # noqa: PLC0415
    except ImportError as error:
        raise ImportError("to_pandas needs pandas: pip install 'supac[pandas]'") from error
    return pandas.DataFrame({name: _array(column) for name, column in table.items()})


def as_xarray(table: Table, parameters: Parameters | None, dimension: str) -> xarray.Dataset:
    """One variable a column, along `run` or `draw`, with units; all outputs are one variable."""
    xarray = load_xarray()
    units = {} if parameters is None else dict(zip(parameters.names, parameters.units, strict=True))
    outputs = [name for name in table if dimension == "run" and is_output(name)]
    if dimension == "run":  # where parameters stand beside what became of a run
        units = {column_of(name): unit for name, unit in units.items()}
    variables: dict[str, Any] = {
        _variable(name): (dimension, _array(column), _unit(units.get(name, "")))
        for name, column in table.items()
        if name not in outputs
    }
    if outputs:
        together = np.column_stack([_array(table[name]) for name in outputs])
        variables[OUTPUTS] = ((dimension, "output"), together)
    return xarray.Dataset(variables)


def _array(column: list[Any]) -> npt.NDArray[Any]:
    """Numbers as such, with NaN where one is missing, and texts as they are."""
    if any(isinstance(value, str) for value in column):
        return np.array(column, dtype=object)
    missing = any(value is None for value in column)
    return np.array(column, dtype=np.float64 if missing or not column else None)


def _unit(words: str) -> dict[str, str]:
    return {"units": words} if words else {}


def _variable(name: str) -> str:
    """The name of a variable: not that of a dimension."""
    return f"{name}_" if name in _DIMENSIONS else name


def load_xarray() -> ModuleType:
    """The library, or which extra brings it."""
    try:
        import xarray  # noqa: PLC0415
    except ImportError as error:
        raise ImportError("to_xarray needs xarray: pip install 'supac[xarray]'") from error
    return xarray
