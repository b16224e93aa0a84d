from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from problem_reference import BEGIN, reference, scenario_reference, updated
from supac import marginals
from supac.arrays import FloatArray
from supac.codec import to_spec
from supac.guarantee.basis import basis_of
from supac.problem.bounds import Bound
from supac.problem.composite import Composite
from supac.problem.losses import CappedSquare, MeanSquare, ResidualLoss, Welsch
from supac.problem.marginals import Marginal, Normal
from supac.problem_file import make_problem, problem_of, source_of, starter_files, store_of, values
from supac.problem_file.errors import Source, key_lines, line_of, parse
from supac.problem_file.inputs import Inputs
from supac.problem_file.schema import BOUNDS, LOSSES, PRIORS, shape_of
from supac.problem_file.simulator import Simulate, Simulator
from supac.problem_file.values import setting

ROOT = Path(__file__).parents[2]


def write(folder: Path, kind: Any = "python", **changes: str) -> Path:
    """The starter with some of its text changed: {old: new} as pairs of keyword arguments."""
    for name, text in starter_files(kind).items():
        (folder / name).write_text(text)
    return change(folder / "problem.toml", *changes.items())


def change(path: Path, *pairs: tuple[str, str]) -> Path:
    text = path.read_text()
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new, 1)
    path.write_text(text)
    return path


# What is wrong, the text that is replaced and by what, the key that is named (or "" for a text that
# is no TOML), and words of the message: what is wrong, or what to do.
WRONG = [
    ("a misspelt key", "budget = 60", "budgte = 60", "run.budgte", ['did you mean "budget"?']),
    ("a misspelt table", "[simulator]", "[simulater]", "simulater", ['did you mean "simulator"?']),
    ("a misspelt value", '"uniform"', '"unifrom"', "parameters.initial.prior", ['mean "uniform"?']),
    ("an American spelling", '"penalise"', '"penalize"', "execution.on_failure", ['"penalise"?']),
    ("a key of another table", "seed = 0", "workers = 4", "run.workers",
     ["belongs in [execution]"]),
    ("a missing key", "budget = 60", "# none", "run",
     ["budget is missing", "runs of the simulator"]),
    ("a missing table", "[bound]", "[posterior]", "", ["the table [bound] is missing"]),
    ("a list as a prior", "k1 = {", "k1 = [0.5] #", "parameters.k1",
     ["must be a prior, a number or a formula, not [0.5]"]),
    ("another prior's key", "log_sd = 0.8", "sd = 0.8", "parameters.k1.sd",
     ["lognormal takes median, log_sd", "log_sd is missing"]),
    ("bounds the wrong way", "lower = 0.5, upper = 5.0", "lower = 5.0, upper = 0.5",
     "parameters.initial", ["lower must be below upper"]),
    ("a number in quotes", "budget = 60", 'budget = "60"', "run.budget", ["without quotes"]),
    ("a text without quotes", 'kind = "welsch"', "kind = welsch", "", ["texts need quotes"]),
    ("a comma in a number", "noise = 0.05", "noise = 0,05", "", ["a point, not a comma: 0.05"]),
    ("a quote that is missing", 'file = "data.csv"', 'file = "data.csv', "", ["end with a quote"]),
    ("a key twice", "seed = 0", "seed = 0\nseed = 1 #", "", ["twice: keep one of the two"]),
    ("an error in quotes", "noise = 0.05", 'noise = "0.05"', "data.noise",
     ["is a text; write it without quotes"]),
    ("a negative error", "noise = 0.05", "noise = -0.05", "data.noise", ["a number above 0"]),
    ("an error in percent of nothing", "noise = 0.05", 'noise = "%5"', "data.noise",
     ['of the form "5 %" or "5 % + 0.02"']),
    ("a number beyond all numbers", "noise = 0.05", f"noise = 1{'0' * 400}", "data.noise",
     ["must be a number above 0"]),
    ("a unit of time", "# timeout = 600.0", 'timeout = "10 min"', "execution.timeout",
     ["must be a number above 0", "seconds"]),
    ("a share above 1", "delta = 0.05", "delta = 5", "bound.delta", ["between 0 and 1, not 5"]),
    ("a file that is not there", '"data.csv"', '"dta.csv"', "data.file", ['mean "data.csv"?']),
    ("a column that is not there", '["A", "B"]', '["A", "C"]', "data.observed",
     ["no column C", "its columns are time, A, B"]),
    ("a module that is not there", '"model:', '"modle:', "simulator.python",
     ["there is no modle.py", 'did you mean "model"?']),
    ("a function that is not there", ":simulate", ":simulator", "simulator.python",
     ["model has no function simulator", 'did you mean "simulate"?']),
    ("a file in place of a function", '"model:simulate"', '"model.py"', "simulator.python",
     ['written as "module:function"']),
    ("other arguments", "k2 = {", "k3 = {", "simulator.arguments",
     ["simulate(initial, k1, k2, times) needs k2, which is no parameter or setting",
      "and has no argument k3"]),
    ("two simulators", "arguments =", 'command = ["true"] #', "simulator.command",
     ["there is python already: keep one"]),
    ("an option of another simulator", "arguments =", 'keep = "all" #', "simulator.keep",
     ["goes with command and pest, not with python: remove it"]),
    ("more data than there are", "n = 24", "n = 240", "bound.n",
     ["24 numbers were measured", "independent"]),
    ("a bound without data", "n = 24", "# n = 24", "bound", ["needs n, the number of independent"]),
    ("a temperature that is not used", "delta = 0.05", "temperature = 0.1", "bound.temperature",
     ["goes with catoni, not with maurer-langford-seeger: remove it"]),
    ("a loss without a ceiling", 'kind = "welsch"\nwidth', 'kind = "mean-square" #', "bound",
     ["needs a ceiling", '"welsch"']),
    ("a root without a ceiling", 'kind = "welsch"\nwidth', 'kind = "root-mean-square" #', "bound",
     ["needs a ceiling", '"welsch"']),
    ("a budget that is too small", "budget = 60", "budget = 5", "run.budget",
     ["less than the first batch of 10 runs", "raise it"]),
    ("async without workers", "# workers = 4", 'mode = "async" #', "execution.mode",
     ["workers = 4"]),
    ("a correlation of nobody", "[run]", '[posterior]\ncorrelated = [["k1", "k22"]]\n[run]',
     "posterior.correlated", ["k22 is no parameter", 'did you mean "k2"?']),
    ("another name of the simulator", "[simulator]", "[model]", "model", ['mean "simulator"?']),
    ("another name of a prior", '"lognormal"', '"gaussian"', "parameters.k1.prior",
     ['did you mean "normal"?']),
    ("other names of the bounds", "lower = 0.5, upper", "min = 0.5, max", "parameters.initial.min",
     ["uniform takes lower, upper, not min", 'did you mean "lower"?', 'did you mean "upper"?']),
    ("another name of sd", '"lognormal", median = 0.5, log_sd', '"normal", mean = 0.5, sigma',
     "parameters.k1.sigma", ["normal takes mean, sd, not sigma", 'did you mean "sd"?']),
    ("a prior without its numbers", "median = 0.5, log_sd = 0.8, ", "", "parameters.k1",
     ["lognormal takes median, log_sd: median and log_sd are missing"]),
    ("a path in place of a module", '"model:simulate"', '"./model:simulate"', "simulator.python",
     ['write "model:simulate"']),
    ("an error of what is not observed", "noise = 0.05", "noise = { A = 0.1, B = 0.1, time = 0.1 }",
     "data.noise.time", ["time is not observed; observed are A, B"]),
    ("an error of a misspelt column", "noise = 0.05", "noise = { A = 0.1, B_ = 0.1 }",
     "data.noise.B_", ["B_ is not observed", 'did you mean "B"?']),
    ("an error too few", "noise = 0.05", "noise = { A = 0.1 }", "data.noise",
     ["says nothing of B, which is observed"]),
    ("known runs that are not there", "seed = 0", 'known = "dta.csv"', "run.known",
     ["there is no file", 'did you mean "data.csv"?']),
]  # fmt: skip


# Where the line that is named is not the one that was changed: what it holds.
ELSEWHERE = {
    "a missing key": "[run]",
    "a missing table": "delta = 0.05",  # which the table of that name does not know
    "a key twice": "seed = 1",
    "other arguments": "arguments =",
    "a bound without data": "[bound]",
    "a loss without a ceiling": "[bound]",
    "a root without a ceiling": "[bound]",
    "a correlation of nobody": "correlated",
    "a prior without its numbers": 'k1 = { prior = "lognormal", unit',
}


@pytest.mark.parametrize(("what", "old", "new", "key", "words"), WRONG, ids=[w[0] for w in WRONG])
def test_a_newcomer_can_act_on_every_error(
    what: str, old: str, new: str, key: str, words: list[str], tmp_path: Path
) -> None:
    path = change(write(tmp_path), (old, new))
    with pytest.raises(supac.ProblemFileError) as raised:
        supac.read_problem(path)
    message = str(raised.value)
    assert "problem.toml" in message
    for each in words:
        assert each in message
    if key:
        assert f", {key}: " in message
    lines, at = path.read_text().splitlines(), ELSEWHERE.get(what, new)
    line = next(number for number, line in enumerate(lines, start=1) if at in line)
    assert raised.value.errors[-1].line == line
    assert f"problem.toml, line {line}" in message
    assert f"{line} | {lines[line - 1].strip()}" in message


STORES = [
    ("problem.toml", "exists and is not a store: choose another name"),
    ("data.csv", "exists and is not a store: choose another name"),
    ("nodir/run.supac", "there is no folder"),
    (".", "is a folder: name a file in it"),
]


@pytest.mark.parametrize(("name", "words"), STORES)
def test_a_store_that_cannot_be_one_is_named_by_line(name: str, words: str, tmp_path: Path) -> None:
    problem = supac.read_problem(change(write(tmp_path), ('"run.supac"', f'"{name}"')))
    with pytest.raises(supac.ProblemFileError, match=r"line \d+, run\.store: ") as raised:
        problem.check_store()
    assert words in str(raised.value)


def test_paths_may_begin_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    path = write(tmp_path, "builtin")
    change(path, ('"run.supac"', '"~/run.supac"'), ('"data.csv"', '"~/d.csv"'))
    (tmp_path / "data.csv").rename(home / "d.csv")
    problem = supac.read_problem(path)
    assert problem.store == store_of(path) == home / "run.supac"
    assert set(problem.files) == {"data"}
    problem.check_store()


def test_a_file_that_is_too_deep_or_too_long_is_an_error(tmp_path: Path) -> None:
    for value in ("[" * 3_000 + "]" * 3_000, "[" * 200 + "]" * 200, "1" + "0" * 5_000):
        path = change(write(tmp_path), ("seed = 0", f"seed = {value} #"))
        with pytest.raises(supac.ProblemFileError):
            supac.read_problem(path)


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    path = change(
        write(tmp_path), ("budget", "budgte"), ("noise = ", "nose = "), ("delta =", "dleta =")
    )
    with pytest.raises(supac.ProblemFileError) as raised:
        supac.read_problem(path)
    keys = [error.key for error in raised.value.errors]
    assert keys == [("data", "nose"), ("bound", "dleta"), ("run", "budgte")]


CSV = [
    ("time,A,B\n1,2\n", "line 2: 2 cells, but the header has 3"),
    ("time,A,B\n\n1,2,x\n", "line 3, column B: 'x' is no number"),
    ("time,A,B\n1,2,x\n", "line 2, column B: 'x' is no number"),
    ("time,A,B\n1,2,nan\n", "line 2, column B: 'nan' is no number"),
    ("time,A,B\n1,,\n", "no number in these columns"),
    ("time,A,B\n", "needs a line of names and lines of numbers"),
    ("time;A;B\n1;2;3,x\n", "line 2, column B: '3,x' is no number"),
    ("time A B\n1 2 3\n", "data.csv has no column A; its columns are time A B"),
    ("time,A,B\n,2,3\n", "line 2, column time: a number is missing"),
]


@pytest.mark.parametrize(("text", "words"), CSV)
def test_wrong_data_are_named_by_row_and_column(text: str, words: str, tmp_path: Path) -> None:
    path = write(tmp_path)
    (tmp_path / "data.csv").write_text(text)
    with pytest.raises(supac.ProblemFileError, match=r"line 2[12], data") as raised:
        supac.read_problem(path)
    assert words in str(raised.value)


MODELS = [
    ("import nothing_like_this\n", "model.py, line 1 raised ModuleNotFoundError"),
    ("def simulate(:\n", "model.py, line 1: "),
    ("\n1 / 0\n", "model.py, line 2 raised ZeroDivisionError"),
    ("simulate = 3\n", "model:simulate is 3, no function"),
]


@pytest.mark.parametrize(("text", "words"), MODELS)
def test_wrong_python_files_are_named_by_line(text: str, words: str, tmp_path: Path) -> None:
    path = write(tmp_path)
    (tmp_path / "model.py").write_text(text)
    with pytest.raises(supac.ProblemFileError) as raised:
        supac.read_problem(path)
    assert "simulator.python: " + words in str(raised.value)


def test_a_file_with_the_name_of_one_of_python_s_is_refused(tmp_path: Path) -> None:
    path = change(write(tmp_path), ('"model:', '"random:'))
    (tmp_path / "model.py").rename(tmp_path / "random.py")
    with pytest.raises(supac.ProblemFileError, match="rename it"):
        supac.read_problem(path)


def test_a_problem_needs_parameters(tmp_path: Path) -> None:
    path = change(write(tmp_path), ("[parameters]", "[posterior]"))
    text = "".join(
        line for line in path.read_text().splitlines(True) if not line.startswith(("k", "init"))
    )
    with pytest.raises(supac.ProblemFileError, match=r"write a table .parameters. with a line for"):
        make_problem(text, path)


def test_a_function_may_be_in_a_package(tmp_path: Path) -> None:
    path = change(write(tmp_path), ('"model:', '"inner_models.model:'))
    (tmp_path / "inner_models").mkdir()
    (tmp_path / "inner_models" / "constants.py").write_text("SCALE = 2.0\n")
    (tmp_path / "inner_models" / "model.py").write_text(
        "from .constants import SCALE\n\n\n"
        "def simulate(initial, k1, k2):\n    return [SCALE * initial] * 24\n"
    )
    supac.read_problem(path)  # a package without a file of its own may be loaded already
    risk = supac.read_problem(path).risk
    assert isinstance(risk, Composite)
    outputs = risk.simulate(np.ones(3))
    np.testing.assert_array_equal(outputs, np.full(24, 2.0))
    assert risk.residuals(outputs[None])[0, 0] == pytest.approx((2.0 - 1.597) / 0.05)


def test_files_that_are_no_files(tmp_path: Path) -> None:
    with pytest.raises(supac.ProblemFileError, match="supac init"):
        supac.read_problem(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(supac.ProblemFileError, match="UTF-8"):
        supac.read_problem(tmp_path / "binary.toml")
    with pytest.raises(supac.ProblemFileError, match="cannot be read"):
        supac.read_problem(tmp_path)


TEXT = """\
top = 1  # a comment with "quotes" and = signs
"quoted key".x = '''
[not a table]
a = 1
'''
[a.b]
c = { d = 1, e = [1,
  2], "f.g" = "}" }

[[list]]
x = "#"
[[list]]
x.y = \"\"\"two \\"
lines\"\"\"
z = [ { u = 1 }, { u = 2 } ]
"""


def test_every_key_is_found_on_its_line() -> None:
    lines = key_lines(TEXT)
    assert tomllib.loads(TEXT)["list"][1]["z"][1] == {"u": 2}
    assert lines == {
        ("top",): 1, ("quoted key",): 2, ("quoted key", "x"): 2, ("a",): 6, ("a", "b"): 6,
        ("a", "b", "c"): 7, ("a", "b", "c", "d"): 7, ("a", "b", "c", "e"): 7,
        ("a", "b", "c", "e", 0): 7, ("a", "b", "c", "e", 1): 7, ("a", "b", "c", "f.g"): 7,
        ("list",): 10, ("list", 0): 10, ("list", 0, "x"): 11, ("list", 1): 12, ("list", 1, "x"): 13,
        ("list", 1, "x", "y"): 13, ("list", 1, "z"): 15, ("list", 1, "z", 0): 15,
        ("list", 1, "z", 0, "u"): 15, ("list", 1, "z", 1): 15, ("list", 1, "z", 1, "u"): 15,
    }  # fmt: skip
    assert line_of(lines, ("a", "b", "missing")) == 6
    assert line_of(lines, ("nowhere",)) is None


@pytest.mark.parametrize("kind", ["builtin", "python", "command", "umbridge"])
def test_the_starters_are_right_as_they_are(kind: Any, tmp_path: Path) -> None:
    problem = supac.read_problem(write(tmp_path, kind))
    assert problem.parameters.names == ("initial", "k1", "k2")
    assert problem.parameters.units == ("mol/L", "1/h", "1/h")
    assert problem.observations is not None
    assert problem.observations.labels == ("A (mol/L)", "B (mol/L)")
    assert problem.observations.time_label == "time (h)"
    assert isinstance(problem.risk, Composite)
    assert problem.risk.loss == Welsch(3.0)
    assert problem.bound == supac.MaurerLangfordSeeger(24, 0.05)
    assert (problem.budget, problem.seed, problem.store) == (60, 0, tmp_path / "run.supac")
    assert problem.execution.on_failure == "penalise"


def test_three_ways_to_simulate_the_same(tmp_path: Path) -> None:
    x = np.array([2.0, 0.9, 0.35])
    residuals = {}
    for kind in ("builtin", "python", "command"):
        folder = tmp_path / kind
        folder.mkdir()
        risk = supac.read_problem(write(folder, kind)).risk
        assert isinstance(risk, Composite)
        residuals[kind] = np.ravel(risk.simulate(x[None] if kind == "builtin" else x))
    assert np.abs(residuals["builtin"]).max() < 4.0  # the data were made at x, with this noise
    np.testing.assert_allclose(residuals["python"], residuals["builtin"], atol=2e-2)
    np.testing.assert_allclose(residuals["command"], residuals["builtin"], atol=2e-2)


def toml(document: str, folder: Path) -> supac.ProblemFile:
    return make_problem(document, folder / "problem.toml")


HEAD = """
[simulator]
python = "f:f"
[run]
budget = 40
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "f.py").write_text(
        "def f(x):\n    return [x[0], 2 * x[0], 3.0]\n\n\n"
        "def loss(r):\n    return (r**2).mean(axis=1)\n"
    )
    (tmp_path / "d.csv").write_text("t,A,B,sd\n0,1,4,0.5\n1,,5,0.25\n2,3,6,1\n")
    return tmp_path


@pytest.mark.parametrize("name", PRIORS)
def test_every_prior_can_be_written(name: str, folder: Path) -> None:
    values = {"lower": 1.0, "upper": 3.0, "median": 2.0, "mean": 2.0, "mode": 2.0}
    law = {"distribution": "weibull_min", "shapes": [0.5]}
    numbers = {each: {**values, **law}.get(each, 0.5) for each in shape_of(name)}
    line = ", ".join(f"{key} = {json.dumps(value)}" for key, value in numbers.items())
    text = f'{HEAD}[bound]\ntemperature = 0.1\n[parameters]\nk = {{ prior = "{name}", {line} }}'
    make: Any = PRIORS[name]
    assert toml(text, folder).parameters.marginals == {"k": make(**numbers)}


def test_what_a_prior_has_a_default_for_may_be_left_out(folder: Path) -> None:
    text = f"{HEAD}[bound]\ntemperature = 0.1\n[parameters]\n"
    short = 'a = { prior = "beta", a = 2, b = 3 }\nb = { prior = "scipy", distribution = "expon" }'
    made = toml(text + short, folder).parameters.marginals
    assert made == {"a": marginals.Beta(2.0, 3.0), "b": marginals.Of("expon")}
    with pytest.raises(supac.ProblemFileError, match="beta takes a, b, lower, upper: b is missing"):
        toml(text + 'a = { prior = "beta", a = 2 }', folder)
    with pytest.raises(supac.ProblemFileError, match=r'shapes.*must be a list of numbers, not "2"'):
        toml(text + 'a = { prior = "scipy", distribution = "gamma", shapes = "2" }', folder)
    with pytest.raises(supac.ProblemFileError, match="poisson is discrete"):
        toml(text + 'a = { prior = "scipy", distribution = "poisson", shapes = [2] }', folder)


ONE = '[parameters]\nk = { prior = "normal", mean = 0, sd = 1, unit = "m" }\n'


@pytest.mark.parametrize("name", BOUNDS)
def test_every_bound_can_be_written(name: str, folder: Path) -> None:
    text = f'{HEAD}{ONE}[bound]\nkind = "{name}"\nn = 10\ndelta = 0.1\nceiling = 2'
    bound = toml(text, folder).bound
    make: Any = BOUNDS[name]
    auto = {"temperature": "auto"} if name == "catoni" else {}
    assert bound == make(n=10, delta=0.1, ceiling=2, **auto)


def test_a_temperature_means_catoni(folder: Path) -> None:
    assert toml(f"{HEAD}{ONE}[bound]\ntemperature = 0.1", folder).bound == supac.Catoni(0.1)
    with pytest.raises(supac.ProblemFileError, match="add n, or remove delta"):
        toml(f"{HEAD}{ONE}[bound]\ntemperature = 0.1\ndelta = 0.5", folder)
    both = toml(f"{HEAD}{ONE}[bound]\ntemperature = 0.1\nn = 9\ndelta = 0.5", folder)
    assert both.bound == supac.Catoni(0.1, 9, 0.5)


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_can_be_written(name: str, folder: Path) -> None:
    text = f'{HEAD}{ONE}[bound]\ntemperature = 0.1\n[loss]\nkind = "{name}"'
    risk = toml(text, folder).risk
    assert isinstance(risk, Composite)
    assert type(risk.loss) is LOSSES[name]
    assert "class" in to_spec(risk.loss)  # a store can give it back


@pytest.fixture
def own_classes() -> Iterator[None]:
    """Forget the bounds, losses and priors that a test defines."""
    tables = [base.kinds for base in (Bound, ResidualLoss, Marginal, Simulator)]
    before = [dict(table) for table in tables]
    yield
    for table, old in zip(tables, before, strict=True):
        table.clear()
        table.update(old)


@pytest.mark.usefixtures("own_classes")
def test_a_new_class_needs_no_other_edit(folder: Path) -> None:
    """A bound, a loss and a prior are known to problem files and certificates once defined."""

    @dataclass(frozen=True)
    class Hoeffding(Bound, kind="hoeffding", proof="a test"):
        n: int
        delta: float
        ceiling: float = 1.0
        slack: float = 0.0

        def __call__(self, mean_risk: float, kl: float) -> float:
            return mean_risk + self.slack + float(np.sqrt((kl - np.log(self.delta)) / self.n))

    @dataclass(frozen=True)
    class Huber(ResidualLoss, kind="huber"):
        elbow: float = 1.0

        def each(self, residuals: FloatArray) -> FloatArray:
            return np.minimum(residuals**2, self.elbow * np.abs(residuals))

        def __call__(self, residuals: FloatArray) -> FloatArray:
            return self.each(residuals).mean(axis=1)

    @dataclass(frozen=True)
    class Shifted(Normal, kind="shifted"):
        pass

    one = ONE.replace('"normal"', '"shifted"')
    words = "\n".join([
        '[bound]', 'kind = "hoeffding"', "n = 10", "slack = 0.25", "ceiling = 2",
        "[loss]", 'kind = "huber"', "elbow = 2.0",
    ])  # fmt: skip
    problem = toml(f"{HEAD}{one}{words}", folder)
    assert problem.bound == Hoeffding(10, 0.05, 2, 0.25)
    assert isinstance(problem.risk, Composite)
    assert problem.risk.loss == Huber(2.0)
    assert problem.parameters.marginals == {"k": Shifted(0.0, 1.0, unit="m")}
    with pytest.raises(supac.ProblemFileError, match=r'elbow: must be a number, not "x"'):
        toml(f"{HEAD}{one}{words}".replace("2.0", '"x"'), folder)
    assert "`elbow`" in reference()
    given = supac.certify_draws(np.full(50, 0.1), 1.0, problem.bound, n=10, delta=0.05)
    assert given.bound == "Hoeffding"
    assert given.bounds["Hoeffding"] == pytest.approx(given.value - 0.25)


@pytest.mark.usefixtures("own_classes")
def test_a_new_kind_of_simulator_needs_no_other_edit(folder: Path) -> None:
    @dataclass(frozen=True)
    class Power(Simulator, kind="power"):
        power: float = setting(values.NUMBER, "the exponent")
        scale: float = setting(values.NUMBER, "a factor", 1.0)

        def make(
            self, source: Source, parameters: Inputs, data: supac.Observations | None
        ) -> Simulate:
            return Simulate(lambda x: self.scale * float(x[0]) ** self.power)

        def files(self, source: Source) -> dict[str, list[Path]]:
            return {"simulator": [source.file("f.py")]}

    text = f"{HEAD}{ONE}[bound]\ntemperature = 0.1"
    problem = toml(text.replace('python = "f:f"', "power = 2\nscale = 3.0"), folder)
    assert problem.risk(np.array([2.0])) == 12.0
    assert set(problem.files) == {"simulator"}
    with pytest.raises(supac.ProblemFileError, match="scale: goes with power, not with python"):
        toml(text.replace('"f:f"', '"f:f"\nscale = 3.0'), folder)
    with pytest.raises(supac.ProblemFileError, match="power: there is python already"):
        toml(text.replace('"f:f"', '"f:f"\npower = 3.0'), folder)
    assert "- **`scale`** (a number; by default 1.0): `power`: a factor" in reference()
    assert "`petab` and `power`" in " ".join(reference().split())


def test_a_bound_without_a_proof_is_for_searches_only() -> None:
    class Mine(supac.McAllester):  # a subclass may change the formula: it inherits no proof
        pass

    with pytest.raises(supac.CertificateError, match="cites no proof"):
        supac.certify_draws(np.full(50, 0.1), 1.0, Mine(10, 0.05), n=10, delta=0.05)
    assert Mine not in BOUNDS.values()
    with pytest.raises(ValueError, match="already the name of"):

        class Again(supac.Bound, kind="catoni"):
            pass


def test_losses_are_what_they_say() -> None:
    residuals = np.array([[0.0, 3.0, 1e6], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(Welsch(3.0)(residuals), [(2 - np.exp(-0.5)) / 3, 0.0])
    np.testing.assert_allclose(CappedSquare(6.0)(residuals), [1.25 / 3, 0.0])
    np.testing.assert_allclose(MeanSquare()(residuals)[1], 0.0)
    with pytest.raises(ValueError, match="width must be a positive number"):
        Welsch(0.0)


def test_a_loss_of_one_s_own(folder: Path) -> None:
    risk = toml(f'{HEAD}{ONE}[bound]\ntemperature = 0.1\n[loss]\npython = "f:loss"', folder).risk
    assert risk(np.array([1.0])) == pytest.approx((1 + 4 + 9) / 3)
    assert isinstance(risk, Composite)
    assert to_spec(risk.loss) == {"other": "f.loss"}


def data(folder: Path, words: str) -> Any:
    text = f'{HEAD}{ONE}[bound]\ntemperature = 0.1\n[data]\nfile = "d.csv"\n{words}'
    return toml(text, folder)


def test_residuals_are_of_what_was_measured(folder: Path) -> None:
    def residuals(risk: Composite, x: float) -> FloatArray:
        outputs = risk.simulate(np.array([x]))
        np.testing.assert_array_equal(outputs, [x, 2.0 * x, 3.0])  # also where nothing was measured
        return risk.residuals(outputs[None])

    simulate = data(folder, 'observed = "A"\nnoise = 0.5').risk
    np.testing.assert_array_equal(residuals(simulate, 2.0), [[(2 - 1) / 0.5, 0.0]])
    by_row = data(folder, 'observed = "A"\nnoise = "sd"').risk
    np.testing.assert_array_equal(residuals(by_row, 2.0), [[(2 - 1) / 0.5, 0.0]])
    ratio = data(folder, 'observed = "A"\nnoise = 0.1\ncompare = "log"').risk
    np.testing.assert_allclose(residuals(ratio, 2.0), [[np.log(2) / 0.1, 0.0]])
    with pytest.raises(ValueError, match="positive outputs"):
        residuals(ratio, -2.0)


def test_outputs_may_come_in_three_shapes(folder: Path) -> None:
    seen = data(folder, 'observed = ["A", "B"]\nnoise = { A = 1, B = "sd" }').observations
    flat = np.arange(6.0)
    for outputs in (flat, {"B": flat[3:], "A": flat[:3], "C": 1}, flat.reshape(2, 3).T):
        np.testing.assert_array_equal(seen.flat(outputs), flat)
    residuals = seen.residuals(flat)
    np.testing.assert_array_equal(residuals, [-1.0, -1.0, -2.0, -4.0, -1.0])
    back = seen.outputs(residuals)
    np.testing.assert_array_equal(back, [0.0, np.nan, 2.0, 3.0, 4.0, 5.0])
    for wrong, words in (
        ({"A": flat[:3]}, "not B, which the data have"),
        ({"A": flat[:2], "B": flat[:3]}, "2 numbers for A, but the data have 3 rows"),
        (flat[:4], "4 numbers, but the data have 3 rows of A, B: return 6"),
        (flat.reshape(2, 3), r"shape \(2, 3\)"),
    ):
        with pytest.raises(ValueError, match=words):
            seen.flat(wrong)
    with pytest.raises(ValueError, match=r"shape \(9, 4\), but the data have 3 rows"):
        seen.residuals(np.zeros((9, 4)))  # as a vectorised simulator returns them


def test_correlations(folder: Path) -> None:
    two = ONE + 'l = { prior = "normal", mean = 0, sd = 1 }\n'
    head = f"{HEAD}{two}[bound]\ntemperature = 0.1\n[posterior]\ncorrelated = "
    assert toml(head + '"all"', folder).parameters.prior.family == supac.Gaussian(2)
    assert toml(head + '"none"', folder).parameters.prior.family == supac.DiagonalGaussian(2)
    assert "shape" not in toml(head + '"all"', folder).options
    assert toml(head + '"all"\nshape = "gaussian"', folder).options["shape"] == "gaussian"
    assert toml(head + '[["l", "k"]]', folder).parameters.blocks == [["l", "k"]]


def test_execution_and_run_are_passed_on(folder: Path) -> None:
    (folder / "known.csv").write_text("k,risk\n0.5,0.1\n")
    text = f"""{HEAD}seed = 3
store = "other.supac"
algorithm = "paper"
first = 12
batch = 6
validation = 4
known = "known.csv"
prior_has_seen_data = true
earlier_certificates = 2
{ONE}[bound]
temperature = 0.1
[execution]
dask = "tcp://127.0.0.1:1"
mode = "async"
timeout = 2
retries = 0
on_failure = "drop"
max_failures = 1
"""
    problem = toml(text, folder)
    assert problem.execution == supac.Execution(
        "tcp://127.0.0.1:1", "async", timeout=2, retries=0, on_failure="drop", max_failures=1
    )
    options = dict(problem.options)
    assert len(options.pop("known")) == 1
    assert options.pop("provenance") == supac.Provenance(False, earlier=2)
    assert options == {"algorithm": supac.SuPAC.paper(first=12, batch=6), "validation": 4}
    assert (problem.seed, problem.store) == (3, folder / "other.supac")


def test_commands_are_told_where_things_are(folder: Path) -> None:
    text = f"{HEAD.replace('python =', 'command = [')}{ONE}[bound]\ntemperature = 0.1"

    def program(words: str) -> Any:
        return toml(text.replace('[ "f:f"', words), folder).risk.function  # type: ignore[attr-defined]

    (folder / "f.sh").write_text("echo")
    made = program('["{python}", "f.py", "--fast", "{input}"]')
    assert made.command == [sys.executable, str(folder / "f.py"), "--fast", "{input}"]
    assert made.names == ["k"]
    for words, fix in (
        ('["nothing-like-this"]', "no program of this name"),
        ('["./none"]', "there is no file ./none"),
        ('["{python}", "none.py"]', "there is no file"),
        ('["f.py"]', 'is not executable: chmod +x f.py, or write ["{python}", "f.py"]'),
        ('["f.sh"]', 'is not executable: chmod +x f.sh, or write ["sh", "f.sh"]'),
    ):
        with pytest.raises(supac.ProblemFileError) as raised:
            program(words)
        assert fix in str(raised.value)


DECK = """
[simulator]
command = ["sh", "model.sh"]
template = "deck.in.tpl"
copies = "weather.dat"
output = "out.lst"
pattern = "{t} {A}"
times = "t"
[run]
budget = 40
[parameters]
k = { prior = "normal", mean = 0, sd = 1 }
[data]
file = "d.csv"
observed = "A"
noise = 0.5
[bound]
temperature = 0.1
"""


def test_a_program_reads_a_deck_and_writes_a_listing(folder: Path) -> None:
    (folder / "d.csv").write_text("time,A\n0.5,1\n2,\n")
    (folder / "deck.in.tpl").write_text("{k}\n")
    (folder / "weather.dat").write_text("7")
    (folder / "model.sh").write_text(
        'printf "T  A\\n0 %s\\n2 %s\\n" $(cat deck.in weather.dat) > out.lst'
    )
    problem = toml(DECK, folder)
    assert isinstance(problem.risk, Composite)
    np.testing.assert_array_equal(problem.risk.simulate(np.array([3.0])), [4.0, 7.0])
    before = problem.files["simulator"]
    (folder / "deck.in.tpl").write_text("{k:10.3e}")
    assert toml(DECK, folder).files["simulator"] != before
    for old, new, words in (
        ('"deck.in.tpl"', '"dekc.in.tpl"', r'template: there is no file .*mean "deck.in.tpl"'),
        ("k = {", "m = {", r"template: \{m\} stands nowhere in deck.in.tpl: write it where"),
        ("{A}", "{B}", r"pattern: pattern has no \{A\}"),
        ('"weather.dat"', '["whether.dat"]', r"copies: there is no file"),
        ('times = "t"', 'inputs = "xml"', r"inputs: must be one of"),
        ('file = "d.csv"', 'file = "d.csv"\ntime = "t"', "time: d.csv has no column t"),
    ):
        with pytest.raises(supac.ProblemFileError, match=words):
            toml(DECK.replace(old, new), folder)
    (folder / "d.csv").write_text("hour,A\n0.5,1\n2,\n")
    with pytest.raises(supac.ProblemFileError, match="times: needs data with a column of times"):
        toml(DECK, folder)


def test_a_risk_without_data(folder: Path) -> None:
    (folder / "f.py").write_text("def f(x):\n    return (x**2).sum(axis=1)\n")
    vectorized = HEAD.replace('"f:f"', '"f:f"\nvectorized = true')
    problem = toml(f"{vectorized}{ONE}[bound]\ntemperature = 0.1", folder)
    assert problem.execution.vectorized
    result = problem.minimize(store=None)
    assert result.mean_risk < 0.5


@pytest.mark.slow
def test_the_digester_brings_its_own(tmp_path: Path) -> None:
    pytest.importorskip("numba", reason="ADM1 needs the extra adm1")
    problem = supac.read_problem(write(tmp_path, "adm1"))
    assert len(problem.parameters) == 30
    assert problem.bound == supac.Catoni(0.002, ceiling=3.0)
    some = change(
        tmp_path / "problem.toml", ("# [parameters]", "[parameters]"), ("# k_m_ac", "k_m_ac")
    )
    few = supac.read_problem(some)
    assert few.parameters.marginals == {"k_m_ac": marginals.LogNormal(8.0, 0.3, unit="1/d")}
    median = problem.parameters.from_latent(np.zeros((1, 30)))
    at = median[:, [problem.parameters.names.index("k_m_ac")]]
    np.testing.assert_array_equal(few.risk(at), problem.risk(median))
    with pytest.raises(
        supac.ProblemFileError, match='is not a parameter of adm1; did you mean "k_m_ac"'
    ):
        supac.read_problem(change(some, ("k_m_ac", "k_m_Ac")))
    extra = '[data]\nfile = "x"\nobserved = "a"\nnoise = 1\n[bound]'
    change(some, ("k_m_Ac", "k_m_ac"), ("[bound]", extra))
    with pytest.raises(supac.ProblemFileError, match="data: adm1 brings its own"):
        supac.read_problem(some)


def test_the_days_of_the_digester_are_its_independent_data(tmp_path: Path) -> None:
    """Its risk is the root of a mean of squares of at most 9, certified through that mean."""
    pytest.importorskip("numba", reason="ADM1 needs the extra adm1")
    path = write(tmp_path, "adm1")
    temperature = "temperature = 0.002"
    for bound in (
        f"{temperature}\nn = 196",
        'temperature = "auto"\nn = 196',
        'kind = "maurer-langford-seeger"\nn = 196\nceiling = 3.0',
    ):
        change(path, (f'kind = "catoni"\n{temperature}', bound))
        problem = supac.read_problem(path)
        basis = basis_of(problem.risk, problem.bound)
        assert (basis.ceiling, basis.top, len(basis.weights)) == (3.0, 9.0, 196)
        path = write(tmp_path, "adm1")
    change(path, (f'kind = "catoni"\n{temperature}', f"{temperature}\nn = 197"))
    with pytest.raises(supac.ProblemFileError, match="the data are 196 independent blocks"):
        supac.read_problem(path)


def test_a_store_remembers_its_problem(tmp_path: Path) -> None:
    path = write(tmp_path, "builtin")
    problem = supac.read_problem(path)
    problem.minimize()
    run = supac.read_store(tmp_path / "run.supac")
    again = problem_of(run)
    assert again.text == path.read_text()
    assert again.files == source_of(run)[2] == problem.files
    assert set(again.files) == {"data"}
    moved = tmp_path.with_name(f"{tmp_path.name}-moved")
    tmp_path.rename(moved)
    elsewhere = problem_of(supac.read_store(moved / "run.supac"))
    assert elsewhere.path == moved / "problem.toml"
    moved.rename(tmp_path)


def test_a_store_of_a_script_says_so(tmp_path: Path) -> None:
    store = tmp_path / "run.supac"
    prior, bound = supac.gaussian([0.0], np.eye(1)), supac.Catoni(0.1)
    supac.minimize(lambda x: float(np.tanh(x[0] ** 2)), prior, bound, budget=20, store=store)
    with pytest.raises(ValueError, match="was not made by `supac run`"):
        problem_of(supac.read_store(store))


def test_the_reference_is_that_of_today() -> None:
    page = (ROOT / "docs" / "problem-file.md").read_text()
    assert BEGIN in page
    assert page == updated(page), "run: python docs/problem_reference.py"
    assert "`on_failure`" in reference()
    page = (ROOT / "docs" / "predict.md").read_text()
    assert page == updated(page, scenario_reference), "run: python docs/problem_reference.py"


def test_every_toml_of_the_documents_is_toml() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for block in page.read_text().split("```toml\n")[1:]:
            parse(block.partition("```")[0], page)


def test_descriptions_are_json(tmp_path: Path) -> None:
    problem = supac.read_problem(write(tmp_path))
    known = json.loads(problem.description)
    assert known["problem_file"] == str(tmp_path / "problem.toml")
    assert set(known["files"]) == {"data", "simulator", "simulator code"}


MODEL = """
import helper
def simulate(k1, k2, initial):
    return {name: [helper.VALUE] * 12 for name in ("A", "B")}
"""


def test_modules_of_two_problems_are_not_mixed_up(tmp_path: Path) -> None:
    """Both have a model and a helper of the same name; one is changed later on."""
    folders = [tmp_path / "one", tmp_path / "two"]
    for value, folder in enumerate(folders):
        folder.mkdir()
        write(folder, "python")
        (folder / "model.py").write_text(MODEL)
        (folder / "helper.py").write_text(f"VALUE = {value}.0\n")
    x = np.array([0.5, 0.5, 1.0])
    problems = [supac.read_problem(folder / "problem.toml") for folder in folders]
    assert [each.risk.simulate(x)[0] for each in problems] == [0.0, 1.0]  # type: ignore[attr-defined]
    (folders[1] / "helper.py").write_text("VALUE = 22.0\n")
    os.utime(folders[1] / "helper.py", (1, 1))
    again = supac.read_problem(folders[1] / "problem.toml")
    assert again.risk.simulate(x)[0] == 22.0  # type: ignore[attr-defined]


def test_a_model_may_not_hide_an_installed_package(tmp_path: Path) -> None:
    write(tmp_path, "python")
    (tmp_path / "numpy.py").write_text(MODEL)
    change(tmp_path / "problem.toml", ("model:simulate", "numpy:simulate"))
    with pytest.raises(supac.ProblemFileError, match="has the name of an installed package"):
        supac.read_problem(tmp_path / "problem.toml")
    assert sys.modules["numpy"] is np


def test_a_problem_prints_a_line(tmp_path: Path) -> None:
    said = repr(supac.read_problem(write(tmp_path)))
    assert said == "ProblemFile(problem.toml, 3 parameters, 60 runs, data A, B)"
