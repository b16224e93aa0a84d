"""Formulas as a graph: parsed from text, differentiated exactly, written as straight-line code.

Equal subexpressions are one node and computed once; constants are folded; only what the results
need is written.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True, eq=False)
class Node:
    """Node of a graph; arithmetic makes new nodes, equal nodes are one object."""

    graph: Graph
    index: int
    """Larger than those of the arguments."""
    operation: str
    """"number" or "symbol" for a leaf."""
    arguments: tuple[Node, ...]
    leaf: float | str

    def __add__(self, other: Node) -> Node:
        return self.graph.make("+", self, other)

    def __sub__(self, other: Node) -> Node:
        return self.graph.make("-", self, other)

    def __neg__(self) -> Node:
        return self.graph.number(0.0) - self

    def __mul__(self, other: Node) -> Node:
        return self.graph.make("*", self, other)

    def __truediv__(self, other: Node) -> Node:
        return self * self.graph.make("1/", other)

    def equals(self, value: float) -> bool:
        """Return True for a constant node of this value."""
        return self.operation == "number" and self.leaf == value

    @property
    def negated(self) -> Node | None:
        """b if the node is 0 − b, else None."""
        is_minus = self.operation == "-" and self.arguments[0].equals(0.0)
        return self.arguments[1] if is_minus else None


class _Operation(NamedTuple):
    """Notation of an operation, its derivative, and its value for constants."""

    code: str
    slope: Callable[..., Node]
    """Of the node, its arguments and their derivatives."""
    fold: Callable[..., float] | None = None


_OPERATIONS = {
    "+": _Operation("{} + {}", lambda y, a, b, da, db: da + db, operator.add),
    "-": _Operation("{} - {}", lambda y, a, b, da, db: da - db, operator.sub),
    "*": _Operation("{} * {}", lambda y, a, b, da, db: da * b + a * db, operator.mul),
    "1/": _Operation("1.0 / {}", lambda y, a, da: -(y * y) * da, lambda a: 1.0 / a),
    "log": _Operation("math.log({})", lambda y, a, da: a.graph.make("1/", a) * da),
    "exp": _Operation("math.exp({})", lambda y, a, da: y * da),
    # No branch, so that it vectorises.
    "positive": _Operation("0.5 * ({0} + abs({0}))", lambda y, a, da: a.graph.make("sign", a) * da),
    "sign": _Operation("0.5 + 0.5 * math.copysign(1.0, {})", lambda y, a, da: a.graph.number(0.0)),
}


class Graph:
    """Graph of unique nodes, arguments before their nodes."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[Any, ...], Node] = {}
        self._derivatives: dict[tuple[Node, Node], Node] = {}

    def _intern(self, *key: Any) -> Node:
        if key not in self._nodes:
            self._nodes[key] = Node(self, len(self._nodes), *key)
        return self._nodes[key]

    def number(self, value: float) -> Node:
        """Return a constant node."""
        return self._intern("number", (), float(value))

    def symbol(self, text: str) -> Node:
        """Return a node that the surrounding code computes under the name `text`."""
        return self._intern("symbol", (), text)

    def make(self, operation: str, *arguments: Node) -> Node:
        """Return the simplified node of an operation: +, -, *, 1/, log, exp, positive or sign."""
        fold = _OPERATIONS[operation].fold
        if fold is not None and all(node.operation == "number" for node in arguments):
            return self.number(fold(*(node.leaf for node in arguments)))
        simplify = {"+": self._sum, "-": self._difference, "*": self._product}.get(operation)
        simpler = None if simplify is None else simplify(*arguments)
        if simpler is not None:
            return simpler
        if operation in ("+", "*"):
            arguments = tuple(sorted(arguments, key=lambda node: node.index))
        return self._intern(operation, arguments, "")

    def _sum(self, left: Node, right: Node) -> Node | None:
        """Return the simpler form of a + b, if any; a + (0 − b) is a − b."""
        for one, other in ((right, left), (left, right)):
            if one.equals(0.0):
                return other
            if one.negated is not None:
                return other - one.negated
        return None

    def _difference(self, left: Node, right: Node) -> Node | None:
        """Return the simpler form of a − b, if any; a − (0 − b) is a + b."""
        if right.equals(0.0):
            return left
        if left.equals(0.0) or right.negated is None:
            return None
        return left + right.negated

    def _product(self, left: Node, right: Node) -> Node | None:
        """Return the simpler form of a product with 0, 1 or −1."""
        for one, other in ((left, right), (right, left)):
            if one.equals(0.0):
                return one
            if one.equals(1.0) or one.equals(-1.0):
                return other if one.equals(1.0) else -other
        return None

    def derivative(self, of: Node, by: Node) -> Node:
        """Return ∂of/∂by, by the chain rule."""
        if of.index <= by.index or not of.arguments:  # earlier nodes cannot depend on a symbol
            return self.number(1.0 if of is by else 0.0)
        if (of, by) not in self._derivatives:
            slopes = [self.derivative(node, by) for node in of.arguments]
            slope = _OPERATIONS[of.operation].slope(of, *of.arguments, *slopes)
            self._derivatives[of, by] = slope
        return self._derivatives[of, by]


def needed(results: Iterable[Node], given: Collection[Node] = ()) -> list[Node]:
    """Return the results and everything they need, in order, without the inputs of `given`."""
    found: set[Node] = set()
    stack = list(results)
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack += () if node in given else node.arguments
    return sorted(found, key=lambda node: node.index)


def frontier(results: Collection[Node], moving: Iterable[Node]) -> list[Node]:
    """Return the largest subexpressions that do not depend on the `moving` symbols."""
    moved, order = set(moving), needed(results)
    for node in order:
        if not moved.isdisjoint(node.arguments):
            moved.add(node)
    edge = set(results).union(*(node.arguments for node in order if node in moved)) - moved
    return sorted((node for node in edge if node.arguments), key=lambda node: node.index)


def code(
    results: Mapping[str, Node], given: Mapping[Node, str], places: Mapping[str, str] | None = None
) -> list[str]:
    """Return straight-line statements that assign each result to its target.

    Names of `places` are read from there. Everything is computed just before it is needed first,
    and assigned at once, so that few values are alive at a time.
    """
    text, lines, places = dict[Node, str](), list[str](), places or {}

    def compute(node: Node) -> str:
        if node in text:
            return text[node]
        if node in given or not node.arguments:
            text[node] = name = given.get(node, str(node.leaf))
            if name in places:
                lines.append(f"{name} = {places[name]}")
            return name
        # The later made argument first: it is the longer computation.
        operands = {each: compute(each) for each in sorted(node.arguments, key=_later_first)}
        text[node] = f"t{node.index}"
        formula = _OPERATIONS[node.operation].code
        lines.append(f"{text[node]} = {formula.format(*map(operands.get, node.arguments))}")
        return text[node]

    for target, node in sorted(results.items(), key=lambda item: item[1].index):
        name = compute(node)
        lines.append(f"{target} = {name}")
    return lines


def _later_first(node: Node) -> int:
    return -node.index


_OPERATORS: dict[type[ast.operator], Callable[[Node, Node], Node]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip


def parse(formula: str, names: Mapping[str, Node], graph: Graph) -> Node:
    """Parse a formula of named nodes, with +, −, *, / and the functions below."""

    def hill(concentration: Node, exponent: Node, order: Node) -> Node:
        distance = graph.make("log", concentration) + graph.number(math.log(10.0)) * exponent
        return graph.make("1/", graph.number(1.0) + graph.make("exp", order * distance))

    functions: dict[str, Callable[..., Node]] = {
        "monod": lambda substrate, half: substrate / (half + substrate),
        "inhibited": lambda inhibitor, half: half / (half + inhibitor),
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


def factors_of(formula: str) -> list[str]:
    """Return the factors of a product."""

    def walk(node: ast.expr) -> list[ast.expr]:
        match node:
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return walk(left) + walk(right)
        return [node]

    return [ast.unparse(node) for node in walk(ast.parse(formula, mode="eval").body)]


def constant(formula: str, values: Mapping[str, float]) -> float:
    """Evaluate a formula of numbers."""
    graph = Graph()
    node = parse(formula, {name: graph.number(value) for name, value in values.items()}, graph)
    return float(node.leaf)
