"""Code generation from the model's formulas: right-hand side, Jacobian, sparse LU.

LANES simulations run in parallel, one in each *lane*: a quantity has LANES consecutive entries of
one work array W, and every routine is a loop over the lanes that the compiler vectorises. What does
not depend on the states is computed once, before the steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from supac.simulators.adm1 import model
from supac.simulators.adm1.expressions import Graph, Node, parse

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
    table = {}
    for process in model.PROCESSES:
        row = dict(process.yields)
        for inorganic, content in (("S_IC", model.CARBON), ("S_IN", model.NITROGEN)):
            held = [
                f"({made}) * {content[c]}" for c, made in process.yields.items() if c in content
            ]
            if held:
                row[inorganic] = f"-({' + '.join(held)})"
        table[process.name] = row
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
        self._extra = extra

    def parse(self, formula: str) -> Node:
        """Parse a formula of the model's names."""
        return parse(formula, self.names, self.graph)

    def change(self, state: str) -> Node:
        """Return the rate of change of a state; for S_H, the charge balance that determines it."""
        if state == "S_H":
            return self.parse(model.CHARGE_BALANCE)
        if state in model.GAS_BALANCE:
            return self.parse(model.GAS_BALANCE[state])
        if state in self._extra:
            return self.parse(self._extra[state])
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
    if variant == "dae":
        liquid = [name for name in model.LIQUID if name != "S_h2"]
        return [*liquid, *model.GAS, *extra], ["S_h2", "S_H"]
    liquid = [name for name in model.LIQUID if name not in ("S_h2", *ION_PAIR)]
    return [*liquid, *model.GAS, *extra], []


@dataclass
class Factors:
    """Sparse LU factors of diag(g, 0) − Jacobian."""

    order: list[str] = field(default_factory=list)
    lower: dict[tuple[str, str], Node] = field(default_factory=dict)
    upper: dict[tuple[str, str], Node] = field(default_factory=dict)
    inverse_pivot: dict[str, Node] = field(default_factory=dict)

    def all(self) -> dict[tuple[str, str], Node]:
        """Return every factor by row and column, inverse pivots on the diagonal."""
        pivots = {(name, name): node for name, node in self.inverse_pivot.items()}
        return {**self.lower, **self.upper, **pivots}


def factorise(equations: Equations, differential: list[str], algebraic: list[str]) -> Factors:
    """Factorise in the order of least fill (Markowitz), without numerical pivoting.

    The chain of reactions is nearly triangular: a few hundred operations suffice.
    """
    graph, left = equations.graph, differential + algebraic
    zero, factors = graph.number(0.0), Factors()
    slopes = {(row, column): equations.slope(row, column) for row in left for column in left}
    matrix = {entry: -slope for entry, slope in slopes.items() if not slope.is_zero}
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
        inverse = factors.inverse_pivot[pivot] = graph.number(1.0) / matrix[pivot, pivot]
        for row in rows:
            factor = factors.lower[row, pivot] = matrix[row, pivot] * inverse
            for column in columns:
                entry = matrix.get((row, column), zero)
                matrix[row, column] = entry - factor * matrix[pivot, column]
        factors.upper |= {(pivot, column): matrix[pivot, column] for column in columns}
    return factors


class Layout:
    """Positions of quantities in the work array, in units of LANES."""

    def __init__(self) -> None:
        self.size = 0
        self.offsets: dict[str, int] = {}

    def add(self, name: str, length: int = 1) -> None:
        """Reserve `length` quantities under one name."""
        self.offsets[name] = self.size
        self.size += length

    def at(self, name: str, k: int = 0) -> str:
        """Return the expression of quantity k of `name` in the current lane."""
        return f"W[{(self.offsets[name] + k) * LANES} + l]"


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
        self.ahead = {node: f"a{k}" for k, node in enumerate(graph.frontier(results, moving))}
        # Before each evaluation: exponentials and logarithms, which have no vector instruction.
        slow = [
            node
            for node in graph.needed(results, self.ahead)
            if graph.operation(node) in ("exp", "log") and node not in self.ahead
        ]
        self.slow = {node: f"s{k}" for k, node in enumerate(slow)}
        self.layout = self._layout()
        self.places = {f"a{k}": self.layout.at("ahead", k) for k in range(len(self.ahead))}
        self.places |= {f"s{k}": self.layout.at("slow", k) for k in range(len(self.slow))}
        self.places |= {name: self.layout.at("kinetics", k) for k, name in enumerate(KINETICS)}
        self.places |= {name: self.layout.at(name) for name in ("S_H", *HELD, *ION_PAIR)}

    def _layout(self) -> Layout:
        layout, n = Layout(), len(self.states)
        for name, length in (
            ("kinetics", len(KINETICS)), ("ahead", len(self.ahead)), ("slow", len(self.slow)),
            ("factors", len(self.factors.all())),
            *((name, n) for name in ("y", "Y", "f", "f0", "K1", "K2", "K3", "K4", "before")),
            *((name, 1) for name in ("S_H", *HELD, *ION_PAIR, "residual", "lowest")), ("gas", 4),
        ):  # fmt: skip
            layout.add(name, length)
        return layout

    def source(self) -> str:
        """Return the whole source."""
        near = self._state_places("y") | {"S_H": self.layout.at("S_H")}
        lines = [
            f"LANES = {LANES}",
            f"STATES = {tuple(self.states)!r}",
            f"DIFFERENTIAL = {len(self.differential)}",
            f"DAE = {self.dae}",
            f"SIZE = {self.layout.size * LANES}",
            *(f"AT_{name} = {at * LANES}" for name, at in self.layout.offsets.items()),
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

    def _function(self, name: str, arguments: str, loops: list[list[str]]) -> list[str]:
        """Return a function of loops over the lanes; values shared by all lanes are read first."""
        shared: dict[str, str] = {}
        text = "\n".join(line for loop in loops for line in loop)
        words = set(_words(text)) - set(_words(arguments))
        for array, symbols in (
            ("constants", CONSTANTS),
            ("inflow", [f"in_{s}" for s in self.states]),
        ):
            shared |= {s: f"{array}[{k}]" for k, s in enumerate(symbols) if s in words}
        shared |= {f"nu{k}": f"nu[{k}]" for k in range(len(COEFFICIENTS)) if f"nu{k}" in words}
        body = [f"    {symbol} = {place}" for symbol, place in shared.items()]
        for loop in loops:
            body += [f"    for l in range({LANES}):", *(f"        {line}" for line in loop)]
        return ["", "@compiled", f"def {name}({arguments}):", *(body or ["    pass"])]

    def _loop(
        self,
        graph: Graph,
        results: Mapping[str, Node],
        given: Mapping[Node, str],
        places: Mapping[str, str],
    ) -> list[str]:
        """Return the body of a loop over the lanes: read, compute, write."""
        needed = graph.needed(results.values(), given)
        read = [given[node] for node in needed if node in given]
        read += [graph.text(n) for n in needed if graph.operation(n) == "symbol" and n not in given]
        return [f"{name} = {places[name]}" for name in read if name in places] + graph.code(
            results, given
        )

    def _state_places(self, array: str) -> dict[str, str]:
        return {name: self.layout.at(array, k) for k, name in enumerate(self.states)}

    def _prepare(self) -> list[str]:
        graph = self.equations.graph
        results = {self.places[name]: node for node, name in self.ahead.items()}
        loop = self._loop(graph, results, {}, self.places)
        return self._function("prepare", "W, constants, nu", [loop])

    def _evaluate(self, name: str, factors: Mapping[tuple[str, str], Node]) -> list[str]:
        """Return the routine that computes f(Y) and, if given, the factors of a step."""
        graph, places = self.equations.graph, self.places | self._state_places("Y")
        results = {self.layout.at("f", k): node for k, node in enumerate(self.changes)}
        results |= {self.layout.at("factors", k): node for k, node in enumerate(factors.values())}
        slow = {self.places[name]: node for node, name in self.slow.items()}
        loops = [self._loop(graph, slow, self.ahead, places)] if slow else []
        loops.append(self._loop(graph, results, self.ahead | self.slow, places))
        return self._function(name, "W, constants, nu, inflow, D, g", loops)

    def _solve(self) -> list[str]:
        """Return the routine that replaces f by the solution of LU x = f."""
        order = list(self.factors.all())
        entry = {key: self.layout.at("factors", k) for k, key in enumerate(order)}
        x = {name: f"x{k}" for k, name in enumerate(self.states)}
        place = self._state_places("f")
        loop = [f"{x[name]} = {place[name]}" for name in self.states]
        for pivot in self.factors.order:
            rows = [row for row, column in self.factors.lower if column == pivot]
            loop += [f"{x[row]} -= {entry[row, pivot]} * {x[pivot]}" for row in rows]
        for pivot in reversed(self.factors.order):
            columns = [column for row, column in self.factors.upper if row == pivot]
            loop += [f"{x[pivot]} -= {entry[pivot, column]} * {x[column]}" for column in columns]
            loop.append(f"{x[pivot]} *= {entry[pivot, pivot]}")
        loop += [f"{place[name]} = {x[name]}" for name in self.states]
        return self._function("solve", "W", [loop])

    def _algebra(
        self, name: str, arguments: str, made: tuple[str, ...], places: Mapping[str, str]
    ) -> list[str]:
        """Return the routine that computes some names of the algebra from the current S_H."""
        equations = Equations([*model.LIQUID, *model.GAS, "S_H"], {})
        results = {self.layout.at(each): equations.names[each] for each in made}
        loop = self._loop(equations.graph, results, {}, places)
        return self._function(name, arguments, [loop])

    def _newton(self, name: str, computed: list[str]) -> list[str]:
        """Return one Newton iteration for S_H or S_h2, in lanes with too large a residual."""
        given = {*model.LIQUID, *model.GAS, "S_H", *HELD} - set(computed)
        equations = Equations(sorted(given), {})
        results = {"residual": equations.change(name), "slope": equations.slope(name, name)}
        places = self.places | self._state_places("y") | {name: self.layout.at(name)}
        own, residual = self.layout.at(name), self.layout.at("residual")
        loop = self._loop(equations.graph, results, {}, places)
        loop += [
            f"active = abs({residual}) > tolerance",
            f"new = {own} - residual / slope",
            "new = new if new > 0.0 else 1e-12",
            f"{own} = new if active else {own}",
            f"{residual} = residual if active else {residual}",
        ]
        arguments = "W, constants, nu, inflow, D, in_S_h2, tolerance"
        return self._function(f"newton_{name}", arguments, [loop])

    def _gas(self) -> list[str]:
        """Return the routine for gas and methane flow (m³/d) and partial pressures of CH4 and CO2.

        With `normalised` = 1 the flow is that at atmospheric pressure.
        """
        equations = self.equations
        pressure = equations.names["p_gas"] = equations.parse("p_h2 + p_ch4 + p_co2 + p_h2o")
        flow = equations.parse("q_gas * (1 + normalised * (p_gas / p_atm - 1))")
        methane = flow * equations.names["p_ch4"] / pressure
        nodes = (flow, methane, equations.names["p_ch4"], equations.names["p_co2"])
        results = {self.layout.at("gas", k): node for k, node in enumerate(nodes)}
        loop = self._loop(equations.graph, results, {}, self._state_places("y"))
        return self._function("gas", "W, constants", [loop])


def _words(text: str) -> list[str]:
    return "".join(c if c.isalnum() or c == "_" else " " for c in text).split()
