"""Dates of several files: one clock for what is one run, and one for each experiment."""

from __future__ import annotations

from pathlib import Path

import pytest

import supac
from supac.problem_file.data import read_observations
from supac.problem_file.errors import Source

CAL, VAL = "date,Q\n2001-01-01,1\n2001-01-03,2\n", "date,Q\n2005-01-02,3\n2005-01-03,4\n"
LATER = 1462.0  # days from the first date of the one to that of the other


def read(folder: Path, first: str = "", second: str = "") -> supac.Observations:
    (folder / "cal.csv").write_text(CAL)
    (folder / "val.csv").write_text(VAL)
    tables = [
        f'[[data]]\nfile = "{name}.csv"\nobserved = "Q"\nnoise = 0.1\ntime = "date"\n{more}\n'
        for name, more in (("cal", first), ("val", second))
    ]
    return read_observations(Source("".join(tables), folder / "problem.toml"))


@pytest.mark.parametrize(
    ("first", "second", "times", "label"),
    [
        ("", "", [0.0, 2.0, LATER, LATER + 1.0], "days since 2001-01-01"),
        ("start = 2000-12-31", "", [1.0, 3.0, LATER + 1.0, LATER + 2.0], "days since 2000-12-31"),
        ("", "start = 2000-12-31", [1.0, 3.0, LATER + 1.0, LATER + 2.0], "days since 2000-12-31"),
        ("start = 2001-01-01", "start = 2005-01-02", [0.0, 2.0, 0.0, 1.0], "days since the start"),
        (
            "settings = { T = 1 }",
            "settings = { T = 2 }",
            [0.0, 2.0, 0.0, 1.0],
            "days since the start",
        ),
    ],
)
def test_files_of_one_run_have_one_clock(
    first: str, second: str, times: list[float], label: str, tmp_path: Path
) -> None:
    """Files of other settings, and those that each have a start, are counted from their own."""
    seen = read(tmp_path, first, second)
    assert seen.times is not None
    assert (seen.times.tolist(), seen.time_label) == (times, label)


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ('time_unit = "h"', "", r'data\[1\].time_unit: must be "h" as that of cal.csv'),
        ("", "start = 2005-01-01T00:00:00Z", r"data\[1\].start: has no time zone, or has one"),
    ],
)
def test_files_of_one_run_must_have_comparable_dates(
    first: str, second: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(supac.ProblemFileError, match=words):
        read(tmp_path, first, second)


def test_a_third_file_of_several_starts_needs_its_own(tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text(VAL)
    read(tmp_path)
    text = "".join(
        f'[[data]]\nfile = "{name}.csv"\nobserved = "Q"\nnoise = 0.1\ntime = "date"\n{more}\n'
        for name, more in (
            ("cal", "start = 2001-01-01"),
            ("val", "start = 2005-01-02"),
            ("new", ""),
        )
    )
    with pytest.raises(supac.ProblemFileError, match=r"data\[2\].start: is missing: cal.csv, val"):
        read_observations(Source(text, tmp_path / "problem.toml"))
