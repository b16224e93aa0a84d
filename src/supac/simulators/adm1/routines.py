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
    states_of,
)  # fmt: skip
from supac.simulators.adm1.expressions import code, frontier

_VECTORS = ("y", "Y", "f", "K1", "gap", "before", "saved")
_STEP = "W, constants, nu, inflow, D, g"  # g = 2/h
_NEWTON_CONSTANTS = 24


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
        self.factors = factorise(self.equations, self.differential, self.algebraic)
        self.changes = [self.equations.change(name) for name in self.states]
        results = [*self.changes, *self.factors.all().values()]
        moving = [names[name] for name in (*self.states, "D")] + [graph.symbol("g")]
        moving += [graph.symbol(f"in_{name}") for name in model.LIQUID]
        # Before the steps: what depends on parameters and held states only.
        self.ahead = {node: f"a{k}" for k, node in enumerate(frontier(results, moving))}
        self.lengths = {
            "kinetics": len(KINETICS), "ahead": len(self.ahead),
            "factors": len(self.factors.all()), **dict.fromkeys(_VECTORS, len(self.states)),
            **dict.fromkeys(("S_H", *HELD, *ION_PAIR, "residual", "lowest"), 1), "gas": 4,
            "newton": _NEWTON_CONSTANTS,
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
        """Return the routine that computes f and the factors of a step at y."""
        places = self.places | self._names_at("y", self.states)
        results = {self._at("f", k): node for k, node in enumerate(self.changes)}
        factors = self.factors.all().values()
        results |= {self._at("factors", k): node for k, node in enumerate(factors)}
        return self._function("factorise", _STEP, code(results, self.ahead, places))

    def _rates(self) -> list[str]:
        """Return the routine that computes f at y, for other integrators."""
        places = self.places | self._names_at("y", self.states)
        results = {self._at("f", k): node for k, node in enumerate(self.changes)}
        return self._function("rates", _STEP, code(results, self.ahead, places))

    def _stages(self) -> list[str]:
        """Return the four stages of RODAS3 (Sandu et al., 1997), at times 0, 0, 1, 1, γ = 1/2.

        Each solves LU x = f + …, where terms with 1/h belong to differential states, and updates
        vectors with x. The error of the step is that last x, y − Y.
        """
        places = self.places | self._names_at("Y", self.states)
        f = {f"f{k}": node for k, node in enumerate(self.changes)}
        evaluate = code(f, self.ahead, places)

        lowest = self._at("lowest")
        note = [
            f"{lowest} = {self.target.choose(f'new{k} >= {lowest}', lowest, f'new{k}')}"
            for k, name in enumerate(self.states)
            if name[:2] in ("S_", "X_")
        ]
        first = {f"f{k}": self._at("f", k) for k in range(len(self.states))}
        read = [f"{name} = {at}" for name, at in first.items()]
        one = self._solve("", "{K1} = {x}", "{Y} = {y} + 2.0 * {x}")
        two = self._solve(" + 2.0 * g * {K1}", "{gap} = 0.5 * g * ({K1} - {x})")
        three = self._solve(" + {gap}", "{gap} = {gap} - 4.0 / 3.0 * g * {x}", "{Y} = {Y} + {x}")
        four = self._solve(" + {gap}", "{new} = {Y} + {x}", "{y} = {new}")
        return [
            *self._function("stage_1", "W", read + one),
            *self._function("stage_2", "W, g", read + two),
            *self._function("stage_3", _STEP, evaluate + three),
            *self._function("stage_4", _STEP, evaluate + four + note),
        ]

    def _solve(self, start: str, *results: str) -> list[str]:
        """Return statements that solve LU x = f + start, and assign the results."""
        entry = {key: self._at("factors", k) for k, key in enumerate(self.factors.all())}
        x = {name: f"x{k}" for k, name in enumerate(self.states)}
        names = {
            name: {vector: self._at(vector, k) for vector in _VECTORS}
            | {"x": x[name], "new": f"new{k}"}
            for k, name in enumerate(self.states)
        }
        loop = []
        for k, name in enumerate(self.states):
            term = start.format(**names[name]) if name in self.differential else ""
            loop.append(f"{x[name]} = f{k}{term}")
        for pivot in self.factors.order:
            rows = [row for row, column in self.factors.lower if column == pivot]
            loop += [f"{x[row]} = {x[row]} - {entry[row, pivot]} * {x[pivot]}" for row in rows]
        for pivot in reversed(self.factors.order):
            columns = [column for row, column in self.factors.upper if row == pivot]
            terms = "".join(f" - {entry[pivot, column]} * {x[column]}" for column in columns)
            loop.append(f"{x[pivot]} = ({x[pivot]}{terms}) * {entry[pivot, pivot]}")
            loop += [result.format(**names[pivot]) for result in results]
        return loop

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
        own, residual = self._at(name), self._at("residual")
        kept = self._names_at("newton", ahead.values())
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
