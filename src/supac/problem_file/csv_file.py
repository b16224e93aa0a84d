"""Tables that a problem file names: values separated by commas, semicolons or tabs."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Container
from datetime import datetime
from typing import Any

import numpy as np

from supac.arrays import FloatArray
from supac.exchange.text_table import read_rows, unclear_comma, with_point
from supac.problem_file.errors import Key, Source, no_file, suggestion


class CSVFile:
    """A table of separated values: its header, and its non-empty rows by line number.

    Where that is not by commas, decimals may have one. A column "X (g/L)" is found by this name and
    by "X", which then has the unit.
    """

    def __init__(self, source: Source, key: Key):
        self.source, self.key = source, key
        name: Any = source.document
        for part in key:
            name = name[part]
        self.path = source.file(name)
        try:
            self._separator, self.rows = read_rows(self.path)
        except FileNotFoundError as error:
            raise self.fail(no_file(self.path)) from error
        except (OSError, csv.Error) as error:
            reason = getattr(error, "strerror", None) or error
            raise self.fail(f"{self.path.name} cannot be read as CSV: {reason}") from error
        if len(self.rows) < 2:
            raise self.fail(f"{self.path.name} needs a line of names and lines of numbers")
        heads = [name_and_unit(name) for name in self.rows.pop(min(self.rows))]
        self.header = [name for name, _ in heads]
        self._in_full = _without_parentheses(self.header)
        self.units = {name: _in_parentheses(full)[1] for name, full in self._in_full.items()}
        self.units |= {name: unit for name, unit in heads if unit}
        for line, row in self.rows.items():
            if len(row) != len(self.header):
                cells = f"{len(row)} cells, but the header has {len(self.header)}"
                raise self.fail(f"{self.path.name}, line {line}: {cells}")
        self._check_commas()

    def _check_commas(self) -> None:
        """Raise an error if a comma in a number may be that of decimals or that of thousands."""
        unclear = unclear_comma(self._separator, self.rows)
        if unclear:
            raise self.fail(f"{self.path.name}, {unclear}")

    def fail(self, message: str, key: Key = ()) -> Exception:
        """Return the exception for an error of the file, or of another key."""
        return self.source.fail(key or self.key, message)

    def __contains__(self, name: str) -> bool:
        return name in self.header or name in self._in_full

    def unit(self, name: str) -> str | None:
        """Return the unit of a column, also where the name has it: "Time (min)" is in min."""
        return self.units.get(name) or _in_parentheses(name)[1] or None

    def alike(self, name: str) -> str | None:
        """Return the name of a column that differs in capital letters alone; None if none does."""
        names = (*self.header, *self._in_full)
        return next((each for each in names if each.lower() == name.lower()), None)

    def cells(self, name: str, key: Key) -> dict[int, str]:
        """Return the cells of a column by line number."""
        if name not in self:
            hint = suggestion(name, self.header) or f"; its columns are {', '.join(self.header)}"
            raise self.fail(f"{self.path.name} has no column {name}{hint}", key)
        place = self.header.index(self._in_full.get(name, name))
        return {
            line: with_point(row[place].strip(), self._separator) for line, row in self.rows.items()
        }

    def times(self, name: str, key: Key, form: str | None) -> list[float] | list[datetime]:
        """Return a column of numbers, or of dates: ISO 8601, or as `form` says."""
        cells = self.cells(name, key)
        if form is None and all(_is_number(cell) for cell in cells.values()):
            return self.column(name, key, gaps=False).tolist()
        dates = []
        for line, cell in cells.items():
            try:
                dates.append(_date(cell, form))
            except ValueError as error:
                wanted = (
                    "no time: a number, a date such as 2024-03-01 13:30"
                    if form is None
                    else (f"not of the form {form}")
                )
                hint = "" if form else ", or of a form that time_format gives"
                where = f"{self.path.name}, line {line}, column {name}"
                raise self.fail(f"{where}: {cell!r} is {wanted}{hint}") from error
        if len({date.tzinfo is None for date in dates}) > 1:
            raise self.fail(f"{self.path.name}, column {name}: some times have a zone, others not")
        return dates

    def roles(self, name: str, key: Key) -> list[bool]:
        """Return True for rows of the test part."""
        cells = self.cells(name, key)
        for line, cell in cells.items():
            if cell not in ("test", "train"):
                found = f"{cell!r} is neither test nor train"
                raise self.fail(f"{self.path.name}, line {line}, column {name}: {found}")
        return [cell == "test" for cell in cells.values()]

    def column(
        self, name: str, key: Key, *, gaps: bool, missing: Container[str] = ()
    ) -> FloatArray:
        """Return a column as numbers; empty and `missing` cells are NaN if `gaps` are allowed."""
        numbers = []
        for line, cell in self.cells(name, key).items():
            if gaps and cell in missing:
                numbers.append(np.nan)
                continue
            try:
                number = float(cell) if cell else np.nan
            except ValueError:
                number = np.inf
            if not np.isfinite(number) and (cell or not gaps):
                found = f"{cell!r} is no number" if cell else "a number is missing"
                empty = (
                    f"; leave the cell empty where nothing was measured{_as_a_mark(cell)}"
                    if gaps
                    else ""
                )
                raise self.fail(f"{self.path.name}, line {line}, column {name}: {found}{empty}")
            numbers.append(number)
        return np.array(numbers)


def _as_a_mark(cell: str) -> str:
    """Return the setting that takes a cell as a missing measurement; "" if it is no usual mark."""
    usual = cell.lower() in ("na", "n/a", "nan", "null", "none", "-", "--", "missing", "nd", "n.d.")
    return f", or write missing = {json.dumps(cell)} in [data]" if usual else ""


def name_and_unit(cell: str) -> tuple[str, str]:
    """Return the name and the unit of a column: "X [g/L]" has both, "X[3]" is an element of X."""
    match = re.fullmatch(r"(.*\S)(?:\s+|(?!\[[\d, ]+\]))\[([^\[\]]+)\]", cell.strip())
    return (match[1], match[2].strip()) if match else (cell.strip(), "")


def _in_parentheses(cell: str) -> tuple[str, str]:
    """Return "X" and "g/L" for "X (g/L)", and the name without a unit otherwise."""
    match = re.fullmatch(r"(.*\S)\s+\((.*\S.*)\)", cell)
    return (match[1], match[2].strip()) if match else (cell, "")


def _without_parentheses(header: list[str]) -> dict[str, str]:
    """Return the whole name of each column "X (…)" by "X", where only one column may be meant."""
    names = [_in_parentheses(name)[0] for name in header]
    pairs = zip(names, header, strict=True)
    return {short: full for short, full in pairs if short != full and names.count(short) == 1}


def _is_number(cell: str) -> bool:
    try:
        float(cell or "nan")
    except ValueError:
        return False
    return True


def _date(cell: str, form: str | None) -> datetime:
    return datetime.fromisoformat(cell) if form is None else datetime.strptime(cell, form)
