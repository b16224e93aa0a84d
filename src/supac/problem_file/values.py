"""Types of the values in a problem file: descriptions and checks."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from supac.problem_file.errors import in_toml, is_number, suggestion, without_quotes
from supac.simulators.process_guard import parse_stop

_FUNCTION = re.compile(r"\s*[\w-]+(\.[\w-]+)*\s*:\s*[^\W\d]\w*\s*")


@dataclass(frozen=True)
class ValueType:
    """Description of the values that a key accepts, and the check."""

    description: str
    accepts: Callable[[Any], bool]
    choices: tuple[str, ...] = ()
    repair: Callable[[str], str] | None = None
    """Corrects a common mistake in a text."""

    def error(self, value: Any) -> str:
        """Return the error message for a value; "" if it is accepted."""
        if self.accepts(value):
            return ""
        hint = ""
        if isinstance(value, str):
            hint = suggestion(value, self.choices)
            if not self.choices:
                hint = without_quotes(value)
            if self.repair is not None and self.accepts(self.repair(value)):
                hint = f"; write {in_toml(self.repair(value))}"
        elif self.accepts(_unquoted(value)):
            hint = "; write numbers without quotes"
        elif _number(value) and self.accepts([value]):
            hint = f"; write [{in_toml(value)}]"
        return f"must be {self.description}, not {in_toml(value)}{hint}"


def setting(accepted: ValueType, meaning: str, default: Any = None, words: str = "") -> Any:
    """Return a dataclass field that is a key of a problem file; `words` describe its default."""
    about = {"type": accepted, "meaning": meaning, "default": words}
    return field(default=default, metadata=about)


def _unquoted(value: Any) -> Any:
    """Return a list or a table with numbers for texts that are numbers."""
    if isinstance(value, dict):
        return {name: _unquoted(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_unquoted(each) for each in value]
    return float(value) if isinstance(value, str) and is_number(value) else value


def _is_date(value: Any) -> bool:
    try:
        datetime.fromisoformat(str(value))
    except ValueError:
        return False
    return isinstance(value, str | date)


def _number(value: Any) -> bool:
    """Return True for a number that a float can hold."""
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return plain and abs(value) <= sys.float_info.max


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_text, value))


def _is_stop(value: str) -> bool:
    try:
        parse_stop(value)
    except ValueError:
        return False
    return True


def _above_zero(value: Any) -> bool:
    return _number(value) and value > 0


def _number_or_column(value: Any) -> bool:
    return _text(value) or _above_zero(value)


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _axis(value: Any) -> bool:
    """Return True for the axis of a grid: a number of points, or their coordinates."""
    return _count(value) or (isinstance(value, list) and bool(value) and all(map(_number, value)))


def one_of(*choices: str) -> ValueType:
    """Return the type of a text from a list."""
    return ValueType(f"one of {', '.join(map(in_toml, choices))}", lambda v: v in choices, choices)


def integer(least: int) -> ValueType:
    """Return the type of an integer, `least` or more."""
    return ValueType(
        f"a whole number, {least} or more",
        lambda v: isinstance(v, int) and not isinstance(v, bool) and least <= v < 2**63,
    )


def positive(below: float = math.inf, word: str = "") -> ValueType:
    """Return the type of a number in (0, below), or of one word."""
    limits = "above 0" if below == math.inf else f"between 0 and {below:g}"
    return ValueType(
        f"a number {limits}" + (f', or "{word}"' if word else ""),
        lambda v: (bool(word) and v == word) or (_number(v) and 0 < v < below),
        (word,) if word else (),
    )


TEXT = ValueType("a text in quotes", _text)
ANY_TEXT = ValueType("a text in quotes", lambda v: isinstance(v, str))
FLAG = ValueType("true or false", lambda v: isinstance(v, bool))
NUMBER = ValueType("a number", _number)
NUMBERS = ValueType(
    "a list of numbers", lambda v: isinstance(v, list) and bool(v) and all(map(_number, v))
)
FRACTION = ValueType("a number from 0 to 1", lambda v: _number(v) and 0 <= v <= 1)
GRID = ValueType(
    "a whole number for each axis, or a list of coordinates, such as [20, 10]",
    lambda v: _count(v) or (isinstance(v, list) and bool(v) and all(map(_axis, v))),
)
LENGTHS = ValueType(
    "a number above 0, or one for each axis",
    lambda v: _above_zero(v) or (isinstance(v, list) and bool(v) and all(map(_above_zero, v))),
)
WORDS = ValueType('a list of texts, such as ["./model", "--fast"]', _texts)
NAMES = ValueType("a text or a list of texts", lambda v: _text(v) or _texts(v))
FUNCTION = ValueType(
    'written as "module:function"',
    lambda v: _text(v) and _FUNCTION.fullmatch(v) is not None,
    # A path to the file: ./lib/model.py:simulate is lib.model:simulate.
    repair=lambda v: re.sub(r"[/\\]", ".", re.sub(r"^\.[/\\]?|\.py(?=:)", "", v)),
)
TABLE = ValueType("a table", lambda v: isinstance(v, dict))
JACOBIAN = ValueType(
    'true, false, a file or "module:function"', lambda v: isinstance(v, bool) or _text(v)
)
COST = ValueType("a number of runs, 0 or more", lambda v: _number(v) and v >= 0)
RUN_OF_TASKS = ValueType(
    "a table of tasks, and options, a list of texts",
    lambda v: (
        isinstance(v, dict)
        and set(v) <= {"tasks", "options"}
        and _count(v.get("tasks"))
        and (not v.get("options") or _texts(v["options"]))
    ),
)
STOP = ValueType('a signal and seconds, such as "TERM 10"', lambda v: _text(v) and _is_stop(v))
TEXTS_BY_NAME = ValueType(
    "a table of texts", lambda v: isinstance(v, dict) and all(map(_text, v.values()))
)
URL = ValueType(
    'an address such as "http://localhost:4242"',
    lambda v: _text(v) and v.startswith(("http://", "https://")),
)
NOISE = ValueType(
    'a number above 0, a column, a share, a parameter, "unknown", or a table with one per observed '
    "column",
    lambda v: (
        _number_or_column(v)
        or (isinstance(v, dict) and bool(v) and all(map(_number_or_column, v.values())))
    ),
)
UNITS = ValueType(
    "a text, or a table with one per observed column",
    lambda v: _text(v) or (isinstance(v, dict) and all(map(_text, v.values()))),
)
SETTINGS = ValueType(
    "a table of numbers and texts",
    lambda v: isinstance(v, dict) and all(_number(each) or _text(each) for each in v.values()),
)


def _moment(value: Any) -> bool:
    return _number(value) or _is_date(value)


def is_period(value: Any) -> bool:
    """Return True for a table with the beginning of a period, its end or both."""
    ends = isinstance(value, dict) and value and set(value) <= {"from", "to"}
    return bool(ends) and all(map(_moment, value.values()))


def _periods(value: Any) -> bool:
    return is_period(value) or (
        isinstance(value, list) and bool(value) and all(map(is_period, value))
    )


TEST = ValueType(
    "a text, a list of texts, true, or periods such as { from = 2003-01-01, to = 2004-12-31 }",
    lambda v: _text(v) or _texts(v) or v is True or _periods(v),
)
WARM_UP = ValueType(
    "a number above 0 or a date", lambda v: _above_zero(v) or (not _number(v) and _is_date(v))
)
DATE = ValueType("a date such as 2024-03-01 or 2024-03-01T13:30:00", _is_date)


def _discrepancy(value: Any) -> bool:
    if not isinstance(value, dict) or not value:
        return value == "auto"
    two = [value[name] for name in ("amplitude", "length") if name in value]
    known = [value[name] for name in ("zero_at", "flat_at") if name in value]
    return (
        len(two) in (0, 2)
        and all(_text(each) or _texts_by_name(each) for each in two)
        and all(isinstance(each, list) and each and all(map(_number, each)) for each in known)
        and set(value) <= {"amplitude", "length", "covariance", "zero_at", "flat_at"}
    )


def _texts_by_name(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(map(_text, value.values()))


DISCREPANCY = ValueType(
    '"auto", or a table: two parameters, amplitude and length, or neither for the usual ones; '
    "covariance; zero_at and flat_at, lists of times",
    _discrepancy,
    ("auto",),
)
AFTER_END = ValueType('"hold" or a number', lambda v: v == "hold" or _number(v), ("hold",))
MARKS = ValueType(
    "a number, a text, or a list of these",
    lambda v: (
        _number(v) or _text(v) or (isinstance(v, list) and all(_number(e) or _text(e) for e in v))
    ),
)
KNOWN = ValueType(
    "a text, or a table of two: parameters and outputs",
    lambda v: (
        _text(v)
        or (
            isinstance(v, dict)
            and set(v) == {"parameters", "outputs"}
            and all(map(_text, v.values()))
        )
    ),
)
CORRELATED = ValueType(
    '"all", "none", or lists of parameters such as [["k1", "k2"]]',
    lambda v: v in ("all", "none") or (isinstance(v, list) and all(map(_texts, v))),
    ("all", "none"),
)
_STEPS = {"start", "stop", "step"}


def _steps(value: Any) -> bool:
    """Return True for a range of numbers, or of dates with a step that is a number."""
    if not isinstance(value, dict) or set(value) != _STEPS or not _above_zero(value["step"]):
        return False
    ends = value["start"], value["stop"]
    if all(map(_number, ends)):
        return bool(ends[0] <= ends[1] <= ends[0] + 1e6 * value["step"])
    return all(map(_is_date, ends)) and str(ends[0]) <= str(ends[1])


TIMES = ValueType(
    "a list of numbers or of dates, or { start = 0, stop = 48, step = 1 }",
    lambda v: (
        (isinstance(v, list) and bool(v) and (all(map(_number, v)) or all(map(_is_date, v))))
        or _steps(v)
    ),
)
NUMERIC_TIMES = ValueType(
    "a list of numbers, or { start = 0, stop = 48, step = 1 }",
    lambda v: (
        (isinstance(v, list) and bool(v) and all(map(_number, v)))
        or (_steps(v) and _number(v["start"]))
    ),
)
OUTPUT_NOISE = ValueType(
    'a number above 0, a share such as "5 %" or "5 % + 0.02", or a table with one per output',
    lambda v: (
        _number_or_column(v)
        or (isinstance(v, dict) and bool(v) and all(map(_number_or_column, v.values())))
    ),
)
