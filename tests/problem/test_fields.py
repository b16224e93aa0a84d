"""Fields: parameters on a grid, their names, their correlations, and what simulators receive."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import gamma, kv

import supac
from supac import Field, marginals
from supac.arrays import FloatArray
from supac.codec import from_spec, to_spec
from supac.problem.fields import COVARIANCES
from supac.problem.marginals import Marginal

FIELD = Field(marginals.LogNormal(2.0, 0.5, unit="m/s"), grid=(3, 2), length=0.4)
PARAMETERS = supac.Parameters({"s": marginals.Uniform(0.0, 1.0), "k": FIELD})


def test_the_points_of_a_field_have_names_and_their_own_columns() -> None:
    assert PARAMETERS.names == ("s", "k[0,0]", "k[0,1]", "k[1,0]", "k[1,1]", "k[2,0]", "k[2,1]")
    assert PARAMETERS.units == ("", *["m/s"] * 6)
    assert PARAMETERS.columns("k") == slice(1, 7)
    x = np.arange(14.0).reshape(2, 7)
    split = PARAMETERS.by_name(x)
    assert split["s"].tolist() == [0.0, 7.0]
    assert split["k"][1].tolist() == [[8.0, 9.0], [10.0, 11.0], [12.0, 13.0]]
    assert PARAMETERS.by_name(x[0])["k"].shape == (3, 2)
    assert float(PARAMETERS.by_name(x[0])["s"]) == 0.0


@pytest.mark.parametrize(
    ("name", "order"), [("exponential", 0.5), ("matern32", 1.5), ("matern52", 2.5)]
)
def test_correlations_are_matern_s(name: str, order: float) -> None:
    r = np.array([0.1, 0.7, 2.0])
    scaled = np.sqrt(2.0 * order) * r
    expected = 2.0 ** (1.0 - order) / gamma(order) * scaled**order * kv(order, scaled)
    np.testing.assert_allclose(COVARIANCES[name](r), expected, rtol=1e-12)


def test_distances_are_in_units_of_the_length_of_each_axis() -> None:
    normal = marginals.Normal(0.0, 1.0)
    field = Field(normal, ([0.0, 3.0], [10.0, 50.0]), (1.0, 10.0), "squared-exponential", 0.1)
    expected = 0.9 * np.exp(-0.5 * (3.0**2 + 4.0**2))
    assert field.correlation[0, 3] == pytest.approx(expected)
    assert field.correlation[0, 1] == pytest.approx(0.9 * np.exp(-0.5 * 4.0**2))
    assert np.diag(field.correlation).tolist() == [1.0] * 4
    assert [each.tolist() for each in Field(normal, 4, 1.0).axes] == [[0.125, 0.375, 0.625, 0.875]]


def test_the_prior_is_correlated_within_a_field_and_nowhere_else() -> None:
    covariance = PARAMETERS.prior.covariance
    np.testing.assert_allclose(covariance[1:, 1:], FIELD.correlation, rtol=1e-9)
    assert covariance[0].tolist() == [1.0, *[0.0] * 6]
    log_k = np.log(PARAMETERS.sample(PARAMETERS.prior, 40_000, 0)[:, 1:] / 2.0) / 0.5
    # The standard error of a correlation r of n draws is (1 − r²)/√n.
    assert np.abs(np.corrcoef(log_k.T) - FIELD.correlation).max() < 4.0 / np.sqrt(40_000)


@pytest.mark.parametrize("name", COVARIANCES)
def test_smooth_fields_on_fine_grids_are_positive_definite(name: str) -> None:
    field = Field(marginals.Normal(0.0, 1.0), grid=(200,), length=0.3, covariance=name)
    prior = supac.Parameters({"k": field}).prior
    assert prior.kl(prior) == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_allclose(prior.covariance, field.correlation, atol=1e-6)


def test_a_field_stays_together_in_blocks() -> None:
    normal = marginals.Normal(0.0, 1.0)
    given: dict[str, Marginal | Field] = {"a": normal, "k": FIELD, "b": normal}
    apart, joined = (supac.Parameters(given, each).prior for each in ([], [["k", "b"]]))
    assert apart.family.blocks == [[1, 2, 3, 4, 5, 6]]  # type: ignore[attr-defined]
    assert joined.family.blocks == [[1, 2, 3, 4, 5, 6, 7]]  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="blocks must hold each of a, k, b at most once"):
        supac.Parameters(given, [["k[0,0]", "b"]])


def test_a_store_holds_a_field_as_one_value() -> None:
    spec = json.loads(json.dumps(to_spec(PARAMETERS)))
    assert len(spec["marginals"]["items"]) == 2
    again = from_spec(spec)
    assert again.marginals == PARAMETERS.marginals
    assert again.prior == PARAMETERS.prior


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"grid": ()}, "at least one axis"),
        ({"grid": (3, 0)}, "number of points of an axis"),
        ({"grid": (3, [1.0, 0.5])}, "must increase"),
        ({"grid": (1_000, 1_000)}, "at most 2,000"),
        ({"length": 0.0}, "length must be a positive number"),
        ({"length": (1.0, 2.0, 3.0)}, "one number or 2"),
        ({"covariance": "matern12"}, "covariance must be one of exponential"),
        ({"nugget": 1.0}, "nugget must be"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Field(**{"prior": FIELD.prior, "grid": (3, 2), "length": 1.0, **arguments})


def test_a_parameter_may_not_have_the_name_of_a_point() -> None:
    with pytest.raises(ValueError, match="name of a point of a field"):
        supac.Parameters({"k": FIELD, "k[0,1]": marginals.Normal(0.0, 1.0)})


# What a program receives

ECHO = """
import os, pathlib, shutil, sys
kept = pathlib.Path(sys.argv[1])
for each in pathlib.Path(".").glob("*.*"):
    shutil.copy(each, kept)
(kept / "said.txt").write_text(os.environ.get("k", "") + "|" + " ".join(sys.argv[2:]))
pathlib.Path("output.json").write_text("1.0")
"""


def _received(folder: Path, words: list[str], **options: Any) -> Path:
    """Run a program that keeps what it is given at k = 1 … 6, s = 0.5."""
    script = folder / "echo.py"
    script.write_text(ECHO)
    command = [sys.executable, str(script), str(folder), *words]
    points = FIELD.names("k").tolist()
    program = supac.Program(command, names=PARAMETERS.names, fields={"k": points}, **options)
    assert not program.unused(PARAMETERS.names)
    program(np.array([0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
    return folder


def test_a_program_receives_a_field_as_nested_lists(tmp_path: Path) -> None:
    text = (_received(tmp_path, []) / "input.json").read_text()
    assert json.loads(text) == {"s": 0.5, "k": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]}


def test_a_program_receives_a_field_in_other_ways(tmp_path: Path) -> None:
    words = ["{k}", "{k[1,0]}", "{s}"]
    said = _received(tmp_path, words, inputs="arguments") / "said.txt"
    assert said.read_text() == "|1.0 2.0 3.0 4.0 5.0 6.0 3.0 0.5"
    said = _received(tmp_path, [], inputs="environment") / "said.txt"
    assert said.read_text() == "1.0 2.0 3.0 4.0 5.0 6.0|"
    table = _received(tmp_path, [], inputs="csv") / "input.csv"
    assert (
        table.read_text().splitlines()[0]
        == 's,"k[0,0]","k[0,1]","k[1,0]","k[1,1]","k[2,0]","k[2,1]"'
    )


def test_a_template_has_a_line_for_each_row_of_a_field(tmp_path: Path) -> None:
    deck = tmp_path / "deck.in.tpl"
    deck.write_text("s {s}\n{k:4.1f}\nfirst {k[0,0]}\n")
    made = _received(tmp_path, [], template=deck) / "deck.in"
    assert made.read_text() == "s 0.5\n 1.0  2.0\n 3.0  4.0\n 5.0  6.0\nfirst 1.0\n"
    deck.write_text("s {s} {k[0,0]}\n")
    program = supac.Program(["true"], fields={"k": FIELD.names("k").tolist()}, template=deck)
    assert "{k} stands nowhere in deck.in.tpl" in program.unused(PARAMETERS.names)


def test_parameters_tell_a_program_about_their_fields(tmp_path: Path) -> None:
    script = tmp_path / "model.py"
    script.write_text(
        "import json\npoint = json.load(open('input.json'))\n"
        "total = sum(map(sum, point['k'])) + point['s']\n"
        "json.dump(total / (1 + total), open('output.json', 'w'))\n"
    )
    program = supac.Program([sys.executable, str(script)])
    bound = supac.Catoni(temperature=0.01)
    result = supac.minimize(program, PARAMETERS, bound, budget=20, validation=0)
    assert result.failed == 0
    x = PARAMETERS.from_latent(np.array([run.x for run in result.record.runs]))
    total = x.sum(axis=1)
    np.testing.assert_allclose([r.risk for r in result.record.runs], total / (1 + total))


# In files and tables

PROBLEM = """
[parameters]
s = { prior = "uniform", lower = 0.0, upper = 1.0 }
k = { field = [3, 2], length = 0.4, prior = "lognormal", median = 2.0, log_sd = 0.5, unit = "m/s" }
depth = 7.0
[simulator]
python = "fields:simulate"
arguments = "names"
[bound]
temperature = 0.01
[run]
budget = 20
"""


def _problem(folder: Path, text: str) -> supac.ProblemFile:
    (folder / "fields.py").write_text(
        "def simulate(s, k, depth):\n"
        "    assert k.shape == (3, 2) and depth == 7.0\n"
        "    return float(s * k[2, 1] / (1.0 + k.sum()))\n"
    )
    path = folder / "problem.toml"
    path.write_text(text)
    return supac.read_problem(path)


def test_a_field_is_one_line_of_a_problem_file(tmp_path: Path) -> None:
    problem = _problem(tmp_path, PROBLEM)
    assert problem.parameters.marginals == PARAMETERS.marginals
    x = np.array([0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    assert problem.risk(x) == pytest.approx(0.5 * 6.0 / 22.0)
    other = PROBLEM.replace("[3, 2]", "[[0, 1, 2], [0.5, 1]]")
    other = other.replace("0.4,", '[1, 2], covariance = "exponential", nugget = 0.01,')
    made = _problem(tmp_path, other).parameters.fields["k"]
    grid = ((0.0, 1.0, 2.0), (0.5, 1.0))
    assert made == Field(FIELD.prior, grid, (1.0, 2.0), "exponential", 0.01)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("length = 0.4, ", "", "takes median, log_sd, length: length is missing"),
        ("[3, 2]", "[3, 0]", "must be a whole number for each axis"),
        ("0.4", "[1.0, 2.0, 3.0]", "length must be one number or 2"),
        ("0.4", '0.4, covariance = "matern"', 'must be one of .*; did you mean "matern32"'),
        ("field = [3, 2], ", "", "goes with field"),
        ("7.0", '"2 * k"', "k is a field"),
        ("[3, 2]", "[300, 200]", "at most 2,000"),
    ],
)
def test_mistakes_in_a_field_of_a_file_are_named(
    old: str, new: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(supac.ProblemFileError, match=words):
        _problem(tmp_path, PROBLEM.replace(old, new))


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> supac.Result:
    store = tmp_path_factory.mktemp("fields") / "fields.supac"
    return supac.minimize(
        supac.Composite(_simulate, supac.Welsch()),
        PARAMETERS,
        supac.Catoni(0.05),
        budget=40,
        store=store,
    )


def _simulate(x: FloatArray) -> FloatArray:
    return np.log(PARAMETERS.by_name(x)["k"]).ravel() - 1.0


def test_a_field_is_one_variable_of_xarray(result: supac.Result) -> None:
    pytest.importorskip("xarray")
    made = len(result.evaluations)
    for dataset, rows in ((result.to_xarray(), made), (result.to_xarray(posterior=7), 7)):
        k = dataset["k"]
        assert k.dims[1:] == ("k_dim_0", "k_dim_1")
        assert k.shape == (rows, 3, 2)
        assert k.attrs["units"] == "m/s"
        np.testing.assert_allclose(dataset["k_dim_1"], [0.25, 0.75])
        assert "k[0,0]" not in dataset
    draws = result.to_xarray(posterior=7, seed=3)["k"].to_numpy()
    expected = PARAMETERS.by_name(result.sample(7, 3))["k"]
    np.testing.assert_array_equal(draws, expected)


def test_errors_do_not_list_hundreds_of_parameters() -> None:
    many = supac.Parameters({"k": Field(FIELD.prior, grid=(20, 10), length=0.4)})

    def risk(x: FloatArray) -> float:
        raise ArithmeticError("no")

    with pytest.raises(supac.EvaluationError, match=r"k\[0,0\] = .*, and 160 more") as caught:
        supac.minimize(
            risk, many, supac.Catoni(0.1), budget=20, execution=supac.Execution(on_failure="raise")
        )
    assert len(str(caught.value)) < 2_000


def test_a_store_of_a_field_is_read_resumed_and_exported(
    result: supac.Result, tmp_path: Path
) -> None:
    store, again = result.record.path, tmp_path / "again.supac"
    assert store is not None
    shutil.copy(store, again)
    assert supac.read_store(store).parameters.marginals == PARAMETERS.marginals  # type: ignore[union-attr]
    longer = supac.resume(again, supac.Composite(_simulate, supac.Welsch()), budget=50)
    assert longer.queries == 50
    table = tmp_path / "runs.csv"
    supac.export(again, table)
    known = supac.read_csv(table, PARAMETERS)
    assert known.x.shape == (len(longer.record.light_runs), 7)
    result.to_json(tmp_path / "result.json")
    back = supac.read_result(tmp_path / "result.json")
    assert back.parameters is not None
    assert back.parameters.fields == PARAMETERS.fields
    assert back.posterior == result.posterior
