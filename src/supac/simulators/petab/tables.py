"""Tables of PEtab, tab-separated, with the file, line and column of whatever is wrong."""

from __future__ import annotations

import csv
import difflib
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path


class PEtabError(ValueError):
    """A PEtab problem that cannot be used; the message names file, line and correction."""


def similar(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean …?`, or all known words if none is similar and there are few."""
    every = sorted(set(known))
    close = difflib.get_close_matches(word, every, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; known are {', '.join(every)}" if 0 < len(every) <= 12 else ""


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    file: str
    line: int
    cells: dict[str, str]

    def fail(self, message: str, column: str = "") -> PEtabError:
        """Return the exception for an error in this line."""
        return PEtabError(f"{self.place(column)}: {message}")

    def place(self, column: str = "") -> str:
        """Return where a cell, or this line, is."""
        where = f", column {column}" if column else ""
        return f"{self.file}, line {self.line}{where}"

    def text(self, column: str, default: str = "") -> str:
        """Return the text of a cell; `default` if it is empty or there is no such column."""
        word = self.cells.get(column, "")
        return default if word.lower() in ("", "nan") else word

    def needed(self, column: str) -> str:
        """Return the text of a cell that must not be empty."""
        word = self.text(column)
        if not word:
            raise self.fail("the cell is empty", column)
        return word

    def known(self, column: str, choices: Iterable[str], what: str) -> str:
        """Return the text of a cell, which must be one of some words."""
        word, every = self.needed(column), list(choices)
        if word not in every:
            raise self.fail(f"{word} is not {what}{similar(word, every)}", column)
        return word

    def number(self, column: str, *, infinite: bool = False) -> float:
        """Return the number in a cell."""
        word = self.needed(column)
        try:
            value = float(word)
        except ValueError:
            hint = "; write a point, not a comma" if "," in word else ""
            raise self.fail(f"{word!r} is no number{hint}", column) from None
        if math.isinf(value) and not infinite:
            raise self.fail(f"{word} is not finite", column)
        return value

    def words(self, column: str) -> tuple[str, ...]:
        """Return the parts of a cell between semicolons."""
        return tuple(part.strip() for part in self.text(column).split(";") if part.strip())


@dataclass(frozen=True)
class Table:
    """All lines of the files of one kind."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    @classmethod
    def read(
        cls, paths: Sequence[Path], required: Sequence[str], optional: Sequence[str] = ()
    ) -> Table:
        """Read files one after the other; PEtabError if one lacks a required column.

        A column that is called nearly as an optional one is taken for a mistake, too.
        """
        columns: dict[str, None] = {}
        rows: list[Row] = []
        for path in paths:
            header, found = _read(path)
            for name in required:
                if name not in header:
                    hint = similar(name, header)
                    raise PEtabError(f"{path.name}, line 1: there is no column {name}{hint}")
            for name in header:
                missing = [each for each in optional if each not in header]
                near = difflib.get_close_matches(name, missing, n=1, cutoff=0.85)
                if near and name not in (*required, *optional):
                    words = f"{name} is no column of PEtab; did you mean {near[0]}?"
                    raise PEtabError(f"{path.name}, line 1: {words}")
            columns |= dict.fromkeys(header)
            rows += found
        return cls(tuple(columns), tuple(rows))

    def by_id(self, column: str) -> dict[str, Row]:
        """Return the rows by the ids in a column, each of which may occur once."""
        found: dict[str, Row] = {}
        for row in self.rows:
            name = row.needed(column)
            if name in found:
                first = found[name]
                raise row.fail(f"{name} is in {first.file}, line {first.line}, already", column)
            found[name] = row
        return found


def _read(path: Path) -> tuple[list[str], list[Row]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, delimiter="\t")
            numbered = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise PEtabError(unreadable(path, error)) from error
    lines = [(line, row) for line, row in numbered if any(row)]
    if not lines:
        raise PEtabError(f"{path.name} is empty")
    header = lines[0][1]
    if len(header) == 1 and re.search(r"[,;\s]", header[0]):
        raise PEtabError(f"{path.name}, line 1: columns must be separated by tabs")
    for name in header:
        if name and header.count(name) > 1:
            raise PEtabError(f"{path.name}, line 1: there are two columns {name}: remove one")
    rows = []
    for line, cells in lines[1:]:
        if len(cells) > len(header):
            words = f"{len(cells)} cells, but the header has {len(header)}"
            raise PEtabError(f"{path.name}, line {line}: {words}")
        padded = cells + [""] * (len(header) - len(cells))
        rows.append(Row(path.name, line, dict(zip(header, padded, strict=True))))
    return header, rows


def unreadable(path: Path, error: Exception) -> str:
    """Return the message for a file that cannot be read."""
    if isinstance(error, FileNotFoundError):
        near = [each.name for each in path.parent.glob("*")] if path.parent.is_dir() else []
        close = difflib.get_close_matches(path.name, near, n=1)
        return f"there is no file {path}{f'; did you mean {close[0]}?' if close else ''}"
    if isinstance(error, UnicodeDecodeError):
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        return f"{path.name}, line {line}: this is not text in UTF-8: save the file as such"
    return f"{path.name} cannot be read: {getattr(error, 'strerror', None) or error}"
