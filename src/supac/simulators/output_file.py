"""Numbers in a file that a program has written: JSON, a table, or text with a pattern."""

from __future__ import annotations

import csv
import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from supac.simulators.text_file import read_text_file

_NUMBER = r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:[ed][-+]?\d+)?|nan|inf(?:inity)?)|\*+"
_PLACE = re.compile(r"\{([^{}]*)\}")
_DIVIDERS = (",", ";", "\t")


class OutputError(ValueError):
    """The output is missing, torn, or not what was expected."""


class _Column(list[float]):
    """Numbers that were read, with the line and the word of each."""

    def __init__(self) -> None:
        super().__init__()
        self.places: list[tuple[int, str]] = []

    def add(self, number: float, line: int, word: str) -> None:
        """Append a number."""
        self.append(number)
        self.places.append((line, word))


@dataclass(frozen=True)
class OutputFile:
    """Name of the file that a program writes, and where the outputs are in it.

    `*.json` holds a number, a list, or an object with either under each `key`, which is `a.b` for b
    of an object a. Any other file is a table, a line of names and lines of numbers divided by
    commas, semicolons, tabs or blanks; or, with `pattern`, a text. The name "stdout" is what the
    program prints.
    """

    name: str = "output.json"
    key: str | Sequence[str] | None = None
    """Names of the outputs, which follow one after the other."""
    pattern: str | Sequence[str] = ()
    """Lines of the text with `{X}` where the number X stands, and `{}` for any word: "X = {X}".

    Blanks stand for any number of blanks. A pattern that begins with a brace begins with the line,
    any other may begin within it. All lines that it fits are read.
    """
    times: str | None = None
    """Name of the output with the times, for outputs that are interpolated at `at`."""
    at: Sequence[float] | Mapping[str, Sequence[float]] | None = None
    """Times at which outputs are wanted, or those of each key."""
    rows: int | Mapping[str, int] | None = None
    """Number of values of each output, if it is known."""
    needed: Mapping[str, Sequence[bool]] | None = None
    """True for the values of each key that must be finite, if that is known."""
    asks: Callable[[int], str] = "the data have {} rows".format
    """Makes words for a message of that number."""

    def __post_init__(self) -> None:
        patterns = (self.pattern,) if isinstance(self.pattern, str) else tuple(self.pattern)
        object.__setattr__(self, "pattern", patterns)
        key = self.key
        if key is not None and not isinstance(key, str):
            object.__setattr__(self, "key", tuple(key))
        if (self.times is None) != (self.at is None):
            raise ValueError("times and at belong together: a column of the output, and the times")
        places = {place for each in patterns for place in _PLACE.findall(each)}
        for name in (*self.keys, self.times) if patterns else ():
            if name is not None and name not in places:
                raise ValueError(f"pattern has no {{{name}}}, which stands for a number of {name}")

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the outputs; empty if there is only one."""
        return (self.key,) if isinstance(self.key, str) else tuple(self.key or ())

    def read(self, folder: Path) -> Any:
        """Return a number or a list of numbers; OutputError if they are not all there."""
        text = self._text(folder)
        if self.pattern:
            return self._chosen(self._found(text))
        if not self.name.endswith(".json"):
            return self._chosen(self._table(text))
        try:
            answer = json.loads(text)
        except ValueError as error:
            raise OutputError(f"{self.name} is not JSON: {error}") from error
        return self._chosen(_flat(answer)) if isinstance(answer, dict) else answer

    def table(self, folder: Path) -> Mapping[str, list[float]]:
        """Return all columns of a table by name."""
        return self._table(self._text(folder))

    def _text(self, folder: Path) -> str:
        path = folder / ("stdout.txt" if self.name == "stdout" else self.name)
        try:
            return read_text_file(path)
        except FileNotFoundError as error:
            others = [each.name for each in path.parent.glob("*")] if path.parent.is_dir() else []
            near = difflib.get_close_matches(path.name, others, n=1, cutoff=0.8)
            hint = f", but {near[0]}" if near else ""
            raise OutputError(f"the program wrote no {self.name}{hint}") from error
        except OSError as error:
            raise OutputError(f"{self.name} cannot be read: {error}") from error

    def _found(self, text: str) -> dict[str, _Column]:
        """Return the numbers of each name in a text with patterns."""
        found: dict[str, _Column] = {}
        for pattern in self.pattern:
            expression, names = _expression(pattern)
            for name in names:
                found.setdefault(name, _Column())
            for number, line in enumerate(text.splitlines(), start=1):
                match = expression.search(line)
                for name, word in zip(names, match.groups() if match else (), strict=False):
                    found[name].add(self._number(word, number, name), number, word)
        empty = next((name for name in found if not found[name]), None)
        if empty is not None:
            raise OutputError(f"{self.name} has no line with {empty} as in pattern")
        return found

    def _table(self, text: str) -> dict[str, _Column]:
        """Return the columns of a table."""
        lines = [(i, line) for i, line in enumerate(text.splitlines(), start=1) if line.strip()]
        if not lines:
            raise OutputError(f"{self.name} is empty")
        first = re.sub(r"^\s*[#%!]\s*", "", lines[0][1])
        divider = next((each for each in _DIVIDERS if each in first), None)

        def cells(line: str) -> list[str]:
            if divider is None:
                return line.split()
            return [cell.strip() for cell in next(csv.reader([line], delimiter=divider))]

        header = cells(first)
        columns = {name: _Column() for name in header}
        wanted = {*self.keys, self.times} if self.keys else set(header)
        for number, line in lines[1:]:
            row = cells(line)
            if len(row) != len(header):
                counts = f"{len(row)} cells, but its first line has {len(header)}"
                raise OutputError(f"{self.name}, line {number}: {counts}")
            for name, cell in zip(header, row, strict=True):
                if name in wanted:
                    columns[name].add(self._number(cell, number, name), number, cell)
        return columns

    def _number(self, word: str, line: int, name: str) -> float:
        """Convert a number as C, Fortran or Python print it."""
        if word.strip("*") == "" and word:
            words = "stars for a number that did not fit its field"
            raise OutputError(f"{self.name}, line {line}: {name} is {words}")
        try:
            return float(word.lower().replace("d", "e"))
        except ValueError as error:
            raise OutputError(f"{self.name}, line {line}: {name} is {word!r}") from error

    def _chosen(self, answer: Mapping[str, Any]) -> Any:
        """Return the outputs of the keys, one after the other."""
        if self.key is None:
            if len(answer) == 1 and self.times is None:
                return self._checked(*next(iter(answer.items())), answer)
            has = ", ".join(sorted(answer)) or "nothing"
            raise OutputError(f"{self.name} has {has}: say with key= which is the answer")
        for key in self.keys:
            self._check_present(key, answer)
        if isinstance(self.key, str):
            return self._checked(self.key, answer[self.key], answer)
        parts = [self._checked(key, answer[key], answer) for key in self.keys]
        return [value for part in parts for value in (part if isinstance(part, list) else [part])]

    def _check_present(self, key: str, answer: Mapping[str, Any]) -> None:
        if key not in answer:
            has = ", ".join(sorted(answer)) or "nothing"
            raise OutputError(f"{self.name} has no {key!r}, but {has}")

    def _checked(self, key: str, values: Any, answer: Mapping[str, Any]) -> Any:
        """Return the values of an output, as many as are expected."""
        if self.times is not None and self.at is not None:
            self._check_present(self.times, answer)
            sampled, clock = self._sampled(key, values, answer[self.times]), answer[self.times]
            for place in self._missing(key, sampled)[:1]:
                raise self._not_finite(key, values, self._cause(key, place, values, clock))
            return sampled
        count = len(values) if isinstance(values, list) else 1
        rows = self.rows[key] if isinstance(self.rows, Mapping) else self.rows
        if rows is not None and count != rows:
            words = f"{count} numbers for {key}, but {self.asks(rows)}"
            raise OutputError(f"{self.name} has {words}")
        for place in self._missing(key, values)[:1]:
            raise self._not_finite(key, values, place)
        return values

    def _missing(self, key: str, values: Any) -> list[int]:
        """Return the places of needed values that are not finite."""
        needed = None if self.needed is None else self.needed.get(key)
        try:
            finite = np.isfinite(np.atleast_1d(np.asarray(values, dtype=np.float64)))
        except (TypeError, ValueError):  # told by whoever asks for the numbers
            return []
        if needed is None or finite.shape != (len(needed),):
            return []
        return np.flatnonzero(np.asarray(needed) & ~finite).tolist()

    def _cause(self, key: str, place: int, values: Any, clock: Any) -> int:
        """Return the place of the value that made an interpolated one not finite."""
        at = self.at[key] if isinstance(self.at, Mapping) else self.at
        bad = np.flatnonzero(~np.isfinite(np.asarray(values, dtype=np.float64)))
        distance = np.abs(np.asarray(clock, dtype=np.float64)[bad] - np.asarray(at)[place])
        return int(bad[np.argmin(distance)])

    def _not_finite(self, key: str, values: Any, place: int) -> OutputError:
        """Return the error of a value that is not finite, with its line if it has one."""
        if isinstance(values, _Column):
            line, word = values.places[place]
            return OutputError(f"{self.name}, line {line}: {key} is {word}")
        if isinstance(values, list):
            return OutputError(f"{self.name}: number {place + 1} of {key} is {values[place]}")
        return OutputError(f"{self.name}: {key} is {values}")

    def _sampled(self, key: str, values: Any, times: Any) -> list[float]:
        """Interpolate an output, linearly, at the times that are wanted."""
        clock, series = (np.asarray(each, dtype=np.float64).ravel() for each in (times, values))
        at = self.at[key] if isinstance(self.at, Mapping) else self.at
        wanted = np.asarray(at, dtype=np.float64)
        if len(clock) != len(series):
            counts = f"{len(clock)} times, but {len(series)} numbers for {key}"
            raise OutputError(f"{self.name} has {counts}")
        if not (np.diff(clock) >= 0.0).all():
            raise OutputError(f"{self.name}: the times {self.times} do not increase")
        slack = 1e-9 * max(1.0, float(np.abs(wanted).max()))
        if not len(clock) or clock[0] > wanted.min() + slack or clock[-1] < wanted.max() - slack:
            reach = f"from {clock[0]:g} to {clock[-1]:g}" if len(clock) else "nowhere"
            needed = f"outputs are needed from {wanted.min():g} to {wanted.max():g}"
            raise OutputError(f"{self.name}: {self.times} goes {reach}, but {needed}")
        sampled: list[float] = np.interp(wanted, clock, series).tolist()
        return sampled


def _flat(answer: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Return the values of nested objects by their keys with points between them."""
    found: dict[str, Any] = {}
    for key, value in answer.items():
        inner = isinstance(value, dict)
        found |= _flat(value, f"{before}{key}.") if inner else {f"{before}{key}": value}
    return found


def _expression(pattern: str) -> tuple[re.Pattern[str], list[str]]:
    """Return a pattern as a regular expression, and the names of its numbers in order."""
    parts = _PLACE.split(pattern.strip())  # text, name, text, name, …, text
    words, names = [_literal(parts[0])], []
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        # The whole number, but for a unit that stands right behind it.
        end = "" if text[:1].isalpha() else r"(?![\w.])"
        words += [rf"\s*({_NUMBER}){end}" if name else r"\S+", _literal(text)]
        names += [name] if name else []
    begin = r"^\s*" if pattern.strip().startswith("{") else r"(?<!\w)"
    return re.compile(begin + "".join(words), re.IGNORECASE), names


def _literal(text: str) -> str:
    """Return a text as a regular expression in which blanks stand for any number of blanks.

    Also for none beside a sign such as "=".
    """
    first, *others = re.split(r"\s+", text)
    words, before = re.escape(first), first
    for word in others:
        beside = re.search(r"[^\w\s]", before[-1:] + word[:1])
        words += (r"\s*" if beside else r"\s+") + re.escape(word)
        before = word
    return words
