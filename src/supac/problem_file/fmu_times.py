"""Times of data and inputs of an FMU: in order, in one unit, and covered by the inputs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from supac.problem import Observations
from supac.problem_file.csv_file import CSVFile
from supac.problem_file.data import data_tables
from supac.problem_file.errors import Key, Source

_CLOSE = 1e-9


def check_data_times(source: Source, unit: str, given: str | None) -> None:
    """Raise ProblemFileError if rows are not in the order of time, or in another unit.

    `unit` is that of the model, `given` the `time_unit` of [simulator].
    """
    for key, table in data_tables(source).items():
        clock, file = table.get("time", "time"), CSVFile(source, (*key, "file"))
        times: list[Any] = list(file.times(clock, (*key, "time"), table.get("time_format")))
        for line, time, before in zip(list(file.rows)[1:], times[1:], times[:-1], strict=True):
            if time < before:
                where = f"{file.path.name}, line {line}, column {clock}"
                words = f"{time} is before {before}: sort the rows by time"
                raise file.fail(f"{where}: {words}", (*key, "time" if "time" in table else "file"))
        stated = _unit(table, file.units.get(clock), isinstance(times[0], datetime))
        if stated and stated != (given or unit):
            what = "in the model's unit" if given is None else "in the time_unit of [simulator]"
            words = f"the times of {file.path.name} are in {stated}, but a run counts {what}, "
            fix = f'{given or unit}: write time_unit = "{stated}" in [simulator]'
            raise source.fail(("simulator", "time_unit" if given else "fmu"), words + fix)


def _unit(table: Mapping[str, Any], header: str | None, dates: bool) -> str:
    """Return the unit that times of data are said to be in; "" if nothing is said."""
    return str(table.get("time_unit") or header or ("d" if dates else ""))


def check_inputs_last(
    source: Source, key: Key, name: str, last: float, rows: int, data: Observations
) -> None:
    """Raise ProblemFileError if data go on after the last of several rows of inputs."""
    assert data.times is not None
    end = float(data.times.max())
    if rows > 1 and end > last + _CLOSE * abs(end):
        words = f"{name} ends at the time {last:g}, but the data go on until {end:g}: add rows, "
        raise source.fail(key, f"{words}or one at {end:g} that holds the last values")
