"""A warm-up that is simulated and not compared, and periods that are held out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import supac
from supac.problem_file import make_problem

TEXT = """
[parameters]
k = { prior = "normal", mean = 1.0, sd = 0.5 }
[simulator]
python = "f:f"
arguments = "names"
[data]
file = "d.csv"
observed = "Q"
noise = 0.1
%s
[loss]
kind = "welsch"
[bound]
temperature = 0.1
[run]
budget = 40
"""
MODEL = "def f(k, times):\n    return {'Q': [k * t for t in times]}\n"


def made(folder: Path, text: str, *, dates: bool = True) -> supac.Composite:
    rows = "\n".join(f"{f'2001-01-{i + 1:02d}' if dates else i},{i}.5" for i in range(10))
    (folder / "d.csv").write_text(f"time,Q\n{rows}\n")
    (folder / "f.py").write_text(MODEL)
    risk = make_problem(TEXT % text, folder / "problem.toml").risk
    assert isinstance(risk, supac.Composite)
    return risk


def compared(data: object) -> list[int]:
    assert isinstance(data, supac.Observations)
    return np.flatnonzero(data.needed).tolist()


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("warm_up = 3", True),
        ("warm_up = 2001-01-04", True),
        ("warm_up = 2.5", False),
        ("warm_up = 72\ntime_unit = 'h'", True),
    ],
)
def test_a_warm_up_is_simulated_and_not_compared(text: str, dates: bool, tmp_path: Path) -> None:
    risk = made(tmp_path, text, dates=dates)
    assert compared(risk.data) == [3, 4, 5, 6, 7, 8, 9]
    outputs = risk.vector(risk.simulate(np.array([2.0])))
    step = 24.0 if "'h'" in text else 1.0
    assert np.allclose(outputs, 2.0 * step * np.arange(10.0))  # those of the warm-up, too


@pytest.mark.parametrize(
    ("test", "held_out"),
    [
        ("{ from = 2001-01-08 }", [7, 8, 9]),
        ("{ to = 2001-01-02 }", [0, 1]),
        ("{ from = 2001-01-03, to = 2001-01-04 }", [2, 3]),
        ("[{ to = 1 }, { from = 8 }]", [0, 1, 8, 9]),
    ],
)
def test_periods_are_held_out(test: str, held_out: list[int], tmp_path: Path) -> None:
    risk = made(tmp_path, f"test = {test}")
    assert compared(risk.held_out) == held_out
    assert compared(risk.data) == [i for i in range(10) if i not in held_out]


def test_a_warm_up_is_in_neither_part(tmp_path: Path) -> None:
    risk = made(tmp_path, "warm_up = 2\ntest = { to = 2001-01-05 }")
    assert (compared(risk.held_out), compared(risk.data)) == ([2, 3, 4], [5, 6, 7, 8, 9])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("warm_up = 20", "data.warm_up: leaves no row of the data"),
        ("warm_up = 0", "data.warm_up: must be a number above 0 or a date"),
        ("test = { from = 2001-01-05, to = 2001-01-02 }", "a period that ends before it begins"),
        ("test = { since = 3 }", "data.test: must be a text, a list of texts, true, or periods"),
        ("test = { from = 2020-01-01 }", "both the training and the test part need a measurement"),
    ],
)
def test_periods_that_cannot_be_are_told(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(supac.ProblemFileError, match=words):
        made(tmp_path, text)


def test_dates_need_data_with_dates(tmp_path: Path) -> None:
    with pytest.raises(supac.ProblemFileError, match="warm_up: has dates, but the data"):
        made(tmp_path, "warm_up = 2001-01-04", dates=False)
