"""PEST instruction files: where the outputs stand in the files that the model writes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from supac.simulators.pest.errors import PestError, fail

_DUMMY = "dum"  # a number that is read and forgotten
_INSTRUCTIONS = (
    r"@(?P<marker>[^@]*)@|(?P<goes_on>&)|!(?P<free>[^!]+)!|(?P<blank>w)(?!\S)"
    r"|l(?P<lines>\d+)(?!\S)|t(?P<tab>\d+)(?!\S)"
    r"|(?:\[(?P<fixed>[^]]+)\]|\((?P<around>[^)]+)\))(?P<columns>\d+:\d+)"
)
"""With @ for the character around markers."""
_BLANK = " \t,"


@dataclass(frozen=True)
class Item:
    """One instruction: its kind, and a text, a number of lines, or a name with columns."""

    kind: str
    """"marker", "lines", "tab", "blank", "free", "fixed" or "around"."""
    text: str = ""
    first: int = 0
    last: int = 0


@dataclass(frozen=True)
class InstructionFile:
    """Instructions, and the output file of the model that they read."""

    file: str
    """Path of the instructions, as the control file has it."""
    name: str
    """Path of the output file, from the folder of the case."""
    lines: tuple[tuple[int, tuple[Item, ...]], ...]
    """Line numbers and instructions."""

    @classmethod
    def read(cls, folder: Path, file: str, name: str) -> InstructionFile:
        """Read the instructions; PestError if that is impossible."""
        text = (folder / file).read_text(encoding="utf-8", errors="replace").splitlines()
        head = text[0].split() if text else []
        if len(head) != 2 or head[0].lower() not in ("pif", "jif") or len(head[1]) != 1:
            raise fail(file, 1, 'must be "pif" and the character around markers, such as pif @')
        lines: list[tuple[int, tuple[Item, ...]]] = []
        for number, line in enumerate(text[1:], start=2):
            items = _items(line, head[1], file, number)
            if items and items[0].kind == "goes_on":
                if not lines:
                    raise fail(file, number, "& continues a line, and there is none before")
                lines[-1] = (lines[-1][0], lines[-1][1] + items[1:])
            elif items:
                if items[0].kind not in ("marker", "lines"):
                    words = "must begin with a marker, with l1 for the next line, or with &"
                    raise fail(file, number, words)
                lines.append((number, items))
        made = cls(file, name, tuple(lines))
        known: dict[str, int] = {}
        for number, text_of in made._reads():
            if text_of in known:
                raise fail(file, number, f"{text_of} is read in line {known[text_of]} already")
            known[text_of] = number
        return made

    def _reads(self) -> Iterator[tuple[int, str]]:
        """Yield the line and the name of each output."""
        for number, items in self.lines:
            for item in items:
                if item.kind in ("free", "fixed", "around") and item.text != _DUMMY:
                    yield number, item.text

    @property
    def observations(self) -> dict[str, int]:
        """Return the names of all outputs, and the line on which each stands."""
        return {name: number for number, name in self._reads()}

    def outputs(self, folder: Path) -> dict[str, float]:
        """Read the outputs from the file in a folder; PestError names what is not found."""
        try:
            text = (folder / self.name).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError as error:
            raise PestError(f"the model wrote no {self.name}") from error
        reading = _Reading(self, text.splitlines())
        for number, items in self.lines:
            reading.follow(number, items)
        return reading.found


def _items(line: str, mark: str, file: str, number: int) -> tuple[Item, ...]:
    """Return the instructions of a line."""
    known = re.compile(_INSTRUCTIONS.replace("@", re.escape(mark)), re.IGNORECASE)
    found, rest = [], line.strip()
    while rest:
        match = known.match(rest)
        if match is None:
            word = rest.split(maxsplit=1)[0]
            raise fail(file, number, f"{word} is no instruction, or its end is missing")
        kind = match.lastgroup or ""
        text = match[kind]
        if kind in ("lines", "tab"):
            found.append(Item(kind, first=int(text)))
        elif kind == "columns":
            name = match["fixed"] or match["around"]
            which = "fixed" if match["fixed"] else "around"
            first, last = (int(column) for column in text.split(":"))
            found.append(Item(which, name.strip().lower(), first, last))
        else:
            found.append(Item(kind, text if kind == "marker" else text.strip().lower()))
        rest = rest[match.end() :].lstrip()
    return tuple(found)


class _Reading:
    """Reads one output file from top to bottom."""

    def __init__(self, instructions: InstructionFile, lines: list[str]):
        self.instructions, self.lines = instructions, lines
        self.row, self.column = -1, 0
        self.found: dict[str, float] = {}

    def follow(self, number: int, items: tuple[Item, ...]) -> None:
        """Follow one line of instructions."""
        self._number = number
        begin = 0
        while begin < len(items) and items[begin].kind == "marker":
            begin += 1
        if begin:
            self._find_line([item.text for item in items[:begin]])
        for place in range(begin, len(items)):
            item, after = items[place], items[place + 1 : place + 2]
            if item.kind == "lines":
                self._advance(item.first)
            elif item.kind == "marker":
                self._find(item.text)
            elif item.kind == "tab":
                self.column = item.first - 1
            elif item.kind == "blank":
                self._skip_word()
            else:
                self._read(item, after[0] if after else None)

    def _fail(self, message: str) -> PestError:
        return fail(self.instructions.file, self._number, message)

    def _advance(self, count: int) -> None:
        self.row, self.column = self.row + count, 0
        if self.row >= len(self.lines):
            has = f"{self.instructions.name} has only {len(self.lines)} lines"
            raise self._fail(f"{has}, and line {self.row + 1} is wanted")

    def _find_line(self, markers: list[str]) -> None:
        """Go to the next line that has all these markers, one after the other, behind the last."""
        for row in range(self.row + 1, len(self.lines)):
            column = 0
            for text in markers:
                place = self.lines[row].find(text, column)
                if place < 0:
                    break
                column = place + len(text)
            else:
                self.row, self.column = row, column
                return
        words = " and ".join(f'"{text}"' for text in markers)
        where = self.instructions.name + (f" below line {self.row + 1}" if self.row >= 0 else "")
        raise self._fail(f"{words} does not stand in {where}")

    def _find(self, text: str) -> None:
        """Move past a marker in this line."""
        place = self.lines[self.row].find(text, self.column)
        if place < 0:
            where = f"line {self.row + 1} of {self.instructions.name}"
            raise self._fail(f'"{text}" does not stand in the rest of {where}')
        self.column = place + len(text)

    def _skip_word(self) -> None:
        """Move to the beginning of the next word."""
        line, column = self.lines[self.row], self.column
        while column < len(line) and line[column] not in _BLANK:
            column += 1
        while column < len(line) and line[column] in _BLANK:
            column += 1
        if column >= len(line):
            raise self._fail(f"line {self.row + 1} of {self.instructions.name} ends before w")
        self.column = column

    def _read(self, item: Item, after: Item | None) -> None:
        line = self.lines[self.row]
        if item.kind == "fixed":
            begin, end = item.first - 1, item.last
        elif item.kind == "around":
            begin, end = self._around(line, item.first - 1, item.last)
        else:
            begin, end = self._word(line, after)
        text = line[begin:end].strip(_BLANK)
        self.column = max(end, 0)
        if item.text == _DUMMY:
            return
        try:
            self.found[item.text] = float(re.sub("[dD]", "e", text))
        except ValueError as error:
            where = f"line {self.row + 1} of {self.instructions.name}"
            shown = f"{text!r} in {where} is no number" if text else f"{where} has no number there"
            raise self._fail(f"{item.text}: {shown}") from error

    @staticmethod
    def _around(line: str, begin: int, end: int) -> tuple[int, int]:
        """Widen columns to the whole word that lies in them."""
        while begin < min(end, len(line)) and line[begin] in _BLANK:
            begin += 1
        while begin > 0 and begin < len(line) and line[begin - 1] not in _BLANK:
            begin -= 1
        stop = begin
        while stop < len(line) and line[stop] not in _BLANK:
            stop += 1
        return begin, stop

    def _word(self, line: str, after: Item | None) -> tuple[int, int]:
        """Return the next word, which a following marker may end."""
        begin = self.column
        while begin < len(line) and line[begin] in _BLANK:
            begin += 1
        end = begin
        while end < len(line) and line[end] not in _BLANK:
            end += 1
        if after is not None and after.kind == "marker":
            place = line.find(after.text, begin)
            end = place if begin < place < end else end
        return begin, end
