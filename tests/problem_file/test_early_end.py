"""Simulations that end before the data do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import supac
from supac.arrays import FloatArray
from supac.cli.app import app
from supac.problem_file import Observations
from supac.problem_file.early_end import EarlyEnd

NAN = np.nan


@pytest.mark.parametrize(
    ("value", "outputs", "filled"),
    [
        (None, [4.0, 3.0, NAN, NAN], [4.0, 3.0, 3.0, 3.0]),
        (2.5, [4.0, 3.0, NAN, NAN], [4.0, 3.0, 2.5, 2.5]),
        (None, [4.0, 3.0, 2.0, 1.0], [4.0, 3.0, 2.0, 1.0]),
        (None, [4.0, NAN, 2.0, NAN], [4.0, NAN, 2.0, 2.0]),  # a gap is no end
        (2.5, [NAN] * 4, [NAN] * 4),
    ],
)
def test_values_after_the_end_are_held(
    value: float | None, outputs: list[float], filled: list[float]
) -> None:
    data = Observations(("V",), np.ones(4), np.array(1.0))
    made = EarlyEnd(value).filled(np.array(outputs), data)
    assert np.array_equal(made, np.array(filled), equal_nan=True)
    many = EarlyEnd(value).filled(np.array([outputs, outputs]), data)
    assert np.array_equal(many, np.array([filled, filled]), equal_nan=True)


def test_the_end_is_that_of_time_in_each_column_and_experiment() -> None:
    data = Observations(
        ("V", "T"),
        np.ones(8),
        np.array(1.0),
        times=np.array([2.0, 1.0, 1.0, 2.0]),
        experiments=("a", "a", "b", "b"),
    )
    outputs = np.array([NAN, 4.0, 3.0, 2.0, 9.0, 8.0, 7.0, NAN])
    assert np.array_equal(
        EarlyEnd().filled(outputs, data), [4.0, 4.0, 3.0, 2.0, 9.0, 8.0, 7.0, 7.0]
    )


MODEL = """
import numpy as np
def simulate(rate, times):
    v = 4.0 - rate * np.asarray(times)
    end = int((v >= 2.7).sum())
    return {"V": %s}
"""
PROBLEM = """
[parameters]
rate = { prior = "uniform", lower = 0.05, upper = 1.0 }
[simulator]
python = "model:simulate"
arguments = "names"
[data]
file = "data.csv"
observed = "V"
noise = 0.02
%s
[bound]
n = 9
[run]
budget = 40
"""


def problem(folder: Path, answer: str, more: str) -> Path:
    t = np.arange(1.0, 10.0)
    rows = "\n".join(f"{a},{4.0 - 0.12 * a:.3f}" for a in t)
    (folder / "data.csv").write_text(f"time,V\n{rows}\n")
    (folder / "model.py").write_text(MODEL % answer)
    (folder / "problem.toml").write_text(PROBLEM % more)
    return folder / "problem.toml"


SHORTER, WITH_NAN = "v[:end]", "np.where(v >= 2.7, v, np.nan)"


@pytest.mark.parametrize("answer", [SHORTER, WITH_NAN])
def test_a_declared_end_is_no_failure(answer: str, tmp_path: Path) -> None:
    """Without the declaration it is one, and `--check` and its message say what to write."""
    file = problem(tmp_path, answer, "")
    said = CliRunner().invoke(app, ["run", str(file), "--check"]).output
    assert 'write after_end = "hold" in [data]' in " ".join(said.split())
    ready = supac.read_problem(problem(tmp_path, answer, 'after_end = "hold"'))
    assert isinstance(ready.risk, supac.Composite)

    def outputs(rate: float) -> FloatArray:
        assert isinstance(ready.risk, supac.Composite)
        return ready.risk.vector(ready.risk.simulate(np.array([rate])))

    assert np.allclose(outputs(0.5), [3.5, 3.0] + [3.0] * 7)
    assert np.allclose(outputs(0.12), 4.0 - 0.12 * np.arange(1.0, 10.0))
    result = ready.minimize()
    assert result.failed == 0
    assert abs(float(np.median(result.sample(200))) - 0.12) < 0.01


def test_the_declaration_is_the_same_in_all_tables(tmp_path: Path) -> None:
    file = problem(tmp_path, SHORTER, "")
    table = file.read_text().partition("[data]")[2].partition("[bound]")[0]
    text = file.read_text().replace(
        f"[data]{table}", f"[[data]]{table}after_end = 2.7\n[[data]]{table}name = 'other'\n"
    )
    file.write_text(text)
    with pytest.raises(supac.ProblemFileError, match=r"data\[1\].*after_end: must be the same"):
        supac.read_problem(file)
