"""Formulas of PEtab as functions of NumPy arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

_MOST_SUMMANDS = 500  # of an expanded formula: beyond, its parameters are simulated
Look = Callable[[str], Any]
"""The value of a symbol: a number or an array."""


class FormulaError(ValueError):
    """A formula that cannot be parsed."""


@dataclass(frozen=True)
class Formula:
    """A formula: its symbols, and the function of their values."""

    symbols: tuple[str, ...]
    function: Callable[..., Any]
    expression: Any
    """The formula as a SymPy expression, or a number."""

    @classmethod
    def of(cls, expression: Any) -> Formula:
        """Return an expression of SymPy as a formula."""
        symbols, function = _function(expression)
        return cls(symbols, function, expression)

    def __call__(self, look: Look) -> Any:
        """Return its value where `look(symbol)` is that of a symbol."""
        return self.function(*map(look, self.symbols))


@cache
def _function(expression: Any) -> tuple[tuple[str, ...], Callable[..., Any]]:
    symbols = sorted(expression.free_symbols, key=str)
    function = import_module("sympy").lambdify(symbols, expression, "numpy")
    return tuple(map(str, symbols)), function


@cache
def formula(text: str) -> Formula:
    """Parse a formula; FormulaError if that is impossible."""
    try:
        number = float(text)
        return Formula((), lambda: number, number)
    except ValueError:
        pass
    parser = import_module("petab.v1.math")
    try:
        return Formula.of(parser.sympify_petab(text))
    except Exception as error:  # of the parser, of several kinds
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FormulaError(f"{text!r} cannot be read: {reason}") from error


def substitute(expression: Any, values: Mapping[str, Any]) -> Any:
    """Replace symbols of an expression by other expressions or numbers."""
    found = import_module("sympy").sympify(expression)
    own = [each for each in found.free_symbols if str(each) in values]
    return found.subs({each: values[str(each)] for each in own})


@dataclass(frozen=True)
class Split:
    """An expression as a sum of products: Σ other · Π parameter^power."""

    parts: Mapping[tuple[tuple[str, float], ...], Any]
    """Expressions without the parameters, by the powers of these."""
    odd: frozenset[str]
    """Parameters that are in the expression in another way."""


def _summands(expression: Any) -> float:
    """Return an upper limit of the number of summands of an expanded expression."""
    if expression.is_Add:
        return sum(_summands(each) for each in expression.args)
    if expression.is_Mul:
        return math.prod(_summands(each) for each in expression.args)
    if expression.is_Pow and expression.exp.is_Integer and expression.exp > 1:
        return math.exp(min(float(expression.exp) * math.log(_summands(expression.base)), 700.0))
    return 1.0


def split(expression: Any, parameters: Collection[str]) -> Split:
    """Divide an expression into powers of parameters and what they are multiplied by."""
    sympy = import_module("sympy")
    own = [each for each in expression.free_symbols if str(each) in parameters]
    if not own:
        return Split({(): expression}, frozenset())
    if _summands(expression) > _MOST_SUMMANDS:
        return Split({}, frozenset(map(str, own)))
    parts: dict[tuple[tuple[str, float], ...], Any] = {}
    odd: set[str] = set()
    for summand in sympy.Add.make_args(sympy.expand(expression)):
        other, product = summand.as_independent(*own, as_Add=False)
        powers = product.as_powers_dict() if product.free_symbols else {}
        for base, power in powers.items():
            if base not in own or not power.is_number:
                odd |= {str(each) for each in own if each in (base**power).free_symbols}
        if not odd:
            key = tuple(sorted((str(base), float(power)) for base, power in powers.items()))
            parts[key] = parts.get(key, 0) + other
    return Split(parts, frozenset(odd))
