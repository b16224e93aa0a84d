from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import fmu_files
import supac
from supac.arrays import FloatArray
from supac.problem_file.errors import ProblemFileError
from supac.problem_file.fmu_starter import fmu_starter_files
from supac.simulators.fmi import FMU, FMUError, read_description
from supac.simulators.fmi.variable import elements

TIMES = np.array([0.5, 1.0])
STILL = {"u": [0.0, 0.0]}


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fmu_files.chain_3(tmp_path_factory.mktemp("chain"))


def run(model: Any, x: list[float]) -> FloatArray:
    return np.asarray(model(np.array(x)))


def solution(k: list[float], u: tuple[float, float] = (0.0, 0.0)) -> FloatArray:
    """The three states at the times: (3, 2)."""

    def rates(_: float, x: FloatArray) -> list[float]:
        flow = np.asarray(k) * x
        return [u[0] - flow[0], u[1] + flow[0] - flow[1], flow[1] - flow[2]]

    begin = [1.0, 0.0, 0.0]
    solved = solve_ivp(rates, (0.0, 1.0), begin, t_eval=TIMES, rtol=1e-10, atol=1e-10)
    return np.asarray(solved.y)


def test_elements_are_set_and_recorded(chain: Path) -> None:
    names = ["k[3]", "mixing[2,3]", "k[1]"]
    model = FMU(chain, ["x[1]", "x[3]", "y[2]"], TIMES, names=names, values=STILL)
    x = solution([0.5, 2.0, 4.0])  # k[2] keeps its start value
    expected = np.concatenate([x[0], x[2], x[1] + 0.25 * x[2]])
    assert np.allclose(
        run(model, [4.0, 0.25, 0.5]), expected, atol=1e-4
    )  # Euler's, with small steps
    x = solution([1.0, 2.0, 3.0])
    again = run(model, [3.0, 0.0, 1.0])  # after a reset, nothing of the run before is left
    assert np.allclose(again, np.concatenate([x[0], x[2], x[1]]), atol=1e-4)


def test_inputs_that_are_arrays_come_from_columns_and_constants(chain: Path) -> None:
    column = {"time": [0.0, 1.0], "u[2]": [0.5, 0.5]}
    model = FMU(chain, ["x[2]"], TIMES, names=["k[1]"], values={"u[1]": 0.3}, inputs=column)
    assert np.allclose(run(model, [1.0]), solution([1.0, 2.0, 3.0], (0.3, 0.5))[1], atol=1e-4)
    with pytest.raises(FMUError, match=r"has the input u\[1\]"):
        FMU(chain, ["x[2]"], TIMES, names=["k[1]"], inputs=column)


def test_a_structural_parameter_is_the_size_of_an_array(chain: Path) -> None:
    usual = FMU(chain, ["total"], TIMES, names=["weights[2]"], values=STILL)
    assert run(usual, [5.0]).tolist() == [6.0, 6.0]
    values = {**STILL, "n": 4, "weights": [1.0, 2.0, 3.0, 4.0]}
    longer = FMU(chain, ["total"], TIMES, names=["weights[4]"], values=values)
    assert run(longer, [10.0]).tolist() == [16.0, 16.0]
    assert run(longer, [20.0]).tolist() == [26.0, 26.0]
    names = [f"weights[{i}]" for i in (1, 2, 3)]
    all_given = FMU(chain, ["total"], TIMES, names=names, values={**STILL, "n": 3})
    assert run(all_given, [1.0, 2.0, 4.0]).tolist() == [7.0, 7.0]
    with pytest.raises(FMUError, match=r"weights of .* has 3 elements.*give weights\[3\] as well"):
        FMU(chain, ["total"], TIMES, names=names[:2], values={**STILL, "n": 3})


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("a whole array as a parameter", {"names": ["k"]}, r'k of .* is an array of 3: .*"k\[1\]"'),
    ("a whole array as an output", {"outputs": ["y"]}, r'is an array of 2.*such as "y\[1\]"'),
    ("a whole array as a column", {"inputs": {"time": [0.0], "u": [0.0]}}, r'as "u\[1\]"'),
    ("an index too large", {"names": ["k[4]"]}, r"k\[4\] is no element of k .* of 3, with"),
    ("an index of 0", {"names": ["k[0]"]}, "indices from 1"),
    ("too few indices", {"names": ["mixing[2]"]}, "no element of mixing .* of 2 x 3"),
    ("too few values", {"values": {"k": [1.0, 2.0]}}, "k is an array of 3: give a list of 3"),
    ("a text", {"values": {"k": "fast"}}, "give a list of 3 numbers, not 'fast'"),
    (
        "rows for columns",
        {"values": {"mixing": [[1, 2], [3, 4], [5, 6]]}},
        "of 2 x 3: .*row by row",
    ),
    ("half an element", {"values": {"n": 2.5}}, "n is the size of an array: a whole number"),
]


@pytest.mark.parametrize(("changes", "words"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_what_cannot_be_meant_is_told(chain: Path, changes: dict[str, Any], words: str) -> None:
    given = {"outputs": ["x[1]"], "names": ["k[1]"], "values": STILL, **changes}
    with pytest.raises(FMUError, match=words):
        FMU(chain, given.pop("outputs"), TIMES, **given)


def test_sizes_cannot_be_set_for_model_exchange(chain: Path, tmp_path: Path) -> None:
    both = '<ModelExchange modelIdentifier="Chain3"/><CoSimulation '
    other = fmu_files.changed(chain, tmp_path / "Chain3.fmu", ("<CoSimulation ", both))
    with pytest.raises(FMUError, match='for co-simulation only: write interface = "co-sim'):
        FMU(other, ["total"], TIMES, values={"n": 3}, interface="model-exchange")


def test_an_array_of_a_billion_is_not_listed(chain: Path, tmp_path: Path) -> None:
    pair = ('<Dimension start="3"/>', '<Dimension start="1000000000"/>')
    large = read_description(fmu_files.changed(chain, tmp_path / "Chain3.fmu", pair))
    assert len(list(elements(large.variables["x"]))) == 1_000
    assert large.find("x[999999999]", ()).place == 999_999_998


def test_init_writes_a_line_for_each_element(chain: Path, tmp_path: Path) -> None:
    for name, text in fmu_starter_files(chain, tmp_path).items():
        (tmp_path / name).write_text(text)
    table = list(csv.reader((tmp_path / "data.csv").read_text().splitlines()))
    assert table[0] == ["time", "x[1]", "x[2]", "x[3]", "y[1]", "y[2]", "total"]
    rows = [",".join([row[0], *(["0.5"] * 6)]) for row in table[1:]]
    (tmp_path / "data.csv").write_text("\n".join([",".join(table[0]), *rows]) + "\n")
    problem = supac.read_problem(tmp_path / "problem.toml")
    assert problem.parameters.names[:4] == ("k[1]", "k[2]", "k[3]", "mixing[1,1]")
    medians = problem.parameters.from_latent(np.zeros((1, 11)))[0]
    assert medians.tolist() == pytest.approx([1, 2, 3, 1, 0, 0, 0, 1, 1, 1, 1])  # start values
    assert isinstance(problem.risk, supac.Composite)
    assert len(run(problem.risk.simulate, medians.tolist())) == 60
    text = (tmp_path / "problem.toml").read_text().replace('"k[3]" =', '"k[9]" =')
    (tmp_path / "problem.toml").write_text(text)
    with pytest.raises(ProblemFileError, match=r'parameters."k\[9\]".*is no element of k'):
        supac.read_problem(tmp_path / "problem.toml")
