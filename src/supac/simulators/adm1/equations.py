"""Equations of the model as one graph: rates of change, Jacobian, sparse LU factors of a step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import NamedTuple

from supac.simulators.adm1 import model
from supac.simulators.adm1.expressions import Graph, Node, parse

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
        self.graph = Graph()
        self.names = {
            name: self.graph.symbol(name) for name in (*given, *KINETICS, *CONSTANTS, "D")
        }
        for name, formula in model.ALGEBRA.items():
            if name not in self.names:
                self.names[name] = self.parse(formula)
        self.rates = {process.name: self.parse(process.rate) for process in model.PROCESSES}
        self._balance = {**model.BALANCE, **extra}
        self._table = stoichiometry()

    def parse(self, formula: str) -> Node:
        """Parse a formula of the model's names."""
        return parse(formula, self.names, self.graph)

    def change(self, state: str) -> Node:
        """Return the rate of change of a state; for S_H, the charge balance that determines it."""
        if state in self._balance:
            return self.parse(self._balance[state])
        together: dict[str, Node] = {}  # rates with the same coefficient are added first
        for process, row in self._table.items():
            if state in row:
                zero = self.graph.number(0.0)
                together[row[state]] = together.get(row[state], zero) + self.rates[process]
        total = self._flow(state)
        for made, rate in together.items():
            total = total + self._coefficient(made) * rate
        return total

    def _flow(self, state: str) -> Node:
        """Return inflow minus outflow and transfer into the gas."""
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

        Slow states are left out of all rows of the processes, so that a step conserves mass.
        """
        slow = by in model.SLOW and state in model.LIQUID
        return self.graph.derivative(
            self._flow(state) if slow else self.change(state), self.names[by]
        )


def states_of(variant: str, extra: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the states with a differential equation, and those with an algebraic one."""
    algebraic, other = (["S_h2", "S_H"], ()) if variant == "dae" else ([], ("S_h2", *ION_PAIR))
    liquid = [name for name in model.LIQUID if name not in (*algebraic, *other)]
    return [*liquid, *model.GAS, *extra], algebraic


Entries = dict[tuple[str, str], Node]


class Factors(NamedTuple):
    """Sparse LU factors of diag(g, 0) − Jacobian, by row and column."""

    order: list[str]
    lower: Entries
    upper: Entries
    inverse_pivots: Entries

    def all(self) -> Entries:
        """Return every factor, inverse pivots on the diagonal."""
        return {**self.lower, **self.upper, **self.inverse_pivots}


def factorise(equations: Equations, differential: list[str], algebraic: list[str]) -> Factors:
    """Factorise in the order of least fill (Markowitz), without numerical pivoting.

    The chain of reactions is nearly triangular: a few hundred operations suffice.
    """
    graph, left = equations.graph, differential + algebraic
    zero, factors = graph.number(0.0), Factors([], {}, {}, {})
    slopes = {entry: equations.slope(*entry) for entry in product(left, left)}
    matrix = {entry: -slope for entry, slope in slopes.items() if not slope.equals(0.0)}
    for name in differential:
        matrix[name, name] = graph.symbol("g") + matrix.get((name, name), zero)

    def neighbours(pivot: str) -> tuple[list[str], list[str]]:
        rows = [row for row in left if row != pivot and (row, pivot) in matrix]
        columns = [column for column in left if column != pivot and (pivot, column) in matrix]
        return rows, columns

    def fill(pivot: str) -> tuple[int, int]:
        rows, columns = neighbours(pivot)
        return len(rows) * len(columns), len(rows) + len(columns)

    while left:
        pivot = min(left, key=fill)
        rows, columns = neighbours(pivot)
        left.remove(pivot)
        factors.order.append(pivot)
        inverse = factors.inverse_pivots[pivot, pivot] = graph.number(1.0) / matrix[pivot, pivot]
        for row in rows:
            factor = factors.lower[row, pivot] = matrix[row, pivot] * inverse
            for column in columns:
                entry = matrix.get((row, column), zero)
                matrix[row, column] = entry - factor * matrix[pivot, column]
        factors.upper.update({(pivot, column): matrix[pivot, column] for column in columns})
    return factors
