"""Runs of other tools: ensembles as arrays, data frames or files become known runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from supac.arrays import FloatArray, as_floats
from supac.exchange.known import LEVEL, KnownRuns, levels_of, names_in_table, read_csv
from supac.exchange.table import OUTPUT
from supac.exchange.text_table import TextTable, places_of_outputs
from supac.guarantee.origin import COLUMN, Origin
from supac.problem import Composite, Measurements, Observations, Parameters
from supac.problem.composite import as_composite, parts_of
from supac.problem.data import as_observations
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
    composite, data = as_composite(risk), parts_of(risk).data
    observed = as_observations(data)
    if given is None:
        return None
    if isinstance(given, KnownRuns):
        known = given
    elif isinstance(given, Calibrated):
        known = KnownRuns.of_record(given.own_record)
    elif isinstance(given, str | os.PathLike):
        known = _of_file(Path(given), parameters, data)
    elif isinstance(given, tuple) and len(given) == 2:
        known = _of_pair(given[0], given[1], parameters, composite)
    else:
        raise TypeError(f"{_WANTED}; not {given!r:.100}")
    if parameters is not None:
        known = known.in_order(parameters.names)
        if known.x.shape[1:] == (len(parameters),):
            known.latent(parameters)  # a point outside of a prior's bounds is an error
    if composite is None or composite.coarse is None:
        known = known.fine
    known = known if observed is None else known.for_data(observed, one_run=one_run)
    if composite is None:
        return known
    return _with_observation_parameters(known.of_risk(composite), composite)


def _with_observation_parameters(known: KnownRuns, risk: Composite) -> KnownRuns:
    """Append the observation parameters to simulated outputs that lack them."""
    outputs, count = known.outputs, risk.observation
    if not count or outputs is None or outputs.shape[1] != _simulated(risk.data):
        return known
    return replace(known, outputs=np.hstack([outputs, known.x[:, -count:]]))


def _simulated(data: object) -> int | None:
    """Return the number of outputs that are simulated for these data, if it is known."""
    observed = as_observations(data)
    if observed is not None:
        return len(observed.values)
    names = getattr(data, "output_names", None)
    return None if names is None else len(names)


def _of_file(path: Path, parameters: Parameters | None, data: object) -> KnownRuns:
    """Read a store, or a table of runs."""
    if path.suffix == ".supac" or (path.suffix != ".csv" and may_be_store(path) and path.exists()):
        return KnownRuns.of_record(read_store(path), source=path.name)
    if parameters is None:
        raise ValueError(f"{path} has columns by name, but the prior has none: use Parameters")
    named = data if isinstance(data, Observations | Measurements) else None
    return read_csv(path, parameters, data=named)


@dataclass(frozen=True, eq=False)
class _Rows:
    """A table with names of its rows and columns, both of which may be missing."""

    values: FloatArray
    """(n, columns), or (n,)."""
    columns: tuple[str, ...] | None = None
    index: tuple[str, ...] | None = None
    name: str = "known"
    lines: tuple[int, ...] = ()
    """Line of each row in its file."""
    words: dict[str, str] = field(default_factory=dict)
    """Columns with a cell that is no number, which may only be left out, and its error."""
    origin: tuple[str, ...] = ()
    """Cells of the column with the origin of the runs, if there is one."""

    def place(self, name: str) -> int:
        """Return the place of a column; ValueError if it is not of numbers alone."""
        assert self.columns is not None
        if name in self.words:
            raise ValueError(self.words[name])
        return self.columns.index(name)

    def without(self, names: Sequence[str]) -> _Rows:
        """Return the table without these columns, if others are left."""
        if self.columns is None or set(self.columns) <= set(names):
            return self
        kept = [i for i, name in enumerate(self.columns) if name not in names]
        columns = tuple(self.columns[i] for i in kept)
        return replace(self, values=self.values[:, kept], columns=columns)

    def of_numbers(self) -> FloatArray:
        """Return all columns that are not of words alone; ValueError for a cell in others."""
        if self.columns is None:
            return self.values
        texts = [name for i, name in enumerate(self.columns) if np.isnan(self.values[:, i]).all()]
        for name in self.words:
            if name in self.columns and name not in texts:
                raise ValueError(self.words[name])
        dropped = [name for name in texts if name in self.words]
        return self.without(dropped).values if len(dropped) < len(self.columns) else self.values


def _of_pair(
    points: Any, outcome: Any, parameters: Parameters | None, risk: Composite | None
) -> KnownRuns:
    """Return the runs of an ensemble: its parameters and, in the same rows, what came of them."""
    x, y = _rows(points, "points"), _rows(outcome, "outputs")
    values = np.atleast_2d(x.values.T).T
    if x.columns is not None and parameters is not None:
        values = values[:, _places(parameters.names, x)]
    y = y if parameters is None else y.without(parameters.names)
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
    joined, levels = replace(y, values=results), tuple[int, ...]()
    if not _is_named(LEVEL, parameters, risk):
        levels = _levels(x) or _levels(joined)
        joined = joined.without([LEVEL])
    if results.ndim == 1:
        risks = results
    else:
        outputs = joined.of_numbers() if risk is None else _placed(joined, values, risk)
    places = tuple(f"{x.name}, line {line}" for line in x.lines)
    told, lost = Origin.of_cells(y.origin or x.origin, y.name)
    known = KnownRuns.of_arrays(values, outputs, risks, y.name, places, levels)
    return replace(known, told_origin=told, lost=lost)


def _levels(table: _Rows) -> tuple[int, ...]:
    """Return the levels of the runs of a table; empty if all are of the fine model."""
    if table.columns is None or LEVEL not in table.columns:
        return ()
    return levels_of(table.values[:, table.place(LEVEL)], table.name, table.lines)


def _is_named(name: str, parameters: Parameters | None, risk: Composite | None) -> bool:
    """Return True if a parameter or an output has this name."""
    outputs = names_in_table(None if risk is None else risk.data)
    return any(name in each for each in [*outputs, () if parameters is None else parameters.names])


def _placed(y: _Rows, points: FloatArray, risk: Composite) -> FloatArray:
    """Return outputs (n, m) in the order in which the simulator returns them."""
    observed = as_observations(risk.data)
    if observed is not None:
        return _in_cells(y, observed)
    if isinstance(risk.data, Measurements):
        return _in_rows(y, points, risk, risk.data.output_names)
    numbered = [f"{OUTPUT}{i}" for i in range(_simulated(risk.data) or 0)]
    if numbered and y.columns is not None and set(numbered) <= set(y.columns):
        return y.values[:, [y.place(name) for name in numbered]]
    return y.of_numbers()


def _in_rows(y: _Rows, points: FloatArray, risk: Composite, names: list[str]) -> FloatArray:
    """Return outputs by the names of measurements; some may follow from the points (n, dim)."""
    results = y.values
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


def _in_cells(y: _Rows, data: Observations) -> FloatArray:
    """Return outputs as the data have them; columns may be those of measurements alone."""
    if y.columns is not None:
        numbered = [f"{OUTPUT}{i}" for i in range(len(data.values))]
        # Numbered ones first: they are simulated, where scales make others of them.
        ways = [numbered] if set(numbered) <= set(y.columns) else names_in_table(data)
        found = places_of_outputs(list(y.columns), ways, data.needed.tolist(), y.name)
        if found is not None:
            nothing = np.full(len(y.values), np.nan)
            return np.column_stack(
                [nothing if name is None else y.values[:, y.place(name)] for name in found]
            )
    results = y.of_numbers()
    for mask in (np.ones(len(data.values), dtype=bool), data.present, data.needed):
        if results.shape[1] == mask.sum():
            placed = np.full((len(results), len(mask)), np.nan)
            placed[:, mask] = results
            return placed
    raise ValueError(
        f"{y.name} has {results.shape[1]} outputs, but the data have {len(data.values)} cells and "
        f"{data.measured} measurements, column after column: give these outputs in this order, or "
        f"name them {', '.join(data.cell_names[:3])}, …"
    )


def _places(names: Sequence[str], x: _Rows) -> list[int]:
    """Return the columns of parameters; other tools may write names in small letters."""
    assert x.columns is not None
    small = [column.lower() for column in x.columns]
    places = []
    for name in names:
        if name in x.columns:
            places.append(x.place(name))
        elif small.count(name.lower()) == 1:
            places.append(x.place(x.columns[small.index(name.lower())]))
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
    """Read a table whose first column may name the rows; columns of words are NaN."""
    table = TextTable(path)
    header = table.header
    if not table.rows:
        raise ValueError(f"{path} must have a line of names, and lines of numbers")
    for line, row in table.rows.items():
        if len(row) != len(header):
            cells = f"{len(row)} cells, but the header has {len(header)}"
            raise ValueError(f"{path}, line {line}: {cells}")
    named = header[0].lower() in ("", "real_name", "name", "index", "realization", "member")
    index = tuple(table.words(header[0])) if named else None
    columns, found, words = header[named:], [], dict[str, str]()
    for name in columns:
        try:
            found.append(table.numbers(name))
        except ValueError as error:
            found.append(table.numbers(name, words_are_gaps=True))
            words[name] = str(error)
    lines, origin = tuple(table.lines), tuple(table.words(COLUMN) if COLUMN in header else ())
    values = np.column_stack(found)
    return _Rows(values, tuple(columns), index, path.name, lines, words, origin)
