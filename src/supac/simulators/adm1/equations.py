"""Equations of the model as one graph: rates of change, Jacobian, sparse LU factors of a step."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import product
from typing import NamedTuple

from supac.simulators.adm1 import model
from supac.simulators.adm1.expressions import Graph, Node, factors_of, needed, parse

# Symbols made of the thirty calibrated parameters: pH limits become a Hill function.
KINETICS = (
    *(name for name in model.CALIBRATED if not name.startswith("pH")),
    "pK_aa", "n_aa", "pK_ac", "n_ac", "pK_h2", "n_h2",
)  # fmt: skip
CONSTANTS = (
    "V_liq", "V_gas", "RT", "p_h2o", "p_atm", "k_p", "k_L_a", "K_H_h2", "K_H_ch4", "K_H_co2",
    "K_w", "K_a_co2", "K_a_IN", "K_a_va", "K_a_bu", "K_a_pro", "K_a_ac", "normalised",
)  # fmt: skip
PH_INHIBITION = ("I_pH_aa", "I_pH_ac", "I_pH_h2")
# The variant "split" holds these during a feed interval and solves for S_H and S_h2 after it.
HELD = (*PH_INHIBITION, "S_h2", "S_nh3", "S_hco3")
ION_PAIR = ("S_cation", "S_anion")


def stoichiometry() -> dict[str, dict[str, str]]:
    """Return process → component → coefficient formula, balances closed by S_IC and S_IN."""
    table = {process.name: dict(process.yields) for process in model.PROCESSES}
    for row in table.values():
        balances = {
            inorganic: [f"({made}) * {content[c]}" for c, made in row.items() if c in content]
            for inorganic, content in (("S_IC", model.CARBON), ("S_IN", model.NITROGEN))
        }
        row |= {name: f"-({' + '.join(held)})" for name, held in balances.items() if held}
    return table


COEFFICIENTS = tuple(sorted({made for row in stoichiometry().values() for made in row.values()}))


class Equations:
    """The model as one graph; names other than the symbols `given` are computed from formulas.

    `extra` are additional states, name → formula of the rate of change, to record flows.
    """

    def __init__(self, given: Iterable[str], extra: Mapping[str, str]):
        self.graph, self.given = Graph(), (*given,)
        self.names = {
            name: self.graph.symbol(name) for name in (*self.given, *KINETICS, *CONSTANTS, "D")
        }
        for name, formula in model.ALGEBRA.items():
            if name not in self.names:
                self.names[name] = self.parse(formula)
        self.rates = {process.name: self._rate(process.rate) for process in model.PROCESSES}
        self._balance = {**model.BALANCE, **extra}
        self._table = stoichiometry()

    def parse(self, formula: str) -> Node:
        """Parse a formula of the model's names."""
        return parse(formula, self.names, self.graph)

    def _rate(self, formula: str) -> Node:
        """Parse a product, and multiply what changes seldom first: it is computed seldom."""
        rate = self.graph.number(1.0)
        for node in sorted(map(self.parse, factors_of(formula)), key=self._pace):
            rate = rate * node
        return rate

    def _pace(self, node: Node) -> int:
        """Return 0 for what is the same in a feed interval, then slow states, others, S_H, S_h2."""
        symbols = {str(each.leaf) for each in needed([node]) if each.operation == "symbol"}
        if not symbols.isdisjoint(("S_H", "S_h2", *HELD)):
            return 0 if "I_pH_aa" in self.given else 3
        if symbols.isdisjoint(model.LIQUID):
            return 0
        return 1 if symbols.isdisjoint({*model.LIQUID} - {*model.SLOW}) else 2

    def change(self, state: str) -> Node:
        """Return the rate of change of a state; for S_H, the charge balance that determines it."""
        return self.change_without(state, ())

    def change_without(self, state: str, processes: Collection[str]) -> Node:
        """Return the rate of change without what these processes make."""
        zero = self.graph.number(0.0)
        together: dict[Node, Node] = {}  # rates with the same coefficient are added first
        for process, coefficient in self.yields(state).items():
            if process not in processes:
                together[coefficient] = together.get(coefficient, zero) + self.rates[process]
        total = self.flow(state)
        for coefficient, rate in together.items():
            total = total + coefficient * rate
        return total

    def yields(self, state: str) -> dict[str, Node]:
        """Return the coefficients of a state in the processes that make or take it."""
        if state in self._balance:
            return {}
        table = self._table.items()
        return {process: self._coefficient(row[state]) for process, row in table if state in row}

    def flow(self, state: str) -> Node:
        """Return the rate of change without the processes: inflow, outflow, transfer to the gas."""
        if state in self._balance:
            return self.parse(self._balance[state])
        flow = self.graph.symbol(f"in_{state}") - self.names["D"] * self.names[state]
        if state in model.TRANSFER:
            flow = flow - self.parse(model.TRANSFER[state])
        return flow

    def _coefficient(self, made: str) -> Node:
        if made in ("1", "-1"):
            return self.graph.number(float(made))
        return self.graph.symbol(f"nu{COEFFICIENTS.index(made)}")

    def slope(self, state: str, by: str) -> Node:
        """Return ∂(rate of change of `state`)/∂`by` for the matrix of a step.

        Slow states are left out of all rates of the processes, so that a step conserves mass.
        """
        slope = self.graph.derivative(self.flow(state), self.names[by])
        for process, coefficient in self.yields(state).items():
            slope = slope + coefficient * self.slope_of_rate(process, by)
        return slope

    def slope_of_rate(self, process: str, by: str) -> Node:
        """Return ∂(rate of a process)/∂`by` for the matrix of a step."""
        if by in model.SLOW:
            return self.graph.number(0.0)
        return self.graph.derivative(self.rates[process], self.names[by])


def states_of(variant: str, extra: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the states with a differential equation, and those with an algebraic one."""
    algebraic, other = (["S_h2", "S_H"], ()) if variant == "dae" else ([], ("S_h2", *ION_PAIR))
    liquid = [name for name in model.LIQUID if name not in (*algebraic, *other)]
    return [*liquid, *model.GAS, *extra], algebraic


Entries = dict[tuple[str, str], Node]


class Pivot(NamedTuple):
    """Row and column that are eliminated together.

    The inverse of the pivot multiplies the unknown `first`, before it is used in other rows, or
    else last. `below` are entries of its column, `right` of its row, one of them divided by it.
    """

    inverse: Node
    first: bool
    below: dict[str, Node]
    right: dict[str, Node]

    def entries(self) -> list[Node]:
        """Return all numbers."""
        return [self.inverse, *self.below.values(), *self.right.values()]


def matrix_of_step(
    equations: Equations, differential: list[str], algebraic: list[str]
) -> tuple[Entries, list[str]]:
    """Return the matrix of a step by row and column, and the processes among its unknowns.

    The unknowns are the changes x of the states and the rates u of the processes after them:
    diag(g, 0)·x − (slopes of flows)·x − yields·u = flows, u − (slopes of rates)·x = rates.
    Without u this is diag(g, 0) − Jacobian; with it most entries are constants.
    """
    graph, states = equations.graph, differential + algebraic
    matrix: Entries = {}
    for state, by in product(states, states):
        matrix[state, by] = -graph.derivative(equations.flow(state), equations.names[by])
        if state == by and state in differential:
            matrix[state, by] = graph.symbol("g") + matrix[state, by]
    slopes = {
        (process, by): equations.slope_of_rate(process, by)
        for process, by in product(equations.rates, states)
    }
    processes = [p for p in equations.rates if any(not slopes[p, by].equals(0.0) for by in states)]
    for process in processes:
        matrix[process, process] = graph.number(1.0)
        matrix |= {(process, by): -slopes[process, by] for by in states}
    for state in states:
        yields = equations.yields(state)
        matrix |= {
            (state, process): -made for process, made in yields.items() if process in processes
        }
    return {entry: node for entry, node in matrix.items() if not node.equals(0.0)}, processes


def factorise(graph: Graph, matrix: Entries) -> dict[str, Pivot]:
    """Factorise in the order of least fill, without numerical pivoting.

    The chain of reactions is nearly triangular: a few hundred operations suffice.
    """
    matrix, left = dict(matrix), list(dict.fromkeys(row for row, _ in matrix))
    zero, pivots = graph.number(0.0), dict[str, Pivot]()

    def neighbours(pivot: str) -> tuple[list[str], list[str]]:
        rows = [row for row in left if row != pivot and (row, pivot) in matrix]
        columns = [column for column in left if column != pivot and (pivot, column) in matrix]
        return rows, columns

    def fill(pivot: str) -> tuple[int, int, int]:
        rows, columns = neighbours(pivot)
        new = sum(entry not in matrix for entry in product(rows, columns))
        return new, len(rows) * len(columns), len(rows) + len(columns)

    while left:
        pivot = min(left, key=fill)
        rows, columns = neighbours(pivot)
        left.remove(pivot)
        inverse = graph.number(1.0) / matrix[pivot, pivot]
        below = {row: matrix[row, pivot] for row in rows}
        right = {column: matrix[pivot, column] for column in columns}
        # Constants stay constants: what is divided has to be kept.
        first = len(rows) + _kept(right) > len(columns) + _kept(below)
        if first:
            right = {column: node * inverse for column, node in right.items()}
        else:
            below = {row: node * inverse for row, node in below.items()}
        for row, column in product(rows, columns):
            entry = matrix.get((row, column), zero)
            matrix[row, column] = entry - below[row] * right[column]
        pivots[pivot] = Pivot(inverse, first, below, right)
    return pivots


def _kept(entries: Mapping[str, Node]) -> int:
    """Return how many entries are computed."""
    return sum(bool((node.negated or node).arguments) for node in entries.values())
