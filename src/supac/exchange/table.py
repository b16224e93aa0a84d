"""Tables of runs and draws in the user's units, and their files: CSV, and Parquet."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from supac.arrays import FloatArray
from supac.families import Distribution
from supac.guarantee.ensemble import Ensemble
from supac.guarantee.origin import COLUMN
from supac.problem import (
    Evaluations,
    MeasuredOutputs,
    Parameters,
    names_of,
)
from supac.problem.columns import as_column_loss
from supac.problem.data import as_observations
from supac.record.record import Record, read_store
from supac.surrogate.importance import Importance, weighed
from supac.surrogate.regime import Regime

Table = dict[str, list[Any]]
"""Columns of one length; None for unknown values."""

OUTPUT = "output_"
_TOLD = ("status", "iteration", "seconds", "attempts", "message", "source", "purpose", "role")
_BOOKKEEPING = ("risk", "id", "drawn", "weight", "level", "simulator", COLUMN, *_TOLD)


def table_of(record: Record, *, posterior: int | None = None, seed: int = 0) -> Table:
    """Return columns with one row per run, or with `posterior` draws instead."""
    if posterior is not None:
        return table_of_draws(record.sample(posterior, seed), record.parameters)
    record.check_runs()
    table = table_of_runs(record)
    drawn, weight = _drawn_and_weight(record)
    keys = [(run.task, run.id) for run in record.light_runs]
    told: Table = {
        "drawn": [drawn.get(key) for key in keys],
        "weight": [weight.get(key) for key in keys],
    }
    outputs = {name: table.pop(name) for name in list(table) if is_output(name)}
    return table | told | outputs


def table_of_runs(record: Record) -> Table:
    """Return columns with one row per run, without those that depend on the posterior."""
    header, *rows = rows_of(record)
    columns = zip(*rows, strict=True) if rows else ([] for _ in header)
    return {name: list(column) for name, column in zip(header, columns, strict=True)}


def rows_of(record: Record) -> Iterator[list[Any]]:
    """Yield the header, then one row per run; from a file, with one run in memory at a time."""
    parameters, light = record.parameters, record.light_runs
    iteration: dict[tuple[int, int], int] = {}
    for task in {each.task for each in record.rounds}:
        mine = (each.ids for each in record.rounds if each.task == task)
        iteration |= {(task, run): i for i, ids in enumerate(mine) for run in ids}
    points = record.points(light)
    width = next(filter(None, map(record.width_of, light)), 0)  # a failed run has no outputs
    names = columns_of(names_of(parameters, points.shape[1]))
    tasks = apart(["task"], lambda name: name in names) if any(run.task for run in light) else []
    made_by = record.simulator_numbers
    changed = ["simulator"] if len(set(made_by.values())) > 1 else []
    levels = apart(["level"], lambda name: name in names) if record.coarse_runs else []
    header = ["id", *names, "risk", *_TOLD, *levels, *changed, *tasks]
    yield [*header, *(f"{OUTPUT}{i}" for i in range(width))]
    for run, x in zip(record.iterate(), points, strict=True):
        cells = [None] * width if run.outputs is None else run.outputs.tolist()
        point = [run.id, *x.tolist(), None if np.isnan(run.risk) else float(run.risk)]
        numbers = [iteration.get((run.task, run.id)), run.seconds, run.attempts]
        words: list[Any] = [run.message, run.source, run.purpose, run.role.name.lower()]
        words += [run.level] if levels else []
        words += [made_by.get(run.id)] if changed else []
        words += [run.task] if tasks else []
        outputs = (cells + [None] * width)[:width]
        yield [*point, run.status.value, *numbers, *words, *outputs]


def table_of_ensemble(record: Record, ensemble: Ensemble) -> Table:
    """Return the parameter sets of an ensemble, with their risks and outputs.

    An output that the data have is named by its column and its time, or its row from 0 on, or as
    the data name it, and is as it would be measured. Where that differs from what the simulator
    returned, this follows as output_0, output_1, …, as in tables of runs.
    """
    table = table_of_draws(ensemble.x, record.parameters)
    told = {"risk": ensemble.risk, "log_ratio": ensemble.log_ratio}
    if ensemble.outputs is not None:
        width = ensemble.outputs.shape[1] - record.observation  # which have columns already
        told |= _named_outputs(record, ensemble.outputs[:, :width], ensemble.x)
    names = apart(list(table), lambda name: name in told or name == COLUMN)
    sets = dict(zip(names, table.values(), strict=True))
    return sets | _with_gaps(told)


def table_of_bands(record: Record, coverage: float) -> Table:
    """Return each observed column's measurements, mean predictions and bands, one row each."""
    bands, data = record.bands(coverage), record.settings.data
    held_out, measured = record.held_out_data, data.values
    if held_out is not None:
        measured = np.where(held_out.needed, held_out.values, measured)
    times = np.arange(1.0, data.rows + 1.0) if data.times is None else data.times
    told = {
        "row" if data.times is None else "time": np.tile(times, len(data.columns)),
        "measured": measured,
        "predicted": bands.centre,
        "lower": bands.lower,
        "upper": bands.upper,
    }
    table: Table = {"column": np.repeat(data.columns, data.rows).tolist()} | _with_gaps(told)
    if data.experiments is None:
        return table
    there = np.flatnonzero(data.present)
    table = {"experiment": list(data.experiments) * len(data.columns)} | table
    return {name: [column[i] for i in there] for name, column in table.items()}


def _with_gaps(columns: dict[str, FloatArray]) -> Table:
    """Return columns of numbers, None for NaN."""
    return {
        name: [None if np.isnan(each) else float(each) for each in column]
        for name, column in columns.items()
    }


def _named_outputs(record: Record, simulated: FloatArray, x: FloatArray) -> dict[str, FloatArray]:
    """Return outputs (n, m) at points x (n, dim) by name, as they would be measured."""
    names, loss = _output_names(record, simulated.shape[1]), record.settings.loss
    own = as_column_loss(loss)
    in_rows = MeasuredOutputs.of(record.settings.data)
    if in_rows is not None and in_rows.simulated == simulated.shape[1]:
        measured, named = in_rows.outputs(simulated, x), list(in_rows.names)
    elif own is not None and len(own.scales) == simulated.shape[1]:
        measured, named = own.cells(record.observation).outputs(simulated, x), names
    else:  # a loss of one's own may do anything with its parameters
        measured, named = simulated, names
        if record.observation:
            named = [f"{OUTPUT}{i}" for i in range(len(names))]
    as_returned = dict(zip((f"{OUTPUT}{i}" for i in range(len(names))), simulated.T, strict=True))
    same = measured.shape == simulated.shape and np.array_equal(measured, simulated, equal_nan=True)
    return dict(zip(named, measured.T, strict=True)) | ({} if same else as_returned)


def _output_names(record: Record, width: int) -> list[str]:
    """Return names of all outputs of a run: those of the data, if they are known."""
    data = record.settings.data
    observed = as_observations(data)
    names = getattr(data, "output_names", []) if observed is None else observed.cell_names
    return names if len(names) == width else [f"{OUTPUT}{i}" for i in range(width)]


def table_of_draws(draws: FloatArray, parameters: Parameters | None) -> Table:
    """Return draws in the user's units, (n, dim), as one column per parameter."""
    names = names_of(parameters, draws.shape[1])
    return {name: draws[:, i].tolist() for i, name in enumerate(names)}


_Key = tuple[int, int]


def _drawn_and_weight(record: Record) -> tuple[dict[_Key, bool], dict[_Key, float]]:
    """Return, by task and id, True for random draws, and the importance weight.

    Runs of a coarse model have neither.
    """
    batches = [(each.task, each.ids) for each in record.rounds]
    if record.ending is not None:
        batches += [(0, each.ids) for each in record.ending.validation]
    coarse = record.coarse_ids
    keys = [(task, run) for task, ids in batches for run in ids if run not in coarse]
    role = {(run.task, run.id): run.role for run in record.light_runs}
    drawn = {key: role[key].drawn for key in keys}
    posterior = record.posterior
    if posterior is None or len(record.evaluations) != len(keys):
        return drawn, {}
    weights = _weights(record.evaluations, posterior)
    return drawn, {key: float(w) for key, w in zip(keys, weights, strict=True) if not np.isnan(w)}


def _weights(evaluations: Evaluations, posterior: Distribution) -> FloatArray:
    """Compute the importance weight of each run for the posterior; NaN if it has none.

    Runs of many parameters have none: they never cover a posterior, and turn to new directions.
    """
    weights = np.full(len(evaluations), np.nan)
    if Regime.of(posterior.dim).is_many:
        return weights
    counted = weighed(evaluations) & evaluations.ok
    if counted.any():
        fitted = Importance().fit(evaluations.select(counted), posterior)
        weights[counted] = fitted.weights(posterior)
    return weights


def columns_of(names: Sequence[str]) -> list[str]:
    """Return columns for parameters that differ from the other columns of runs."""
    return apart(names, lambda name: name in _BOOKKEEPING or is_output(name))


def apart(names: Sequence[str], means_another: Callable[[str], bool]) -> list[str]:
    """Append `_` to names that are reserved until they are free."""
    taken = {name for name in names if not means_another(name)}
    found = []
    for name in names:
        free = name
        while means_another(free) or (free != name and free in taken):
            free += "_"
        taken.add(free)
        found.append(free)
    return found


def is_output(name: str) -> bool:
    """Return True if a column of this name holds outputs."""
    return re.fullmatch(rf"{OUTPUT}[0-9]+", name) is not None


# Files


def export(
    store: str | os.PathLike[str], path: str | os.PathLike[str], *, force: bool = False
) -> int:
    """Write all runs of a store to a `.csv` or `.parquet`, and return their number.

    Parameters are in the user's units; an existing file is replaced only with `force`. The column
    `origin` says which data the search has seen, for one that begins from these runs.
    """
    target, record = table_file(path, force=force), read_store(store)
    if target.suffix == ".parquet":
        write_table(target, with_origin(record, table_of_runs(record)))
    else:
        cells = [COLUMN, *record.origin.to_cells(len(record.light_runs))]
        rows = zip(rows_of(record), cells, strict=True)
        _write_csv(target, ([*row, cell] for row, cell in rows))
    return len(record.light_runs)


def with_origin(record: Record, table: Table) -> Table:
    """Add the column by which a search that begins from these rows knows what was seen."""
    rows = len(next(iter(table.values())))
    return table | {COLUMN: record.origin.to_cells(rows)}


def table_file(path: str | os.PathLike[str], *, force: bool) -> Path:
    """Return the path of a table to write; raise for another suffix or an existing file."""
    target = Path(path)
    if target.suffix not in (".csv", ".parquet"):
        raise ValueError(f"the table must be a .csv or a .parquet, not {target.name}")
    return vacant(target, force=force)


def vacant(target: Path, *, force: bool) -> Path:
    """Return the path; FileExistsError if it exists and `force` is false."""
    if target.exists() and not force:
        raise FileExistsError(f"{target} already exists; pass force=True to replace it")
    return target


def write_table(target: Path, table: Table) -> None:
    """Write a table to a file; an unknown value is an empty cell."""
    if target.suffix == ".parquet":
        _write_parquet(target, table)
    else:
        _write_csv(target, chain([list(table)], zip(*table.values(), strict=True)))


def _write_csv(target: Path, rows: Iterable[Iterable[Any]]) -> None:
    """Write rows one at a time; floats with all their digits, None as an empty cell."""
    with target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        for row in rows:
            writer.writerow(
                ["" if v is None else repr(v) if isinstance(v, float) else v for v in row]
            )


def _write_parquet(path: Path, table: Table) -> None:
    try:
        import pyarrow  # noqa: PLC0415
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise ImportError("Parquet needs pyarrow: pip install 'supac[parquet]'") from error
    parquet.write_table(pyarrow.table(table), path)
