"""On which line of a TOML text each key is: the standard library's reader does not tell."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable

Key = tuple[str | int, ...]
"""A key with the tables that it is in, and the places in arrays: ("parameters", "k", "unit")."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_QUOTES = ('"""', "'''", '"', "'")


def key_lines(text: str) -> dict[Key, int]:
    """The line of every key, table and array entry of a valid TOML text, counted from 1."""
    scanner = _Scanner(text)
    scanner.scan()
    return scanner.lines


def line_of(lines: dict[Key, int], key: Key) -> int | None:
    """The line of a key; where it is missing, that of the table it should be in."""
    for length in range(len(key), 0, -1):
        if key[:length] in lines:
            return lines[key[:length]]
    return None


class _Scanner:
    """Walks over a text that is known to be valid, so that it needs no errors of its own."""

    def __init__(self, text: str):
        self._text, self._at = text, 0
        self._ends = [match.start() for match in re.finditer("\n", text)]
        self._counts: dict[Key, int] = {}  # how many tables each array of tables has
        self.lines: dict[Key, int] = {}

    def scan(self) -> None:
        table: Key = ()
        while self._skip_blank():
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> Key:
        """[a.b] or [[a.b]]; one of an array of tables gets its place in the array."""
        line, several = self._line(), self._text.startswith("[[", self._at)
        self._at += 2 if several else 1
        names = self._names()
        self._at = self._text.index("]", self._at) + (2 if several else 1)
        table: Key = ()
        for place, name in enumerate(names):
            table = (*table, name)
            last = place == len(names) - 1
            if last and several:
                self.lines.setdefault(table, line)
                self._counts[table] = self._counts.get(table, -1) + 1
            if table in self._counts:
                table = (*table, self._counts[table])
            self.lines.setdefault(table, line)
        return table

    def _pair(self, table: Key) -> None:
        line = self._line()
        for name in self._names():
            table = (*table, name)
            self.lines.setdefault(table, line)
        self._at = self._text.index("=", self._at) + 1
        self._skip_blank()
        self._value(table)

    def _value(self, key: Key) -> None:
        start = self._text[self._at]
        if start in "\"'":
            self._string()
        elif start == "{":
            self._members("}", lambda place: self._pair(key))
        elif start == "[":
            self._members("]", lambda place: self._entry((*key, place)))
        else:
            while self._at < len(self._text) and self._text[self._at] not in ",]}\n#":
                self._at += 1

    def _entry(self, key: Key) -> None:
        self.lines[key] = self._line()
        self._value(key)

    def _members(self, end: str, member: Callable[[int], None]) -> None:
        """What stands between brackets, divided by commas."""
        self._at += 1
        place = 0
        while self._skip_blank() and self._text[self._at] != end:
            if self._text[self._at] == ",":
                self._at += 1
                continue
            member(place)
            place += 1
        self._at += 1

    def _names(self) -> list[str]:
        """The parts of a dotted key."""
        names = []
        while True:
            self._skip_blank()
            if self._text[self._at] in "\"'":
                names.append(self._string())
            else:
                match = _BARE.match(self._text, self._at)
                assert match is not None
                names.append(match.group())
                self._at = match.end()
            while self._text[self._at] in " \t":
                self._at += 1
            if self._text[self._at] != ".":
                return names
            self._at += 1

    def _string(self) -> str:
        quote = next(each for each in _QUOTES if self._text.startswith(each, self._at))
        start = self._at + len(quote)
        end = start
        while not self._text.startswith(quote, end):
            end += 2 if self._text[end] == "\\" and quote[0] == '"' else 1
        if len(quote) == 3:  # it may end with quotes of its own
            while self._text.startswith(quote[0], end + 3):
                end += 1
        self._at = end + len(quote)
        return self._text[start:end]

    def _skip_blank(self) -> bool:
        """Past spaces, new lines and comments; False at the end of the text."""
        while self._at < len(self._text):
            if self._text[self._at] == "#":
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            elif self._text[self._at].isspace():
                self._at += 1
            else:
                return True
        return False

    def _line(self) -> int:
        return bisect_right(self._ends, self._at - 1) + 1
