"""Read the tables that a problem file names: measurements, and runs that were made elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from supac.arrays import BoolArray, FloatArray
from supac.exchange.known import KnownRuns
from supac.exchange.other_runs import Known, known_runs
from supac.problem import Observations, Parameters
from supac.problem.composite import as_composite
from supac.problem_file.clock import read_times, starts_of_runs
from supac.problem_file.csv_file import CSVFile
from supac.problem_file.errors import Key, Source, no_file
from supac.problem_file.fixed_inputs import (
    check_same_setup,
    check_units,
    fixed_inputs,
    source_of_record,
)
from supac.problem_file.missing import MissingMarks
from supac.problem_file.noise import noise_of_columns
from supac.problem_file.periods import in_periods, in_warm_up
from supac.problem_file.values import is_period
from supac.record.store.file import StoreError

_MEANING = "what the simulator returns, column after column, as `supac export` writes it"


def data_tables(source: Source) -> dict[Key, dict[str, Any]]:
    """Return the table [data], or each of the tables [[data]], by its key."""
    given = source.document.get("data", {})
    if isinstance(given, list):
        return {("data", i): dict(table) for i, table in enumerate(given)}
    return {("data",): dict(given)} if given else {}


def data_files(source: Source) -> list[Path]:
    """Return the files of measurements, which may not exist."""
    return [source.file(table.get("file", "")) for table in data_tables(source).values()]


def experiment_names(source: Source) -> list[str]:
    """Return the name of each table of data: its own, or that of its file."""
    tables = data_tables(source).values()
    return [table.get("name", Path(table["file"]).stem) for table in tables]


def read_observations(source: Source) -> Observations:
    """Read the observed columns of the data; ProblemFileError if that is impossible."""
    tables = data_tables(source)
    starts = starts_of_runs(source, tables)
    read = [_read(source, key, table, starts.get(key)) for key, table in tables.items()]
    if ("data",) in tables:
        return read[0]
    return _joined(source, dict(zip(tables, read, strict=True)), experiment_names(source))


def _read(
    source: Source, place: Key, table: Mapping[str, Any], start: datetime | None
) -> Observations:
    """Read the data of one file, whose dates count from `start`."""
    data, key = CSVFile(source, (*place, "file")), (*place, "observed")
    observed = table["observed"]
    names = [observed] if isinstance(observed, str) else list(observed)
    marks = MissingMarks.of(table)
    values = [data.column(name, key, gaps=True, missing=marks) for name in names]
    for name in names:
        if names.count(name) > 1:
            raise source.fail(key, f"{name} stands there twice")
    if not np.isfinite(np.concatenate(values)).any():
        raise source.fail(key, f"{data.path.name} has no number in these columns")
    _check_marks(data, key, dict(zip(names, values, strict=True)), marks)
    logarithmic = table.get("compare") == "log"
    if logarithmic and not all((v[np.isfinite(v)] > 0.0).all() for v in values):
        raise source.fail(
            (*place, "compare"),
            f'"log" needs positive data, but {data.path.name} has others; leave such cells empty, '
            'or use "difference"',
        )
    times, label = read_times(data, place, table, start)
    values = _after_warm_up(data, place, table, values, times, label)
    columns = dict(zip(names, values, strict=True))
    held_out = _held_out_cells(source, place, table.get("test"), columns, start)
    noise = noise_of_columns(
        table["noise"], columns, times, data, (*place, "noise"), logarithmic, held_out
    )
    blocks = None
    if "blocks" in table:
        blocks = data.column(table["blocks"], (*place, "blocks"), gaps=False)
    return Observations(
        tuple(names),
        np.concatenate(values),
        np.concatenate(noise),
        logarithmic=logarithmic,
        times=times,
        blocks=blocks,
        sequential=table.get("sequential") or None,
        units=_units(data, place, table, names),
        time_label=label,
    )


def _after_warm_up(
    data: CSVFile,
    place: Key,
    table: Mapping[str, Any],
    values: list[FloatArray],
    times: FloatArray | None,
    label: str | None,
) -> list[FloatArray]:
    """Return the columns without the measurements of the warm-up."""
    if "warm_up" not in table:
        return values
    key = (*place, "warm_up")
    if times is None:
        raise data.fail(f'needs times: name their column of {data.path.name}, time = "…"', key)
    try:
        before = in_warm_up(table["warm_up"], times, label)
    except ValueError as error:
        raise data.fail(str(error), key) from error
    return [np.where(before, np.nan, each) for each in values]


def _check_marks(
    data: CSVFile, key: Key, columns: Mapping[str, FloatArray], marks: MissingMarks
) -> None:
    """Raise ProblemFileError if a number that usually means that nothing was measured is one."""
    for name, values in columns.items():
        found = marks.usual_mark_in(values)
        if found is not None:
            words = (
                f"{name} is {found:g} in {int((values == found).sum())} rows of {data.path.name}, "
                "far from all others: if nothing was measured there, write missing = "
                f"{found:g}; if it was, missing = []"
            )
            raise data.fail(words, key)


def _units(
    data: CSVFile, place: Key, table: Mapping[str, Any], names: list[str]
) -> tuple[str, ...] | None:
    """Return the unit of each observed column: from the table, or the header of the file."""
    given = table.get("units", {})
    if isinstance(given, str):
        given = dict.fromkeys(names, given)
    for name, unit in given.items():
        key = (*place, "units", name)
        if name not in names:
            raise data.fail(f"{name} is not observed; observed are {', '.join(names)}", key)
        if data.units.get(name, unit) != unit:
            found = f"{data.path.name} has {name} in {data.units[name]}, not in {unit}"
            raise data.fail(f"{found}: correct one of them", key)
    units = tuple(given.get(name, data.units.get(name, "")) for name in names)
    return units if any(units) else None


def _joined(source: Source, parts: dict[Key, Observations], names: list[str]) -> Observations:
    """Return the data of several files, one below the other."""
    _check_alike(source, parts, names)
    first, every = next(iter(parts.values())), list(parts.values())
    columns = list(dict.fromkeys(name for part in every for name in part.columns))
    times = [part.times for part in every if part.times is not None]
    blocks = [part.blocks for part in every if part.blocks is not None]
    units = _joined_units(source, parts)
    labels = {part.time_label for part in every}
    since = {str(label).partition(" since ")[0] for label in labels}
    common = f"{since.pop()} since the start" if len(since) == 1 and None not in labels else None
    return Observations(
        tuple(columns),
        np.concatenate([_stacked(every, name, "values") for name in columns]),
        np.concatenate([_stacked(every, name, "noise") for name in columns]),
        logarithmic=first.logarithmic,
        times=np.concatenate(times) if times else None,
        blocks=_distinct(blocks) if blocks else None,
        sequential=first.sequential,
        units=tuple(units.get(name, "") for name in columns) if units else None,
        time_label=labels.pop() if len(labels) == 1 else common,
        experiments=tuple(
            name for name, part in zip(names, every, strict=True) for _ in range(part.rows)
        ),
    )


def _check_alike(source: Source, parts: dict[Key, Observations], names: list[str]) -> None:
    """Raise ProblemFileError if the files cannot be put below each other."""
    first = next(iter(parts.values()))
    for i, (key, part) in enumerate(parts.items()):
        if names.index(names[i]) < i:
            words = f"there is a table {names[i]} already: add a name of its own"
            raise source.fail((*key, "name"), words)
        for field, word in (("logarithmic", "compare"), ("sequential", "sequential")):
            if getattr(part, field) != getattr(first, field):
                raise source.fail((*key, word), "must be the same in all tables [[data]]")
        if (part.times is None) != (first.times is None):
            without, other = (i, 0) if part.times is None else (0, i)
            words = f"{names[without]} has no times, but {names[other]} has: name their column"
            raise source.fail((*list(parts)[without], "time"), f'{words}, time = "…"')
        if (part.blocks is None) != (first.blocks is None):
            raise source.fail((*key, "blocks"), "must be in all tables [[data]], or in none")
        clocks = str(part.time_label), str(first.time_label)
        if clocks[0] != clocks[1] and all(each.startswith("time (") for each in clocks):
            words = f"{names[i]} has {clocks[0]}, but {names[0]} {clocks[1]}: use one unit"
            raise source.fail((*key, "time_unit"), words)


def _joined_units(source: Source, parts: dict[Key, Observations]) -> dict[str, str]:
    """Return the unit of each column; an error where files differ."""
    units: dict[str, str] = {}
    for key, part in parts.items():
        for name, unit in zip(part.columns, part.units or (), strict=False):
            if units.setdefault(name, unit) != unit:
                words = f"{name} is in {unit or 'no unit'}, but in {units[name]} before"
                raise source.fail((*key, "units"), words)
    return units


def _stacked(parts: list[Observations], name: str, field: str) -> FloatArray:
    """Return a column of all parts, NaN where a part does not have it."""
    return np.concatenate(
        [
            getattr(part, field).reshape(-1, part.rows)[part.columns.index(name)]
            if name in part.columns
            else np.full(part.rows, np.nan)
            for part in parts
        ]
    )


def _distinct(blocks: list[FloatArray]) -> FloatArray:
    """Number the blocks of all files: equal numbers in two files are different blocks."""
    made, count = [], 0
    for each in blocks:
        names, index = np.unique(each, return_inverse=True)
        made.append(index + float(count))
        count += len(names)
    return np.concatenate(made)


def held_out(source: Source, every: Observations) -> tuple[Observations, Observations | None]:
    """Return the data that the search sees, and those that it does not, if there are any."""
    tables = data_tables(source)
    given = {key: table["test"] for key, table in tables.items() if "test" in table}
    if not given:
        return every, None
    key = (*next(iter(given)), "test")
    test: Any = given.get(("data",))
    names = [test] if isinstance(test, str) else test
    periods = not isinstance(test, str) and any(map(is_period, _as_list(test)))
    if (
        ("data",) not in tables
        or test is True
        or periods
        or (len(names) == 1 and names[0] not in every.columns)
    ):
        starts = starts_of_runs(source, tables)
        rows = [_test_rows(source, at, given.get(at), starts.get(at)) for at in tables]
        test = np.concatenate(rows)
    try:
        return every.split(test)
    except ValueError as error:
        raise source.fail(key, str(error)) from error


def _as_list(given: Any) -> list[Any]:
    return given if isinstance(given, list) else [given]


def _held_out_cells(
    source: Source,
    place: Key,
    test: Any,
    columns: Mapping[str, FloatArray],
    start: datetime | None,
) -> dict[str, BoolArray]:
    """Return True for the rows of each column that are held out."""
    names = _as_list(test)
    of_rows = test in (None, True) or any(map(is_period, names))
    if of_rows or (len(names) == 1 and names[0] not in columns):
        rows = _test_rows(source, place, test, start)
        return dict.fromkeys(columns, rows)
    return {name: np.full(len(each), name in names) for name, each in columns.items()}


def _test_rows(source: Source, place: Key, given: Any, start: datetime | None) -> BoolArray:
    """Return True for the rows of a file that are held out."""
    file, key = CSVFile(source, (*place, "file")), (*place, "test")
    if any(map(is_period, _as_list(given))):
        times, label = read_times(file, place, data_tables(source)[place], start)
        if times is None:
            words = f'needs times: name their column of {file.path.name}, time = "…"'
            raise source.fail(key, words)
        try:
            return in_periods(given, times, label)
        except ValueError as error:
            raise source.fail(key, str(error)) from error
    if given is None or given is True:
        return np.full(len(file.rows), given is True)
    names = [given] if isinstance(given, str) else given
    if len(names) > 1:
        words = (
            "of several tables is true, for the whole file, or a column that says so of each row"
        )
        raise source.fail(key, words)
    return np.array(file.roles(names[0], key))


def read_known(
    source: Source,
    parameters: Parameters,
    risk: Callable[..., Any],
    observations: Observations | None,
) -> KnownRuns:
    """Read the known runs; ProblemFileError if that is impossible or they do not fit."""
    paths = known_files(source)
    told: Known = paths[0] if len(paths) == 1 else (paths[0], paths[1])
    try:
        for path in paths:
            if not path.is_file():
                raise ValueError(no_file(path))
            if path == source.file(source.table("run").get("store", f"{source.path.stem}.supac")):
                raise ValueError(f"{path.name} is the store of this search: its runs are known")
        settings = [table.get("settings", {}) for table in data_tables(source).values()]
        one_run = all(each == settings[0] for each in settings)
        known = known_runs(told, parameters, risk, one_run=one_run)
        assert known is not None
        _check_setup(source, parameters, known, one_run=one_run)
        _check_known(paths[-1], known, risk, observations)
    except (OSError, ValueError, StoreError) as error:
        unread = f"{paths[-1].name} cannot be read: {getattr(error, 'strerror', None) or error}"
        words = unread if isinstance(error, OSError) else str(error)
        raise source.fail(("run", "known"), words) from error
    return known


def known_files(source: Source) -> list[Path]:
    """Return the table of known runs, or the two of an ensemble; empty if there are none."""
    given = source.table("run").get("known", {})
    if isinstance(given, str):
        return [source.file(given)]
    return [source.file(given[name]) for name in ("parameters", "outputs") if name in given]


def _check_setup(
    source: Source, parameters: Parameters, known: KnownRuns, *, one_run: bool
) -> None:
    """Raise ValueError if the runs of an earlier search were made with other fixed inputs."""
    if known.origin is None:
        return
    name = known.origin.file.name
    check_units(parameters, known.origin, name)
    before = source_of_record(known.origin)
    if before is not None:
        ours, theirs = (fixed_inputs(each, data_tables(each)) for each in (source, before))
        check_same_setup(ours, theirs, name, one_run=one_run)


def _check_known(
    path: Path, known: KnownRuns, risk: Callable[..., Any], observations: Observations | None
) -> None:
    """Raise ValueError if the columns do not fit the problem."""
    own = as_composite(risk)
    if own is None:
        if known.outputs is not None:
            raise ValueError(
                f"{path.name} has columns output_0, …, but without [data] and [loss] a run has no "
                "outputs, only a risk: remove these columns, or add the tables"
            )
        return
    count = None if observations is None else len(observations.values) + own.observation
    wanted = "output_0, output_1, …" if count is None else f"output_0 to output_{count - 1}"
    if known.outputs is None:
        raise ValueError(
            f"{path.name} has a risk, but no outputs: a table for this problem needs the columns "
            f"{wanted}, which are {_MEANING}"
        )
    if count is not None and known.outputs.shape[1] != count:
        raise ValueError(
            f"{path.name} has {known.outputs.shape[1]} columns output_…, but the data have {count} "
            f"numbers: {wanted} are {_MEANING}"
        )
    told = np.flatnonzero(np.isfinite(known.risk) & np.isfinite(known.outputs).all(axis=1))
    if not len(told):
        return
    losses = np.asarray(own.loss(own.residuals(known.outputs[told])), dtype=np.float64)
    for row, loss in zip(told, losses, strict=True):
        if not np.isclose(loss, known.risk[row]):
            raise ValueError(
                f"{path.name}, line {row + 2}: risk is {known.risk[row]:.6g}, but the loss of its "
                f"outputs is {loss:.6g}; output_0, output_1, … must be {_MEANING} (version 0.1 "
                "wrote residuals)"
            )
