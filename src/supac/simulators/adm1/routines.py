"""Routines of a simulation: straight-line statements on a work array, in the target's language.

A step of RODAS3 is a factorisation and four stages. What does not depend on the states is computed
once, before the steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Protocol

from supac.simulators.adm1 import model
from supac.simulators.adm1.equations import (
    COEFFICIENTS,
    CONSTANTS,
    HELD,
    ION_PAIR,
    KINETICS,
    PH_INHIBITION,
    Equations,
    factorise,
    matrix_of_step,
    states_of,
)  # fmt: skip
from supac.simulators.adm1.expressions import Node, code, frontier

_VECTORS = ("y", "Y", "f", "gap", "before", "saved")
_STEP = "W, constants, nu, inflow, D, g"  # g = 2/h
_NEWTON_CONSTANTS = 24
_RESIDUALS = ("residual_S_H", "residual_S_h2")


class Target(Protocol):
    """Notation of a language."""

    def at(self, place: int) -> str:
        """Return the expression of a quantity of the work array."""

    def choose(self, condition: str, value: str, other: str) -> str:
        """Return a conditional expression."""

    def function(
        self, name: str, arguments: str, shared: Mapping[str, str], statements: Sequence[str]
    ) -> list[str]:
        """Return a routine.

        `shared` are names that the statements use and that are the same for all simulations.
        """


class Routines:
    """Writes the equations of a variant; `extra` are additional states, name → rate of change."""

    def __init__(self, variant: str, extra: Mapping[str, str], target: Target):
        self.dae, self.target = variant == "dae", target
        self.differential, self.algebraic = states_of(variant, extra)
        self.states = self.differential + self.algebraic
        self.equations = Equations([*self.states, *(() if self.dae else HELD)], extra)
        graph, names = self.equations.graph, self.equations.names
        matrix, self.processes = matrix_of_step(self.equations, self.differential, self.algebraic)
        self.pivots = factorise(graph, matrix)
        # Right-hand sides of a step: f of the states, without the processes among the unknowns,
        # and the rates of these.
        equations = self.equations
        self.f = [equations.change_without(name, self.processes) for name in self.states]
        self.rates = [equations.rates[process] for process in self.processes]
        entries = {
            node.negated or node for pivot in self.pivots.values() for node in pivot.entries()
        }
        results = [*self.f, *self.rates, *sorted(entries, key=lambda node: node.index)]
        moving = [names[name] for name in (*self.states, "D")] + [graph.symbol("g")]
        moving += [graph.symbol(f"in_{name}") for name in model.LIQUID]
        # Before the steps: what depends on parameters and held states only.
        self.ahead = {node: f"a{k}" for k, node in enumerate(frontier(results, moving))}
        # In each step: what else the factors need, apart from symbols and numbers.
        self.factors = [
            node
            for node in results
            if node in entries and node.arguments and node not in self.ahead
        ]
        self.lengths = {
            "kinetics": len(KINETICS), "ahead": len(self.ahead), "factors": len(self.factors),
            "rates": len(self.processes), **dict.fromkeys(_VECTORS, len(self.states)),
            **dict.fromkeys(("S_H", *HELD, *ION_PAIR, *_RESIDUALS, "lowest"), 1), "gas": 4,
            **dict.fromkeys(("newton_S_H", "newton_S_h2"), _NEWTON_CONSTANTS),
        }  # fmt: skip
        # Where each begins in the work array.
        offsets = accumulate(self.lengths.values(), initial=0)
        self.offsets = dict(zip(self.lengths, offsets, strict=False))
        self.places = self._names_at("ahead", self.ahead.values())
        self.places |= self._names_at("kinetics", KINETICS)
        self.places |= {name: self._at(name) for name in ("S_H", *HELD, *ION_PAIR)}
        # The same in all simulations.
        self.shared = {name: f"constants[{k}]" for k, name in enumerate(CONSTANTS)}
        self.shared |= {f"in_{name}": f"inflow[{k}]" for k, name in enumerate(self.states)}
        self.shared |= {f"nu{k}": f"nu[{k}]" for k in range(len(COEFFICIENTS))}

    @property
    def size(self) -> int:
        """Number of quantities of the work array."""
        return sum(self.lengths.values())

    def source(self) -> list[str]:
        """Return all routines."""
        near = self._names_at("y", self.states) | {"S_H": self._at("S_H")}
        return [
            *self._prepare(),
            *self._factorise(),
            *self._stages(),
            *self._rates(),
            *self._algebra("inhibition", "W", PH_INHIBITION, self.places),
            *self._newton("S_H", ["S_nh3", "S_hco3"]),
            *self._newton("S_h2", []),
            *self._algebra("ions", "W, constants", ("S_nh3", "S_hco3"), near),
            *self._gas(),
        ]

    def _at(self, name: str, k: int = 0) -> str:
        """Return the expression of quantity k of `name`."""
        return self.target.at(self.offsets[name] + k)

    def _names_at(self, array: str, names: Iterable[str]) -> dict[str, str]:
        """Return the expressions of successive quantities of an array, by name."""
        return {name: self._at(array, k) for k, name in enumerate(names)}

    def _function(self, name: str, arguments: str, statements: list[str]) -> list[str]:
        words = set(re.findall(r"\w+", "\n".join(statements))) - set(re.findall(r"\w+", arguments))
        shared = {symbol: at for symbol, at in self.shared.items() if symbol in words}
        return self.target.function(name, arguments, shared, statements)

    def _prepare(self) -> list[str]:
        results = {self.places[name]: node for node, name in self.ahead.items()}
        return self._function("prepare", "W, constants, nu", code(results, {}, self.places))

    def _factorise(self) -> list[str]:
        """Return the routine that computes right-hand sides and factors of a step at y."""
        places = self.places | self._names_at("y", self.states)
        results = {self._at("f", k): node for k, node in enumerate(self.f)}
        results |= {self._at("rates", k): node for k, node in enumerate(self.rates)}
        results |= {self._at("factors", k): node for k, node in enumerate(self.factors)}
        return self._function("factorise", _STEP, code(results, self.ahead, places))

    def _rates(self) -> list[str]:
        """Return the routine that computes f at y, for other integrators."""
        places = self.places | self._names_at("y", self.states)
        changes = map(self.equations.change, self.states)
        results = {self._at("f", k): node for k, node in enumerate(changes)}
        return self._function("rates", _STEP, code(results, {}, places))

    def _stages(self) -> list[str]:
        """Return the four stages of RODAS3 (Sandu et al., 1997), at times 0, 0, 1, 1, γ = 1/2.

        Each solves LU x = f + …, where terms with 1/h belong to differential states, and updates
        vectors with x. The second, less the first, has −gap/g² for x and the first for right-hand
        side. The error of the step is that last x, y − Y.
        """
        lowest = self._at("lowest")
        note = [
            f"{lowest} = {self.target.choose(f'new{k} >= {lowest}', lowest, f'new{k}')}"
            for k, name in enumerate(self.states)
            if name[:2] in ("S_", "X_")
        ]
        places = self.places | self._names_at("Y", self.states)
        evaluate = code(
            {f"f{k}": node for k, node in enumerate(self.f)}
            | {f"r{k}": node for k, node in enumerate(self.rates)},
            self.ahead, places,
        )  # fmt: skip
        kept = {"state": "{f}", "process": "{rates}"}
        later = {"state": "f{k}{term}", "process": "r{k}"}
        one = self._solve(kept, "{gap} = {moved}", "{Y} = {y} + 2.0 * {x}")
        two = self._solve({"state": "{gap}"}, "{gap} = {x} * (0.0 - g * g{scale})")
        three = self._solve(
            later, "{gap} = {gap} - (4.0 / 3.0 * g{scale}) * {x}", "{Y} = {Y} + {x}{scale}"
        )
        four = self._solve(later, "{new} = {Y} + {x}", "{y} = {new}")
        return [
            *self._function("stage_1", _STEP, one),
            *self._function("stage_2", _STEP, two),
            *self._function("stage_3", _STEP, evaluate + three),
            *self._function("stage_4", _STEP, evaluate + four + note),
        ]

    def _solve(self, start: Mapping[str, str], *results: str) -> list[str]:
        """Return statements that solve LU x = start, and assign the results of each state.

        `start` has formulas for states and processes, the latter 0 without one.
        """
        names, lines = dict[str, dict[str, str]](), list[str]()
        for k, name in enumerate(self.states):
            names[name] = {vector: self._at(vector, k) for vector in _VECTORS}
            names[name] |= {"k": str(k), "x": f"x{k}", "new": f"new{k}"}
            moves = name in self.differential  # algebraic states have no term with 1/h
            names[name]["moved"] = f"x{k}" if moves else "0.0"
            names[name]["term"] = f" + {names[name]['gap']}" if moves else ""
            lines.append(f"x{k} = {start['state'].format(**names[name])}")
        for k, name in enumerate(self.processes):
            names[name] = {"k": str(k), "x": f"u{k}", "rates": self._at("rates", k)}
            if "process" in start:
                lines.append(f"u{k} = {start['process'].format(**names[name])}")
        begun = {*self.states, *(self.processes if "process" in start else ())}

        for name, pivot in self.pivots.items():
            x = names[name]["x"]
            if name not in begun:
                lines.append(f"{x} = 0.0")
                continue
            if pivot.first and not pivot.inverse.equals(1.0):
                lines.append(f"{x} = {x} * {self._entry(pivot.inverse)}")
            for row, node in pivot.below.items():
                before = names[row]["x"] if row in begun else "0.0"
                lines.append(f"{names[row]['x']} = {before}{self._minus(node, x)}")
                begun.add(row)
        scaled = any("{scale}" in result for result in results)
        used = {name for pivot in self.pivots.values() for name in pivot.right}
        for name, pivot in reversed(self.pivots.items()):
            x = names[name]["x"]
            terms = "".join(self._minus(node, names[by]["x"]) for by, node in pivot.right.items())
            if terms:
                lines.append(f"{x} = {x}{terms}")
            scale = (
                ""
                if pivot.first or pivot.inverse.equals(1.0)
                else f" * {self._entry(pivot.inverse)}"
            )
            if scale and not (scaled and name not in used):
                lines.append(f"{x} = {x}{scale}")
                scale = ""
            if name in self.states:
                lines += [result.format(**names[name], scale=scale) for result in results]
        return lines

    def _minus(self, node: Node, x: str) -> str:
        """Return ` - node * x`."""
        sign, size = ("-", node) if node.negated is None else ("+", node.negated)
        return f" {sign} {x}" if size.equals(1.0) else f" {sign} {self._entry(size)} * {x}"

    def _entry(self, node: Node) -> str:
        """Return the expression of an entry of the factors."""
        if node in self.factors:
            return self._at("factors", self.factors.index(node))
        name = self.ahead.get(node, str(node.leaf))
        return self.places.get(name, name)

    def _algebra(
        self, name: str, arguments: str, made: tuple[str, ...], places: Mapping[str, str]
    ) -> list[str]:
        """Return the routine that computes some names of the algebra from the current S_H."""
        equations = Equations([*model.LIQUID, *model.GAS, "S_H"], {})
        results = {self._at(each): equations.names[each] for each in made}
        return self._function(name, arguments, code(results, {}, places))

    def _newton(self, name: str, computed: list[str]) -> list[str]:
        """Return Newton's iteration for S_H or S_h2, in simulations with too large a residual.

        A first routine computes all that stays the same from iteration to iteration.
        """
        given = {*model.LIQUID, *model.GAS, "S_H", *HELD} - set(computed)
        equations = Equations(sorted(given), {})
        results = {"excess": equations.change(name), "slope": equations.slope(name, name)}
        fixed = frontier(list(results.values()), [equations.names[name]])
        assert len(fixed) <= _NEWTON_CONSTANTS
        ahead = {node: f"c{k}" for k, node in enumerate(fixed)}
        own, residual = self._at(name), self._at(f"residual_{name}")
        kept = self._names_at(f"newton_{name}", ahead.values())
        places = self.places | self._names_at("y", self.states) | {name: own}
        first = {kept[symbol]: node for node, symbol in ahead.items()}
        arguments = "W, constants, nu, inflow, D, in_S_h2"
        active = f"abs({residual}) > tolerance"
        following = self.target.choose("newer > 0.0", "newer", "1e-12")
        iteration = [
            *code(results, ahead, places | kept),
            f"newer = {own} - excess / slope",
            f"newest = {following}",
            f"{own} = {self.target.choose(active, 'newest', own)}",
            f"{residual} = {self.target.choose(active, 'excess', residual)}",
        ]
        return [
            *self._function(f"begin_{name}", arguments, code(first, {}, places)),
            *self._function(f"newton_{name}", f"{arguments}, tolerance", iteration),
        ]

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
        statements = code(results, {}, self._names_at("y", self.states))
        return self._function("gas", "W, constants", statements)
