"""Standard errors of measurements: numbers, columns, shares of the value, or estimated ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from supac.arrays import BoolArray, FloatArray
from supac.problem_file.csv_file import CSVFile
from supac.problem_file.errors import Key, is_number, suggestion, without_quotes

UNKNOWN = "unknown"
_SHARE = re.compile(r"\s*([0-9.eE+-]+?)\s*%\s*(?:\+\s*([0-9.eE+-]+)\s*)?")
_LEAST = 6  # measurements of a column of which the noise is estimated


def noise_of_columns(
    given: Any,
    columns: Mapping[str, FloatArray],
    times: FloatArray | None,
    data: CSVFile,
    key: Key,
    logarithmic: bool,
    held_out: Mapping[str, BoolArray],
) -> list[FloatArray]:
    """Return the noise of each observed column: (rows,); a table must have exactly these.

    `held_out` is True for the rows of a column from which none may be estimated.
    """
    if isinstance(given, Mapping):
        for other in (name for name in given if name not in columns):
            hint = suggestion(other, columns) or f"; observed are {', '.join(columns)}"
            raise data.fail(f"{other} is not observed{hint}", (*key, other))
        for name in columns:
            if name not in given:
                raise data.fail(f"says nothing of {name}, which is observed", key)
    made = []
    for name, values in columns.items():
        mine, place = (given[name], (*key, name)) if isinstance(given, Mapping) else (given, key)
        if is_parameter(mine, data.source.table("parameters")):
            if mine in data.header:
                both = f"is a parameter and a column of {data.path.name}: rename one of them"
                raise data.fail(f"{mine} {both}", place)
            made.append(np.ones(len(values)))
        elif mine == UNKNOWN and UNKNOWN not in data.header:
            seen = np.where(held_out[name], np.nan, values)
            made.append(_estimated(name, seen, times, data, place, logarithmic))
        elif isinstance(mine, str) and "%" in mine:
            made.append(_share(mine, name, values, data, place, logarithmic))
        else:
            made.append(_given(mine, place, data))
    return made


def unknown_columns(table: Mapping[str, Any]) -> list[str]:
    """Return the observed columns of a table [data] whose noise is estimated from the data."""
    observed, given = table["observed"], table.get("noise")
    names = [observed] if isinstance(observed, str) else list(observed)
    each = given if isinstance(given, Mapping) else dict.fromkeys(names, given)
    return [name for name in names if each.get(name) == UNKNOWN]


def is_parameter(given: Any, parameters: Mapping[str, Any]) -> bool:
    """Return True if a noise is the name of a parameter."""
    return isinstance(given, str) and given in parameters


def _given(given: str | float, key: Key, data: CSVFile) -> FloatArray:
    """Return the same number for each row, or a column of them."""
    if not isinstance(given, str):
        return np.full(len(data.rows), float(given))
    if is_number(given) and given not in data.header:
        raise data.fail(f'"{given}" is a text{without_quotes(given)}', key)
    noise = data.column(given, key, gaps=False)
    if not (noise > 0.0).all():
        raise data.fail(f"the column {given} must be above 0 in every row", key)
    return noise


def parse_share(given: str) -> tuple[float, float] | None:
    """Return the per cent and the constant of "5 % + 0.02"; None for a text of another form."""
    match = _SHARE.fullmatch(given)
    try:
        share, least = (float(part or 0.0) for part in match.groups()) if match else (-1.0, 0.0)
    except ValueError:
        return None
    return (share, least) if share > 0.0 and least >= 0.0 else None


def _share(
    given: str, name: str, values: FloatArray, data: CSVFile, key: Key, logarithmic: bool
) -> FloatArray:
    """Return a share of each measured value, and a constant: "5 %", "5 % + 0.02"."""
    parsed = parse_share(given)
    if parsed is None:
        words = f'is not of the form "5 %" or "5 % + 0.02", in the unit of {name}'
        raise data.fail(words, key)
    share, least = parsed
    if logarithmic:
        words = f'goes without compare = "log", for which noise = {share / 100.0:g} is {share:g} %'
        raise data.fail(words, key)
    noise = share / 100.0 * np.abs(values) + least
    seen = np.isfinite(values)
    if (noise[seen] <= 0.0).any():
        line = list(data.rows)[int(np.flatnonzero(seen & (noise <= 0.0))[0])]
        where = f"{data.path.name}, line {line}, column {name}"
        fix = f'add a constant, such as "{share:g} % + 0.02"'
        raise data.fail(f"a share of 0 is 0 ({where}): {fix}", key)
    return np.where(seen, noise, np.median(noise[seen]) if seen.any() else 1.0)


def _estimated(
    name: str,
    values: FloatArray,
    times: FloatArray | None,
    data: CSVFile,
    key: Key,
    logarithmic: bool,
) -> FloatArray:
    """Estimate the noise of a column by the scatter of each value about the line of its neighbours.

    e_i = a·y_{i−1} + b·y_{i+1} − y_i, with a and b the weights of the line in time, has the
    variance (a² + b² + 1)·σ² where the curve is straight; elsewhere σ is overestimated (Gasser,
    Sroka and Jennen-Steinmetz, 1986).
    """
    seen = np.isfinite(values)
    clock = np.arange(len(values), dtype=np.float64) if times is None else times
    order = np.argsort(clock[seen], kind="stable")
    t, y = clock[seen][order], values[seen][order]
    if len(y) < _LEAST:
        words = f"of {name} cannot be estimated from {len(y)} measurements to learn from: give it"
        raise data.fail(words, key)
    y = np.log(y) if logarithmic else y
    gap = t[2:] - t[:-2]
    b = np.divide(t[1:-1] - t[:-2], gap, out=np.full(len(gap), 0.5), where=gap > 0.0)
    scatter = ((1.0 - b) * y[:-2] + b * y[2:] - y[1:-1]) ** 2 / ((1.0 - b) ** 2 + b**2 + 1.0)
    sigma = float(np.sqrt(scatter.mean()))
    if not sigma > 0.0:
        raise data.fail(f"of {name} cannot be estimated: its values lie on a line; give it", key)
    return np.full(len(values), sigma)
