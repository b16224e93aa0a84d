"""What a value of a problem file must be, in words, and whether it is."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from supac.problem_file.errors import in_toml, suggestion

_FUNCTION = re.compile(r"\s*[\w-]+(\.[\w-]+)*\s*:\s*[^\W\d]\w*\s*")


@dataclass(frozen=True)
class Kind:
    """What a value must be, in words, and whether it is."""

    words: str
    fits: Callable[[Any], bool]
    choices: tuple[str, ...] = ()
    meant: Callable[[str], str] | None = None
    """What a text that does not fit may have been meant as."""

    def complaint(self, value: Any) -> str:
        """What is wrong with a value; "" where nothing is."""
        if self.fits(value):
            return ""
        hint = suggestion(value, self.choices) if isinstance(value, str) else ""
        if isinstance(value, str) and not self.choices and _is_number(value):
            hint = "; write it without quotes"
        if isinstance(value, str) and self.meant is not None and self.fits(self.meant(value)):
            hint = f"; write {in_toml(self.meant(value))}"
        return f"must be {self.words}, not {in_toml(value)}{hint}"


def _is_number(value: str) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False


def _number(value: Any) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def _texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_text, value))


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def one_of(*choices: str) -> Kind:
    """One of some words."""
    return Kind(f"one of {', '.join(map(in_toml, choices))}", lambda v: v in choices, choices)


def whole(least: int) -> Kind:
    """A whole number."""
    return Kind(
        f"a whole number, {least} or more",
        lambda v: isinstance(v, int) and not isinstance(v, bool) and least <= v < 2**63,
    )


TEXT = Kind("a text in quotes", _text)
ANY_TEXT = Kind("a text in quotes", lambda v: isinstance(v, str))
FLAG = Kind("true or false", lambda v: isinstance(v, bool))
NUMBER = Kind("a number", _number)
POSITIVE = Kind("a number above 0", lambda v: _number(v) and v > 0)
SHARE = Kind("a number between 0 and 1", lambda v: _number(v) and 0 < v < 1)
SHARE_OR_ENDS = Kind("a number from 0 to 1", lambda v: _number(v) and 0 <= v <= 1)
TRADE_OFF = Kind("a number between 0 and 2", lambda v: _number(v) and 0 < v < 2)
WORDS = Kind('a list of texts, such as ["./model", "--fast"]', _texts)
NAMES = Kind("a text or a list of texts", lambda v: _text(v) or _texts(v))
FUNCTION = Kind(
    'written as "module:function"',
    lambda v: _text(v) and _FUNCTION.fullmatch(v) is not None,
    # Of a path to the file: ./lib/model.py:simulate is lib.model:simulate.
    meant=lambda v: re.sub(r"[/\\]", ".", re.sub(r"^\.[/\\]?|\.py(?=:)", "", v)),
)
TABLE = Kind("a table", lambda v: isinstance(v, dict))
URL = Kind(
    'an address such as "http://localhost:4242"',
    lambda v: _text(v) and v.startswith(("http://", "https://")),
)
TEMPERATURE = Kind(
    'a number above 0, or "auto"', lambda v: v == "auto" or (_number(v) and v > 0), ("auto",)
)
NOISE = Kind(
    "a number above 0, a column's name, or a table with one of them for each observed column",
    lambda v: (
        (_number(v) and v > 0)
        or _text(v)
        or (
            isinstance(v, dict)
            and bool(v)
            and all((_number(each) and each > 0) or _text(each) for each in v.values())
        )
    ),
)
CORRELATED = Kind(
    '"all", "none", or lists of parameters such as [["k1", "k2"]]',
    lambda v: v in ("all", "none") or (isinstance(v, list) and all(map(_texts, v))),
    ("all", "none"),
)
