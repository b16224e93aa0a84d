from __future__ import annotations

import gc
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import supac
from extras import needs
from supac.cli import app
from supac.exchange.other_runs import known_runs
from supac.exchange.table import table_of_ensemble
from supac.report.account import account_of
from supac.simulators import pest
from supac.simulators.pest import PestError
from supac.simulators.pest.control import load_pyemu
from supac.simulators.pest.instructions import InstructionFile
from supac.simulators.pest.template import TemplateFile, fitted
from supac.simulators.program import ProgramError
from walks import steps

needs("pyemu")
PAGE = Path(__file__).parents[3] / "docs" / "pest.md"


@pytest.fixture
def case(tmp_path: Path) -> Path:
    """The case of the docs."""
    for name, text in steps(PAGE.read_text()):
        if name:
            (tmp_path / name).write_text(text)
    return tmp_path / "case.pst"


@contextmanager
def quiet() -> Iterator[None]:
    """Without the warnings of pyemu, which leaves files open."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
        gc.collect()


def change(path: Path, old: str, new: str) -> int:
    """Replace a text, and return the line on which it stands."""
    text = path.read_text()
    assert old in text, old
    path.write_text(text.replace(old, new, 1))
    return text[: text.index(old)].count("\n") + 1


def flows(q0: float, k: float, base: float) -> np.ndarray[Any, Any]:
    days = np.array([1, 2, 3, 5, 7, 10, 15, 20])
    return 1.5 * (q0 * np.exp(-days / k) + 0.1 * q0 * np.exp(-days / (10.0 * k)) + base)


def test_the_risk_is_pest_s_objective(case: Path) -> None:
    problem = pest.load(case)
    assert problem.parameters.names == ("q0", "k", "base")
    x = np.array([14.0, 2.6, 0.8])
    outputs = problem.model(x)
    assert np.allclose(outputs[:8], flows(*x), atol=1e-6)  # as many digits as it prints
    assert outputs[8] == pytest.approx(np.log10(2.6))  # the left side of the prior information
    observed = [17.36, 12.61, 9.65, 6.09, 4.45, 3.10, 2.33, 2.03]
    residuals = np.append(5.0 * (outputs[:8] - observed), 4.0 * (np.log10(2.6) - 0.5))
    weights = np.append(np.full(8, 5.0), 4.0)
    likelihood = 0.5 * residuals**2 - np.log(weights) + 0.5 * np.log(2.0 * np.pi)
    assert problem.risk(x) == pytest.approx(likelihood.mean())
    assert problem.bound.temperature == 1.0 / 9.0


def test_priors_are_those_that_pyemu_draws_from(case: Path) -> None:
    problem, pyemu = pest.load(case), load_pyemu()
    with quiet():
        spread = np.sqrt(np.diag(pyemu.Cov.from_parameter_data(pyemu.Pst(str(case))).as_2d))
    names = list(problem.parameters.names)
    given: dict[str, Any] = dict(problem.parameters.marginals)
    bases = [given[name].base for name in names]
    ours = [each.log_sd / np.log(10.0) if "log_sd" in repr(each) else each.sd for each in bases]
    assert ours == pytest.approx(spread)
    draws = problem.parameters.from_latent(np.random.default_rng(0).normal(size=(1000, 3)))
    assert ((draws > [1.0, 0.5, 0.0]) & (draws < [100.0, 20.0, 4.0])).all()
    change(case, "* prior information", "++par_sigma_range(6)\n* prior information")
    narrow: Any = pest.load(case).parameters.marginals["base"]
    assert narrow.base.sd == pytest.approx(4.0 / 6.0)


@pytest.mark.parametrize("end", ["cov", "jcb"])
def test_a_prior_covariance_is_that_of_the_draws(case: Path, end: str) -> None:
    """Of decadic logarithms where they are log, with its correlations, in any order of rows."""
    pyemu, names = load_pyemu(), ["base", "other", "k", "q0"]
    given = np.array(
        [[0.04, 0, 0.004, 0], [0, 1, 0, 0], [0.004, 0, 0.01, 0.001], [0, 0, 0.001, 0.0025]]
    )
    change(case, "* prior information", f"++parcov(prior.{end})\n* prior information")
    with quiet():
        made = pyemu.Cov(given, names=names)
        path = str(case.with_name(f"prior.{end}"))
        made.to_ascii(path) if end == "cov" else made.to_binary(path)
    problem = pest.load(case)
    assert case.with_name(f"prior.{end}") in problem.control.files
    latent = problem.parameters.prior.sample(200_000, 0)
    draws = problem.parameters.from_latent(latent)  # q0, k, base
    found = np.cov(np.column_stack([np.log10(draws[:, :2]), draws[:, 2]]).T)
    order = [3, 2, 0]
    # A covariance of 200,000 draws is known to half a percent of the deviations' product.
    deviation = np.sqrt(np.diag(given)[order])
    expected = given[np.ix_(order, order)]
    assert (np.abs(found - expected) < 0.015 * np.outer(deviation, deviation)).all()
    change(case, "k       log ", "k       none")
    with quiet():
        short = pyemu.Cov(given[:2, :2], names=names[:2])
        short.to_ascii(path) if end == "cov" else short.to_binary(path)
    with pytest.raises(PestError, match=rf"prior.{end} has no row for the parameter q0 of case"):
        pest.load(case)


def test_tied_fixed_and_scaled_parameters(case: Path) -> None:
    change(case, "1.0    0.0     4.0  store  1.0  0.0", "1.0    0.0     4.0  store  2.0  0.5")
    control = pest.load(case).control
    full = control.complete({"q0": 14.0, "k": 2.0, "base": 0.8})
    assert full == {"q0": 14.0, "k": 2.0, "k_slow": 20.0, "base": 0.8, "area": 1.5}
    assert control.written(full)["base"] == pytest.approx(2.0 * 0.8 + 0.5)


def test_version_2_of_the_control_file_is_the_same(case: Path) -> None:
    pyemu = load_pyemu()
    with quiet():
        pyemu.Pst(str(case)).write(str(case.with_name("second.pst")), version=2)
    one, two = pest.load(case).control, pest.load(case.with_name("second.pst")).control
    assert one.parameters == two.parameters
    assert one.observations == two.observations
    assert one.prior_information == two.prior_information
    assert one.commands == two.commands


@pytest.mark.parametrize(
    ("value", "width", "text"),
    [
        (0.1, 10, "       0.1"),
        (1 / 3, 10, "0.33333333"),
        (-1 / 3, 8, "-0.33333"),
        (1.23456789e-12, 10, "1.2346e-12"),
        (1.23456789e12, 9, "1.2346e12"),
        (1e100, 5, "1e100"),
        (1e100, 4, None),
    ],
)
def test_numbers_have_the_digits_that_fit(value: float, width: int, text: str | None) -> None:
    assert fitted(value, width) == text


def test_a_template_is_filled_in_its_columns(tmp_path: Path) -> None:
    (tmp_path / "a.tpl").write_text("ptf $\nx=$  K1   $;$k2$ end\n$k1$\n")
    template = TemplateFile.read(tmp_path, "a.tpl", "a.in")
    assert template.places == {"k1": 2, "k2": 2}
    assert template.fill({"k1": 0.5, "k2": 2.0}) == "x=      0.5; 2.0 end\n 0.5\n"
    with pytest.raises(PestError, match=r"a.tpl, line 3: 1.1e\+300 does not fit into the 4 char"):
        template.fill({"k1": 1.1e300, "k2": 2.0})


OUTPUTS = """\
a head, with a comma
value 1: 3.5 m
  1.25,2.5, -3e2 1.5D-3
12345678901234567890
   a1.5 b 7.25c 8
the end 4.0/5.0
value 2: 4.5 m
"""
# Instructions, what they read, and whether pyemu knows all of them and reads the same.
INSTRUCTIONS = [
    ("l2 @value 1:@ !a!", [3.5], True),
    ("@head@\nl2 !a! !b! !c!", [1.25, 2.5, -300.0], True),
    ("l3 w !a! w !b! w !c!", [1.25, 2.5, -300.0], True),
    ("l4 [a]1:3 [b]4:5 [c]19:20", [123.0, 45.0, 90.0], True),
    ("@value 1@ @:@ !a!\nl1 !dum! !b!\n& !c!", [3.5, 2.5, -300.0], False),
    ("l5 t5 !a!\nl1 @end@ !b! @/@ !c!", [1.5, 4.0, 5.0], False),
    ("l5 @b@ !a! @c@ !b!", [7.25, 8.0], False),
    ("l3 (a)4:5 (b)8:8", [1.25, 2.5], False),
    ("@value@ @2:@ !a!", [4.5], False),
]


@pytest.mark.parametrize(("text", "values", "known"), INSTRUCTIONS)
def test_instructions_are_followed(
    text: str, values: list[float], known: bool, tmp_path: Path
) -> None:
    (tmp_path / "out.txt").write_text(OUTPUTS)
    (tmp_path / "out.ins").write_text(f"pif @\n{text}\n")
    found = InstructionFile.read(tmp_path, "out.ins", "out.txt").outputs(tmp_path)
    assert found == dict(zip("abc", values, strict=False))
    if known:
        with quiet():
            reader = load_pyemu().pst_utils.InstructionFile(str(tmp_path / "out.ins"))
            theirs = reader.read_output_file(str(tmp_path / "out.txt")).obsval.to_dict()
            del reader
        assert found == theirs


def test_numbers_of_fortran_are_read(tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_text(OUTPUTS)
    (tmp_path / "out.ins").write_text("pif @\nl3 w !dum! !dum! !dum! !a!\n")
    read = InstructionFile.read(tmp_path, "out.ins", "out.txt")
    assert read.observations == {"a": 2}
    assert read.outputs(tmp_path) == {"a": 1.5e-3}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("@tail@ !a!", 'out.ins, line 2: "tail" does not stand in out.txt$'),
        ("l1\n@tail@ !a!", 'line 3: "tail" does not stand in out.txt below line 1'),
        ("l1 @tail@ !a!", 'line 2: "tail" does not stand in the rest of line 1 of out.txt'),
        ("l1\nl7 !a!", "line 3: out.txt has only 7 lines, and line 8 is wanted"),
        ("l1 !a!", "line 2: a: 'a' in line 1 of out.txt is no number"),
        ("l6 [a]30:40", "line 2: a: line 6 of out.txt has no number there"),
        ("l4 w !a!", "line 2: line 4 of out.txt ends before w"),
        ("l1 !a", "line 2: !a is no instruction, or its end is missing"),
        ("l1 [a]3", r"line 2: \[a\]3 is no instruction"),
        ("w !a!", "line 2: must begin with a marker, with l1 for the next line, or with &"),
        ("& !a!", "line 2: & continues a line, and there is none before"),
    ],
)
def test_instructions_that_find_nothing_say_so(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_text(OUTPUTS)
    (tmp_path / "out.ins").write_text(f"pif @\n{text}\n")
    with pytest.raises(PestError, match=words):
        InstructionFile.read(tmp_path, "out.ins", "out.txt").outputs(tmp_path)


# What is wrong, in which file, the text that is replaced and by what, and words of the message; its
# line is that of the change.
WRONG = [
    ("a parameter in no template", "reservoir.tpl", "~          q0          ~", "12.0",
     r"case.pst, line 14: q0 does not stand in reservoir.tpl: place it there, or write fixed"),
    ("a template's parameter that is not there", "reservoir.tpl", " k  ", " kk ",
     r"reservoir.tpl, line 3: kk is no parameter of case.pst"),
    ("a mark too few", "reservoir.tpl", "q0          ~", "q0           ",
     r"reservoir.tpl, line 2: a ~ is missing"),
    ("no template", "reservoir.tpl", "ptf ~", "q0", r"reservoir.tpl, line 1: must be \"ptf\""),
    ("no instructions", "reservoir.ins", "pif @", "pif", r"reservoir.ins, line 1: must be \"pif\""),
    ("an output that is no observation", "reservoir.ins", "[flow3]", "[flwo3]",
     r'reservoir.ins, line 5: flwo3 is no observation of case.pst; did you mean "flow3"'),
    ("an observation that is no output", "reservoir.ins", "l1 [flow3]5:16", "l1",
     r"case.pst, line 27: flow3 does not stand in an instruction file"),
    ("a missing template", "case.pst", "reservoir.tpl  res", "reservor.tpl  res",
     r'case.pst, line 37: there is no file reservor.tpl beside case.pst; did you mean'),
    ("an unknown transformation", "case.pst", "k       log ", "k       sqrt",
     r"case.pst, line 15: k: sqrt is not one of log, none, fixed, tied"),
    ("a value beyond its bounds", "case.pst", "10.0    1.0   100.0", "10.0    20.   100.0",
     r"case.pst, line 14: q0: 10 is not between 20 and 100"),
    ("a bound without a logarithm", "case.pst", " 3.0    0.5 ", " 3.0   -0.5 ",
     r"case.pst, line 15: k: the lower bound of a log parameter must be above 0"),
    ("a parent that is not there", "case.pst", "k_slow  k\n", "k_slow  kk\n",
     r"case.pst, line 16: k_slow is tied to kk, which is no parameter"),
    ("prior information of nothing", "case.pst", "log(k)", "log(kk)",
     r"case.pst, line 40: kk is no parameter"),
    ("a negative weight", "case.pst", "9.65   5.0", "9.65  -5.0",
     r"case.pst, line 27: flow3: the weight must not be below 0"),
    ("a number with a comma", "case.pst", "9.65   5.0", "9,65   5.0",
     r"case.pst, line 27: 9,65 has a comma: write 9.65"),
    ("a value that is no number", "case.pst", "10.0    1.0   100.0", "ten     1.0   100.0",
     r"case.pst, line 14: q0: parval1 ten is no number"),
    ("a weight that is not finite", "case.pst", "9.65   5.0", "9.65   nan",
     r"case.pst, line 27: flow3: weight nan is not finite"),
    ("a row that ends too early", "case.pst", "3.0    0.5    20.0  store  1.0  0.0  1", "3.0",
     r"case.pst, line 15: 4 of 10 values: parnme partrans"),
    ("an observation without a group", "case.pst", "9.65   5.0   flows", "9.65   5.0",
     r"case.pst, line 27: 3 of 4 values: obsnme obsval weight obgnme"),
    ("a parameter twice", "case.pst", "base    none", "k       none",
     r"case.pst, line 17: k is in line 15 already"),
    ("an observation twice", "case.pst", "flow3  ", "flow2  ",
     r"case.pst, line 27: flow2 is in line 26 already"),
    ("bounds in the wrong order", "case.pst", "10.0    1.0   100.0", "10.0  100.0     1.0",
     r"case.pst, line 14: q0: the lower bound 100 is not below the upper one, 1"),
    ("a tie to nothing", "case.pst", "k_slow  k\n", "",
     r"case.pst, line 16: k_slow is tied to nothing: below the parameters, write k_slow and its"),
    ("a tie to a tied one", "case.pst", "k_slow  k\n", "k_slow  k_slow\n",
     r"case.pst, line 16: k_slow is tied to k_slow, which is tied itself"),
    ("a misspelt section", "case.pst", "* observation data", "* observations data",
     r"case.pst, line 24: \* observations data is no section; did you mean \* observation data\?"),
    ("no parameters beside their groups", "case.pst", "* parameter data\n", "",
     r"case.pst: there is no section \* parameter data"),
    ("no observations beside their groups", "case.pst", "* observation data\n", "",
     r"case.pst: there is no section \* observation data"),
    ("no command", "case.pst", "awk -f reservoir.awk reservoir.in > reservoir.out\n", "",
     r"case.pst, line 34: there is no line below \* model command line"),
    ("a number of parameters", "case.pst", "5 9 2 1 3", "6 9 2 1 3",
     r"case.pst, line 4: announces 6 parameters and 9 observations, but there are 5 parameters"),
    ("a number of observations that is none", "case.pst", "5 9 2 1 3", "5 nine 2 1 3",
     r"case.pst, line 4: must begin with the numbers of parameters and observations"),
    ("no instruction file", "case.pst", "reservoir.ins  reservoir.out\n", "",
     r"case.pst, line 5: announces 1 templates and 1 instruction files, but \* model input/output"),
    ("an output that is read twice", "reservoir.ins", "[flow3]", "[flow2]",
     r"reservoir.ins, line 5: flow2 is read in line 4 already"),
    ("prior information without a number", "case.pst", "log(k) = 0.5", "log(k) = half",
     r"case.pst, line 40: half is no number: equations are like 1.0 \* log\(k\) = 0.5"),
    ("prior information of no logarithm", "case.pst", "log(k)", "log(base)",
     r"case.pst, line 40: base may be 0 or below, and has no logarithm then"),
    ("an option that is no number", "case.pst", "* prior information",
     "++par_sigma_range(x)\n* prior information",
     r"case.pst, line 39: par_sigma_range\(x\) must be a positive number"),
    ("a covariance that is not there", "case.pst", "* prior information",
     "++parcov(prior.cov)\n* prior information",
     r"case.pst: parcov names prior.cov, and there is no such file"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("file", "old", "new", "words"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG]
)
def test_wrong_files_are_told(case: Path, file: str, old: str, new: str, words: str) -> None:
    change(case.with_name(file), old, new)
    with pytest.raises(PestError, match=words):
        pest.load(case)


def test_what_is_no_control_file_is_told(case: Path) -> None:
    with pytest.raises(PestError, match="there is no file"):
        pest.load(case.with_name("other.pst"))
    other = case.with_name("other.pst")
    other.write_text("time,x\n1,2\n")
    with pytest.raises(PestError, match=r"other.pst, line 1: must be pcf"):
        pest.load(other)
    other.write_text("pcf\n* control data\nrestart estimation\n5 9 2 1 3\n")
    with pytest.raises(PestError, match=r"other.pst: there is no section \* parameter data"):
        pest.load(other)
    other.write_text(re.sub("(?s)30 0.005 4.*1 1 1\n", "", case.read_text()))
    with quiet(), pytest.raises(PestError, match=r"other.pst cannot be read as a PEST control"):
        pest.load(other)


def test_a_control_file_in_another_encoding_is_told(case: Path) -> None:
    case.write_bytes(
        case.read_bytes().replace(b"* observation groups", b"# m\xfcll\n* observation ")
    )
    with pytest.raises(PestError, match=r"case.pst, line 20: is not text in UTF-8: save the file"):
        pest.load(case)


def test_an_input_file_keeps_bytes_that_are_no_utf_8(case: Path) -> None:
    template = case.with_name("reservoir.tpl")
    template.write_bytes(template.read_bytes() + b"# 20 \xb0C\n")
    change(case, "awk -f", f"cp reservoir.in {case.with_name('seen')} && awk -f")
    pest.load(case).model(np.array([14.0, 2.6, 0.8]))
    assert case.with_name("seen").read_bytes().endswith(b"\n# 20 \xb0C\n")


def test_a_failed_run_says_why(case: Path) -> None:
    problem = pest.load(case)
    x = np.array([14.0, 2.6, 0.8])
    model = case.with_name("reservoir.awk")
    change(model, "flow at the gauge", "runoff")
    with pytest.raises(RuntimeError, match=r'reservoir.ins, line 2: "flow at the gauge" does not'):
        problem.model(x)
    change(model, "runoff", "flow at the gauge")
    change(model, '%12.6f\\n", days[i], flow(days[i])', '         nan\\n", days[i]')
    with pytest.raises(RuntimeError, match=r"reservoir.ins, line 3: flow1 is nan in reservoir.out"):
        problem.model(x)
    model.write_text('BEGIN { print "dry" > "/dev/stderr"; exit 3 }')
    with pytest.raises(RuntimeError, match="exit code 3: dry"):
        problem.model(x)
    # An output of an earlier run beside the case is not taken for one of this.
    change(case, "awk -f", "true -f")
    change(case, " > reservoir.out", "")
    case.with_name("reservoir.out").write_text("flow at the gauge\n")
    with pytest.raises(RuntimeError, match=r"the model wrote no reservoir.out"):
        pest.load(case).model(x)


@pytest.mark.parametrize("value", ["1.0", "100.0"])
@pytest.mark.parametrize("name", ["q0", "base"])
def test_an_initial_value_may_lie_on_a_bound(case: Path, name: str, value: str) -> None:
    if name == "q0":  # a logarithm
        change(case, "10.0    1.0   100.0", f"{value}    1.0   100.0")
    else:
        lower, upper = ("1.0", "4.0") if value == "1.0" else ("0.0", "100.0")
        change(case, "1.0    0.0     4.0", f"{value}    {lower}     {upper}")
    problem = pest.load(case)
    prior: Any = problem.parameters.marginals[name]
    low, high = prior.bounds
    assert float(value) in (low, high)
    draws = problem.parameters.from_latent(np.random.default_rng(0).normal(size=(1000, 3)))
    own = draws[:, problem.parameters.names.index(name)]
    assert ((own > low) & (own < high)).all()
    # Half of the range is two standard deviations, with 95 % of a half-normal distribution.
    scale = np.log if name == "q0" else np.asarray
    near = np.abs(scale(own) - scale(float(value))) < 0.5 * (scale(high) - scale(low))
    assert near.mean() == pytest.approx(0.954, abs=4.0 * np.sqrt(0.954 * 0.046 / 1000))


def regularised(case: Path) -> None:
    """Add groups of regularisation, and prior information and an observation of them."""
    change(case, "restart estimation", "restart regularization")
    change(case, "\nexpert\n", "\nexpert\nregul_k\nregulobs\n")
    change(case, "2.03   5.0   flows", "2.03   5.0   Regulobs")
    case.write_text(case.read_text() + "smooth  1.0 * log(q0) = 1.0  2.0  regul_k\n")


@pytest.mark.slow
def test_groups_of_regularisation_are_left_out(case: Path) -> None:
    """Their weights are multiplied by a factor that PEST looks for: they are no 1/noise."""
    assert pest.load(case).control.notes == ()
    regularised(case)
    problem = pest.load(case)
    names = problem.measurements.labels
    assert names == (*(f"flow{day}" for day in (1, 2, 3, 5, 7, 10, 15)), "slow")
    assert problem.bound.temperature == 1.0 / 8.0
    (note,) = problem.control.notes
    assert (
        "case.pst is in the mode regularization; left out: flow20, smooth of its groups regul"
        in note
    )
    checked = CliRunner().invoke(app, ["run", str(case), "--check"], catch_exceptions=False)
    assert checked.exit_code == 0
    assert "flow20, smooth of its groups regul" in " ".join(checked.output.split())
    store = case.with_name("case.supac")
    supac.minimize(
        problem.risk, problem.parameters, problem.bound, budget=20, execution=2, store=store
    )
    assert note in supac.read_store(store).notes


def test_other_modes_keep_groups_with_such_names(case: Path) -> None:
    regularised(case)
    change(case, "restart regularization", "restart estimation")
    problem = pest.load(case)
    assert problem.measurements.labels is not None
    assert {"flow20", "smooth"} < set(problem.measurements.labels)
    assert problem.control.notes == ()


def test_only_regularisation_leaves_nothing_to_compare(case: Path) -> None:
    regularised(case)
    case.write_text(re.sub(r"(5\.0   )flows", r"\1regul", case.read_text()))
    with pytest.raises(PestError, match="no observation has a weight above 0, but those of regul"):
        pest.load(case)


def test_equations_go_on_in_further_lines(case: Path) -> None:
    change(
        case, "slow  1.0 * log(k) = 0.5  4.0  expert",
        "slow  1.0 * log(k)\n  & + 0.5 * log(q0)\n& = 0.5  4.0  expert\n"
        "low 1.0 * base\n&= 1 2 expert",
    )  # fmt: skip
    problem = pest.load(case)
    slow, low = problem.control.prior_information
    assert slow.factors == (("k", 1.0, True), ("q0", 0.5, True))
    assert (slow.value, slow.weight, slow.group) == (0.5, 4.0, "expert")
    assert (low.factors, low.weight) == ((("base", 1.0, False),), 2.0)


def test_exponents_of_fortran_in_a_control_file(case: Path) -> None:
    """But a name that looks like one stays a name."""
    plain = pest.load(case).control
    text = case.read_text().replace("flow3 ", "1d3 ")
    for old, new in [
        ("10.0 -3.0 0.3", "1.0D+01 -3.0 0.3"),
        ("relative 0.01", "relative 1.0D-2"),
        ("10.0    1.0   100.0", "1.0D+01  .1d1   1.D2"),
        ("9.65   5.0", "9.65d0   5.0D0"),
        ("1.0 * log(k) = 0.5  4.0", "1.0D0*log(k) = 5D-1  4.0d+0"),
    ]:
        assert old in text
        text = text.replace(old, new)
    case.write_text(text)
    instructions = case.with_name("reservoir.ins")
    instructions.write_text(instructions.read_text().replace("[flow3]", "[1d3]"))
    found = pest.load(case).control
    assert found.parameters == plain.parameters
    assert found.prior_information == plain.prior_information
    assert found.observations[2] == replace(plain.observations[2], name="1d3")
    target = case.with_name("sets.jcb")  # pyemu reads the file for this, too
    pest.write_sets(found, np.array([[10.0, 3.0, 1.0]]), target)
    assert target.stat().st_size > 0


def test_a_hidden_file_that_a_run_misses_is_named(case: Path) -> None:
    case.with_name(".settings").write_text("fast\n")
    case.with_name(".other").write_text("fast\n")
    change(case, "awk -f", "cat .settings\nawk -f")
    problem = pest.load(case)
    with pytest.raises(
        ProgramError, match=r"^\.settings is a hidden file .*: write copies in \[sim"
    ):
        problem.model(np.array([14.0, 2.6, 0.8]))
    copied = pest.load(case, copies=["reservoir.awk", ".settings"])
    assert len(copied.model(np.array([14.0, 2.6, 0.8]))) == 9


def test_several_commands_of_the_folder_run_in_order(case: Path) -> None:
    script = case.with_name("first")
    script.write_text("#!/bin/sh\ncp reservoir.in copy.in\n")
    script.chmod(0o755)
    change(case, "awk -f reservoir.awk", "first\nawk -f reservoir.awk")
    change(case, "reservoir.out\n* model input", "reservoir.out\ntest -s copy.in\n* model input")
    problem = pest.load(case)
    assert len(problem.model(np.array([14.0, 2.6, 0.8]))) == 9
    change(script, "cp reservoir.in", "cp nothing.in")
    with pytest.raises(RuntimeError, match=r"nothing.in"):
        problem.model(np.array([14.0, 2.6, 0.8]))


def test_files_of_pest_are_read_by_pyemu(case: Path) -> None:
    problem, pyemu = pest.load(case), load_pyemu()
    sets = problem.parameters.from_latent(np.random.default_rng(0).normal(size=(20, 3)))
    folder = case.parent
    pest.write_parameters(problem.control, sets[0], folder / "one.par")
    pest.write_sets(problem.control, sets, folder / "sets.jcb")
    pest.write_sets(problem.control, sets, folder / "sets.csv")
    pest.write_covariance(problem.control, sets, folder / "sets.cov")
    with quiet():
        pst = pyemu.Pst(str(case))
        pst.parrep(str(folder / "one.par"))
        binary = pyemu.ParameterEnsemble.from_binary(pst=pst, filename=str(folder / "sets.jcb"))
        table = pyemu.ParameterEnsemble.from_csv(pst=pst, filename=str(folder / "sets.csv"))
        covariance = pyemu.Cov.from_ascii(str(folder / "sets.cov"))
    names = list(problem.parameters.names)
    assert pst.parameter_data.parval1[names].to_numpy() == pytest.approx(sets[0])
    assert pst.parameter_data.parval1["k_slow"] == pytest.approx(10.0 * sets[0, 1])
    for ensemble in (binary, table):
        assert np.allclose(ensemble.loc[:, names].to_numpy(), sets)
        assert np.allclose(ensemble.loc[:, "area"], 1.5)
    expected = np.cov(np.column_stack([np.log10(sets[:, :2]), sets[:, 2]]), rowvar=False)
    assert covariance.row_names == names
    assert np.allclose(covariance.x, expected, rtol=1e-6)


def test_a_problem_file_may_choose_priors_and_files(case: Path) -> None:
    text = next(
        block
        for block in re.findall(r"^```toml\n(.*?)^```", PAGE.read_text(), flags=re.M | re.S)
        if "[parameters]" in block
    )
    path = case.with_name("problem.toml")
    path.write_text(text)
    case.with_name("large.dat").write_text("x")
    problem = supac.read_problem(path)
    assert isinstance(problem.risk, supac.Composite)
    x = problem.parameters.from_latent(np.zeros((1, 3)))[0]
    assert x[:2] == pytest.approx([12.0, 3.0])
    simulate: Any = problem.risk.simulate
    assert [each.name for each in simulate.copies] == ["reservoir.awk"]
    assert np.isfinite(problem.risk(x))
    assert set(problem.files) == {"data"}
    path.write_text(text.replace("base =", "bse ="))
    with pytest.raises(supac.ProblemFileError, match=r"bse is no adjustable parameter of case.pst"):
        supac.read_problem(path)
    path.write_text(re.sub("k = .*\n", "", text, count=1))
    with pytest.raises(supac.ProblemFileError, match=r"line 1, parameters: must be the adjustable"):
        supac.read_problem(path)


def ensemble(case: Path) -> tuple[Path, Path, np.ndarray[Any, Any]]:
    """Write an ensemble as PEST++ IES does: all parameters, and all observations by their names."""
    problem = pest.load(case)
    x = problem.parameters.sample(problem.parameters.prior, 12, 0)
    full = [problem.control.complete(dict(zip(("q0", "k", "base"), e, strict=True))) for e in x]
    names = [f"flow{day}" for day in (1, 2, 3, 5, 7, 10, 15, 20)]
    tables: dict[str, tuple[list[str], list[list[float]]]] = {
        "case.3.par.csv": (list(full[0]), [list(each.values()) for each in full]),
        "case.3.obs.csv": (["volume", *names], [[133.3, *flows(*each)] for each in x]),
    }
    for name, (header, rows) in tables.items():
        lines = [f"{i},{','.join(map(repr, map(float, row)))}" for i, row in enumerate(rows)]
        case.with_name(name).write_text("\n".join([f"real_name,{','.join(header)}", *lines, ""]))
    return case.with_name("case.3.par.csv"), case.with_name("case.3.obs.csv"), x


def test_an_ensemble_of_the_case_is_known_by_the_names_of_observations(case: Path) -> None:
    """Observations of weight 0 are left out, prior information follows from the parameters."""
    problem = pest.load(case)
    points, observed, x = ensemble(case)
    known: Any = known_runs((points, observed), problem.parameters, problem.risk)
    right = [[*flows(*each), np.log10(each[1])] for each in x]
    np.testing.assert_allclose(known.x, x)
    np.testing.assert_allclose(known.outputs, right)
    plain: Any = known_runs((x, known.outputs[:, :8]), problem.parameters, problem.risk)
    np.testing.assert_array_equal(plain.outputs, known.outputs)
    observed.write_text(observed.read_text().replace("flow15", "flow_15"))
    with pytest.raises(
        ValueError, match=r"case.3.obs.csv has no column flow15; its columns are vo"
    ):
        known_runs((points, observed), problem.parameters, problem.risk)
    with pytest.raises(ValueError, match="7 outputs, but 8 are simulated: flow1, flow2"):
        known_runs((x, known.outputs[:, :7]), problem.parameters, problem.risk)


@pytest.mark.slow
def test_outputs_have_the_names_of_observations(case: Path, tmp_path: Path) -> None:
    problem = pest.load(case)
    store = tmp_path / "run.supac"
    result = supac.minimize(
        problem.risk, problem.parameters, problem.bound, budget=25, store=store, seed=1
    )
    sets = table_of_ensemble(result.record, result.ensemble)
    assert list(sets)[3:6] == ["risk", "log_ratio", "flow1"]
    assert list(sets)[-1] == "slow"
    shares = result.sensitivity()
    assert "flow20" in shares.indices.outputs
    assert shares.columns.outputs[:2] == ("flows", "expert")
    account = account_of(result)
    assert account.observations is not None
    assert account.observations.times is None  # places in a group are no times
    # A store of an earlier version has no names of observations.
    earlier = replace(problem.measurements, labels=None)
    old = supac.Composite(problem.model, earlier.loss, earlier)
    begun = tmp_path / "begun.supac"
    supac.minimize(old, problem.parameters, problem.bound, budget=25, store=begun, seed=1)
    again = supac.minimize(
        problem.risk, problem.parameters, problem.bound, budget=30, store=begun, seed=1
    )
    assert again.queries > 25
