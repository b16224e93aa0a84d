"""Input files of a program, with places for the values of the parameters."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Value = float | str
"""Of a parameter, or of a setting that may be a text."""

_PLACE = re.compile(r"\{([^{}:\n]+)(?::([^{}\n]*))?\}")
_WIDTH = re.compile(r"(?:.?[<>=^])?[-+ ]?#?0?(\d+)")
_SUFFIXES = (".tpl", ".tmpl", ".template")


@dataclass(frozen=True)
class Template:
    """A text in which `{k}` stands for the value of k, `{k:10.4f}` for its value in a format.

    Those of a field have blanks between them, and a line for each row.
    Braces around anything that is no parameter stay as they are.
    """

    name: str
    """Name of the file that is made of it."""
    text: str
    file: str = ""
    """Name of its own file."""

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Template:
        """Read a template; `deck.in.tpl` becomes `deck.in`, any other name stays."""
        place = Path(path)
        name = place.stem if place.suffix in _SUFFIXES and place.stem else place.name
        # Bytes that are no UTF-8, such as a degree sign of Windows, are written as they were.
        with place.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
            return cls(name, file.read(), place.name)

    @property
    def places(self) -> dict[str, str]:
        """Everything that stands alone in braces, and where it does so first."""
        found: dict[str, str] = {}
        for match in _PLACE.finditer(self.text):
            found.setdefault(match[1].strip(), self._where(match))
        return found

    def _where(self, match: re.Match[str]) -> str:
        line = self.text.count("\n", 0, match.start()) + 1
        return f"{self.file or self.name}, line {line}"

    def fill(self, values: Mapping[str, Value | list[Any]]) -> str:
        """Return the text with the values; ValueError if one does not fit its place."""

        def filled(match: re.Match[str]) -> str:
            name, form = match[1].strip(), match[2]
            if name not in values:
                return match[0]
            text = _formatted(name, values[name], form, self._where(match))
            return text.replace("\n", "\r\n") if "\r\n" in self.text else text

        return _PLACE.sub(filled, self.text)


def _formatted(name: str, value: Value | list[Any], form: str | None, where: str) -> str:
    """Return a value as text, with all its digits if no format says otherwise."""
    if isinstance(value, list):
        rows = isinstance(value[0], list)
        return ("\n" if rows else " ").join(_formatted(name, each, form, where) for each in value)
    if form is None:
        return value if isinstance(value, str) else repr(float(value))
    try:
        text = format(value, form)
    except ValueError as error:
        raise ValueError(f"{where}: {{{name}:{form}}} is no format of {value!r}") from error
    width = _WIDTH.match(form)
    # A longer text would shift the columns that a program with fixed fields reads.
    if width and len(text) > int(width[1]):
        raise ValueError(f"{where}: {name} = {text} does not fit into {width[1]} characters")
    return text


def flat(nested: Any) -> list[Any]:
    """Return what nested lists hold, in order."""
    return [x for each in nested for x in flat(each)] if isinstance(nested, list) else [nested]


def unplaced(names: Iterable[str], templates: Iterable[Template]) -> list[str]:
    """Return the names that stand in none of the templates."""
    places = {place for template in templates for place in template.places}
    return [name for name in names if name not in places]


def misspelt(name: str, names: Iterable[str], templates: Iterable[Template]) -> str:
    """Return where a similar word stands in braces that is not one of the names; "" if nowhere."""
    places = {word: where for template in templates for word, where in template.places.items()}
    others = {word.lower(): word for word in places if word not in names}
    near = difflib.get_close_matches(name.lower(), others, n=1)
    return f"; {places[others[near[0]]]} has {{{others[near[0]]}}}" if near else ""
