"""Read the tables that a problem file names: measurements, and runs that were made elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from supac.arrays import FloatArray
from supac.exchange.known import KnownRuns, read_csv
from supac.problem import Composite, Observations, Parameters
from supac.problem_file.csv_file import CSVFile
from supac.problem_file.errors import Key, Source, no_file, suggestion

_MEANING = "what the simulator returns, column after column, as `supac export` writes it"


def read_observations(source: Source) -> Observations:
    """Read the observed columns of the data; ProblemFileError if that is impossible."""
    table, data = source.table("data"), CSVFile(source, ("data", "file"))
    observed, key = table["observed"], ("data", "observed")
    names = [observed] if isinstance(observed, str) else list(observed)
    values = [data.column(name, key, gaps=True) for name in names]
    for name in names:
        if names.count(name) > 1:
            raise source.fail(key, f"{name} stands there twice")
    if not np.isfinite(np.concatenate(values)).any():
        raise source.fail(key, f"{data.path.name} has no number in these columns")
    noise = _noise(table["noise"], names, data)
    logarithmic = table.get("compare") == "log"
    if logarithmic and not all((v[np.isfinite(v)] > 0.0).all() for v in values):
        raise source.fail(
            ("data", "compare"),
            f'"log" needs positive data, but {data.path.name} has others; leave such cells empty, '
            'or use "difference"',
        )
    clock = table.get("time", "time")
    times = None
    if "time" in table or clock in data.header:
        times = data.column(clock, ("data", "time"), gaps=False)
    blocks = (
        data.column(table["blocks"], ("data", "blocks"), gaps=False) if "blocks" in table else None
    )
    return Observations(
        tuple(names),
        np.concatenate(values),
        np.concatenate(noise),
        logarithmic=logarithmic,
        times=times,
        blocks=blocks,
        sequential=table.get("sequential") or None,
    )


def held_out(source: Source, every: Observations) -> tuple[Observations, Observations | None]:
    """Return the data that the search sees, and those that it does not, if there are any."""
    given = source.table("data").get("test")
    if given is None:
        return every, None
    names, key = [given] if isinstance(given, str) else list(given), ("data", "test")
    test: Any = names
    if len(names) == 1 and names[0] not in every.columns:
        test = CSVFile(source, ("data", "file")).roles(names[0], key)
    try:
        return every.split(test)
    except ValueError as error:
        raise source.fail(key, str(error)) from error


def _noise(given: Any, names: list[str], data: CSVFile) -> list[FloatArray]:
    """Return the noise of each observed column: (rows,); a table must have exactly these."""
    key = ("data", "noise")
    if not isinstance(given, Mapping):
        return [_column_noise(given, key, data) for _ in names]
    for other in (name for name in given if name not in names):
        hint = suggestion(other, names) or f"; observed are {', '.join(names)}"
        raise data.fail(f"{other} is not observed{hint}", (*key, other))
    for name in names:
        if name not in given:
            raise data.fail(f"says nothing of {name}, which is observed", key)
    return [_column_noise(given[name], (*key, name), data) for name in names]


def _column_noise(given: str | float, key: Key, data: CSVFile) -> FloatArray:
    if not isinstance(given, str):
        return np.full(len(data.rows), float(given))
    if given.strip().endswith("%"):
        words = (
            "is an error in the unit of the data, or a column; for a share of the value write "
            'compare = "log" and, for 5 %, noise = 0.05'
        )
        raise data.fail(words, key)
    noise = data.column(given, key, gaps=False)
    if not (noise > 0.0).all():
        raise data.fail(f"the column {given} must be above 0 in every row", key)
    return noise


def read_known(
    source: Source,
    parameters: Parameters,
    risk: Callable[..., Any],
    observations: Observations | None,
) -> KnownRuns:
    """Read the known runs; ProblemFileError if that is impossible or they do not fit."""
    path = source.file(source.table("run")["known"])
    try:
        known = read_csv(path, parameters)
        _check_known(path, known, risk, observations)
    except (OSError, ValueError) as error:
        words = str(error)
        if isinstance(error, FileNotFoundError):
            words = no_file(path)
        elif isinstance(error, OSError):
            words = f"{path.name} cannot be read: {error.strerror}"
        raise source.fail(("run", "known"), words) from error
    return known


def _check_known(
    path: Path, known: KnownRuns, risk: Callable[..., Any], observations: Observations | None
) -> None:
    """Raise ValueError if the columns do not fit the problem."""
    if not isinstance(risk, Composite):
        if known.outputs is not None:
            raise ValueError(
                f"{path.name} has columns output_0, …, but without [data] and [loss] a run has no "
                "outputs, only a risk: remove these columns, or add the tables"
            )
        return
    count = None if observations is None else len(observations.values)
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
    losses = np.asarray(risk.loss(risk.residuals(known.outputs[told])), dtype=np.float64)
    for row, loss in zip(told, losses, strict=True):
        if not np.isclose(loss, known.risk[row]):
            raise ValueError(
                f"{path.name}, line {row + 2}: risk is {known.risk[row]:.6g}, but the loss of its "
                f"outputs is {loss:.6g}; output_0, output_1, … must be {_MEANING} (version 0.1 "
                "wrote residuals)"
            )
