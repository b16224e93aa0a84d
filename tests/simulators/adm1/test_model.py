"""The definition of ADM1 and the compiler behind it."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from numerics import derivative
from supac.arrays import FloatArray
from supac.simulators.adm1 import model
from supac.simulators.adm1.compiler import Lanes
from supac.simulators.adm1.equations import (
    HELD,
    Equations,
    factorise,
    matrix_of_step,
    states_of,
    stoichiometry,
)
from supac.simulators.adm1.expressions import Graph, Node, code, constant, needed, parse
from supac.simulators.adm1.model import BLOCKS, PRIOR
from supac.simulators.adm1.routines import Routines

SHARED = Path(__file__).parents[4] / "shared" / "reference"
needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="the reference data are not here")
FIXED = pytest.mark.parametrize("fixed", [model.BSM2, model.PAPER], ids=["bsm2", "paper"])


def numeric(results: dict[str, Node], values: dict[str, float]) -> dict[str, float]:
    """The results' values, through the code that is written for them."""
    scope = {"math": math, **values}
    exec("\n".join(code(results, {})), scope)
    return {name: float(scope[name]) for name in results}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "formula",
    [
        "a * b - c / (a + 2)",
        "monod(a, b) * inhibited(c, a)",
        "hill(a, b, c)",
        "positive(a - b) * c + positive(b - a) * a",
        "-(a - b) * (c - 0.5) / b / a",
    ],
)
def test_derivatives_are_exact(formula: str) -> None:
    graph = Graph()
    names = {name: graph.symbol(name) for name in "abc"}
    node = parse(formula, names, graph)
    at = np.array([1.3, 0.7, 2.1])

    def value(x: FloatArray) -> float:
        return numeric({"y": node}, dict(zip("abc", x, strict=True)))["y"]

    slopes = {f"d{name}": graph.derivative(node, names[name]) for name in "abc"}
    found = numeric(slopes, dict(zip("abc", at, strict=True)))
    np.testing.assert_allclose(list(found.values()), derivative(value, at), rtol=1e-8, atol=1e-10)


def test_formulas_of_numbers_fold() -> None:
    assert constant("(1 - a) * b / 2 - -1", {"a": 0.25, "b": 4.0}) == pytest.approx(2.5)
    with pytest.raises(ValueError, match="cannot read"):
        constant("a ** 2", {"a": 1.0})


@FIXED
@pytest.mark.parametrize("process", model.PROCESSES, ids=lambda p: p.name)
def test_every_process_conserves_cod_carbon_and_nitrogen(
    process: model.Process, fixed: dict[str, float]
) -> None:
    row = {name: constant(text, fixed) for name, text in stoichiometry()[process.name].items()}
    cod = sum(made for name, made in row.items() if name not in ("S_IC", "S_IN"))
    carbon = sum(made * fixed[model.CARBON[n]] for n, made in row.items() if n in model.CARBON)
    nitrogen = sum(
        made * fixed[model.NITROGEN[n]] for n, made in row.items() if n in model.NITROGEN
    )
    assert cod == pytest.approx(0.0, abs=1e-12)
    assert carbon + row.get("S_IC", 0.0) == pytest.approx(0.0, abs=1e-15)
    assert nitrogen + row.get("S_IN", 0.0) == pytest.approx(0.0, abs=1e-15)


def test_the_model_has_its_published_size() -> None:
    assert len(model.PROCESSES) == 19
    ions = 6  # va⁻, bu⁻, pro⁻, ac⁻, HCO3⁻, NH3, in equilibrium with S_H
    assert len(model.LIQUID) + len(model.GAS) + ions == 35
    assert len(model.CALIBRATED) == 30


@pytest.mark.parametrize("variant", ["dae", "split"])
def test_factors_solve_the_matrix_of_a_step(variant: str) -> None:
    """The factors make the matrix; without the rates of the processes it is diag(g, 0) − J."""
    differential, algebraic = states_of(variant, {})
    states = differential + algebraic
    held = () if variant == "dae" else HELD
    equations = Equations([*states, *held], {})
    entries, processes = matrix_of_step(equations, differential, algebraic)
    pivots = factorise(equations.graph, entries)
    rng = np.random.default_rng(0)
    slopes = {(row, column): equations.slope(row, column) for row in states for column in states}
    nodes = [node for pivot in pivots.values() for node in pivot.entries()]
    every = [*nodes, *slopes.values(), *entries.values()]
    symbols = [str(node.leaf) for node in needed(every) if node.operation == "symbol"]
    values = {name: float(rng.uniform(0.5, 1.5)) for name in symbols} | {"g": 30.0}
    found = numeric({f"x{k}": node for k, node in enumerate(every)}, values)
    number = dict(zip(every, found.values(), strict=True))

    unknowns = states + processes
    at = {name: k for k, name in enumerate(unknowns)}
    product = np.zeros((len(unknowns), len(unknowns)))
    for name, pivot in pivots.items():
        column, row = np.zeros(len(unknowns)), np.zeros(len(unknowns))
        (column if pivot.first else row)[at[name]] = 1.0 / number[pivot.inverse]
        (row if pivot.first else column)[at[name]] = 1.0
        for other, node in pivot.below.items():
            column[at[other]] = number[node]
        for other, node in pivot.right.items():
            row[at[other]] = number[node]
        product += np.outer(column, row)
    matrix = np.zeros_like(product)
    for (row_name, column_name), node in entries.items():
        matrix[at[row_name], at[column_name]] = number[node]
    np.testing.assert_allclose(product, matrix, rtol=1e-9, atol=1e-9)
    n = len(states)
    alone = product[:n, :n] - product[:n, n:] @ product[n:, :n]
    for (row_name, column_name), node in slopes.items():
        diagonal = 30.0 if row_name == column_name and row_name in differential else 0.0
        expected = diagonal - number[node]
        found_here = alone[at[row_name], at[column_name]]
        assert found_here == pytest.approx(expected, rel=1e-9, abs=1e-9), (row_name, column_name)


def test_the_factors_are_sparse() -> None:
    """A dense factorisation of 26 states has 676 entries; the chain of reactions needs few."""
    assert Routines("split", {}, Lanes()).lengths["factors"] < 50


@needs_shared
def test_prior_is_that_of_the_paper() -> None:
    with (SHARED / "adm1_lf" / "prior.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert tuple(row["name"] for row in rows) == model.CALIBRATED
    for row in rows:
        assert PRIOR[row["name"]] == (float(row["median"]), float(row["log_sd"]))
        assert row["name"] in BLOCKS[int(row["block"]) - 1]


@needs_shared
def test_parameters_are_those_published_and_those_of_the_papers_code() -> None:
    with (SHARED / "adm1_steady_state" / "parameters.csv").open() as file:
        rows = {row["name"]: row for row in csv.DictReader(file)}
    names = {"p_atm": "P_atm", "k_L_a": "kLa", "k_p": "k_P"}
    for column, table in (("bsm2", model.BSM2), ("paper_reference_code", model.PAPER)):
        for name, value in table.items():
            if name.startswith("K_a"):
                published = 10.0 ** -float(rows[f"p{name}_base"][column])
                assert value == pytest.approx(published, rel=1e-8)
            else:
                assert value == pytest.approx(float(rows[names.get(name, name)][column])), name
