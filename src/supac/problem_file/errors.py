"""Errors of a problem file, with the line, the key, the reason and a correction."""

from __future__ import annotations

import difflib
import json
import math
import os
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Key = tuple[str | int, ...]
"""Path of a key through tables and arrays: ("parameters", "k", "unit")."""

GENERATED = "# Made by supac from "
"""First words of a problem file that supac made: errors in it do not quote its lines."""

_HINTS = (
    ("Illegal character '\\n'", "a text must end with a quote on the line where it begins"),
    ("Unescaped '\\'", "write paths with / or between single quotes: 'C:\\data'"),
    ("Invalid value", 'texts need quotes, numbers a point: unit = "mol/L", sd = 0.5'),
    ("Expected '=' after a key", 'a setting looks like name = value; a comment begins with "#"'),
    ("Cannot overwrite", "it is in the file twice: keep one of the two"),
    ("('data',) twice", "for several data files write [[data]] in place of [data] above each"),
    ("twice", "it is in the file twice: keep one of the two"),
    ("Unclosed array", "a list must end with ]"),
    ("Unclosed inline table", "a table in one line must end with } on that line"),
    ("Expected newline or end", "write one setting per line, and quotes around texts"),
    ("Expected ']'", "the name of a table is alone on its line: [run]"),
)
_SYNONYMS = {
    "gaussian": "normal", "lognorm": "lognormal", "loggaussian": "lognormal",
    "min": "lower", "minimum": "lower", "low": "lower",
    "max": "upper", "maximum": "upper", "high": "upper",
    "mu": "mean", "std": "sd", "stddev": "sd", "stdev": "sd", "sigma": "sd",
    "matern": "matern32", "model": "simulator", "priors": "parameters", "observations": "data",
}  # fmt: skip


@dataclass(frozen=True)
class FileError:
    """One error of a problem file."""

    message: str
    key: Key = ()
    line: int | None = None
    elsewhere: bool = False
    """True if the message begins with the name of another file, which is the wrong one."""


class ProblemFileError(ValueError):
    """A problem file that cannot be used, with all errors that were found."""

    def __init__(self, path: Path, errors: Iterable[FileError], text: str = ""):
        self.path, self.errors = path, tuple(errors)
        source = text.splitlines()
        super().__init__("\n".join(_message(path, each, source) for each in self.errors))


def _message(path: Path, error: FileError, source: list[str]) -> str:
    if error.elsewhere:
        return error.message
    where = path.name if error.line is None else f"{path.name}, line {error.line}"
    key = f", {spelled(error.key)}" if error.key else ""
    message = f"{where}{key}: {error.message}"
    if error.line is not None and 0 < error.line <= len(source):
        message += f"\n  {error.line} | {source[error.line - 1].strip()}"
    return message


class Source:
    """The text of a problem file, its tables, and the errors that are found in them."""

    def __init__(self, text: str, path: Path):
        self.text, self.path = text, path
        self.document = parse(text, path)
        self._errors: list[FileError] = []

    @property
    def level(self) -> int | None:
        """Level of its simulator: 0 if that has a coarse model beside it; None if not."""
        return 0 if "coarse" in self.table("simulator") else None

    def table(self, name: str) -> dict[str, Any]:
        """Return a table of the file; empty if it is missing."""
        return dict(self.document.get(name, {}))

    def file(self, name: str) -> Path:
        """Return the path that the file means by a name: relative to it; ~ is the home folder."""
        return self.path.parent / os.path.expanduser(name)

    def add(self, key: Key, message: str) -> None:
        """Add an error of this key."""
        if self.text.startswith(GENERATED):
            self._errors.append(FileError(message))
            return
        self._errors.append(FileError(message, key, line_of(key_lines(self.text), key)))

    def raise_any(self) -> None:
        """Raise ProblemFileError if there are errors, sorted by line."""
        if self._errors:
            found = sorted(self._errors, key=lambda each: each.line or 0)
            raise ProblemFileError(self.path, found, self.text)

    def fail(self, key: Key, message: str) -> ProblemFileError:
        """Return the exception for this error and all earlier ones."""
        self.add(key, message)
        return ProblemFileError(self.path, self._errors, self.text)

    def fail_elsewhere(self, key: Key, message: str) -> ProblemFileError:
        """Return the exception for an error in a file of this key, with which the message begins.

        A problem file that was made from that file is not mentioned.
        """
        if self.text.startswith(GENERATED):
            return ProblemFileError(self.path, [FileError(message, elsewhere=True)])
        return self.fail(key, message)


def key_lines(text: str) -> dict[Key, int]:
    """Return the line on which each key of a valid TOML text is set, from 1.

    The standard library does not tell lines: every statement is parsed by itself, below the headers
    of all tables so far. All keys and array entries of one statement have the line on which it
    begins.
    """
    lines: dict[Key, int] = {}
    headers, statement, start = "", "", 1
    for number, line in enumerate(text.split("\n"), start=1):
        inside_array = bool(statement) and "#" not in line and line.rstrip().endswith((",", "["))
        statement += line + "\n"
        if inside_array:
            continue
        try:
            found = tomllib.loads(headers + statement)
        except tomllib.TOMLDecodeError:  # the statement goes on
            continue
        for key in _keys(found):
            lines.setdefault(key, start)
        if statement.lstrip().startswith("["):
            headers += statement
        statement, start = "", number + 1
    return lines


def _keys(value: Any, above: Key = ()) -> Iterator[Key]:
    """Yield the path of every key and array entry of a value."""
    if isinstance(value, dict | list):
        for name, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*above, name)
            yield from _keys(each, (*above, name))


def line_of(lines: dict[Key, int], key: Key) -> int | None:
    """Return the line of a key, or of the innermost table that should contain it."""
    parents = (key[:length] for length in range(len(key), 0, -1))
    return next((lines[each] for each in parents if each in lines), None)


def parse(text: str, path: Path) -> dict[str, Any]:
    """Parse TOML; raise ProblemFileError with a hint if it is invalid."""
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        message = "brackets are nested too deeply"
        raise ProblemFileError(path, [FileError(message)], text) from error
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"line (\d+)", str(error))
        lines = text.splitlines()
        line = int(place.group(1)) if place else max(len(lines), 1)
        hint = next((hint for words, hint in _HINTS if words in str(error)), "")
        if re.search(r"=\s*-?\d+,\d", lines[line - 1] if line <= len(lines) else ""):
            hint = "numbers have a point, not a comma: 0.05"
        reason = re.sub(r" \(at .*\)$", "", str(error))
        message = f"{reason}{'; ' if hint else ''}{hint}"
        raise ProblemFileError(path, [FileError(message, (), line)], text) from error
    except ValueError as error:  # an integer with more digits than Python reads
        raise ProblemFileError(path, [FileError(str(error))], text) from error


def read_text(path: Path, hint: str = "") -> str:
    """Read the text of a file; ProblemFileError if that is impossible, with a hint if missing."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        message = f"there is no such file{'; ' if hint else ''}{hint}"
        raise ProblemFileError(path, [FileError(message)]) from error
    except UnicodeDecodeError as error:
        raise ProblemFileError(path, [FileError(f"is not text in UTF-8: {error}")]) from error
    except OSError as error:
        raise ProblemFileError(path, [FileError(f"cannot be read: {error.strerror}")]) from error


def suggestion(word: object, known: Iterable[str]) -> str:
    """Return `; did you mean "…"?`, or "" if no known word is similar."""
    close = closest(word, known)
    return "" if close is None else f'; did you mean "{close}"?'


def closest(word: object, known: Iterable[str]) -> str | None:
    """Return the known word that is a synonym or most similar; None if none is."""
    plain = {_plain(each): each for each in known}
    synonym = _SYNONYMS.get(_plain(str(word)))
    if synonym in plain:
        return plain[synonym]
    close = difflib.get_close_matches(_plain(str(word)), plain, n=1, cutoff=0.6)
    return plain[close[0]] if close else None


def _plain(word: str) -> str:
    return re.sub(r"[\s_-]", "", word.lower())


def no_file(path: Path) -> str:
    """Return the error message for a missing file."""
    near = path.parent.glob(f"*{path.suffix}") if path.parent.is_dir() else ()
    hint = suggestion(path.name, (each.name for each in near))
    return f"there is no file {path}{hint or '; paths are relative to the problem file'}"


def spelled(key: Key) -> str:
    """Return a key as TOML writes it in one line."""
    words = ""
    for part in key:
        bare = isinstance(part, int) or re.fullmatch(r"[A-Za-z0-9_-]+", part)
        words += f"[{part}]" if isinstance(part, int) else f".{part if bare else json.dumps(part)}"
    return words.removeprefix(".")


def is_number(text: str) -> bool:
    """Return True for a text that is a finite number."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def without_quotes(text: str) -> str:
    """Return advice for a number in quotes; "" for any other text."""
    return "; write it without quotes" if is_number(text) else ""


def in_toml(value: Any) -> str:
    """Return a value as TOML writes it, at most 60 characters."""
    if isinstance(value, dict):
        return "a table"
    try:
        plain = isinstance(value, bool | str | list)
        words = json.dumps(value, ensure_ascii=False, default=str) if plain else str(value)
    except ValueError:  # Python prints at most some thousand digits
        return "a number with thousands of digits"
    return words if len(words) <= 60 else f"{words[:57]}..."
