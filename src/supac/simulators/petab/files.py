"""The files of a PEtab problem, and what tables of both versions have in common."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from supac.simulators.petab.description import Measurement, Observable
from supac.simulators.petab.model import library
from supac.simulators.petab.tables import PEtabError, Row, similar, unreadable

NOISES = ("normal", "laplace")


def read_yaml(path: Path) -> dict[str, Any]:
    """Read the file of the problem."""
    yaml = library("yaml")
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8-sig"))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        reason = getattr(error, "problem", None) or "it cannot be parsed"
        raise PEtabError(f"{path.name}{line}: this is not YAML: {reason}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise PEtabError(unreadable(path, error)) from error
    if not isinstance(document, dict):
        raise PEtabError(f"{path.name}: a PEtab problem is a mapping with a key format_version")
    return document


class Files:
    """The files of a problem, and what the versions have in common."""

    def __init__(self, path: Path, document: dict[str, Any]):
        self.path, self.document = path, document
        self.files = [path]

    def paths(self, table: Mapping[str, Any], key: str, *, needed: bool = True) -> list[Path]:
        """Return the files under a key: a name, or a list of names."""
        given = table.get(key)
        names = [given] if isinstance(given, str) else list(given or ())
        if not all(isinstance(name, str) for name in names) or (needed and not names):
            hint = similar(key, map(str, table)) if not names else ""
            raise PEtabError(f"{self.path.name}: {key} must name a file or a list of them{hint}")
        paths = [self.path.parent / name for name in names]
        self.files += paths
        return paths

    def one_model(self, paths: Sequence[Path]) -> Path:
        """Return the one model of the problem."""
        if len(paths) != 1:
            raise PEtabError(f"{self.path.name}: {len(paths)} models, but one can be calibrated")
        return paths[0]


def bounds(row: Row, scale: str) -> tuple[float, float]:
    """Return the bounds of a parameter, of which a logarithmic scale takes positive ones."""
    lower, upper = row.number("lowerBound"), row.number("upperBound")
    if not lower < upper:
        raise row.fail(f"lowerBound {lower:g} must be below upperBound {upper:g}", "lowerBound")
    if scale != "lin" and lower <= 0.0:
        words = f"{lower:g} has no logarithm, but parameterScale is {scale}: raise it, or use lin"
        raise row.fail(words, "lowerBound")
    return lower, upper


def nominal(row: Row, *, estimated: bool) -> float:
    """Return the nominal value, which may be missing if the parameter is estimated."""
    if estimated and not row.text("nominalValue"):
        return math.nan
    return row.number("nominalValue")


def numbers(row: Row, column: str, count: int) -> tuple[float, ...]:
    """Return so many numbers between semicolons."""
    try:
        found = tuple(map(float, row.words(column)))
    except ValueError:
        raise row.fail(f"{row.text(column)!r} must be numbers, separated by ;", column) from None
    if len(found) != count:
        raise row.fail(f"{len(found)} numbers, but this prior takes {count}", column)
    return found


def measurement(
    row: Row, observable: Observable, experiment: int, start: float = 0.0
) -> list[Measurement]:
    """Return the measurement of a row; nothing if its value is missing."""
    if not row.text("measurement"):
        return []
    value, time = row.number("measurement"), row.number("time", infinite=True)
    if time < start:
        raise row.fail(f"{time:g} is before {start:g}, where the simulation begins", "time")
    if observable.scale != "lin" and value <= 0.0:
        words = (
            f"{value:g} has no logarithm, but {observable.id} is on a scale of {observable.scale}"
        )
        raise row.fail(words, "measurement")
    given: list[tuple[str, ...]] = []
    for column, holes in (
        ("observableParameters", observable.placeholders),
        ("noiseParameters", observable.noise_placeholders),
    ):
        parts = row.words(column)
        if len(parts) != len(holes):
            kind = "observableFormula" if column[0] == "o" else "noiseFormula"
            where = observable.row.place()
            named = f": {', '.join(holes)}" if holes else ""
            raise row.fail(
                f"{len(parts)} values, but {kind} of {observable.id} ({where}) has {len(holes)} "
                f"placeholders{named}",
                column,
            )
        given.append(parts)
    return [Measurement(observable.id, experiment, time, value, given[0], given[1], row)]
