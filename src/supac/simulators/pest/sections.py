"""The lines of a PEST control file, checked before pyemu reads them: its errors have no lines."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Sequence
from pathlib import Path

from supac.simulators.pest.errors import PestError, fail

Line = tuple[int, list[str]]
"""Number of a line, and its words."""

_PARAMETER = [
    "parnme", "partrans", "parchglim", "parval1", "parlbnd", "parubnd", "pargp", "scale", "offset",
    "dercom",
]  # fmt: skip
_OBSERVATION = ["obsnme", "obsval", "weight", "obgnme"]
_NEEDED = ("parameter data", "observation data", "model command line")
_KNOWN = (
    "control data", "singular value decomposition", "lsqr", "parameter groups", "parameter data",
    "observation groups", "observation data", "model command line", "model input/output",
    "prior information", "regularisation", "regularization", "automatic user intervention",
    "sensitivity reuse", "derivatives command line", "predictive analysis", "pareto", "svd assist",
)  # fmt: skip
"""Sections of PEST, which are no misspellings of each other."""
_COMMA = re.compile(r"[+-]?\d*,\d+([eEdD][+-]?\d+)?")
FORTRAN = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))[dD]([+-]?\d+)")
"""A number with an exponent as Fortran writes it."""


def check_lines(path: Path) -> None:
    """Raise PestError, with the line, for what makes a control file unreadable."""
    _check_encoding(path)
    sections = _Sections(path)
    sections.check_names()
    sections.check_numbers()
    sections.check_parameters()
    sections.check_observations()
    sections.check_counts()


def _check_encoding(path: Path) -> None:
    """Raise PestError for a line that is not UTF-8."""
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise fail(path.name, number, "is not text in UTF-8: save the file as such") from error


class _Sections:
    """The sections of a control file, each with its lines."""

    def __init__(self, path: Path):
        self.file = path.name
        self.heads: dict[str, int] = {}
        self.lines: dict[str, list[Line]] = {}
        section = ""
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            text = line.partition("#")[0].strip()
            if text.startswith("*"):
                section = " ".join(text[1:].lower().split())
                self.heads.setdefault(section, number)
            elif text and not text.startswith("++"):
                self.lines.setdefault(section, []).append((number, text.split()))

    def __getitem__(self, section: str) -> list[Line]:
        return self.lines.get(section, [])

    def check_names(self) -> None:
        """Raise PestError if a section is missing or has no line."""
        for section in _NEEDED:
            there = [each for each in self.heads if each in (section, f"{section} external")]
            if there and not self[there[0]]:
                raise fail(self.file, self.heads[there[0]], f"there is no line below * {section}")
            if not there:
                unknown = [each for each in self.heads if not _is_known(each)]
                near = difflib.get_close_matches(section, unknown, n=1)
                if near:
                    told = f"* {near[0]} is no section; did you mean * {section}?"
                    raise fail(self.file, self.heads[near[0]], told)
                raise PestError(f"{self.file}: there is no section * {section}")

    def check_numbers(self) -> None:
        """Raise PestError for a number with a comma in a table."""
        for section in ("parameter data", "observation data", "prior information"):
            for number, words in self[section]:
                for word in filter(_COMMA.fullmatch, words):
                    told = f"{word} has a comma: write {word.replace(',', '.')}"
                    raise fail(self.file, number, told)

    def check_parameters(self) -> None:
        """Raise PestError for a row of parameters that cannot be one."""
        rows = [each for each in self["parameter data"] if len(each[1]) != 2]
        parents = {words[0].lower() for _, words in self["parameter data"] if len(words) == 2}
        self._check_table(rows, _PARAMETER, len(_PARAMETER) - 1, (3, 4, 5, 7, 8))
        for number, words in rows:
            name = words[0].lower()
            if words[1].lower() == "tied" and name not in parents:
                told = f"{name} is tied to nothing: below the parameters, write {name} and its"
                raise fail(self.file, number, f"{told} parent in a line")

    def check_observations(self) -> None:
        """Raise PestError for a row of observations that cannot be one."""
        self._check_table(self["observation data"], _OBSERVATION, len(_OBSERVATION), (1, 2))

    def _check_table(
        self, rows: Sequence[Line], columns: Sequence[str], least: int, numbers: Sequence[int]
    ) -> None:
        known: dict[str, int] = {}
        for number, words in rows:
            if len(words) < least:
                told = f"{len(words)} of {len(columns)} values: {' '.join(columns)}"
                raise fail(self.file, number, told)
            name = words[0].lower()
            if name in known:
                raise fail(self.file, number, f"{name} is in line {known[name]} already")
            known[name] = number
            for place in numbers:
                if wrong := _wrong_number(words[place]):
                    raise fail(self.file, number, f"{name}: {columns[place]} {wrong}")

    def check_counts(self) -> None:
        """Raise PestError if the control data announce other numbers of rows than there are."""
        control = self["control data"]
        if len(control) < 3:
            return
        rows = sum(len(words) != 2 for _, words in self["parameter data"])
        number, given = self._counts(control[1], "parameters and observations")
        found = [rows, len(self["observation data"])]
        if given != found:
            told = "{} parameters and {} observations"
            words = f"announces {told.format(*given)}, but there are {told.format(*found)}"
            raise fail(self.file, number, words)
        number, given = self._counts(control[2], "templates and instruction files")
        files = self["model input/output"]
        if sum(given) != len(files):
            told = f"announces {given[0]} templates and {given[1]} instruction files"
            words = f"{told}, but * model input/output has {len(files)} lines"
            raise fail(self.file, number, words)

    def _counts(self, line: Line, kinds: str) -> tuple[int, list[int]]:
        """Return a line's number, and the two whole numbers with which it begins."""
        number, words = line
        if len(words) < 2 or not all(word.isdecimal() for word in words[:2]):
            raise fail(self.file, number, f"must begin with the numbers of {kinds}")
        return number, [int(word) for word in words[:2]]


def _is_known(section: str) -> bool:
    """Return whether PEST has such a section, in the file or external."""
    return section.removesuffix(" external") in _KNOWN


def _wrong_number(word: str) -> str:
    """Return what is wrong with a word that should be a number; "" if nothing is."""
    try:
        value = float(FORTRAN.sub(r"\1e\2", word))
    except ValueError:
        return f"{word} is no number"
    return "" if math.isfinite(value) else f"{word} is not finite"
