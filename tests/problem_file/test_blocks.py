"""Blocks of rows are the n of a bound where none is given."""

from __future__ import annotations

from pathlib import Path

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
observed = ["X", "S"]
noise = 0.1
%s
[loss]
kind = "welsch"
[bound]
%s
[run]
budget = 40
"""


def made(folder: Path, data: str, bound: str, blocks: str = "1 1 2 2 3 3") -> supac.ProblemFile:
    rows = "\n".join(f"{i},1.0,2.0,{block}" for i, block in enumerate(blocks.split()))
    (folder / "d.csv").write_text(f"time,X,S,day\n{rows}\n")
    (folder / "f.py").write_text("def f(k):\n    return {'X': [k] * 6, 'S': [2 * k] * 6}\n")
    return make_problem(TEXT % (data, bound), folder / "problem.toml")


@pytest.mark.parametrize(
    ("data", "bound", "n"),
    [
        ('blocks = "day"', "delta = 0.05", 3),
        ('blocks = "day"', "delta = 0.05\nn = 2", 2),
        ('blocks = "day"', 'kind = "catoni"\ntemperature = "auto"', 3),
        ("sequential = true", 'kind = "mcallester"', 5),
        ('blocks = "day"', "temperature = 0.1", None),
    ],
)
def test_n_is_the_number_of_blocks(data: str, bound: str, n: int | None, tmp_path: Path) -> None:
    assert getattr(made(tmp_path, data, bound).bound, "n", None) == n


def test_unequal_blocks_count_for_less(tmp_path: Path) -> None:
    """The number that a certificate of them would count, so that no other is asked for."""
    ready = made(tmp_path, 'blocks = "day"', "delta = 0.05", "1 1 1 2 3 3")
    assert getattr(ready.bound, "n", None) == 2
    result = ready.minimize()
    assert result.certificate is not None
    assert result.certificate.n == 2


def test_without_blocks_n_is_needed(tmp_path: Path) -> None:
    with pytest.raises(supac.ProblemFileError, match="needs n"):
        made(tmp_path, "", "delta = 0.05")
