"""Files of candidate measurements: TOML, or a table of comma-separated values."""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from supac.posterior.candidates import Candidate, Measurement
from supac.problem_file import values
from supac.problem_file.errors import (
    FileError,
    Key,
    ProblemFileError,
    Source,
    read_text,
    suggestion,
)
from supac.problem_file.schema import Setting, Table, check_table, check_value
from supac.problem_file.values import NAMES, NUMBER, TEXT, positive

TOP = (
    Setting("quantity", NAMES, 'what is to be known better: parameters, or outputs such as "B at '
            '48"', "all parameters"),
    Setting("prediction", TEXT,
            "a scenario that was predicted, whose outputs are candidates or quantities too",
            "none"),
)  # fmt: skip
CANDIDATE = Table(
    "candidate",
    "A measurement that could be made: one table `[[candidate]]` for each.",
    (
        Setting("output", NAMES, "the column, or columns that are measured together",
                required=True),
        Setting("time", NUMBER, "when", "for a column with one row"),
        Setting("times", values.NUMERIC_TIMES, "several candidates, one at each of these times"),
        Setting("noise", positive(), "standard error of the measurement", "that of the data"),
        Setting("experiment", TEXT, "where, if there are several", "the only one"),
        Setting("name", TEXT, "in tables", "output and time"),
    ),
    required=True,
)  # fmt: skip


@dataclass(frozen=True)
class CandidatesFile:
    """Candidate measurements, and what they are for."""

    candidates: tuple[Candidate, ...]
    quantity: tuple[str, ...] = ()
    """Empty for all parameters."""
    prediction: str = ""


def read_candidates(path: str | os.PathLike[str]) -> CandidatesFile:
    """Read candidates from a .toml or a .csv; raise ProblemFileError with all errors."""
    place = Path(path).absolute()
    return _of_toml(place) if place.suffix == ".toml" else _of_csv(place)


def _of_toml(path: Path) -> CandidatesFile:
    source = Source(read_text(path), path)
    top = {each.name: each for each in TOP}
    if "data" in source.document and "parameters" in source.document:
        raise source.fail(
            (),
            "is a problem file, not one of candidates: write a table [[candidate]] for each, with "
            'output = "A" and time = 3.0; or name no file, and every output is a candidate',
        )
    if (
        "candidate" not in source.document
        and {"draws", "settings", "outputs"} & source.document.keys()
    ):
        words = f"is a scenario, not a file of candidates: give it as --scenario {path.name}"
        raise source.fail((), words)
    for name, value in source.document.items():
        if name in top:
            check_value(top[name], value, (name,), source)
        elif name != "candidate":
            every = [*top, "candidate"]
            hint = suggestion(name, every) or f"; known are {', '.join(every)}"
            source.add((name,), f"is not known in a file of candidates{hint}")
    given = source.document.get("candidate", [])
    tables = given if isinstance(given, list) else []
    if not tables or not all(isinstance(each, dict) for each in tables):
        source.add(("candidate",) if given else (), "write a table [[candidate]] for each")
        source.raise_any()
    found: list[Candidate] = []
    for i, table in enumerate(tables):
        key: Key = ("candidate", i)
        check_table(CANDIDATE, table, key, source)
        if "time" in table and "times" in table:
            source.add((*key, "times"), "goes without time: keep one of them")
    source.raise_any()
    for table in tables:
        found += _candidates(table)
    quantity = source.document.get("quantity", [])
    names = (quantity,) if isinstance(quantity, str) else tuple(quantity)
    return CandidatesFile(tuple(found), names, source.document.get("prediction", ""))


def _candidates(table: dict[str, Any]) -> list[Candidate]:
    """Return the candidates of a checked table."""
    given, noise = table.get("times", [table.get("time")]), table.get("noise")
    if isinstance(given, dict):
        count = int((given["stop"] - given["start"]) / given["step"] + 1e-9) + 1
        given = (given["start"] + given["step"] * np.arange(count)).tolist()
    output, error = table["output"], None if noise is None else float(noise)
    within = table.get("experiment", "")
    columns = [output] if isinstance(output, str) else list(output)
    made = []
    for time in given:
        clock = None if time is None else float(time)
        parts = tuple(Measurement(column, clock, error, within) for column in columns)
        name = table.get("name", "")
        made.append(Candidate(parts, f"{name} at {clock:g}" if name and len(given) > 1 else name))
    return made


def _of_csv(path: Path) -> CandidatesFile:
    """Read a table with columns output, time, noise, name; rows of one name belong together."""
    rows = list(csv.DictReader(read_text(path).splitlines()))
    known, groups = ("output", "time", "noise", "name"), dict[str, list[Measurement]]()
    header = list(rows[0]) if rows else []
    if not rows or "output" not in header or set(header) - set(known):
        words = f"needs a header with output, and perhaps time, noise and name, not {header}"
        raise ProblemFileError(path, [FileError(words, (), 1)])
    for i, row in enumerate(rows):
        try:
            time, noise = (float(row[key]) if row.get(key) else None for key in ("time", "noise"))
            if not row["output"] or (noise is not None and not noise > 0.0):
                raise ValueError(f"output is {row['output']!r}, noise is {noise}")
        except (TypeError, ValueError) as error:
            words = f"needs an output, a number as time and one above 0 as noise: {error}"
            raise ProblemFileError(path, [FileError(words, (), i + 2)]) from error
        one = Measurement(row["output"].strip(), time, noise)
        groups.setdefault(row.get("name") or f"\n{i}", []).append(one)
    return CandidatesFile(
        tuple(
            Candidate(tuple(parts), "" if name.startswith("\n") else name)
            for name, parts in groups.items()
        )
    )
