"""A control file as pyemu reads it: in whole lines, with numbers as C writes them."""

from __future__ import annotations

import re
import tempfile
import warnings
from pathlib import Path
from typing import Any

from supac.simulators.pest.sections import FORTRAN

_IN_TEXT = re.compile(rf"(?<![\w.]){FORTRAN.pattern}(?![\w.])")
_NUMBERS = {"parameter data": (3, 4, 5, 7, 8), "observation data": (1, 2)}
"""Columns of tables that are numbers; names in others may look like one, such as 1d2."""
_OTHERS = ("control data", "parameter groups", "prior information")


def load_pst(pyemu: Any, path: Path) -> Any:
    """Load a control file with pyemu, which knows neither continued lines nor exponents with d."""
    text = path.read_text(encoding="utf-8")
    plain = plain_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Sections in files of their own lie beside the file itself.
        if plain == text or re.search(r"^\*.*\bexternal\b", text, re.MULTILINE | re.IGNORECASE):
            return pyemu.Pst(str(path))
        with tempfile.TemporaryDirectory() as folder:
            other = Path(folder) / path.name
            other.write_text(plain, encoding="utf-8")
            return pyemu.Pst(str(other))


def plain_text(text: str) -> str:
    """Join equations that go on after & in the next line, and write 1.0D+01 as 1.0e+01."""
    lines: list[str] = []
    section, names = "", set[str]()
    for line in text.splitlines():
        if line.startswith("*"):
            section = " ".join(line[1:].lower().split())
        words = line.split()
        if section == "parameter data" and words:
            names.add(words[0].lower())
        if section == "prior information" and words and words[0].startswith("&"):
            lines[-1] += f" {_with_e(line.strip()[1:], section, names).strip()}"
        else:
            lines.append(_with_e(line, section, names))
    return "\n".join(lines) + "\n" if lines != text.splitlines() else text


def _with_e(line: str, section: str, names: set[str]) -> str:
    """Return a line of a section without exponents with d; `names` are those of parameters."""

    def written(match: re.Match[str]) -> str:
        return match[0] if match[0].lower() in names else f"{match[1]}e{match[2]}"

    if section in _NUMBERS:
        words = re.split(r"(\s+)", line)
        places = [i for i, word in enumerate(words) if word.strip()]
        for column in _NUMBERS[section]:
            if column < len(places):
                words[places[column]] = FORTRAN.sub(r"\1e\2", words[places[column]])
        return "".join(words)
    if section not in _OTHERS or line.startswith("*"):
        return line
    name, blank, rest = line.partition(" ") if section != "control data" else ("", "", line)
    return name + blank + _IN_TEXT.sub(written, rest)
