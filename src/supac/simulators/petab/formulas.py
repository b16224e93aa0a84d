"""Formulas of PEtab as functions of NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

Look = Callable[[str], Any]
"""The value of a symbol: a number or an array."""


class FormulaError(ValueError):
    """A formula that cannot be parsed."""


@dataclass(frozen=True)
class Formula:
    """A formula: its symbols, and the function of their values."""

    symbols: tuple[str, ...]
    function: Callable[..., Any]

    def __call__(self, look: Look) -> Any:
        """Return its value where `look(symbol)` is that of a symbol."""
        return self.function(*map(look, self.symbols))


@cache
def formula(text: str) -> Formula:
    """Parse a formula; FormulaError if that is impossible."""
    try:
        number = float(text)
        return Formula((), lambda: number)
    except ValueError:
        pass
    sympy, parser = import_module("sympy"), import_module("petab.v1.math")
    try:
        expression = parser.sympify_petab(text)
        symbols = sorted(expression.free_symbols, key=str)
        function = sympy.lambdify(symbols, expression, "numpy")
    except Exception as error:  # of the parser, of several kinds
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FormulaError(f"{text!r} cannot be read: {reason}") from error
    return Formula(tuple(map(str, symbols)), function)
