"""Code generation from the model's formulas: right-hand side, Jacobian, sparse LU.

LANES simulations run in parallel, one in each *lane*: a quantity has LANES consecutive entries of
one work array W, and every routine is a loop over the lanes that the compiler vectorises. What does
not depend on the states is computed once, before the steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import accumulate, product
from typing import NamedTuple

from supac.simulators.adm1 import model
from supac.simulators.adm1.expressions import Graph, Node, code, frontier, needed, parse

LANES = 16

# Symbols made of the thirty calibrated parameters: pH limits become a Hill function.
KINETICS = (
    *(name for name in model.CALIBRATED if not name.startswith("pH")),
    "K_pH_aa", "n_aa", "K_pH_ac", "n_ac", "K_pH_h2", "n_h2",
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

    def parse(self, formula: str) -> Node:
        """Parse a formula of the model's names."""
        return parse(formula, self.names, self.graph)

    def change(self, state: str) -> Node:
        """Return the rate of change of a state; for S_H, the charge balance that determines it."""
        if state in self._balance:
            return self.parse(self._balance[state])
        total = self._flow(state)
        for process, row in stoichiometry().items():
            if state in row:
                total = total + self._coefficient(row[state]) * self.rates[process]
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


def generate(variant: str, extra: Mapping[str, str]) -> str:
    """Return the source of the routines that `driver.py` calls."""
    return _Writer(variant, extra).source()


class _Writer:
    """Writes the equations as functions of the work array."""

    def __init__(self, variant: str, extra: Mapping[str, str]):
        self.dae = variant == "dae"
        self.differential, self.algebraic = states_of(variant, extra)
        self.states = self.differential + self.algebraic
        self.equations = Equations([*self.states, *(() if self.dae else HELD)], extra)
        graph, names = self.equations.graph, self.equations.names
        self.factors = factorise(self.equations, self.differential, self.algebraic)
        self.changes = [self.equations.change(name) for name in self.states]
        results = [*self.changes, *self.factors.all().values()]
        moving = [names[name] for name in (*self.states, "D")] + [graph.symbol("g")]
        moving += [graph.symbol(f"in_{name}") for name in model.LIQUID]
        # Before the steps: what depends on parameters and held states only.
        self.ahead = {node: f"a{k}" for k, node in enumerate(frontier(results, moving))}
        # Before each evaluation: exponentials and logarithms, which have no vector instruction.
        slow = [
            node
            for node in needed(results, self.ahead)
            if node.operation in ("exp", "log") and node not in self.ahead
        ]
        self.slow = {node: f"s{k}" for k, node in enumerate(slow)}
        vectors = ("y", "Y", "f", "f0", "K1", "K2", "K3", "K4", "before")
        self.lengths = {
            "kinetics": len(KINETICS), "ahead": len(self.ahead), "slow": len(self.slow),
            "factors": len(self.factors.all()), **dict.fromkeys(vectors, len(self.states)),
            **dict.fromkeys(("S_H", *HELD, *ION_PAIR, "residual", "lowest"), 1), "gas": 4,
        }  # fmt: skip
        # Where each begins in the work array, in units of LANES.
        offsets = accumulate(self.lengths.values(), initial=0)
        self.offsets = dict(zip(self.lengths, offsets, strict=False))
        self.places = self._names_at("ahead", self.ahead.values())
        self.places |= self._names_at("slow", self.slow.values())
        self.places |= self._names_at("kinetics", KINETICS)
        self.places |= {name: self._at(name) for name in ("S_H", *HELD, *ION_PAIR)}
        # The same in all lanes.
        self.shared = {name: f"constants[{k}]" for k, name in enumerate(CONSTANTS)}
        self.shared |= {f"in_{name}": f"inflow[{k}]" for k, name in enumerate(self.states)}
        self.shared |= {f"nu{k}": f"nu[{k}]" for k in range(len(COEFFICIENTS))}

    def _at(self, name: str, k: int = 0) -> str:
        """Return the expression of quantity k of `name` in the current lane."""
        return f"W[{(self.offsets[name] + k) * LANES} + l]"

    def _names_at(self, array: str, names: Iterable[str]) -> dict[str, str]:
        """Return the expressions of successive quantities of an array, by name."""
        return {name: self._at(array, k) for k, name in enumerate(names)}

    def source(self) -> str:
        """Return the whole source."""
        near = self._names_at("y", self.states) | {"S_H": self._at("S_H")}
        lines = [
            f"LANES = {LANES}",
            f"STATES = {tuple(self.states)!r}",
            f"DIFFERENTIAL = {len(self.differential)}",
            f"DAE = {self.dae}",
            f"SIZE = {sum(self.lengths.values()) * LANES}",
            *(f"AT_{name} = {at * LANES}" for name, at in self.offsets.items()),
            *self._prepare(),
            *self._evaluate("rhs", {}),
            *self._evaluate("rhs_and_factors", self.factors.all()),
            *self._solve(),
            *self._algebra("inhibition", "W", PH_INHIBITION, self.places),
            *self._newton("S_H", ["S_nh3", "S_hco3"]),
            *self._newton("S_h2", []),
            *self._algebra("ions", "W, constants", ("S_nh3", "S_hco3"), near),
            *self._gas(),
        ]
        return "\n".join(lines)

    def _function(self, name: str, arguments: str, *loops: list[str]) -> list[str]:
        """Return a function of loops over the lanes; values shared by all lanes are read first."""
        text = "\n".join(line for loop in loops for line in loop)
        words = set(re.findall(r"\w+", text)) - set(re.findall(r"\w+", arguments))
        body = [f"    {symbol} = {at}" for symbol, at in self.shared.items() if symbol in words]
        for loop in loops:
            body += [f"    for l in range({LANES}):", *(f"        {line}" for line in loop)]
        return ["", "@compiled", f"def {name}({arguments}):", *(body or ["    pass"])]

    def _prepare(self) -> list[str]:
        results = {self.places[name]: node for node, name in self.ahead.items()}
        return self._function("prepare", "W, constants, nu", _loop(results, {}, self.places))

    def _evaluate(self, name: str, factors: Entries) -> list[str]:
        """Return the routine that computes f(Y) and, if given, the factors of a step."""
        places = self.places | self._names_at("Y", self.states)
        results = {self._at("f", k): node for k, node in enumerate(self.changes)}
        results |= {self._at("factors", k): node for k, node in enumerate(factors.values())}
        slow = {self.places[name]: node for node, name in self.slow.items()}
        loops = [_loop(slow, self.ahead, places)] if slow else []
        loops.append(_loop(results, self.ahead | self.slow, places))
        return self._function(name, "W, constants, nu, inflow, D, g", *loops)

    def _solve(self) -> list[str]:
        """Return the routine that replaces f by the solution of LU x = f."""
        entry = {key: self._at("factors", k) for k, key in enumerate(self.factors.all())}
        x = {name: f"x{k}" for k, name in enumerate(self.states)}
        place = self._names_at("f", self.states)
        loop = [f"{x[name]} = {place[name]}" for name in self.states]
        for pivot in self.factors.order:
            rows = [row for row, column in self.factors.lower if column == pivot]
            loop += [f"{x[row]} -= {entry[row, pivot]} * {x[pivot]}" for row in rows]
        for pivot in reversed(self.factors.order):
            columns = [column for row, column in self.factors.upper if row == pivot]
            loop += [f"{x[pivot]} -= {entry[pivot, column]} * {x[column]}" for column in columns]
            loop.append(f"{x[pivot]} *= {entry[pivot, pivot]}")
        loop += [f"{place[name]} = {x[name]}" for name in self.states]
        return self._function("solve", "W", loop)

    def _algebra(
        self, name: str, arguments: str, made: tuple[str, ...], places: Mapping[str, str]
    ) -> list[str]:
        """Return the routine that computes some names of the algebra from the current S_H."""
        equations = Equations([*model.LIQUID, *model.GAS, "S_H"], {})
        results = {self._at(each): equations.names[each] for each in made}
        return self._function(name, arguments, _loop(results, {}, places))

    def _newton(self, name: str, computed: list[str]) -> list[str]:
        """Return one Newton iteration for S_H or S_h2, in lanes with too large a residual."""
        given = {*model.LIQUID, *model.GAS, "S_H", *HELD} - set(computed)
        equations = Equations(sorted(given), {})
        results = {"residual": equations.change(name), "slope": equations.slope(name, name)}
        own, residual = self._at(name), self._at("residual")
        places = self.places | self._names_at("y", self.states) | {name: own}
        loop = [
            *_loop(results, {}, places),
            f"active = abs({residual}) > tolerance",
            f"new = {own} - residual / slope",
            "new = new if new > 0.0 else 1e-12",
            f"{own} = new if active else {own}",
            f"{residual} = residual if active else {residual}",
        ]
        arguments = "W, constants, nu, inflow, D, in_S_h2, tolerance"
        return self._function(f"newton_{name}", arguments, loop)

    def _gas(self) -> list[str]:
        """Return the routine for gas and methane flow (m³/d) and partial pressures of CH4 and CO2.

        With `normalised` = 1 the flow is that at atmospheric pressure.
        """
        equations = self.equations
        pressure = equations.names["p_gas"] = equations.parse("p_h2 + p_ch4 + p_co2 + p_h2o")
        flow = equations.parse("q_gas * (1 + normalised * (p_gas / p_atm - 1))")
        methane = flow * equations.names["p_ch4"] / pressure
        nodes = (flow, methane, equations.names["p_ch4"], equations.names["p_co2"])
        results = {self._at("gas", k): node for k, node in enumerate(nodes)}
        loop = _loop(results, {}, self._names_at("y", self.states))
        return self._function("gas", "W, constants", loop)


def _loop(
    results: Mapping[str, Node], given: Mapping[Node, str], places: Mapping[str, str]
) -> list[str]:
    """Return the body of a loop over the lanes: read, compute, write."""
    # What was computed before is read first: in another order LLVM fuses other operations.
    nodes = sorted(needed(results.values(), given), key=lambda node: node not in given)
    read = [given.get(node, str(node.leaf)) for node in nodes]
    return [f"{name} = {places[name]}" for name in read if name in places] + code(results, given)
