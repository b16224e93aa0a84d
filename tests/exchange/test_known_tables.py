"""Tables of known runs as other tools and spreadsheets write them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.exchange.other_runs import known_runs
from supac.exchange.table import table_of_ensemble, write_table

TIMES = np.array([0.0, 1.0, 4.0])
RATES = np.array([[0.1, 4.0], [0.2, 5.0], [0.3, 6.0]])
PROBLEM = """
[parameters]
rate = { prior = "lognormal", median = 0.3, log_sd = 0.7 }
amp = { prior = "uniform", lower = 0, upper = 12 }
[simulator]
python = "model:simulate"
arguments = "names"
[data]
file = "data.csv"
observed = "y"
noise = 0.1
[bound]
temperature = 0.3
[run]
budget = 30
known = KNOWN
"""


def simulate(x: FloatArray) -> FloatArray:
    return np.asarray(x[1] * np.exp(-x[0] * TIMES))


OUTPUTS = np.array([simulate(x) for x in RATES])
DATA = supac.Observations(("y",), simulate([0.25, 5.0]), 0.1, times=TIMES)  # type: ignore[arg-type]
PARAMETERS = supac.Parameters(
    {"rate": supac.marginals.LogNormal(0.3, 0.7), "amp": supac.marginals.Uniform(0.0, 12.0)}
)
RISK = supac.Composite(simulate, supac.MeanSquare(), DATA)


def table(
    path: Path,
    names: tuple[str, ...] = ("y@0", "y@1", "y@4"),
    rows: FloatArray = OUTPUTS,
    before: str = "",
    separator: str = ",",
) -> Path:
    """Write parameters and outputs, with a column of words `before` them if it has a name."""
    lines = [separator.join([*([before] if before else []), "rate", "amp", *names])]
    for x, y in zip(RATES, rows, strict=True):
        cells = [repr(float(each)) for each in (*x, *y)]
        lines.append(separator.join([*(["2024-01-01"] if before else []), *cells]))
    path.write_text("\n".join(lines) + "\n")
    return path


def both(path: Path) -> tuple[object, object]:
    """The form of one table, and that of two."""
    return path, (path, path)


@pytest.mark.parametrize("form", [0, 1])
@pytest.mark.parametrize(
    "names", [("y@0", "y@1", "y@4"), ("y_0", "y_1", "y_2"), ("output_0", "output_1", "output_2")]
)
def test_outputs_are_found_by_their_names(
    tmp_path: Path, names: tuple[str, ...], form: int
) -> None:
    """In any order, beside a column of words."""
    path = table(tmp_path / "old.csv", names[::-1], OUTPUTS[:, ::-1], before="date")
    known = known_runs(both(path)[form], PARAMETERS, RISK)  # type: ignore[arg-type]
    assert known is not None
    np.testing.assert_array_equal(known.x, RATES)
    np.testing.assert_array_equal(known.outputs, OUTPUTS)


@pytest.mark.parametrize("form", [0, 1])
def test_semicolons_decimal_commas_and_a_mark_are_read(tmp_path: Path, form: int) -> None:
    path = table(tmp_path / "old.csv", separator=";")
    path.write_text("\ufeff" + path.read_text().replace(".", ","), encoding="utf-8")
    known = known_runs(both(path)[form], PARAMETERS, RISK)  # type: ignore[arg-type]
    assert known is not None
    np.testing.assert_array_equal(known.outputs, OUTPUTS)


@pytest.mark.parametrize("form", [0, 1])
def test_an_exported_ensemble_is_read(tmp_path: Path, form: int) -> None:
    result = supac.minimize(RISK, PARAMETERS, supac.Catoni(0.3), budget=30)
    path = tmp_path / "sets.csv"
    write_table(path, table_of_ensemble(result.record, result.ensemble))
    known = known_runs(both(path)[form], PARAMETERS, RISK)  # type: ignore[arg-type]
    assert known is not None
    np.testing.assert_array_equal(known.outputs, result.ensemble.outputs)


@pytest.mark.parametrize("form", [0, 1])
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("y@4", "y@4.5", r"old\.csv has no column y@4 \(y@4\.5 is no measurement of these data\); "
         r"outputs are y@0, y@1, y@4, … or y_0"),
        ("5.0", "five", r"old\.csv, line 3, column (amp|y@0): 'five' is no number"),
        ("amp", "ample", r"old\.csv has no column amp; its columns are rate, ample"),
        ("12", "12,3,4", r"old\.csv, line 2: \d cells, but the header has 5"),
    ],
)  # fmt: skip
def test_errors_name_line_and_column(
    tmp_path: Path, form: int, old: str, new: str, words: str
) -> None:
    path = table(tmp_path / "old.csv")
    lines = path.read_text().splitlines()
    if old == "12":
        lines[1] += ",3,4"
    path.write_text("\n".join(each.replace(old, new) for each in lines) + "\n")
    with pytest.raises(ValueError, match=words):
        known_runs(both(path)[form], PARAMETERS, RISK)  # type: ignore[arg-type]


@pytest.mark.parametrize("known", ['"old.csv"', '{ parameters = "old.csv", outputs = "old.csv" }'])
def test_runs_outside_of_bounds_are_found_before_a_store_is_made(
    tmp_path: Path, known: str
) -> None:
    (tmp_path / "model.py").write_text(
        "import numpy as np\ndef simulate(rate, amp, times):\n"
        "    return {'y': amp * np.exp(-rate * times)}\n"
    )
    (tmp_path / "data.csv").write_text("time,y\n0,5\n1,4\n4,2\n")
    problem = tmp_path / "problem.toml"
    problem.write_text(PROBLEM.replace("KNOWN", known).replace("upper = 12", "upper = 5.5"))
    table(tmp_path / "old.csv")
    words = r"old\.csv, line 4: amp = 6\.0 is not inside its bounds .*; correct it, leave out"
    with pytest.raises(supac.ProblemFileError, match=words):
        supac.read_problem(problem)
    assert not list(tmp_path.glob("*.supac"))
