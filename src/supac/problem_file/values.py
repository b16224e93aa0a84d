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
TEST = ValueType("a text, a list of texts, or true", lambda v: _text(v) or _texts(v) or v is True)
DATE = ValueType("a date such as 2024-03-01 or 2024-03-01T13:30:00", _is_date)
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
TIMES = ValueType(
    "a list of numbers, or { start = 0, stop = 48, step = 1 }",
    lambda v: (
        (isinstance(v, list) and bool(v) and all(map(_number, v)))
        or (
            isinstance(v, dict)
            and set(v) == _STEPS
            and all(map(_number, v.values()))
            and v["step"] > 0
            and v["start"] <= v["stop"] <= v["start"] + 1e6 * v["step"]
        )
    ),
)
OUTPUT_NOISE = ValueType(
    'a number above 0, a share such as "5 %" or "5 % + 0.02", or a table with one per output',
    lambda v: (
        _number_or_column(v)
        or (isinstance(v, dict) and bool(v) and all(map(_number_or_column, v.values())))
    ),
)
