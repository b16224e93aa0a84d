"""Read the table of measurements that a problem file names."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from supac.arrays import FloatArray
from supac.problem.observations import Observations
from supac.problem_file.errors import FileErrors, no_file, suggestion
from supac.problem_file.fingerprints import named_file


def read_observations(table: Mapping[str, Any], folder: Path, errors: FileErrors) -> Observations:
    """Read the observed columns of the data; ProblemFileError if that is impossible."""
    path = named_file(folder, table["file"])
    header, rows = _read(path, errors)
    observed = table["observed"]
    names = [observed] if isinstance(observed, str) else list(observed)

    def column(name: str, key: tuple[str, ...], *, gaps: bool) -> FloatArray:
        if name not in header:
            hint = suggestion(name, header) or f"; its columns are {', '.join(header)}"
            raise errors.fail(key, f"{path.name} has no column {name}{hint}")
        cells = {line: row[header.index(name)] for line, row in rows.items()}
        return _numbers(path, name, cells, errors, gaps=gaps)

    values = [column(name, ("data", "observed"), gaps=True) for name in names]
    for name in names:
        if names.count(name) > 1:
            raise errors.fail(("data", "observed"), f"{name} stands there twice")
    if not np.isfinite(np.concatenate(values)).any():
        raise errors.fail(("data", "observed"), f"{path.name} has no number in these columns")
    _check_noise(table["noise"], names, errors)
    noise = [_noise(table["noise"], name, len(rows), column, errors) for name in names]
    logarithmic = table.get("compare") == "log"
    if logarithmic and not all((v[np.isfinite(v)] > 0.0).all() for v in values):
        raise errors.fail(
            ("data", "compare"),
            f'"log" needs positive data, but {path.name} has others; leave such cells empty, or '
            'use "difference"',
        )
    clock = table.get("time", "time")
    times = None
    if "time" in table or clock in header:
        times = column(clock, ("data", "time"), gaps=False)
    return Observations(
        tuple(names), np.concatenate(values), np.concatenate(noise), logarithmic, times
    )


def _read(path: Path, errors: FileErrors) -> tuple[list[str], dict[int, list[str]]]:
    """Return the header, and the non-empty rows by line number."""
    key = ("data", "file")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            numbered = [(reader.line_num, row) for row in reader]
        lines = {line: row for line, row in numbered if any(cell.strip() for cell in row)}
    except FileNotFoundError as error:
        raise errors.fail(key, no_file(path)) from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise errors.fail(key, f"{path.name} cannot be read as CSV: {reason}") from error
    if len(lines) < 2:
        raise errors.fail(key, f"{path.name} needs a line of names and lines of numbers")
    header = [name.strip() for name in lines.pop(min(lines))]
    if len(header) == 1 and ";" in header[0]:
        raise errors.fail(key, f"{path.name} is divided by semicolons: save it with commas")
    for number, row in lines.items():
        if len(row) != len(header):
            raise errors.fail(
                key,
                f"{path.name}, line {number}: {len(row)} cells, but the header has {len(header)}",
            )
    return header, lines


def _numbers(
    path: Path, name: str, cells: dict[int, str], errors: FileErrors, *, gaps: bool
) -> FloatArray:
    """Convert a column to numbers; empty cells are NaN if `gaps` are allowed."""
    numbers = []
    for row, cell in cells.items():
        try:
            number = float(cell) if cell.strip() else np.nan
        except ValueError:
            number = np.inf
        if np.isinf(number) or (np.isnan(number) and not (gaps and not cell.strip())):
            found = f"{cell.strip()!r} is no number" if cell.strip() else "a number is missing"
            empty = "; leave the cell empty where nothing was measured" if gaps else ""
            raise errors.fail(
                ("data", "file"), f"{path.name}, line {row}, column {name}: {found}{empty}"
            )
        numbers.append(number)
    return np.array(numbers)


def _check_noise(given: Any, names: list[str], errors: FileErrors) -> None:
    """Check that a table of noises has exactly the observed columns."""
    if not isinstance(given, Mapping):
        return
    key = ("data", "noise")
    for other in (name for name in given if name not in names):
        hint = suggestion(other, names) or f"; observed are {', '.join(names)}"
        raise errors.fail((*key, other), f"{other} is not observed{hint}")
    for name in names:
        if name not in given:
            raise errors.fail(key, f"says nothing of {name}, which is observed")


def _noise(given: Any, name: str, rows: int, column: Any, errors: FileErrors) -> FloatArray:
    """Return the noise of one observed column: (rows,)."""
    key: tuple[str, ...] = ("data", "noise")
    if isinstance(given, Mapping):
        given, key = given[name], (*key, name)
    if not isinstance(given, str):
        return np.full(rows, float(given))
    if given.strip().endswith("%"):
        raise errors.fail(
            key,
            "is an error in the unit of the data, or a column; for a share of the value write "
            'compare = "log" and, for 5 %, noise = 0.05',
        )
    noise: FloatArray = column(given, key, gaps=False)
    if not (noise > 0.0).all():
        raise errors.fail(key, f"the column {given} must be above 0 in every row")
    return noise
