"""Runs of other tools: ensembles as arrays, data frames or files become known runs."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from supac.arrays import FloatArray, as_floats
from supac.exchange.known import KnownRuns, read_csv
from supac.problem import Composite, Measurements, Observations, Parameters
from supac.record.calibrated import Calibrated
from supac.record.record import read_store
from supac.record.store.file import may_be_store

_WANTED = (
    "known must be runs: a table or a store by its path, a result, or a pair of points (n, dim) "
    "and outputs (n, m) or risks (n,), as arrays, data frames or paths"
)


Known = KnownRuns | Calibrated | str | os.PathLike[str] | tuple[Any, Any] | None
"""Forms of known runs that `minimize` accepts."""


def known_runs(
    given: Known, parameters: Parameters | None, risk: object, *, one_run: bool = False
) -> KnownRuns | None:
    """Return what `known=` of `minimize` stands for, in the order of the parameters and the data.

    A `KnownRuns`; a result or a record; the path of a table or of a store; or a pair of points and
    what came of them, (n, m) outputs or (n,) risks: arrays, data frames, or paths of tables whose
    rows have names, as PEST++ writes ensembles. Members without outputs have failed. `one_run` says
    that one run simulates all experiments of the data.
    """
    composite = risk if isinstance(risk, Composite) else None
    data = None if composite is None else composite.data
    if given is None:
        return None
    if isinstance(given, KnownRuns):
        known = given
    elif isinstance(given, Calibrated):
        known = KnownRuns.of_record(given.own_record)
    elif isinstance(given, str | os.PathLike):
        known = _of_file(Path(given), parameters)
    elif isinstance(given, tuple) and len(given) == 2:
        known = _of_pair(given[0], given[1], parameters, composite)
    else:
        raise TypeError(f"{_WANTED}; not {given!r:.100}")
    known = known if parameters is None else known.in_order(parameters.names)
    known = known.for_data(data, one_run=one_run) if isinstance(data, Observations) else known
    return known if composite is None else _with_observation_parameters(known, composite)


def _with_observation_parameters(known: KnownRuns, risk: Composite) -> KnownRuns:
    """Append the observation parameters to simulated outputs that lack them."""
    outputs, count = known.outputs, risk.observation
    if not count or outputs is None or outputs.shape[1] != _simulated(risk.data):
        return known
    return replace(known, outputs=np.hstack([outputs, known.x[:, -count:]]))


def _simulated(data: object) -> int | None:
    """Return the number of outputs that are simulated for these data, if it is known."""
    if isinstance(data, Observations):
        return len(data.values)
    names = getattr(data, "output_names", None)
    return None if names is None else len(names)


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
    points: Any, outcome: Any, parameters: Parameters | None, risk: Composite | None
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
    risks, outputs = np.full(len(values), np.nan), None
    if results.ndim == 1:
        risks = results
    else:
        outputs = results if risk is None else _placed(results, y, values, risk)
    return KnownRuns.of_arrays(values, outputs, risks, source=y.name)


def _placed(results: FloatArray, y: _Rows, points: FloatArray, risk: Composite) -> FloatArray:
    """Return outputs (n, m) in the order in which the simulator returns them."""
    if isinstance(risk.data, Observations):
        return _in_cells(results, y, risk.data)
    if isinstance(risk.data, Measurements):
        return _in_rows(results, y, points, risk)
    return results


def _in_rows(results: FloatArray, y: _Rows, points: FloatArray, risk: Composite) -> FloatArray:
    """Return outputs by the names of measurements; some may follow from the points (n, dim)."""
    assert isinstance(risk.data, Measurements)
    names = risk.data.output_names
    follow = getattr(risk.simulate, "without_run", None)
    last = np.array([[] if follow is None else follow(point) for point in points])
    simulated = names[: len(names) - last.shape[1]]
    if y.columns is not None:
        return np.hstack([results[:, _places(simulated, y)], last])
    if results.shape[1] == len(simulated):
        return np.hstack([results, last])
    if results.shape[1] == len(names):
        return results
    raise ValueError(
        f"{y.name} has {results.shape[1]} outputs, but {len(simulated)} are simulated: "
        f"{_listed(simulated)}"
    )


def _in_cells(results: FloatArray, y: _Rows, data: Observations) -> FloatArray:
    """Return outputs as the data have them; columns may be those of measurements alone."""
    if y.columns is not None:
        by_row = [f"{column}_{row}" for column in data.columns for row in range(data.rows)]
        numbered = [f"output_{i}" for i in range(len(by_row))]
        # Numbered ones first: they are simulated, where scales make others of them.
        for names in (numbered, data.cell_names, by_row):
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
