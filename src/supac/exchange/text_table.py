"""Tables of separated values as programs and spreadsheets write them."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import numpy as np

from supac.arrays import FloatArray
from supac.simulators.text_file import read_text_file

_SEPARATORS = (";", "\t", ",")
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d*(?:[eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")  # or three decimals
_NUMBER = re.compile(r"[+-]?[\d,]*\.?\d*(?:[eE][+-]?\d+)?")


def read_rows(path: Path) -> tuple[str, dict[int, list[str]]]:
    """Return what separates the cells of a table, and its rows that are not empty, by line."""
    lines = io.StringIO(read_text_file(path), newline="").readlines()
    separator = _separator(lines)
    reader = csv.reader(lines, delimiter=separator)
    numbered = [(reader.line_num, row) for row in reader]
    return separator, {line: row for line, row in numbered if any(cell.strip() for cell in row)}


def _separator(lines: list[str]) -> str:
    """Return what separates the cells: it is in the header and in the first row most often."""
    first = [line for line in lines if line.strip()][:2]
    counts = {each: min((line.count(each) for line in first), default=0) for each in _SEPARATORS}
    return max(counts, key=lambda each: counts[each]) if any(counts.values()) else ","


def with_point(cell: str, separator: str) -> str:
    """Return a number with a decimal comma as one with a point, and other cells as they are."""
    comma = separator != "," and _DECIMAL_COMMA.fullmatch(cell)
    return cell.replace(",", ".") if comma else cell


def unclear_comma(separator: str, rows: dict[int, list[str]]) -> str:
    """Return the error of a comma that may be that of decimals or that of thousands; "" if none.

    Cells like 1,597 may be either. They are decimals if all numbers of the file are like them, or
    if a number such as 0,5 can only be a decimal and none has a point.
    """
    cells = [(line, cell.strip()) for line, row in rows.items() for cell in row]
    unclear = [(line, cell) for line, cell in cells if _THOUSANDS.fullmatch(cell)]
    if separator == "," or not unclear:
        return ""
    others = [cell for _, cell in cells if cell and _NUMBER.fullmatch(cell)]
    others = [cell for cell in others if not _THOUSANDS.fullmatch(cell)]
    clear = any("," in cell for cell in others)
    if not others or (clear and all("." not in each and each.count(",") < 2 for each in others)):
        return ""
    line, cell = unclear[0]
    return (
        f"line {line}: {cell} may be {cell.replace(',', '')} or {cell.replace(',', '.')}: write "
        "all numbers of the file with a decimal point, none with a comma"
    )


class TextTable:
    """A table of numbers and words: its header, and its rows by line number.

    ValueError with the line of what cannot be read; only columns that are asked for are numbers.
    """

    def __init__(self, path: Path):
        self.path = path
        try:
            self._separator, self.rows = read_rows(path)
        except csv.Error as error:
            raise ValueError(f"{path} is not a table of separated values: {error}") from error
        first = min(self.rows, default=None)
        self.header = [] if first is None else [cell.strip() for cell in self.rows.pop(first)]
        for line, row in self.rows.items():
            if len(row) > len(self.header):
                cells = f"{len(row)} cells, but the header has {len(self.header)}"
                raise ValueError(f"{path}, line {line}: {cells}")
        unclear = unclear_comma(self._separator, self.rows)
        if unclear:
            raise ValueError(f"{path}, {unclear}")

    @property
    def lines(self) -> list[int]:
        """Line number of each row."""
        return list(self.rows)

    def words(self, name: str) -> list[str]:
        """Return a column as texts; "" where a row is too short."""
        place = self.header.index(name)
        return [row[place].strip() if place < len(row) else "" for row in self.rows.values()]

    def numbers(self, name: str, *, words_are_gaps: bool = False) -> FloatArray:
        """Return a column as numbers; NaN for empty cells."""
        found = []
        for line, cell in zip(self.rows, self.words(name), strict=True):
            try:
                found.append(float(with_point(cell, self._separator) or "nan"))
            except ValueError as error:
                if words_are_gaps:
                    found.append(np.nan)
                    continue
                where = f"{self.path}, line {line}, column {name}"
                raise ValueError(f"{where}: {cell!r} is no number") from error
        return np.array(found, dtype=np.float64)


def places_of_outputs(
    header: list[str], alternatives: list[list[str]], needed: list[bool] | None, table: str
) -> list[str | None] | None:
    """Return the column of each output, None for one that nobody needs and that is not there.

    Names are those of one of the alternatives; None if the header has no name of any. ValueError
    if it has some, but not all that are needed.
    """
    have = set(header)
    names = max(alternatives, key=lambda each: len(have & set(each)), default=[])
    if not have & set(names):
        return None
    missing = [
        name for i, name in enumerate(names) if name not in have and (needed is None or needed[i])
    ]
    if missing:
        start = re.split(r"[@_]\d", missing[0])[0]
        others = [n for n in header if n not in names and re.match(rf"{re.escape(start)}[@_]", n)]
        are = "are no measurements" if len(others) > 1 else "is no measurement"
        none = f" ({', '.join(others[:4])} {are} of these data)" if others else ""
        count = len(missing) - 1
        more = f", nor {count} other output{'s' * (count > 1)}" if count else ""
        known = " or ".join(f"{', '.join(each[:6])}, …" for each in alternatives)
        raise ValueError(f"{table} has no column {missing[0]}{more}{none}; outputs are {known}")
    return [name if name in have else None for name in names]
