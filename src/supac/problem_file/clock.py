"""Times of the rows of data: numbers, or dates that are counted from a start."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import numpy as np

from supac.arrays import FloatArray
from supac.problem_file.csv_file import CSVFile
from supac.problem_file.errors import Key, Source

_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_WORDS = {"s": "seconds", "min": "minutes", "h": "hours", "d": "days"}


def dates_of(data: CSVFile, place: Key, table: Mapping[str, Any]) -> list[datetime]:
    """Return the times of a file if they are dates; an empty list for numbers or no times."""
    clock = table.get("time", "time")
    if "time" not in table and clock not in data:
        return []
    found = data.times(clock, (*place, "time"), table.get("time_format"))
    return [each for each in found if isinstance(each, datetime)]


def starts_of_runs(source: Source, tables: Mapping[Key, Mapping[str, Any]]) -> dict[Key, datetime]:
    """Return the date at which the time of each file is 0, for those with dates.

    Files with the same settings are of one run, which has one clock: it begins at their `start`, or
    at the earliest of their first rows. Those that all have a `start` are counted each from its
    own, as repetitions of an experiment are.
    """
    groups: dict[tuple[Any, ...], list[Key]] = {}
    dates: dict[Key, list[datetime]] = {}
    for place, table in tables.items():
        found = dates_of(CSVFile(source, (*place, "file")), place, table)
        if found:
            dates[place] = found
            settings = tuple(sorted(table.get("settings", {}).items()))
            groups.setdefault(settings, []).append(place)
    starts: dict[Key, datetime] = {}
    for places in groups.values():
        given = {place: _given(source, place, tables[place], dates[place]) for place in places}
        told = {start for start in given.values() if start is not None}
        without = [place for place in places if given[place] is None]
        if without and len(told) > 1:
            files = ", ".join(tables[place]["file"] for place in places)
            words = (
                f"is missing: {files} are of one run, "
                "as their settings are the same, and others have different starts"
            )
            raise source.fail((*without[0], "start"), words)
        _check_one_clock(source, tables, {place: dates[place][0] for place in places})
        common = told.pop() if len(told) == 1 else min(dates[place][0] for place in places)
        starts |= {place: given[place] or common for place in places}
    return starts


def _given(
    source: Source, place: Key, table: Mapping[str, Any], dates: list[datetime]
) -> datetime | None:
    """Return the `start` of a table, None if it has none."""
    if "start" not in table:
        return None
    start = datetime.fromisoformat(str(table["start"]))
    if (start.tzinfo is None) != (dates[0].tzinfo is None):
        words = "has no time zone, or has one, unlike the data"
        raise source.fail((*place, "start"), words)
    return start


def _check_one_clock(
    source: Source, tables: Mapping[Key, Mapping[str, Any]], first: Mapping[Key, datetime]
) -> None:
    """Raise ProblemFileError if files of one run have dates that cannot be compared."""
    (place, date), *others = first.items()
    unit, file = tables[place].get("time_unit", "d"), tables[place]["file"]
    for other, its in others:
        if (its.tzinfo is None) != (date.tzinfo is None):
            words = f"have a time zone, or none, unlike those of {file}, which is of the same run"
            raise source.fail((*other, "file"), f"the dates of {tables[other]['file']} {words}")
        if tables[other].get("time_unit", "d") != unit:
            words = f'must be "{unit}" as that of {file}, which is of the same run'
            raise source.fail((*other, "time_unit"), words)


def read_times(
    data: CSVFile, place: Key, table: Mapping[str, Any], start: datetime | None
) -> tuple[FloatArray | None, str | None]:
    """Return the times of the rows, counted from `start` for dates, and what they are."""
    clock, unit = table.get("time", "time"), table.get("time_unit")
    if "time" not in table and clock not in data:
        alike = data.alike(clock)
        if alike is not None:
            words = f'is not in {data.path.name}, but {alike} is: write time = "{alike}"'
            raise data.fail(words, (*place, "time"))
        return None, None
    found = data.times(clock, (*place, "time"), table.get("time_format"))
    if start is None:
        if "start" in table:
            words = f"is for dates, but the column {clock} of {data.path.name} has numbers"
            raise data.fail(words, (*place, "start"))
        said = data.unit(clock)
        if unit and said in _SECONDS and said != unit:
            words = f"is {unit}, but the header of {data.path.name} says {said}: correct one"
            raise data.fail(words, (*place, "time_unit"))
        unit = unit or said
        return np.array(found, dtype=np.float64), f"time ({unit})" if unit else None
    dates = [each for each in found if isinstance(each, datetime)]
    return times_since(start, dates, unit or "d"), f"{_WORDS[unit or 'd']} since {_began(start)}"


def times_since(start: datetime, dates: list[datetime], unit: str) -> FloatArray:
    """Return dates as times in a unit."""
    return np.array([(date - start).total_seconds() for date in dates]) / _SECONDS[unit]


def clock_times(given: Any, label: str | None) -> list[float]:
    """Return times of a scenario: numbers, or dates on the clock that a label of data tells.

    `given` is a list, or a range with start, stop and step. ValueError for dates without a clock.
    """
    if isinstance(given, dict):
        start, stop = clock_times([given["start"], given["stop"]], label)
        count = int((stop - start) / given["step"] + 1e-9) + 1
        return (start + given["step"] * np.arange(count)).tolist()
    if all(isinstance(each, int | float) for each in given):
        return [float(each) for each in given]
    told = re.fullmatch(r"(\w+) since (\d{4}-.*)", label or "")
    if told is None:
        words = "the data of the problem have no dates" if not label else f"the data have {label}"
        raise ValueError(f"has dates, but {words}: write numbers")
    unit = next(unit for unit, word in _WORDS.items() if word == told[1])
    start_of_clock = datetime.fromisoformat(told[2])
    dates = [datetime.fromisoformat(str(each)) for each in given]
    if any((each.tzinfo is None) != (start_of_clock.tzinfo is None) for each in dates):
        raise ValueError(f"has dates with a time zone, or without, unlike {label}")
    return times_since(start_of_clock, dates, unit).tolist()


def _began(start: datetime) -> str:
    return start.isoformat(sep=" ", timespec="minutes").removesuffix(" 00:00")
