"""Marks of missing measurements, and numbers that look like one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import supac
from supac.problem_file.data import read_observations
from supac.problem_file.errors import Source
from supac.problem_file.missing import suspicious_values


def read(folder: Path, cells: str, missing: str = "") -> supac.Observations:
    rows = "\n".join(f"{i},{cell}" for i, cell in enumerate(cells.split()))
    (folder / "d.csv").write_text(f"time,Q\n{rows}\n")
    text = f'[data]\nfile = "d.csv"\nobserved = "Q"\nnoise = 0.1\n{missing}'
    return read_observations(Source(text, folder / "problem.toml"))


@pytest.mark.parametrize(
    ("cells", "missing", "values"),
    [
        ("1 -9999 2 -9999.0 3", "-9999", [1, np.nan, 2, np.nan, 3]),
        ("1 NA 2 -9999 3", '[-9999, "NA"]', [1, np.nan, 2, np.nan, 3]),
        ("1 -9999 2 5 3", "[]", [1, -9999, 2, 5, 3]),
    ],
)
def test_marks_are_no_measurements(
    cells: str, missing: str, values: list[float], tmp_path: Path
) -> None:
    seen = read(tmp_path, cells, f"missing = {missing}")
    assert np.array_equal(seen.values, np.array(values, float), equal_nan=True)


@pytest.mark.parametrize("cells", ["1 -9999 2 3", "0.1 0.2 99 0.3", "1 2 3 1e20 1e20"])
def test_a_usual_mark_far_from_all_others_is_asked_about(cells: str, tmp_path: Path) -> None:
    with pytest.raises(supac.ProblemFileError, match=r"observed: Q is .*write missing = .*\[\]"):
        read(tmp_path, cells)


@pytest.mark.parametrize("cells", ["90 95 99 102 80", "9990 9999 9950", "0.98 99 150 80"])
def test_such_a_number_among_others_is_a_measurement(cells: str, tmp_path: Path) -> None:
    assert read(tmp_path, cells).measured == len(cells.split())


def test_a_text_that_is_a_usual_mark_is_told_with_its_setting(tmp_path: Path) -> None:
    with pytest.raises(supac.ProblemFileError, match=r'or write missing = "NA" in \[data\]'):
        read(tmp_path, "1 NA 2")


@pytest.mark.parametrize(
    ("cells", "doubted"),
    [
        ("3 -1 4 -1 5 -1 4", True),  # negative among others that are not
        ("3 77 4 77 5 77 4", True),  # far away
        ("3 77 4 77 5 4", False),  # only twice
        ("0 0 0 0.1 3 4 0", False),  # no rain
        ("-1 -1 -1 -2 0 1 2", False),
    ],
)
def test_an_extreme_value_that_repeats_is_doubted(
    cells: str, doubted: bool, tmp_path: Path
) -> None:
    words = suspicious_values(read(tmp_path, cells))
    assert bool(words) == doubted
    assert all("write missing = " in each for each in words)
