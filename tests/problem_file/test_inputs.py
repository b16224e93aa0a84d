"""Fixed and tied parameters, and constraints between them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from drivers import COMMAND, Driver
from supac.arrays import FloatArray
from supac.problem_file import check_compatible, make_problem, read_scenario
from supac.problem_file.errors import Source
from supac.problem_file.formula import Formula, FormulaError
from supac.problem_file.other_simulator import other_simulator
from supac.record.run import Status
from supac.report.account import account_of

TEXT = """
[parameters]
k1 = { prior = "normal", mean = 1.0, sd = 0.5, unit = "1/h" }
k2 = 0.4
k3 = "2 * k1 + k4"
k4 = { formula = "min(k2, 3) ** 2", unit = "1/h" }
gap = { prior = "uniform", lower = 0, upper = 1 }
[simulator]
python = "f:f"
[bound]
temperature = 0.1
[run]
budget = 40
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "f.py").write_text(
        "def f(x):\n    return 0.01 * sum(v**2 for v in x)\n\n"
        "def named(k1, k2, k3, k4, gap):\n    return [k1, k2, k3, k4, gap]\n"
    )
    return tmp_path


def toml(text: str, folder: Path) -> supac.ProblemFile:
    return make_problem(text, folder / "problem.toml")


FORMULAS = [
    ("2 * k1 + 1", 7.0),
    ("-k1 ** 2", -9.0),
    ("exp(log(k1)) / k2", 1.5),
    ("max(k1, k2, 5) - abs(-1) + 0 * pi", 4.0),
    ("round(k1 - 0.6) + round(0.3 * k2)", 3.0),
    ("k2 < k1 <= 3", True),
    ("k1 + k2 < 5", False),
]


@pytest.mark.parametrize(("text", "value"), FORMULAS)
def test_formulas_are_arithmetic(text: str, value: float) -> None:
    assert Formula(text)({"k1": 3.0, "k2": 2.0}) == pytest.approx(value)
    many = Formula(text)({"k1": np.array([3.0, 3.0]), "k2": np.array([2.0, 2.0])})
    np.testing.assert_allclose(np.asarray(many, float), float(value))


REFUSED = [
    ("__import__('os').system('true')", "is not understood"),
    ("k1.real", "k1.real is not understood"),
    ("[k for k in (1,)]", "is not understood"),
    ("open(k1)", "there is no function open"),
    ("(lambda: 1)()", "is not understood"),
    ("'k' * 9", "'k' is not understood"),
    ("k1 if k2 else 1", "is not understood"),
    ("k1 ^ 2", r"write \*\* for a power"),
    ("k1 == k2", "tied by a formula"),
    ("1 + (k1 < k2)", "is not understood"),
    ("exp(k1, k2)", "exp takes one number"),
    ("exp(k1, base=2)", "is not understood"),
    ("True", "is not understood"),
    ("2 k1", "is no formula"),
    ("(" * 300 + ")" * 300, "is no formula"),
    ("1 + " * 500 + "1", "more than 1000 characters"),
    ("9" * 400, "has a number that is too large"),
    ("2 * 1e999", "has a number that is too large"),
    ("-" * 990 + "k1", "is nested too deeply|is no formula"),
]


@pytest.mark.parametrize(("text", "words"), REFUSED)
def test_formulas_are_nothing_else(text: str, words: str) -> None:
    with pytest.raises(FormulaError, match=words):
        Formula(text)


def test_large_powers_are_numbers_not_work() -> None:
    assert Formula("9 ** 9 ** 9 ** 9")({}) == np.inf


def test_simulators_get_all_values_and_the_search_only_free_ones(folder: Path) -> None:
    problem = toml(TEXT, folder)
    assert problem.parameters.names == ("k1", "gap")
    every = [1.5, 0.4, 3.16, 0.16, 0.25]  # in the order of the file
    assert problem.risk(np.array([1.5, 0.25])) == pytest.approx(0.01 * np.square(every).sum())
    by_name = TEXT.replace('"f:f"', '"f:named"\narguments = "names"')
    np.testing.assert_allclose(toml(by_name, folder).risk(np.array([1.5, 0.25])), every)
    (folder / "f.py").write_text("def f(x):\n    return x.sum(axis=1)\n")
    many = toml(TEXT.replace('"f:f"', '"f:f"\nvectorized = true'), folder)
    np.testing.assert_allclose(many.risk(np.array([[1.5, 0.25], [0.5, 0.0]])), [5.47, 2.22])


def test_programs_get_all_values(folder: Path) -> None:
    (folder / "f.sh").write_text("tr -d ' ' < input.json > copy; sed 's/,/\\n/g' copy > lines.txt")
    program = 'command = ["sh", "f.sh"]\noutput = "lines.txt"\npattern = ["k3\\":{k3}"]\nkey = "k3"'
    problem = toml(TEXT.replace('python = "f:f"', program), folder)
    assert problem.risk(np.array([1.5, 0.25])) == pytest.approx([3.16])


WRONG = [
    ("k2 = 0.4", 'k2 = "2 * k1 +"', "line 4, parameters.k2: is no formula"),
    ("k2 = 0.4", 'k2 = "2 * kl"', "parameters.k2: kl is no parameter; they are k1, k2, k3"),
    ("k2 = 0.4", 'k2 = "k3"', "parameters.k2: depends on itself by way of k2, k3, k4"),
    ("k2 = 0.4", 'k2 = "k1 < 2"', r"is a comparison: write it in \[constraints\]"),
    ("k2 = 0.4", "k2 = [0.4]", "must be a prior, a number or a formula"),
    ("k2 = 0.4", 'k2 = { value = 1, formula = "k1" }', "goes without value: keep one"),
    ("k2 = 0.4", "k2 = { value = 1, mean = 2 }", "mean: is not known in"),
    ("[run]", '[constraints]\norder = "k1 + k2"\n[run]', "order: must be a comparison such as"),
    ("[run]", '[constraints]\norder = "k1 < kk2"\n[run]', "kk2 is no parameter"),
    ("[run]", "[constraints]\norder = 3\n[run]", "constraints.order: must be a text"),
    ("[run]", '[constraints]\na = "k1 < 2"\n[execution]\non_failure = "drop"\n[run]', "ceiling"),
]


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_wrong_formulas_are_named_by_line(folder: Path, old: str, new: str, words: str) -> None:
    with pytest.raises(supac.ProblemFileError, match=words):
        toml(TEXT.replace(old, new), folder)


def test_a_file_without_priors_has_nothing_to_seek(folder: Path) -> None:
    start, _, end = TEXT.partition("k1 =")
    with pytest.raises(supac.ProblemFileError, match="no parameter has a prior"):
        toml(f"{start}k1 = 1.0\n[simulator]{end.partition('[simulator]')[2]}", folder)


CONSTRAINED = TEXT.replace("[run]", '[constraints]\norder = "gap < k1"\n[run]')


@pytest.mark.parametrize("vectorized", [False, True])
def test_refused_draws_are_not_failures_and_make_no_run(folder: Path, vectorized: bool) -> None:
    said = folder / "said.txt"
    (folder / "f.py").write_text(
        f"def note(x):\n    with open({str(said)!r}, 'a') as file:\n"
        "        print(*x, file=file)\n    return 0.1\n\n"
        "def f(x):\n    return note(x)\n\n"
        "def many(x):\n    return [note(row) for row in x]\n"
    )
    text = CONSTRAINED
    if vectorized:
        text = text.replace('"f:f"', '"f:many"\nvectorized = true')
    problem = toml(text, folder)
    result = problem.minimize(store=folder / f"{vectorized}.supac")
    run = supac.read_store(folder / f"{vectorized}.supac")
    assert len(run.made) == 40
    at = problem.parameters.from_latent(np.array([each.x for each in run.made]))
    refused = at[:, 1] >= at[:, 0]
    assert [each.status is Status.REFUSED for each in run.made] == refused.tolist()
    assert 0 < len(result.refused) == refused.sum() < 40
    assert not result.failures
    assert len(said.read_text().splitlines()) == 40 - refused.sum()
    words = f"{refused.sum()} of 40 draws were refused: gap < k1 does not hold ({refused.sum()})"
    assert any(note.startswith(words) for note in result.notes)
    assert run.to_dict()["refused"] == refused.sum()


def test_a_few_refused_draws_are_no_reason_for_doubt(folder: Path) -> None:
    path = folder / "problem.toml"
    for rule, doubted in (("k1 > 0.3", False), ("k1 > 1.2", True)):
        path.write_text(CONSTRAINED.replace("gap < k1", rule))
        supac.read_problem(path).minimize(store=folder / f"{doubted}.supac")
        run = supac.read_store(folder / f"{doubted}.supac")
        assert run.refused
        assert any("refused: " in note for note in account_of(run).other_notes) is doubted


def test_a_check_looks_for_a_point_that_is_allowed(folder: Path) -> None:
    (folder / "problem.toml").write_text(CONSTRAINED.replace("gap < k1", "gap < k1 - 0.7"))
    code, said, _ = Driver(COMMAND, "run", "problem.toml", "--check", cwd=folder).end()
    assert code == 0
    assert "A run at a draw of the prior, whose median breaks a constraint" in " ".join(
        said.split()
    )
    (folder / "problem.toml").write_text(CONSTRAINED.replace("gap < k1", "gap < k2 - 1"))
    code, _, complained = Driver(COMMAND, "run", "problem.toml", "--check", cwd=folder).end()
    assert code == 1
    assert "all of 201 draws of the prior break a constraint" in " ".join(complained.split())


def test_known_runs_are_refused_by_the_present_constraints(folder: Path) -> None:
    free, bound_by = toml(TEXT, folder), toml(CONSTRAINED, folder)
    first = bound_by.minimize(store=folder / "first.supac")
    assert first.refused
    without = replace(free, options={**free.options, "known": first}).minimize(
        store=folder / "without.supac"
    )
    # A point that was refused has never been simulated: it is not known.
    assert (without.known, len(without.refused)) == (40 - len(first.refused), 0)
    again = replace(bound_by, options={**free.options, "known": without}).minimize(
        store=folder / "again.supac"
    )
    x = without.x
    imported = [run for run in again.record.imported if run.status is Status.REFUSED]
    assert len(imported) == (x[:, 1] >= x[:, 0]).sum() > 0


def test_a_simulator_of_one_s_own_may_refuse_points() -> None:
    class Careful:
        def refuses(self, x: FloatArray) -> str:
            return "negative" if x[0] < 0.0 else ""

        def __call__(self, x: FloatArray) -> float:
            return float(np.tanh(x[0] ** 2))

    prior, bound = supac.gaussian([0.5], np.eye(1)), supac.Catoni(0.1)
    with pytest.raises(supac.EvaluationError, match=r"was refused at .*: negative; pass Execution"):
        supac.minimize(Careful(), prior, bound, budget=30)
    for choice, words in (("penalise", "refused: negative"), ("drop", "They were left out")):
        where = supac.Execution(on_failure=choice)  # type: ignore[arg-type]
        result = supac.minimize(Careful(), prior, bound, budget=30, execution=where)
        assert result.refused
        assert not result.failures
        assert any(words in note for note in result.notes)


def test_other_fixed_values_are_another_problem(folder: Path) -> None:
    path = folder / "problem.toml"
    path.write_text(TEXT)
    supac.read_problem(path).minimize(budget=20)
    run = supac.read_store(folder / "problem.supac")
    assert check_compatible(toml(TEXT, folder), run) == []
    with pytest.raises(ValueError, match="fixed or tied parameters or constraints have changed"):
        check_compatible(toml(TEXT.replace("0.4", "0.5"), folder), run)


def test_what_stands_in_formulas_alone_need_not_reach_the_simulator(folder: Path) -> None:
    """`k1` and `k2` are taken by neither function nor template; `gap`, in no formula, must be."""
    (folder / "f.py").write_text("def f(k3, gap, k4=9.0):\n    return [k3, gap, k4]\n")
    residuals = TEXT.replace("[bound]", '[loss]\nkind = "mean-square"\n[bound]')
    by_name = residuals.replace('"f:f"', '"f:f"\narguments = "names"')
    right = [3.0 * 2.0 + 0.16, 0.25, 0.16]
    tripled = by_name.replace("2 * k1", "3 * k1")
    simulate: Any = toml(tripled, folder).risk.simulate  # type: ignore[attr-defined]
    np.testing.assert_allclose(simulate(np.array([2.0, 0.25])), right)
    (folder / "f.py").write_text("def f(k3):\n    return [k3]\n")
    with pytest.raises(supac.ProblemFileError, match=r"f\(k3\) has no argument gap"):
        toml(by_name, folder)
    (folder / "in.tpl").write_text("{k3} {gap} {k4}\n")
    command = """command = ["sh", "-c", "echo [`sed 's/ /,/g' in`] > output.json"]"""
    deck = residuals.replace('python = "f:f"', command + '\ntemplate = "in.tpl"')
    program: Any = toml(deck.replace("2 * k1", "3 * k1"), folder).risk
    np.testing.assert_allclose(program.simulate(np.array([2.0, 0.25])), right)
    (folder / "in.tpl").write_text("{k3} {gap} {K1}\n")  # misspelt, not left out
    with pytest.raises(supac.ProblemFileError, match=r"{k1} stands nowhere in in.tpl.*has {K1}"):
        toml(deck, folder)


EARLIER = """
[parameters]
k = { prior = "lognormal", median = 0.7, log_sd = 0.5, unit = "1/h" }
area = { value = 1.0, unit = "m2" }
twice = "2 * k"
[simulator]
python = "f:f"
arguments = "names"
[[data]]
name = "one"
file = "d.csv"
observed = "X"
units = "g/L"
time_unit = "h"
noise = 0.1
settings = { temperature = 300.0, feed = "rich" }
[bound]
temperature = 0.3
[run]
budget = 12
store = "a.supac"
"""
OTHER_SETUPS = [
    ("value = 1.0", "value = 2.0", r"parameters.area is 2.0, but .* a.supac .* area was 1.0"),
    ('{ value = 1.0, unit = "m2" }', '"2*k"', 'parameters.area is "2.k", .* restore 1.0, or leave'),
    ('"2 * k"', '"3 * k"', r'twice is "3 . k", but .* twice was "2 . k"'),
    ('twice = "2 * k"', "", 'twice is not given, but .* was "2 . k".*restore'),
    ("area =", "lid = 3\narea =", "lid is 3, but .* lid was not given.*: remove it"),
    ("300.0", "600.0", r"data.0..settings.temperature is 600.0, but .* of one was 300.0.*restore"),
    ('"rich"', '"poor"', 'settings.feed is "poor", but .* feed of one was "rich"'),
    ("1/h", "1/d", "k is in 1/d, but the runs of a.supac were made where it was in 1/h"),
    ("m2", "cm2", "area is in cm2, but the runs of a.supac were made where it was in m2"),
    ("g/L", "mol/L", "X is in mol/L, but in g/L where the runs of a.supac were made, and nothing"),
    ('time_unit = "h"', 'time_unit = "d"', "time is in d, but in h where"),
]


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the store of an earlier search."""
    folder = tmp_path_factory.mktemp("earlier")
    (folder / "f.py").write_text(
        "def f(k, area, temperature, feed, times, twice=0, lid=0):\n"
        "    return {'X': area * (k + twice) * times}\n"
    )
    (folder / "d.csv").write_text("time,X\n1,2.1\n2,3.9\n3,6.2\n")
    toml(EARLIER, folder).minimize()
    return folder


@pytest.mark.parametrize(("old", "new", "words"), OTHER_SETUPS)
def test_known_runs_of_another_set_up_are_refused(
    earlier: Path, old: str, new: str, words: str
) -> None:
    text = EARLIER.replace('store = "a.supac"', 'known = "a.supac"')
    assert old in text
    with pytest.raises(supac.ProblemFileError, match=f"(?s)line .*, run.known: .*{words}"):
        toml(text.replace(old, new), earlier)


def test_known_runs_of_the_same_set_up_are_taken(earlier: Path) -> None:
    """Numbers and formulas may be written otherwise, and units be left out."""
    text = EARLIER.replace('store = "a.supac"', 'known = "a.supac"')
    alike = [
        ('{ value = 1.0, unit = "m2" }', "1"), ('"2 * k"', '"(2*k)"'), ("300.0", "300"),
        ('units = "g/L"', ""), ('time_unit = "h"', ""), (', unit = "1/h"', ""),
        ('[[data]]\nname = "one"', "[data]"), ('time_unit = "h"', 'time_unit = "h"\n'),
        ("noise = 0.1", "noise = 0.2"), ("median = 0.7", "median = 0.6"),
    ]  # fmt: skip
    for old, new in [("", ""), *alike]:
        assert old in text
        assert len(toml(text.replace(old, new), earlier).options["known"]) == 12


def test_an_experiment_that_is_new_in_the_settings_needs_its_own_runs(earlier: Path) -> None:
    """What was simulated under one setting says nothing of another."""
    text = EARLIER.replace('store = "a.supac"', 'known = "a.supac"')
    table = text[text.index("[[data]]") : text.index("[bound]")]
    two = table.replace('"one"', '"two"').replace("300.0", "310.0")
    with pytest.raises(supac.ProblemFileError, match=r"a.supac .* has no simulated X of two"):
        toml(text.replace("[bound]", f"{two}[bound]"), earlier)


ARRHENIUS = """
[parameters]
k0 = { prior = "lognormal", median = 0.02, log_sd = 0.5 }
k = "k0 * exp(-1800 / temperature)"
[constraints]
slow = "k * temperature < 2"
[simulator]
python = "f:f"
arguments = "names"
[[data]]
name = "cold"
file = "d.csv"
observed = "X"
noise = 0.1
settings = { temperature = 300.0, feed = "rich" }
[[data]]
name = "hot"
file = "d.csv"
observed = "X"
noise = 0.1
settings = { temperature = 600.0, feed = "rich" }
[bound]
temperature = 0.3
[run]
budget = 12
"""


@pytest.mark.parametrize("taken", ["k, feed", "k, feed, temperature, k0"])
def test_formulas_may_have_settings_of_experiments(tmp_path: Path, taken: str) -> None:
    """A tied value then differs by experiment, and the simulator need not take the setting."""
    (tmp_path / "f.py").write_text(f"def f({taken}, times):\n    return {{'X': k * times}}\n")
    (tmp_path / "d.csv").write_text("time,X\n1,0.01\n2,0.02\n")
    problem = toml(ARRHENIUS, tmp_path)
    simulate: Any = problem.risk.simulate  # type: ignore[attr-defined]
    rate = 2.0 * np.exp(-1800.0 / np.array([300.0, 600.0]))
    expected = [rate[0], 2 * rate[0], rate[1], 2 * rate[1]]
    assert simulate(np.array([2.0])) == pytest.approx(expected)
    # A constraint is one on each experiment: 600 k is 0.0498 k0 · 600.
    assert simulate.refuses(np.array([0.06])) == ""
    assert "k * temperature < 2 does not hold" in simulate.refuses(np.array([0.08]))
    assert 300.0 * 0.08 * np.exp(-6.0) < 2.0
    (tmp_path / "s.toml").write_text(
        '[outputs]\nnames = ["X"]\ntimes = [1.0]\n[settings]\ntemperature = 900.0\nfeed = "x"\n'
    )
    scenario = read_scenario(tmp_path / "s.toml", problem)
    assert scenario.simulate(np.array([2.0])) == pytest.approx([2.0 * np.exp(-2.0)])


WRONG_SETTINGS = [
    ("temperature)", "temprature)", 'temprature is no parameter or setting; did you mean "temper'),
    ("temperature)", "feed)", 'feed is the text "rich" in settings of .data.: formulas are of num'),
    ("600.0, ", "600.0, extra = 1, ", "extra is missing, which another table"),
    ("{ temperature = 600.0, feed", "{ feed", "temperature is missing, which another table"),
]


@pytest.mark.parametrize(("old", "new", "words"), WRONG_SETTINGS)
def test_wrong_settings_in_formulas_are_named(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    (tmp_path / "f.py").write_text("def f(k, feed, times):\n    return {'X': k * times}\n")
    (tmp_path / "d.csv").write_text("time,X\n1,0.01\n2,0.02\n")
    assert old in ARRHENIUS
    with pytest.raises(supac.ProblemFileError, match=words):
        toml(ARRHENIUS.replace(old, new), tmp_path)


FMU = 'fmu = "m.fmu"\nvalues = { v = 1.0, feed = "g/l" }\ninput_file = "winter/in.csv"'
PROGRAM = 'command = ["run.sh", "v1/model", "-a", "x"]'
SERVER = 'umbridge = "http://a:1"\nmodel = "fine"\nconfig = { level = 1, at = { x = 2 } }'


@pytest.mark.parametrize(
    ("then", "old", "new", "said", "refused"),
    [
        (FMU, "v = 1.0", "v = 2.0", "simulator.values.v is 2.0, but was 1.0", True),
        (FMU, ', feed = "g/l"', "", 'simulator.values.feed is not given, but was "g/l"', True),
        (FMU, '"g/l"', '"kg/l"', 'simulator.values.feed is "kg/l", but was "g/l"', True),
        (FMU, "winter", "summer", 'simulator.input_file is "summer/in.csv", but was "w', True),
        (FMU, "winter", "./winter", "", False),
        (FMU, '"m.fmu"', '"m.fmu"\nstart = 3.0', "simulator.start is 3.0, but", True),
        (FMU, '"m.fmu"', '"m.fmu"\nstep = 0.1', "simulator.step is 0.1, but", False),
        (FMU, '"m.fmu"', '"m.fmu"\nreset = false', "", False),
        (FMU, '"m.fmu"', '"v2/m.fmu"', 'simulator.fmu is "v2/m.fmu", but was "m.fmu"', False),
        ('fmu = "/no/where/m.fmu"', "/no/where/", "", "", False),
        (FMU, FMU, 'python = "m:f"', 'simulator.python is "m:f", but was not given', False),
        (PROGRAM, "v1", "v2", 'command is ["run.sh", "v2/model", "-a", "x"], but', False),
        (PROGRAM, '"-a", "x"', '"x", "-a"', "simulator.command is", False),
        (f'{PROGRAM}\noutput = "a.json"', "a.json", "b.json", "simulator.output is", True),
        (f'{PROGRAM}\ntemplate = "i"', '"i"', '["i"]', "", False),
        (SERVER, '"fine"', '"coarse"', 'model is "coarse", but was "fine"', True),
        (SERVER, 'model = "fine"', "", 'model is "forward", but was "fine"', True),
        (SERVER, "x = 2", "x = 3", "simulator.config.at.x is 3, but was 2", True),
        (SERVER, "a:1", "b:2", "simulator.umbridge is", False),
    ],
)
def test_what_else_the_simulator_is_told_is_compared(
    tmp_path: Path, then: str, old: str, new: str, said: str, refused: bool
) -> None:
    """Settings of the model, and what chooses its answer, are refused, others are told."""
    assert old in then
    ours, theirs = (
        Source(f"[simulator]\n{text}\n", tmp_path / "problem.toml")
        for text in (then.replace(old, new), then)
    )
    if refused:
        with pytest.raises(ValueError, match=f"{re.escape(said)}.*restore it, or leave out known"):
            other_simulator(ours, theirs, "old.supac")
        return
    told = other_simulator(ours, theirs, "old.supac")
    assert all("where the runs of old.supac were made" in each for each in told)
    assert any(said in each for each in told) if said else not told


def test_a_file_is_the_same_from_another_folder(tmp_path: Path) -> None:
    """Names count as they are read from the problem file."""
    text = '[simulator]\nfmu = "m.fmu"\ninput_file = "in.csv"\n'
    theirs = Source(text, tmp_path / "winter" / "run.supac")
    there = text.replace('"m', '"../winter/m').replace('"in', '"../winter/in')
    ours = Source(there, tmp_path / "summer" / "problem.toml")
    assert not other_simulator(ours, theirs, "run.supac")
    assert not other_simulator(Source(text, tmp_path / "moved" / "p.toml"), theirs, "run.supac")
    (tmp_path / "in.csv").touch()
    kept = Source(text.replace('"in.csv"', f'"{tmp_path}/in.csv"'), tmp_path / "problem.toml")
    other = Source(text.replace('"in.csv"', '"/other/in.csv"'), tmp_path / "problem.toml")
    with pytest.raises(ValueError, match=r"simulator\.input_file is"):
        other_simulator(other, kept, "run.supac")
