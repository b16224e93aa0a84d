"""Formulas as a graph: parsed from text, differentiated exactly, written as straight-line code.

Equal subexpressions are one node and computed once; constants are folded; only what the results
need is written.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Operator = Callable[[Any, Any], Any]
_OPERATORS: dict[type[ast.operator], Operator] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip
_BINARY: dict[str, Operator] = {"+": operator.add, "-": operator.sub, "*": operator.mul}


@dataclass(frozen=True)
class Node:
    """Node of a graph; arithmetic makes new nodes."""

    graph: Graph
    index: int

    def __add__(self, other: Node) -> Node:
        return self.graph.make("+", self, other)

    def __sub__(self, other: Node) -> Node:
        return self.graph.make("-", self, other)

    def __neg__(self) -> Node:
        return self.graph.make("-", self.graph.number(0.0), self)

    def __mul__(self, other: Node) -> Node:
        return self.graph.make("*", self, other)

    def __truediv__(self, other: Node) -> Node:
        return self * self.graph.make("1/", other)

    @property
    def is_zero(self) -> bool:
        """Return True for the constant 0."""
        return self.graph.value(self) == 0.0


class Graph:
    """Graph of unique nodes (operation, arguments), arguments before their nodes."""

    def __init__(self) -> None:
        self._nodes: list[tuple[str, tuple[object, ...]]] = []
        self._places: dict[tuple[str, tuple[object, ...]], int] = {}
        self._derivatives: dict[tuple[int, int], Node] = {}

    def _intern(self, operation: str, *arguments: object) -> Node:
        key = (operation, arguments)
        if key not in self._places:
            self._places[key] = len(self._nodes)
            self._nodes.append(key)
        return Node(self, self._places[key])

    def number(self, value: float) -> Node:
        """Return a constant node."""
        return self._intern("number", float(value))

    def symbol(self, text: str) -> Node:
        """Return a node that the surrounding code computes under the name `text`."""
        return self._intern("symbol", text)

    def value(self, node: Node) -> float | None:
        """Return the value of a constant node, None for others."""
        operation, arguments = self._nodes[node.index]
        return arguments[0] if operation == "number" else None  # type: ignore[return-value]

    def make(self, operation: str, *arguments: Node) -> Node:
        """Return the simplified node of an operation: +, -, *, 1/, log, exp, positive or sign."""
        if operation in _BINARY:
            return self._make_binary(operation, *arguments)
        value = self.value(arguments[0])
        if operation == "1/" and value is not None:
            return self.number(1.0 / value)
        return self._intern(operation, arguments[0].index)

    def _make_binary(self, operation: str, left: Node, right: Node) -> Node:
        a, b = self.value(left), self.value(right)
        if a is not None and b is not None:
            return self.number(_BINARY[operation](a, b))
        if operation == "*":
            return self._make_product(left, right, a, b)
        if b == 0.0 or (operation == "+" and a == 0.0):
            return left if b == 0.0 else right
        # a + (0 − b) is a − b, and a − (0 − b) is a + b.
        minus_left, minus_right = self._negated(left), self._negated(right)
        if minus_right is not None and a != 0.0:
            return self.make("-" if operation == "+" else "+", left, minus_right)
        if minus_left is not None and operation == "+":
            return self.make("-", right, minus_left)
        return self._intern_ordered(operation, left, right)

    def _make_product(self, left: Node, right: Node, a: float | None, b: float | None) -> Node:
        if 0.0 in (a, b):
            return self.number(0.0)
        if 1.0 in (a, b):
            return right if a == 1.0 else left
        if -1.0 in (a, b):
            return -right if a == -1.0 else -left
        return self._intern_ordered("*", left, right)

    def _intern_ordered(self, operation: str, left: Node, right: Node) -> Node:
        if operation != "-" and left.index > right.index:
            left, right = right, left
        return self._intern(operation, left.index, right.index)

    def _negated(self, node: Node) -> Node | None:
        """Return b if the node is 0 − b, else None."""
        if self.operation(node) != "-":
            return None
        left, right = (Node(self, index) for index in self._inner(node.index))
        return right if left.is_zero else None

    def derivative(self, of: Node, by: Node) -> Node:
        """Return ∂of/∂by, by the chain rule."""
        key = (of.index, by.index)
        if key not in self._derivatives:
            self._derivatives[key] = self._differentiate(of, by)
        return self._derivatives[key]

    def _differentiate(self, of: Node, by: Node) -> Node:
        if of.index <= by.index:  # earlier nodes cannot depend on a symbol
            return self.number(1.0 if of.index == by.index else 0.0)
        operation = self.operation(of)
        if operation in ("number", "symbol"):
            return self.number(0.0)
        inner = [Node(self, index) for index in self._inner(of.index)]
        slopes = [self.derivative(node, by) for node in inner]
        if operation == "+":
            return slopes[0] + slopes[1]
        if operation == "-":
            return slopes[0] - slopes[1]
        if operation == "*":
            return slopes[0] * inner[1] + inner[0] * slopes[1]
        return self._outer_slope(operation, of, inner[0]) * slopes[0]

    def _outer_slope(self, operation: str, of: Node, inner: Node) -> Node:
        """Return the derivative of a function of one variable."""
        if operation == "1/":
            return -(of * of)
        if operation == "log":
            return self.number(1.0) / inner
        if operation == "exp":
            return of
        if operation == "positive":
            return self.make("sign", inner)
        return self.number(0.0)  # sign

    def needed(self, results: Iterable[Node], given: Iterable[Node] = ()) -> list[Node]:
        """Return the results and everything they need, in order, without the inputs of `given`."""
        known = {node.index for node in given}
        found: set[int] = set()
        stack = [node.index for node in results]
        while stack:
            index = stack.pop()
            if index not in found:
                found.add(index)
                if index not in known:
                    stack += self._inner(index)
        return [Node(self, index) for index in sorted(found)]

    def _inner(self, index: int) -> tuple[int, ...]:
        operation, arguments = self._nodes[index]
        return () if operation in ("number", "symbol") else arguments  # type: ignore[return-value]

    def operation(self, node: Node) -> str:
        """Return the operation of a node; "symbol" or "number" for a leaf."""
        return self._nodes[node.index][0]

    def text(self, symbol: Node) -> str:
        """Return the text of a symbol."""
        return str(self._nodes[symbol.index][1][0])

    def frontier(self, results: Iterable[Node], moving: Iterable[Node]) -> list[Node]:
        """Return the largest subexpressions that do not depend on the `moving` symbols."""
        moved = {node.index for node in moving}
        order = self.needed(results)
        for node in order:
            if any(index in moved for index in self._inner(node.index)):
                moved.add(node.index)
        edge = {node.index for node in results} - moved
        for node in order:
            if node.index in moved:
                edge |= set(self._inner(node.index)) - moved
        nodes = [Node(self, index) for index in sorted(edge)]
        return [node for node in nodes if self._inner(node.index)]

    def code(self, results: Mapping[str, Node], given: Mapping[Node, str]) -> list[str]:
        """Return straight-line statements that assign each result to its target."""
        text: dict[int, str] = {node.index: name for node, name in given.items()}
        lines = []
        for node in self.needed(results.values(), given):
            if node.index in text:
                continue
            operation, arguments = self._nodes[node.index]
            if operation in ("number", "symbol"):
                text[node.index] = str(arguments[0])
                continue
            operands = [text[argument] for argument in self._inner(node.index)]
            text[node.index] = f"t{node.index}"
            lines.append(f"t{node.index} = {_statement(operation, operands)}")
        return lines + [f"{target} = {text[node.index]}" for target, node in results.items()]


def _statement(operation: str, operands: list[str]) -> str:
    if operation in _BINARY:
        return f"{operands[0]} {operation} {operands[1]}"
    return {
        "1/": "1.0 / {}",
        "log": "math.log({})",
        "exp": "math.exp({})",
        "positive": "0.5 * ({0} + abs({0}))",  # no branch, so that it vectorises
        "sign": "0.5 + 0.5 * math.copysign(1.0, {})",
    }[operation].format(operands[0])


def parse(formula: str, names: Mapping[str, Node], graph: Graph) -> Node:
    """Parse a formula of named nodes, with +, −, *, / and the functions below."""

    def monod(substrate: Node, half: Node) -> Node:
        return substrate / (half + substrate)

    def inhibited(inhibitor: Node, half: Node) -> Node:
        return half / (half + inhibitor)

    def hill(concentration: Node, half: Node, order: Node) -> Node:
        distance = graph.make("log", concentration) - graph.make("log", half)
        return graph.number(1.0) / (graph.number(1.0) + graph.make("exp", order * distance))

    functions: dict[str, Callable[..., Node]] = {
        "monod": monod,
        "inhibited": inhibited,
        "hill": hill,
        "positive": lambda node: graph.make("positive", node),
    }

    def walk(node: ast.expr) -> Node:
        match node:
            case ast.Name(id=name):
                return names[name]
            case ast.Constant(value=float() | int() as value):
                return graph.number(float(value))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -walk(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](walk(left), walk(right))
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return functions[name](*map(walk, arguments))
        raise ValueError(f"cannot read {ast.unparse(node)} in {formula}")

    return walk(ast.parse(formula, mode="eval").body)


def constant(formula: str, values: Mapping[str, float]) -> float:
    """Evaluate a formula of numbers."""
    graph = Graph()
    node = parse(formula, {name: graph.number(value) for name, value in values.items()}, graph)
    value = graph.value(node)
    assert value is not None
    return value
