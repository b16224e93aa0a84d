"""Jacobians in problem files: of Python functions, of programs, of UM-Bridge servers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from extras import needs
from servers import serving
from supac.arrays import FloatArray
from supac.problem_file import make_problem
from supac.problem_file.errors import ProblemFileError
from supac.simulators.jacobian_error import JacobianError

PARAMETERS = """
[parameters]
k = { prior = "lognormal", median = 1.0, log_sd = 0.5 }
fixed = 3.0
b = { prior = "normal", mean = 0.5, sd = 1.0 }
"""
TIED = 'twice = "2 * k * b"\n'
REST = """
[bound]
temperature = 0.1
[run]
budget = 12
validation = 0
"""
ONE = '[data]\nfile = "one.csv"\nobserved = ["y", "z"]\nnoise = 0.05\ntime = "time"\n'
TWO = """
[[data]]
file = "one.csv"
observed = ["y", "z"]
noise = 0.05
time = "time"
settings = { dose = 1.0 }
[[data]]
file = "two.csv"
observed = "y"
noise = 0.05
time = "time"
settings = { dose = 2.0 }
"""
MODEL = '''
import numpy as np

DIFFERENT = 1e-6

def outputs(k, fixed, b, twice=0.0, dose=1.0, times=None):
    """Two columns, at all rows."""
    t = np.array([1.0, 2.0, 4.0]) if times is None else np.asarray(times)
    return {"y": dose * np.exp(-k * t) + b + twice * t, "z": fixed * k * b * t}

def slopes(k, fixed, b, twice=0.0, dose=1.0, times=None):
    """In the order of the file: k, fixed, b, then what else there is."""
    t = np.array([1.0, 2.0, 4.0]) if times is None else np.asarray(times)
    one, nan = np.ones(len(t)), np.full(len(t), np.nan)
    y = [-t * dose * np.exp(-k * t), nan, one, t, nan]
    z = [fixed * b * t, nan, fixed * k * t, 0.0 * t, nan]
    return {"y": np.column_stack(y), "z": np.column_stack(z)}

def pair(k, fixed, b):
    j = slopes(k, fixed, b)
    return outputs(k, fixed, b), {name: each[:, :3] for name, each in j.items()}

def in_free(k, fixed, b):
    return {name: each[:, [0, 2]] for name, each in slopes(k, fixed, b).items()}

def tied_pair(k, fixed, b, twice):
    j = slopes(k, fixed, b, twice)
    return outputs(k, fixed, b, twice), {name: each[:, :4] for name, each in j.items()}

def dosed(k, fixed, b, dose, times=None):
    return outputs(k, fixed, b, 0.0, dose, times)

def dosed_slopes(k, fixed, b, dose, times=None):
    j = slopes(k, fixed, b, 0.0, dose, times)
    return {name: each[:, [0, 1, 2, 4]] for name, each in j.items()}

def many(x):
    found = [outputs(*each) for each in x]
    return np.array([np.concatenate([each["y"], each["z"]]) for each in found])

def many_slopes(x):
    found = [slopes(*each) for each in x]
    return np.array([np.concatenate([each["y"], each["z"]])[:, :3] for each in found])

def broken(x):
    raise ZeroDivisionError("no adjoint")
'''
PROGRAM = """
import json, sys
import numpy as np
import m
x = json.load(open("input.json"))
y, j = m.outputs(**x), m.slopes(**x)
json.dump({name: each.tolist() for name, each in y.items()}, open("output.json", "w"))
way, rows = sys.argv[1], np.concatenate([j["y"], j["z"]])[:, :3]
if way == "csv":
    lines = ["b,k", *(f"{float(row[2])!r},{float(row[0])!r}" for row in rows)]
    open("j.csv", "w").write("\\n".join(lines))
elif way == "columns":
    json.dump({"k": rows[:, 0].tolist(), "b": rows[:, 2].tolist()}, open("j.json", "w"))
elif way == "rows":
    json.dump({name: each[:, [0, 2]].tolist() for name, each in j.items()}, open("j.json", "w"))
elif way == "outputs":
    named = {n: {"k": e[:, 0].tolist(), "b": e[:, 2].tolist()} for n, e in j.items()}
    json.dump(named, open("j.json", "w"))
elif way == "other":
    json.dump({"k": [1.0]}, open("j.json", "w"))
elif way == "short":
    json.dump([[1.0, 2.0]], open("j.json", "w"))
elif way == "none":
    open("j.json", "w").write("null")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "one.csv").write_text("time,y,z\n1,1.0,2.0\n2,,3.0\n4,0.3,6.0\n")
    (tmp_path / "two.csv").write_text("time,y\n1,1.2\n3,0.4\n")
    (tmp_path / "m.py").write_text(MODEL)
    (tmp_path / "p.py").write_text(PROGRAM)
    return tmp_path


def make(
    simulator: str, folder: Path, data: str = ONE, tied: str = "", name: str = "problem"
) -> supac.ProblemFile:
    text = PARAMETERS + tied + data + "[simulator]\n" + simulator + REST
    return make_problem(text, folder / f"{name}.toml")


def pair_at(ready: supac.ProblemFile, x: FloatArray) -> tuple[FloatArray, Any]:
    """Outputs and Jacobian at x, wherever the latter comes from."""
    risk = ready.risk
    assert isinstance(risk, supac.Composite)
    found = risk.simulate(x)
    if callable(risk.jacobian):
        return found, risk.jacobian(x)
    assert risk.jacobian is True
    return found[0], found[1]


def program(way: str, name: str) -> str:
    words = f'["{{python}}", "p.py", "{way}"]'
    return f'command = {words}\ncopies = "m.py"\njacobian = "{name}"\n'


NAMES = 'arguments = "names"\n'
WAYS = {
    "a pair": ('python = "m:pair"\njacobian = true\n' + NAMES, ONE, ""),
    "a function": ('python = "m:outputs"\njacobian = "m:in_free"\n' + NAMES, ONE, ""),
    "formulas": ('python = "m:tied_pair"\njacobian = true\n' + NAMES, ONE, TIED),
    "experiments": ('python = "m:dosed"\njacobian = "m:dosed_slopes"\n' + NAMES, TWO, ""),
    "a table": (program("csv", "j.csv"), ONE, ""),
    "columns": (program("columns", "j.json"), ONE, ""),
    "rows": (program("rows", "j.json"), ONE, ""),
    "by output": (program("outputs", "j.json"), ONE, ""),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_gives_the_derivatives_in_what_is_sought(way: str, folder: Path) -> None:
    simulator, data, tied = WAYS[way]
    ready = make(simulator, folder, data, tied)
    x, step = np.array([0.7, 1.4]), 1e-6
    found, jacobian = pair_at(ready, x)
    shifted = [pair_at(ready, x + s * np.eye(2)[i])[0] for i in (0, 1) for s in (step, -step)]
    expected = np.column_stack([shifted[0] - shifted[1], shifted[2] - shifted[3]]) / (2.0 * step)
    measured = np.isfinite(ready.observations.values)  # type: ignore[union-attr]
    np.testing.assert_allclose(jacobian[measured], expected[measured], rtol=1e-7, atol=1e-8)
    assert found.shape == (len(jacobian),)


def test_many_points_at_once(folder: Path) -> None:
    words = 'python = "m:many"\nvectorized = true\njacobian = "m:many_slopes"\n'
    ready, one = make(words, folder), make(WAYS["a function"][0], folder)
    x = np.array([[0.7, 1.4], [1.1, -0.3]])
    jacobians = pair_at(ready, x)[1]
    for point, found in zip(x, jacobians, strict=True):
        np.testing.assert_allclose(found, pair_at(one, point)[1], rtol=1e-12)


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("other", r"j\.json has no column b, but k"),
        ("short", "2 numbers|does not fit the data"),
        ("missing", r"the program wrote no j\.json"),
    ],
)
def test_a_wrong_file_is_named_and_ends_the_search(way: str, words: str, folder: Path) -> None:
    ready = make(program(way, "j.json"), folder)
    assert isinstance(pair_at(ready, np.array([0.7, 1.4]))[1], JacobianError)
    with pytest.raises(supac.EvaluationError, match=words):
        ready.minimize()


def test_null_stands_for_no_jacobian_of_this_run(folder: Path) -> None:
    outputs = make(program("none", "j.json"), folder).risk(np.array([0.7, 1.4]))
    assert np.isfinite(outputs)


def test_a_function_that_raises_ends_the_search(folder: Path) -> None:
    words = 'python = "m:many"\nvectorized = true\njacobian = "m:broken"\njacobian_cost = 0.0\n'
    with pytest.raises(supac.EvaluationError, match="raised ZeroDivisionError: no adjoint"):
        make(words, folder).minimize()


@pytest.mark.parametrize("way", ["a pair", "a function", "a table"])
def test_a_search_learns_from_them(way: str, folder: Path) -> None:
    simulator = WAYS[way][0] + "jacobian_cost = 0.0\n"
    found = make(simulator, folder).minimize()
    known = [run.jacobian is not None for run in found.record.runs]
    assert all(known)
    first = [run for run in found.record.runs if run.step == 0]
    assert len(first) == 3  # a small first batch: they were expected
    plain = make('python = "m:outputs"\n' + NAMES, folder, name="plain").minimize()
    assert found.objective < plain.objective


@pytest.mark.parametrize(
    ("simulator", "data", "words"),
    [
        ('python = "m:pair"\njacobian_cost = 1.0\n', ONE, "jacobian_cost: needs jacobian"),
        ('python = "m:pair"\njacobian = "j.csv"\n', ONE, 'is the function "module:name", or true'),
        ('python = "m:outputs"\njacobian = "m:none"\n', ONE, "m has no function none"),
        ('command = ["{python}", "p.py"]\njacobian = true\n', ONE, "is the file that it writes"),
        (program("csv", "output.json"), ONE, "must be another file than output"),
        (program("csv", "j.csv") + 'times = "t"\n', ONE, "does not go with times yet"),
        ('umbridge = "http://h:1"\njacobian = true\n', ONE, "needs jacobian_cost, in runs"),
        ('umbridge = "http://h:1"\njacobian = "j.csv"\n', ONE, "of umbridge is true or false"),
        (WAYS["a pair"][0] + "jacobian_cost = -1.0\n", ONE, "a number of runs, 0 or more"),
        (WAYS["a pair"][0], ONE + 'after_end = "hold"\n', "does not go with after_end in"),
        (
            WAYS["a pair"][0] + '[simulator.coarse]\npython = "m:outputs"\n',
            ONE,
            r"does not go with \[simulator.coarse\] yet",
        ),
        ('fmu = "m.fmu"\njacobian = true\n', ONE, "goes with python and command and umbridge"),
    ],
)
def test_what_does_not_go_is_refused(simulator: str, data: str, words: str, folder: Path) -> None:
    with pytest.raises(ProblemFileError, match=words):
        make(simulator, folder, data)


def test_the_example_of_the_documentation_runs(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "jacobians.md").read_text()

    def block(language: str, words: str) -> str:
        found = re.findall(rf"^```{language}\n(.*?)^```", page, flags=re.M | re.S)
        return next(each for each in found if words in each)

    (tmp_path / "decay.py").write_text(block("py", "decay.py"))
    (tmp_path / "decay.csv").write_text(block("csv", "time"))
    ready = make_problem(block("toml", "jacobian.csv"), tmp_path / "problem.toml")
    found = ready.minimize()
    learnt = [run for run in found.record.runs if run.purpose == "search"]
    assert all(run.jacobian is not None for run in learnt)
    truth = ready.parameters.to_latent(np.array([[0.3, 2.3]]))[0]
    sd = np.sqrt(np.diag(found.posterior.covariance))
    assert (np.abs(found.posterior.mean - truth) < sd).all()


@pytest.mark.parametrize("model", ["forward", "backward"])
def test_a_server_is_asked_for_derivatives(model: str, tmp_path: Path) -> None:
    needs("umbridge")
    (tmp_path / "data.csv").write_text("t,A\n0.5,1.6\n1.0,1.3\n2.0,0.9\n4.0,0.4\n")
    data = '[data]\nfile = "data.csv"\nobserved = "A"\nnoise = 0.05\n'
    with serving() as (url, _):
        simulator = f'umbridge = "{url}"\nmodel = "{model}"\njacobian = true\njacobian_cost = 0.0\n'
        text = PARAMETERS.replace("fixed = 3.0\n", "") + data + "[simulator]\n" + simulator + REST
        ready = make_problem(text, tmp_path / "problem.toml")
        x, t = np.array([2.0, 0.4]), np.array([0.5, 1.0, 2.0, 4.0])
        outputs, jacobian = pair_at(ready, x)
        np.testing.assert_allclose(jacobian[:, 0], outputs / 2.0, rtol=1e-12)
        np.testing.assert_allclose(jacobian[:, 1], -t * outputs, rtol=1e-12)
        found = ready.minimize()
    assert all(run.jacobian is not None for run in found.record.runs)


def test_several_blocks_and_a_server_without_derivatives() -> None:
    needs("umbridge")
    with serving() as (url, _):
        x = [0.3, 0.8]
        expected = [[1.0, 0.0], [0.0, 1.0], [0.8, 0.3]]
        np.testing.assert_allclose(supac.UMBridge(url, "misfit").jacobian(x), expected)
        with pytest.raises(ValueError, match="supports neither apply_jacobian nor gradient"):
            supac.UMBridge(url, "wave").jacobian(x)
        simulate = supac.UMBridge(url, "wave")
        risk = supac.Composite(
            simulate, supac.MeanSquare(), jacobian=simulate.jacobian, jacobian_cost=0.0
        )
        with pytest.raises(supac.EvaluationError, match="has no derivatives"):
            supac.minimize(
                risk, supac.gaussian(np.zeros(2), np.eye(2)), supac.Catoni(0.1), budget=20
            )
