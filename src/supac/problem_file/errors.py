"""What is wrong with a problem file: where, what, and how to mend it."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supac.problem_file.locate import Key, key_lines, line_of

_HINTS = (
    ("Illegal character '\\n'", "a text must end with a quote on the line where it begins"),
    ("Unescaped '\\'", "write paths with / or between single quotes: 'C:\\data'"),
    ("Invalid value", 'texts need quotes, numbers a point: unit = "mol/L", sd = 0.5'),
    ("Expected '=' after a key", 'a setting looks like name = value; a comment begins with "#"'),
    ("Cannot overwrite", "it stands in the file twice: keep one of the two"),
    ("twice", "it stands in the file twice: keep one of the two"),
    ("Unclosed array", "a list must end with ]"),
    ("Unclosed inline table", "a table in one line must end with } on that line"),
    ("Expected newline or end", "write one setting a line, and quotes around texts"),
    ("Expected ']'", "a table's name stands alone on its line: [run]"),
)

_SYNONYMS = {
    "gaussian": "normal", "lognorm": "lognormal", "loggaussian": "lognormal",
    "min": "lower", "minimum": "lower", "low": "lower",
    "max": "upper", "maximum": "upper", "high": "upper",
    "mu": "mean", "std": "sd", "stddev": "sd", "stdev": "sd", "sigma": "sd",
    "model": "simulator", "priors": "parameters", "observations": "data",
}  # fmt: skip
"""What others call our words."""


@dataclass(frozen=True)
class Complaint:
    """One thing that is wrong."""

    message: str
    key: Key = ()
    line: int | None = None


class ProblemFileError(ValueError):
    """A problem file that cannot be used, with everything that is wrong with it."""

    def __init__(self, path: Path, complaints: Iterable[Complaint], text: str = ""):
        self.path, self.complaints = path, tuple(complaints)
        source = text.splitlines()
        super().__init__("\n".join(_words(path, each, source) for each in self.complaints))


def _words(path: Path, complaint: Complaint, source: list[str]) -> str:
    where = path.name if complaint.line is None else f"{path.name}, line {complaint.line}"
    key = f", {spelled(complaint.key)}" if complaint.key else ""
    words = f"{where}{key}: {complaint.message}"
    if complaint.line is not None and 0 < complaint.line <= len(source):
        words += f"\n  {complaint.line} | {source[complaint.line - 1].strip()}"
    return words


class Complaints:
    """Gathers what is wrong, so that all of it can be told at once."""

    def __init__(self, path: Path, text: str):
        self.path, self._text = path, text
        self._lines = _lines_of(text)
        self._found: list[Complaint] = []

    def add(self, key: Key, message: str) -> None:
        """Something is wrong with this key."""
        self._found.append(Complaint(message, key, line_of(self._lines, key)))

    def raise_any(self) -> None:
        """ProblemFileError where something was wrong, from the top of the file down."""
        if self._found:
            found = sorted(self._found, key=lambda each: each.line or 0)
            raise ProblemFileError(self.path, found, self._text)

    def fail(self, key: Key, message: str) -> ProblemFileError:
        """The error that ends the reading: this, and whatever was wrong before."""
        self.add(key, message)
        return ProblemFileError(self.path, self._found, self._text)


def _lines_of(text: str) -> dict[Key, int]:
    """Of every key; of none where the text can be read but is too deep to be looked through."""
    try:
        return key_lines(text)
    except RecursionError:
        return {}


def parse(text: str, path: Path) -> dict[str, Any]:
    """The tables of a text; ProblemFileError where it is no TOML."""
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        message = "brackets within brackets, too deep to be read"
        raise ProblemFileError(path, [Complaint(message)], text) from error
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"line (\d+)", str(error))
        lines = text.splitlines()
        line = int(place.group(1)) if place else max(len(lines), 1)
        hint = next((hint for words, hint in _HINTS if words in str(error)), "")
        if re.search(r"=\s*-?\d+,\d", lines[line - 1] if line <= len(lines) else ""):
            hint = "numbers have a point, not a comma: 0.05"
        reason = re.sub(r" \(at .*\)$", "", str(error))
        message = f"{reason}{'; ' if hint else ''}{hint}"
        raise ProblemFileError(path, [Complaint(message, (), line)], text) from error
    except ValueError as error:  # a whole number of more digits than Python reads
        raise ProblemFileError(path, [Complaint(str(error))], text) from error


def suggestion(word: object, known: Iterable[str]) -> str:
    """`; did you mean "…"?`, or nothing where nothing is like it."""
    close = closest(word, known)
    return "" if close is None else f'; did you mean "{close}"?'


def closest(word: object, known: Iterable[str]) -> str | None:
    """The known word that means the same or is most like it, if any is."""
    plain = {_plain(each): each for each in known}
    synonym = _SYNONYMS.get(_plain(str(word)))
    if synonym in plain:
        return plain[synonym]
    close = difflib.get_close_matches(_plain(str(word)), plain, n=1, cutoff=0.6)
    return plain[close[0]] if close else None


def no_file(path: Path) -> str:
    """What to say of a file that is not there."""
    near = path.parent.glob(f"*{path.suffix}") if path.parent.is_dir() else ()
    hint = suggestion(path.name, (each.name for each in near))
    return f"there is no file {path}{hint or '; paths are relative to the problem file'}"


def _plain(word: str) -> str:
    return re.sub(r"[\s_-]", "", word.lower())


def spelled(key: Key) -> str:
    """A key as it would be written in one line."""
    words = ""
    for part in key:
        if isinstance(part, int):
            words += f"[{part}]"
        else:
            bare = re.fullmatch(r"[A-Za-z0-9_-]+", part)
            words += f"{'.' if words else ''}{part if bare else json.dumps(part)}"
    return words


def in_toml(value: Any) -> str:
    """A value as it stands in the file, cut where it is long."""
    if isinstance(value, bool):
        words = "true" if value else "false"
    elif isinstance(value, str):
        words = json.dumps(value, ensure_ascii=False)
    elif isinstance(value, dict):
        words = "a table"
    elif isinstance(value, list):
        words = f"[{', '.join(map(in_toml, value))}]"
    else:
        words = _digits(value)
    return words if len(words) <= 60 else f"{words[:57]}..."


def _digits(value: Any) -> str:
    try:
        return str(value)
    except ValueError:  # Python writes no more than some thousand digits
        return "a number of thousands of digits"
