"""Problem files with an FMU: what `supac init --fmu` writes, and what wrong files are told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fmu_files
import supac
from supac.problem_file import ProblemFileError, fmu_starter_files
from supac.problem_file.csv_file import name_and_unit
from supac.simulators.fmi import FMUError

SIGNALS = "time,lag.u\n0,0\n0.5,0\n0.5,1\n2,1\n"


@pytest.fixture(scope="module")
def ball(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fmu_files.ball(tmp_path_factory.mktemp("ball"))


@pytest.fixture
def study(ball: Path, tmp_path: Path) -> Path:
    """A folder with the FMU, all that `init` writes, and data."""
    fmu = tmp_path / "ball.fmu"
    fmu.write_bytes(ball.read_bytes())
    for name, text in fmu_starter_files(fmu, tmp_path).items():
        (tmp_path / name).write_text(text)
    rows = "".join(f"{time},0.5,0.2,0\n" for time in (0.5, 1.0, 1.5, 2.0))
    (tmp_path / "data.csv").write_text(f"time,h,lag.x,count\n{rows}")
    change(tmp_path / "problem.toml", "n = 30", "n = 12")
    return tmp_path


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text, old
    path.write_text(text.replace(old, new, 1))


def test_init_writes_what_the_model_declares(study: Path) -> None:
    text = (study / "problem.toml").read_text()
    problem = supac.read_problem(study / "problem.toml")
    assert problem.title == "Ball"
    assert problem.parameters.names == ("g", "restitution", "lag.tau")
    assert problem.parameters.units == ("m/s2", "", "")
    medians = problem.parameters.from_latent(np.zeros((1, 3)))[0]
    assert medians.tolist() == pytest.approx([9.81, 0.5, 1.0])  # start values; between limits
    assert 'unit = "m/s2" }   # gravity' in text
    assert "lower = 0.0, upper = 1.0 }   # start 0.7" in text
    assert 'observed = ["h", "lag.x", "count"]' in text
    assert (study / "inputs.csv").read_text() == "time,lag.u\n0,0\n2,0\n"
    assert isinstance(problem.risk, supac.Composite)
    assert len(problem.risk.simulate(np.array([9.81, 0.7, 1.0]))) == 12


def test_init_writes_empty_cells_and_keeps_tables_that_are_there(
    ball: Path, tmp_path: Path
) -> None:
    files = fmu_starter_files(ball, tmp_path)
    assert files["data.csv"].splitlines()[:2] == ["time,h [m],lag.x,count", "0.2,,,"]
    assert "n = 30" in files["problem.toml"]
    (tmp_path / "data.csv").write_text("time,lag.x [K],other\n0.5,0.1,7\n1.0,,7\n2.0,0.3,7\n")
    (tmp_path / "inputs.csv").write_text(SIGNALS)
    files = fmu_starter_files(ball, tmp_path)
    assert list(files) == ["problem.toml"]
    assert 'observed = ["lag.x"]' in files["problem.toml"]
    assert "n = 2" in files["problem.toml"]


# What is wrong, the text that is replaced and by what, the key and its line, words of the message.
WRONG = [
    ("no such file", '"ball.fmu"', '"bal.fmu"', "simulator.fmu", ['did you mean "ball.fmu"?']),
    ("no FMU", '"ball.fmu"', '"data.csv"', "simulator.fmu",
     ["data.csv is not an FMU (no ZIP archive)", "export"]),
    ("a parameter that is not there", "g = {", "weight = {", "parameters.weight",
     ["ball.fmu has no variable weight", "there are g, restitution, lag.tau"]),
    ("a misspelt parameter", '"lag.tau"', '"lag.tu"', 'parameters."lag.tu"', ['mean "lag.tau"?']),
    ("a parameter that is none", "g = {", "count = {", "parameters.count",
     ["count of ball.fmu is an output and cannot be set", "there are g,"]),
    ("a parameter that is a text", "g = {", "label = {", "parameters.label",
     ["label of ball.fmu is a string parameter"]),
    ("another unit", '"m/s2"', '"ft/s2"', "parameters.g.unit",
     ["g of ball.fmu is in m/s2, and ft/s2 is no unit", "give it in m/s2"]),
    ("an input that is not given", 'input_file = "inputs.csv"', "# none", "simulator.input_file",
     ["ball.fmu has the input lag.u", "a column of inputs, or as a constant in values"]),
    ("no table of inputs", '"inputs.csv"', '"input.csv"', "simulator.input_file",
     ['did you mean "inputs.csv"?']),
    ("a table of inputs without them", '"inputs.csv"', '"data.csv"', "simulator.input_file",
     ["data.csv, column h: h is an output, not an input: remove this column"]),
    ("a name for nothing", 'fmu = "ball.fmu"', 'fmu = "ball.fmu"\nvariables = { y = "h" }',
     "simulator.variables.y", ["y is no parameter, output or input here"]),
    ("a name of nothing", 'fmu = "ball.fmu"', 'fmu = "ball.fmu"\nvariables = { g = "gravity" }',
     "simulator.variables.g", ["ball.fmu has no variable gravity"]),
    ("a value of nothing", 'fmu = "ball.fmu"', 'fmu = "ball.fmu"\nvalues = { heigt = 2.0 }',
     "simulator.values.heigt", ["ball.fmu has no variable heigt"]),
    ("a text for a number", 'fmu = "ball.fmu"', 'fmu = "ball.fmu"\nvalues = { v = "fast" }',
     "simulator.values.v", ["v must be a number, not 'fast'"]),
    ("an interface it lacks", 'fmu = "ball.fmu"', 'fmu = "ball.fmu"\ninterface = "co-simulation"',
     "simulator.interface", ["ball.fmu has no co-simulation, but model-exchange"]),
    ("a late start", 'fmu = "ball.fmu"', 'fmu = "ball.fmu"\nstart = 1.0', "simulator.start",
     ["the time 0.5 is before the start of a run, 1", "give an earlier start"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "key", "words"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG]
)
def test_wrong_files_are_told(study: Path, old: str, new: str, key: str, words: list[str]) -> None:
    path = study / "problem.toml"
    change(path, old, new)
    with pytest.raises(ProblemFileError) as error:
        supac.read_problem(path)
    message, lines = str(error.value), path.read_text().splitlines()
    assert message.startswith("problem.toml, line "), message
    assert f", {key}: " in message
    line = next(n for n, text in enumerate(lines) if new.splitlines()[-1] in text)
    if new == "# none":  # the key is missing: its table
        line = lines.index("[simulator]")
    assert f"line {line + 1}," in message
    for each in words:
        assert each in message


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        ("data.csv", "1.5,", "0.7,",
         "data.file: data.csv, line 4, column time: 0.7 is before 1.0: sort the rows by time"),
        ("data.csv", "time,h", "time [h],h",
         'data.csv are in h, .* model\'s unit, s: write time_unit = "h" in .simulator'),
        ("problem.toml", "[data]\n", '[data]\ntime_unit = "min"\n', "data.csv are in min"),
        ("inputs.csv", "\n2,0", "\n1.2,0",
         "inputs.csv ends at the time 1.2, but the data go on until 2: add rows, or one at 2"),
    ],
)  # fmt: skip
def test_times_that_cannot_be_meant_are_told(
    study: Path, file: str, old: str, new: str, words: str
) -> None:
    change(study / file, old, new)
    with pytest.raises(ProblemFileError, match=words):
        supac.read_problem(study / "problem.toml")


def test_units_of_columns_are_converted_and_checked(study: Path) -> None:
    point = np.array([9.81, 0.7, 1.0])
    metres = supac.read_problem(study / "problem.toml").risk.simulate(point)  # type: ignore[attr-defined]
    change(study / "data.csv", "time,h,", "time,h [cm],")
    change(study / "inputs.csv", "lag.u", "lag.u [V]")  # the model has no unit for it
    centimetres = supac.read_problem(study / "problem.toml").risk.simulate(point)  # type: ignore[attr-defined]
    assert np.allclose(centimetres[:4], 100.0 * metres[:4])
    assert np.allclose(centimetres[4:], metres[4:])
    change(study / "data.csv", "h [cm]", "h [ft]")
    assert "data.csv, line 1, column h: h of ball.fmu is in m, and ft is no unit" in failure(study)
    assert "give it in m (or in cm, which it converts)" in failure(study)


def test_experiments_have_inputs_and_values_of_their_own(study: Path) -> None:
    text = (study / "problem.toml").read_text()
    head, _, rest = text.partition("[data]")
    tail = rest[rest.index("[loss]") :].replace("n = 12", "n = 2")
    (study / "up.csv").write_text("time,lag.u\n0,0\n2,2\n")
    tables = ""
    for name, signal, start in (("rest", "inputs.csv", 0.0), ("rise", "up.csv", 1.0)):
        (study / f"{name}.csv").write_text("time,lag.x\n2.0,0.1\n")
        tables += (
            f'[[data]]\nfile = "{name}.csv"\nobserved = "lag.x"\nnoise = 0.1\n'
            f'settings = {{ input_file = "{signal}", "lag.x" = {start} }}\n\n'
        )
    (study / "problem.toml").write_text(head + tables + tail)
    problem = supac.read_problem(study / "problem.toml")
    outputs = problem.risk.simulate(np.array([9.81, 0.7, 0.5]))  # type: ignore[attr-defined]
    # x' = (u − x)/τ with u = 0 from x = 0, and with u = t from x = 1.
    assert outputs == pytest.approx([0.0, 2.0 - 0.5 + 1.5 * np.exp(-4.0)], abs=2e-6)
    before = problem.files["simulator"]
    (study / "up.csv").write_text("time,lag.u\n0,0\n2,x\n")
    assert "up.csv, line 3, column lag.u: 'x' is no number" in failure(study)
    assert problem.files["simulator"] != before


def test_elements_of_arrays_are_no_units() -> None:
    assert name_and_unit("pipe.T[3]") == ("pipe.T[3]", "")
    assert name_and_unit("pipe.T[3, 1] [K]") == ("pipe.T[3, 1]", "K")
    assert name_and_unit("X [g/L]") == name_and_unit(" X[g/L]") == ("X", "g/L")


def failure(study: Path) -> str:
    with pytest.raises(ProblemFileError) as error:
        supac.read_problem(study / "problem.toml")
    return str(error.value)


def test_wrong_tables_are_told_by_their_lines(study: Path) -> None:
    (study / "data.csv").write_text("time,h,lag.x,count,wind\n0.5,1,1,0,3\n1,1,1,0,3\n")
    change(study / "problem.toml", "n = 12", "n = 6")
    change(study / "problem.toml", '["h", "lag.x", "count"]', '["h", "lag.x", "wind"]')
    change(study / "problem.toml", "count = 0.1", "wind = 0.1")
    message = failure(study)
    assert "data.observed: ball.fmu has no variable wind; there are h, lag.x, count" in message
    change(study / "problem.toml", '["h", "lag.x", "wind"]', '["h", "lag.x", "count"]')
    change(study / "problem.toml", "wind = 0.1", "count = 0.1")
    (study / "inputs.csv").write_text("time,lag.u\n0,0\n2,1\n\n1,1\n")
    assert "inputs.csv, line 5, column time: 1 is before 2: sort the rows by time" in failure(study)
    (study / "inputs.csv").write_text("time,lag.u\n0,0\n2,x\n")
    assert "inputs.csv, line 3, column lag.u: 'x' is no number" in failure(study)
    (study / "inputs.csv").write_text("hour,lag.u\n0,0\n2,1\n")
    assert "inputs.csv has no column time" in failure(study)
    (study / "data.csv").write_text("hour,h,lag.x,count\n0.5,1,1,0\n1,1,1,0\n")
    assert "recorded at the times of the data: name the column with them" in failure(study)


def test_fmus_for_others_are_told(study: Path) -> None:
    fmu = study / "ball.fmu"

    def told(*pairs: tuple[str, str], folder: str = "binaries/linux64") -> str:
        name = study / "other.fmu"
        fmu_files.changed(
            fmu, name, *pairs, renamed=lambda each: each.replace("binaries/linux64", folder)
        )
        with pytest.raises(FMUError) as error:
            fmu_starter_files(name, study / "new")
        change(study / "problem.toml", '"ball.fmu"', '"other.fmu"')
        message = failure(study)
        change(study / "problem.toml", '"other.fmu"', '"ball.fmu"')
        assert "simulator.fmu: " in message
        assert str(error.value) in message
        return message

    there = told(folder="sources")
    assert "other.fmu has no binaries, and this machine is linux64: export it for linux64" in there
    windows = fmu_files.changed(
        fmu, study / "win.fmu", renamed=lambda n: n.replace("linux64/ball.so", "win64/ball.dll")
    )
    with pytest.raises(FMUError, match="binaries for win64, and this machine is linux64: export"):
        fmu_starter_files(windows, study / "new")
    assert "is of FMI 1.0: export it for FMI 2 or 3" in told(
        ('fmiVersion="2.0"', 'fmiVersion="1.0"')
    )
    assert "cannot be read" in told(("<ModelVariables>", "<ModelVariable>"))
    assert "neither co-simulation nor" in told(("<ModelExchange", "<Nothing"))


def test_the_missing_extra_is_named(study: Path) -> None:
    code = (
        "import sys; sys.modules['fmpy'] = None; import supac; "
        f"supac.read_problem({str(study / 'problem.toml')!r})"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert "simulator.fmu: an FMU needs fmpy: pip install 'supac[fmi]'" in outcome.stderr


def test_what_stands_in_formulas_alone_need_not_be_a_variable(study: Path) -> None:
    path = study / "problem.toml"
    before: Any = supac.read_problem(path).risk
    text = path.read_text()
    line = next(each for each in text.splitlines() if each.startswith("restitution = "))
    prior = line.partition(" = ")[2]
    path.write_text(text.replace(line, f'loss = {prior}\nrestitution = "1.6 - loss"'))
    problem: Any = supac.read_problem(path)
    names = list(problem.parameters.names)
    assert "loss" in names
    x = np.array([9.81 if name == "g" else 0.7 for name in names])
    y = np.array([9.81 if name == "g" else 0.7 for name in names])
    y[names.index("loss")] = 0.9  # the restitution
    np.testing.assert_allclose(problem.risk.simulate(x), before.simulate(y))
    change(path, '"1.6 - loss"', '"1.6 - lost"')
    with pytest.raises(ProblemFileError, match="lost is no parameter; did you mean"):
        supac.read_problem(path)
