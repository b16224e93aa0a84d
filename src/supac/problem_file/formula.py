"""Formulas of parameters: arithmetic alone, read without running any code of the file."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any

import numpy as np

_OPERATORS: Mapping[type, Callable[..., Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
    ast.USub: np.negative,
    ast.UAdd: np.positive,
}
_COMPARISONS: Mapping[type, Callable[..., Any]] = {
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "exp": np.exp,
    "log": np.log,
    "log10": np.log10,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    "round": np.round,
}
_OF_MANY: Mapping[str, Callable[..., Any]] = {"min": np.minimum, "max": np.maximum}
_CONSTANTS = {"pi": np.pi}
_LONGEST = 1_000  # characters of a formula

KNOWN = f"+ - * / **, {', '.join([*_FUNCTIONS, *_OF_MANY])} and pi"


class FormulaError(ValueError):
    """The text is no formula."""


@dataclass(frozen=True)
class Formula:
    """An expression in the names of parameters, such as "2 * k1"; a comparison is a constraint."""

    text: str

    def __post_init__(self) -> None:
        try:
            _check(_tree(self.text))
        except RecursionError as error:
            raise FormulaError("is nested too deeply") from error

    @property
    def names(self) -> set[str]:
        """Names of the parameters in it."""
        called = {id(n.func) for n in ast.walk(_tree(self.text)) if isinstance(n, ast.Call)}
        names = [n for n in ast.walk(_tree(self.text)) if isinstance(n, ast.Name)]
        return {n.id for n in names if id(n) not in called} - set(_CONSTANTS)

    @property
    def compares(self) -> bool:
        """True for a constraint, such as "k1 < k2"."""
        return isinstance(_tree(self.text), ast.Compare)

    def __call__(self, values: Mapping[str, Any]) -> Any:
        """Compute the value, of numbers or of arrays; a constraint is True where it holds."""
        with np.errstate(all="ignore"):
            return _value(_tree(self.text), values)


@cache
def _tree(text: str) -> ast.expr:
    if len(text) > _LONGEST:
        raise FormulaError(f"has more than {_LONGEST} characters")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise FormulaError(f"is no formula: {getattr(error, 'msg', None) or error}") from error


def _check(node: ast.expr, *, inside: bool = False) -> None:
    """Raise FormulaError for anything that is not arithmetic."""
    if isinstance(node, ast.Compare) and not inside:
        if any(type(each) not in _COMPARISONS for each in node.ops):
            raise FormulaError("compares with <, <=, > or >=; what is equal is tied by a formula")
        parts = [node.left, *node.comparators]
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        parts = [node.left, node.right]
    elif isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
        parts = [node.operand]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        _check_call(node.func.id, len(node.args))
        parts = node.args
    elif isinstance(node, ast.Name) or _is_number(node):
        if isinstance(node, ast.Constant) and not abs(node.value) <= sys.float_info.max:  # type: ignore[arg-type]
            raise FormulaError("has a number that is too large")
        parts = []
    else:
        power = isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitXor)
        hint = "write ** for a power" if power else f"a formula has {KNOWN}"
        raise FormulaError(f"{ast.unparse(node)[:40]} is not understood: {hint}")
    for part in parts:
        _check(part, inside=True)


def _check_call(name: str, count: int) -> None:
    if name not in {*_FUNCTIONS, *_OF_MANY}:
        raise FormulaError(f"there is no function {name}: a formula has {KNOWN}")
    if count != 1 if name in _FUNCTIONS else count < 2:
        wanted = "one number" if name in _FUNCTIONS else "two numbers or more"
        raise FormulaError(f"{name} takes {wanted}")


def _is_number(node: ast.expr) -> bool:
    plain = isinstance(node, ast.Constant) and isinstance(node.value, int | float)
    return plain and not isinstance(getattr(node, "value", None), bool)


def _value(node: ast.expr, values: Mapping[str, Any]) -> Any:
    """Compute the value of a checked expression."""
    if isinstance(node, ast.Constant):
        return np.float64(node.value)  # type: ignore[arg-type]
    if isinstance(node, ast.Name):
        return values[node.id] if node.id in values else _CONSTANTS[node.id]
    if isinstance(node, ast.UnaryOp):
        return _OPERATORS[type(node.op)](_value(node.operand, values))
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_value(node.left, values), _value(node.right, values))
    if isinstance(node, ast.Compare):
        sides = [_value(each, values) for each in (node.left, *node.comparators)]
        holds = zip(node.ops, sides, sides[1:], strict=False)
        return reduce(np.logical_and, (_COMPARISONS[type(op)](a, b) for op, a, b in holds))
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    function = _FUNCTIONS.get(node.func.id) or _OF_MANY[node.func.id]
    arguments = [_value(each, values) for each in node.args]
    return reduce(function, arguments) if len(arguments) > 1 else function(*arguments)
