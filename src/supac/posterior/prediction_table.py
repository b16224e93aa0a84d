"""Predictions as tables, pandas data frames and xarray datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from supac.arrays import FloatArray
from supac.exchange.frames import as_pandas, load
from supac.exchange.table import Table, apart, table_of_draws
from supac.posterior.outputs import Outputs
from supac.posterior.predicted_bands import PredictedBands
from supac.problem import Parameters

if TYPE_CHECKING:
    import pandas
    import xarray

_ENDS = (
    "lower",
    "median",
    "upper",
    "corrected_lower",
    "corrected_median",
    "corrected_upper",
    "measured_lower",
    "measured_upper",
)
_DIMENSIONS = ("draw", "time", "row")


def table_of_bands(outputs: Outputs, bands: PredictedBands) -> Table:
    """Return columns with one row an output; None where the noise is not known."""
    units = outputs.units or ("",) * len(outputs.columns)
    table: Table = {"output": np.repeat(outputs.columns, outputs.rows).tolist()}
    if any(units):
        table["unit"] = np.repeat(units, outputs.rows).tolist()
    clock = np.tile(outputs.clock, len(outputs.columns)).tolist()
    if outputs.times is not None or outputs.rows > 1:
        table["row" if outputs.times is None else "time"] = clock
    for name in _ENDS:
        values = getattr(bands, name)
        if np.isfinite(values).any():
            table[name] = [float(v) if np.isfinite(v) else None for v in values]
    return table


def frame_of_bands(table: Table) -> pandas.DataFrame:
    """Return a table of bands as a data frame."""
    return as_pandas(table)


def dataset_of(
    outputs: Outputs,
    x: FloatArray,
    values: FloatArray,
    bands: PredictedBands,
    parameters: Parameters | None,
    title: str,
) -> xarray.Dataset:
    """Return a variable (draw, time) for each column, its bands, and each parameter (draw,)."""
    along = "row" if outputs.times is None else "time"
    units = outputs.units or ("",) * len(outputs.columns)
    draws = table_of_draws(x, parameters)
    own = list(parameters.units) if parameters is not None else [""] * len(draws)
    ends = [f"{column}_{end}" for column in outputs.columns for end in _ENDS]
    taken = {*_DIMENSIONS, *outputs.columns, *ends}
    variables: dict[str, Any] = {}
    names = apart(list(draws), lambda name: name in taken)
    for name, numbers, unit in zip(names, draws.values(), own, strict=True):
        variables[_free(name)] = ("draw", np.array(numbers), _unit(unit))
    for column, unit in zip(outputs.columns, units, strict=True):
        place = outputs.places(column)
        variables[_free(column)] = (("draw", along), values[:, place], _unit(unit))
        for end in _ENDS:
            limit = getattr(bands, end)[place]
            if np.isfinite(limit).any():
                variables[_free(f"{column}_{end}")] = (along, limit, _unit(unit))
    label = outputs.time_label or along
    clock = (along, outputs.clock, {"long_name": label})
    facts = {"title": title, "coverage": bands.coverage, "source": "supac"}
    dataset: xarray.Dataset = load("xarray").Dataset(variables, {along: clock}, facts)
    return dataset


def _free(name: str) -> str:
    """Return a name that NetCDF allows: without a slash."""
    return name.replace("/", "_")


def _unit(words: str) -> dict[str, str]:
    return {"units": words} if words else {}
