"""Runs of other tools: ensembles as arrays, data frames or files become known runs."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from supac.arrays import FloatArray, as_floats
from supac.exchange.known import KnownRuns, read_csv
from supac.problem import Observations, Parameters
from supac.record.calibrated import Calibrated
from supac.record.record import read_store
from supac.record.store.file import may_be_store

_WANTED = (
    "known must be runs: a table or a store by its path, a result, or a pair of points (n, dim) "
    "and outputs (n, m) or risks (n,), as arrays, data frames or paths"
)


Known = KnownRuns | Calibrated | str | os.PathLike[str] | tuple[Any, Any] | None
"""Forms of known runs that `minimize` accepts."""


def known_runs(given: Known, parameters: Parameters | None, data: object) -> KnownRuns | None:
    """Return what `known=` of `minimize` stands for, in the order of parameters and data.

    A `KnownRuns`; a result or a record; the path of a table or of a store; or a pair of points and
    what came of them, (n, m) outputs or (n,) risks: arrays, data frames, or paths of tables whose
    rows have names, as PEST++ writes ensembles. Members without outputs have failed.
    """
    seen = data if isinstance(data, Observations) else None
    if given is None:
        return None
    if isinstance(given, KnownRuns):
        known = given
    elif isinstance(given, Calibrated):
        known = KnownRuns.of_record(given.own_record)
    elif isinstance(given, str | os.PathLike):
        known = _of_file(Path(given), parameters)
    elif isinstance(given, tuple) and len(given) == 2:
        known = _of_pair(given[0], given[1], parameters, seen)
    else:
        raise TypeError(f"{_WANTED}; not {given!r:.100}")
    known = known if parameters is None else known.in_order(parameters.names)
    return known if seen is None else known.for_data(seen)


def _of_file(path: Path, parameters: Parameters | None) -> KnownRuns:
    """Read a store, or a table of runs."""
    if path.suffix == ".supac" or (path.suffix != ".csv" and may_be_store(path) and path.exists()):
        return KnownRuns.of_record(read_store(path), source=path.name)
    if parameters is None:
        raise ValueError(f"{path} has columns by name, but the prior has none: use Parameters")
    return read_csv(path, parameters)


@dataclass(frozen=True, eq=False)
class _Rows:
    """A table with names of its rows and columns, both of which may be missing."""

    values: FloatArray
    """(n, columns), or (n,)."""
    columns: tuple[str, ...] | None = None
    index: tuple[str, ...] | None = None
    name: str = "known"


def _of_pair(
    points: Any, outcome: Any, parameters: Parameters | None, data: Observations | None
) -> KnownRuns:
    """Return the runs of an ensemble: its parameters and, in the same rows, what came of them."""
    x, y = _rows(points, "points"), _rows(outcome, "outputs")
    values = np.atleast_2d(x.values.T).T
    if x.columns is not None and parameters is not None:
        values = values[:, _places(parameters.names, x)]
    results = y.values
    if x.index is not None and y.index is not None:
        rows = {name: row for row, name in enumerate(y.index)}
        if not rows.keys() & set(x.index):
            raise ValueError(f"{y.name} has none of the members of {x.name}, such as {x.index[0]}")
        found = [rows.get(name) for name in x.index]
        nothing = np.full(results.shape[1:], np.nan)
        results = np.array([nothing if row is None else results[row] for row in found])
    if len(values) != len(results):
        raise ValueError(f"{x.name} has {len(values)} rows, but {y.name} {len(results)}")
    risk, outputs = np.full(len(values), np.nan), None
    if results.ndim == 1:
        risk = results
    else:
        outputs = results if data is None else _placed(results, y, data)
    return KnownRuns.of_arrays(values, outputs, risk, source=y.name)


def _placed(results: FloatArray, y: _Rows, data: Observations) -> FloatArray:
    """Return outputs as the data have them; columns may be those of measurements alone."""
    if y.columns is not None:
        by_row = [f"{column}_{row}" for column in data.columns for row in range(data.rows)]
        numbered = [f"output_{i}" for i in range(len(by_row))]
        for names in (data.cell_names, by_row, numbered):
            if set(names) <= set(y.columns):
                return results[:, [y.columns.index(name) for name in names]]
    for mask in (np.ones(len(data.values), dtype=bool), data.present, data.needed):
        if results.shape[1] == mask.sum():
            placed = np.full((len(results), len(mask)), np.nan)
            placed[:, mask] = results
            return placed
    raise ValueError(
        f"{y.name} has {results.shape[1]} outputs, but the data have {len(data.values)} cells and "
        f"{data.measured} measurements, column after column: give these outputs in this order"
    )


def _places(names: Sequence[str], x: _Rows) -> list[int]:
    """Return the columns of parameters; other tools may write names in small letters."""
    assert x.columns is not None
    small = [column.lower() for column in x.columns]
    places = []
    for name in names:
        if name in x.columns:
            places.append(x.columns.index(name))
        elif small.count(name.lower()) == 1:
            places.append(small.index(name.lower()))
        else:
            raise ValueError(f"{x.name} has no column {name}; its columns are {_listed(x.columns)}")
    return places


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:12]) + (", …" if len(names) > 12 else "")


def _rows(given: Any, name: str) -> _Rows:
    """Return an array, a data frame (or what holds one), or a file as rows."""
    if isinstance(given, str | os.PathLike):
        return _read(Path(given))
    if getattr(given, "istransformed", False):
        raise ValueError(f"the {name} are logarithms: call their method back_transform() first")
    frame = getattr(given, "_df", given)  # ensembles of pyEMU
    if hasattr(frame, "columns") and hasattr(frame, "index"):
        columns = tuple(map(str, frame.columns))
        values = np.asarray(frame.to_numpy(), dtype=np.float64)
        return _Rows(values, columns, tuple(map(str, frame.index)), name)
    plain = as_floats(given)
    if plain is None or plain.ndim not in (1, 2):
        raise TypeError(f"{_WANTED}; the {name} are {given!r:.100}")
    return _Rows(plain, name=name)


def _read(path: Path) -> _Rows:
    """Read a table of numbers whose first column may name the rows."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = [[cell.strip() for cell in row] for row in csv.reader(file) if row]
    if len(rows) < 2 or any(len(row) != len(rows[0]) for row in rows):
        raise ValueError(f"{path} must have a line of names, and lines of as many cells")
    header, *lines = rows
    named = header[0].lower() in ("", "real_name", "name", "index", "realization", "member")
    index = tuple(line[0] for line in lines) if named else None
    try:
        values = np.array([[float(c or "nan") for c in line[named:]] for line in lines])
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return _Rows(values, tuple(header[named:]), index, path.name)
