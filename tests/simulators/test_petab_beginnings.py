"""What an experiment begins with: small cases after the ideas of PEtab's test suite."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import petab_example as example
from extras import needs

needs("roadrunner", "petab")

from supac.simulators import petab  # noqa: E402
from supac.simulators.petab.description import Experiment, Period  # noqa: E402
from supac.simulators.petab.model import Runner, Symbols  # noqa: E402

MATH = '<math xmlns="http://www.w3.org/1998/Math/MathML">{}</math>'
SPECIES = [
    ("C", "v", 'initialConcentration="1"', "false"),
    ("A", "v", 'initialAmount="1"', "false"),
    ("H", "v", 'initialConcentration="1"', "true"),  # its symbol is an amount
    ("I", "v", "", "false"),
    ("J", "v", "", "true"),
    ("K", "v", "", "false"),
    ("W", "w", 'initialConcentration="1"', "false"),
    ("E", "v", 'initialConcentration="0"', "false"),
]
ASSIGNMENTS = {
    "I": "<cn>1</cn>",
    "J": "<apply><times/><ci>a</ci><ci>v</ci></apply>",
    "K": "<apply><times/><ci>C</ci><ci>double</ci></apply>",
    "q": "<apply><plus/><ci>a</ci><ci>v</ci></apply>",
    "r": "<apply><times/><ci>q</ci><cn>10</cn></apply>",
    "w": "<apply><times/><cn>2</cn><ci>v</ci></apply>",
}


def model() -> str:
    """A model without reactions: all stays as it begins, but for an event where C exceeds 5."""
    species = "".join(
        f'<species id="{name}" compartment="{where}" {start} hasOnlySubstanceUnits="{amount}"'
        ' boundaryCondition="false" constant="false"/>'
        for name, where, start, amount in SPECIES
    )
    assignments = "".join(
        f'<initialAssignment symbol="{name}">{MATH.format(text)}</initialAssignment>'
        for name, text in ASSIGNMENTS.items()
    )
    parameters = "".join(f'<parameter id="{n}" value="3" constant="true"/>' for n in "aqr")
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<sbml xmlns="http://www.sbml.org/sbml/level3/version1/core" level="3" version="1"><model id="m">
<listOfCompartments><compartment id="v" size="1" spatialDimensions="3" constant="true"/>
<compartment id="w" size="1" spatialDimensions="3" constant="true"/></listOfCompartments>
<listOfSpecies>{species}</listOfSpecies>
<listOfParameters>{parameters}<parameter id="double" constant="false"/></listOfParameters>
<listOfInitialAssignments>{assignments}</listOfInitialAssignments>
<listOfRules><assignmentRule variable="double">
{MATH.format("<apply><times/><cn>2</cn><ci>v</ci></apply>")}</assignmentRule></listOfRules>
<listOfEvents><event useValuesFromTriggerTime="true"><trigger initialValue="true"
persistent="true">{MATH.format("<apply><gt/><ci>C</ci><cn>5</cn></apply>")}</trigger>
<listOfEventAssignments><eventAssignment variable="E">{MATH.format("<cn>1</cn>")}</eventAssignment>
</listOfEventAssignments></event></listOfEvents></model></sbml>"""


PLAIN = {"v": 1, "w": 2, "a": 3, "q": 4, "r": 40, "C": 1, "A": 1, "H": 1, "I": 1, "J": 3, "K": 2,
         "W": 1, "E": 0}  # fmt: skip
SIZE = {"v": 2, "w": 4, "q": 5, "r": 50, "A": 0.5, "H": 2, "J": 6, "K": 4}
CASES = [
    ("nothing", {}, {}, {}),
    ("a species", {}, {"C": 7}, {"C": 7, "K": 14}),
    ("an amount", {}, {"H": 7}, {"H": 7}),
    ("a parameter", {}, {"a": 5}, {"a": 5, "q": 6, "r": 60, "J": 5}),
    ("a parameter of the table", {"a": 5}, {}, {"a": 5, "q": 6, "r": 60, "J": 5}),
    ("a condition before the table", {"a": 9}, {"a": 5}, {"a": 5, "q": 6, "r": 60, "J": 5}),
    ("a compartment", {}, {"v": 2}, SIZE),
    ("a compartment of the table", {"v": 2}, {}, SIZE),
    ("its species after it", {}, {"v": 2, "C": 7, "H": 3}, {**SIZE, "C": 7, "H": 3, "K": 28}),
    ("its species before it", {}, {"C": 7, "H": 3, "v": 2}, {**SIZE, "C": 7, "H": 3, "K": 28}),
    ("a concentration of an initial amount", {}, {"v": 2, "A": 4}, {**SIZE, "A": 4}),
    ("assigned species", {}, {"v": 2, "I": 7, "J": 9}, {**SIZE, "I": 7, "J": 9}),
    ("an assigned parameter", {}, {"q": 7}, {"q": 7, "r": 70}),
    ("an assigned parameter and its own", {}, {"a": 5, "r": 7}, {"a": 5, "q": 6, "r": 7, "J": 5}),
    ("an assigned compartment", {}, {"w": 10}, {"w": 10}),
]  # fmt: skip


@pytest.fixture(scope="module")
def runner() -> Runner:
    return Runner(Symbols(model(), "model.xml"), "model.xml")


def simulated(
    runner: Runner, known: dict[str, float], *periods: tuple[float, dict[str, float]]
) -> dict[str, float]:
    """Return all symbols at the time 1; they are the same at 0."""
    made = [Period(start, {n: str(v) for n, v in changes.items()}) for start, changes in periods]
    given = {name: float(value) for name, value in known.items()}
    found = runner.simulate(
        Experiment("e", tuple(made)), given.__getitem__, given, (0, 1), [*PLAIN]
    )
    assert all(found[name][0] == found[name][1] for name in PLAIN)
    return {name: float(found[name][1]) for name in PLAIN}


@pytest.mark.parametrize(
    ("known", "condition", "expected"), [each[1:] for each in CASES], ids=[c[0] for c in CASES]
)
def test_an_experiment_begins_with_what_its_condition_says(
    runner: Runner, known: dict[str, float], condition: dict[str, float],
    expected: dict[str, float],
) -> None:  # fmt: skip
    """Concentrations stay, amounts stay, and assignments of what is not given are made anew."""
    assert simulated(runner, known, (0.0, condition)) == pytest.approx({**PLAIN, **expected})
    # The model is the same for all experiments: nothing of one may be left in the next.
    assert simulated(runner, {}, (0.0, {})) == pytest.approx(PLAIN)


def test_a_steady_state_is_kept_where_the_condition_says_nothing(runner: Runner) -> None:
    """A cell that is NaN, or empty, in a condition after a pre-equilibration."""
    before: tuple[float, dict[str, float]] = (-math.inf, {"C": 4, "v": 2, "H": 3})
    found = simulated(runner, {"a": 5}, before, (0.0, {"H": 5}))
    assert (found["C"], found["v"], found["H"], found["J"]) == (4.0, 2.0, 5.0, 10.0)
    # A compartment comes before the concentrations in it.
    found = simulated(runner, {}, before, (0.0, {"C": 6, "v": 3}))
    assert (found["C"], found["v"]) == (6.0, 3.0)


@pytest.mark.parametrize("table", ["conditions.tsv", "parameters.tsv"])
@pytest.mark.parametrize("before", ["initialConcentration", "initialAmount"])
def test_the_size_of_a_compartment_in_a_table(tmp_path: Path, table: str, before: str) -> None:
    """As in case 0012: a concentration stays, an amount is one in the new size."""
    path = example.write(tmp_path)
    xml = (tmp_path / "model.xml").read_text()
    start, end = xml.index("<listOfInitialAssignments>"), xml.index("</listOfInitialAssignments>")
    xml = xml[:start] + xml[end + len("</listOfInitialAssignments>") :]
    xml = xml.replace('initialConcentration="0"', f'{before}="1"').replace('size="2"', 'size="1"')
    (tmp_path / "model.xml").write_text(xml)
    text = (tmp_path / table).read_text()
    if table == "conditions.tsv":
        head, *rows = text.splitlines()
        text = "\n".join([f"{head}\tcell", *(f"{row}\t2" for row in rows)]) + "\n"
    else:
        text += "cell\tlin\t1\t10\t2\t0\n"
    (tmp_path / table).write_text(text)
    problem = petab.load(path, observation=False)
    simulate, data = problem.risk.simulate, problem.measurements
    names = [data.names[i] for i in data.series]
    first = [i for i, n in enumerate(names) if n == "shifted (plain)" and data.times[i] == 0.0]
    begun = 1.0 if before == "initialConcentration" else 0.5
    outputs = simulate(np.array([0.4, 2.0, 3.0, 0.1]))
    assert outputs[first] == pytest.approx([begun + example.OFFSET])
