"""PEST template files: input files of the model with places for parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from supac.simulators.pest.errors import fail


@dataclass(frozen=True)
class TemplateFile:
    """A template, and the input file of the model that is made of it."""

    file: str
    """Path of the template, as the control file has it."""
    name: str
    """Path of the input file, from the folder of the case."""
    mark: str
    lines: tuple[str, ...]

    @classmethod
    def read(cls, folder: Path, file: str, name: str) -> TemplateFile:
        """Read a template; PestError if it is none."""
        # Bytes that are no UTF-8, such as a degree sign of Windows, are written as they were.
        text = (folder / file).read_text(encoding="utf-8", errors="surrogateescape")
        lines = text.splitlines()
        head = lines[0].split() if lines else []
        if len(head) != 2 or head[0].lower() not in ("ptf", "jtf") or len(head[1]) != 1:
            raise fail(file, 1, 'must be "ptf" and the character around parameters, such as ptf ~')
        made = cls(file, name, head[1], tuple(lines[1:]))
        for number, line in enumerate(made.lines, start=2):
            if line.count(made.mark) % 2:
                raise fail(file, number, f"a {made.mark} is missing: they come in pairs")
        return made

    @property
    def places(self) -> dict[str, int]:
        """Return the names of the parameters, and the line on which each first stands."""
        found: dict[str, int] = {}
        for number, line in enumerate(self.lines, start=2):
            for match in self._place.finditer(line):
                found.setdefault(match[1].strip().lower(), number)
        return found

    @property
    def _place(self) -> re.Pattern[str]:
        mark = re.escape(self.mark)
        return re.compile(f"{mark}([^{mark}]*){mark}")

    def fill(self, values: Mapping[str, float]) -> str:
        """Return the input file, each value with as many digits as its place has room for."""
        made = []
        for number, line in enumerate(self.lines, start=2):

            def filled(match: re.Match[str], number: int = number) -> str:
                name = match[1].strip().lower()
                text = fitted(values[name], len(match[0]))
                if text is None:
                    words = f"{values[name]!r} does not fit into the {len(match[0])} characters of"
                    raise fail(self.file, number, f"{words} {name}: make its place wider")
                return text

            made.append(self._place.sub(filled, line))
        return "\n".join(made) + "\n"


def fitted(value: float, width: int) -> str | None:
    """Return a number in so many characters, with as many digits as fit; None if none do."""
    full = repr(float(value))
    if len(full) <= width:
        return full.rjust(width)
    for digits in range(min(width, 17), 0, -1):
        short = re.sub(r"e([+-])0*(\d)", r"e\1\2", f"{value:.{digits}g}").replace("e+", "e")
        if len(short) <= width:
            return short.rjust(width)
    return None
