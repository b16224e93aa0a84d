"""A known run that is made again by a check: what counts as another outcome."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from commands import call
from supac import Observations
from supac.cli.known_again import Comparison, Spread

SAME, UNIT, OTHER = "", "is the table in another unit?", "is the simulator another?"
DATA = Observations(("A", "B"), np.ones(4), np.full(4, 1e-3))


def told(
    then: list[float], now: list[float], twin: list[float] | None = None, data: object = None
) -> str:
    pairs = [] if twin is None else [(np.array(now), np.array(twin))]
    spread = Spread.of(pairs, len(now))
    return Comparison.of(data, np.array(then), np.array(now)).words(spread)


@pytest.mark.parametrize(
    ("then", "now", "twin", "words"),
    [
        ([1.0, 2.0], [1.001, 2.0], None, SAME),
        ([1e-17, 1.0], [-2e-18, 1.0], None, SAME),
        ([0.0, 1.0], [0.0, 1.0], None, SAME),
        ([np.nan, 1.0], [5.0, 1.0], None, SAME),
        ([1.0, 2.0, 3.0], [np.nan] * 3, None, OTHER),
        ([1.0, 2.0, 3.0], [1.0, np.nan, 3.0], None, "1 of 3 outputs differ, as output_1, 2 there"),
        ([1.0, 2.0, 3.0], [1.0, np.inf, 3.0], None, "1 of 3 outputs differ, as output_1, 2 there"),
        ([0.0, 1e3, 2e3, 3e3], [0.0, 1.0, 2.0, 3.0], None, "All are 0.001 times as large"),
        ([1.0, 2.0, 3.0], [0.0, 0.0, 3.0], None, OTHER),
        ([1.0, 2.0, 3.0], [2.0, 3.0, 1.0], None, OTHER),
        ([1.0, 2.0, 3.0], [2.0, 4.0, 3.0], None, OTHER),
        ([1.0, 2.0, 3.0], [1.0, np.inf, 3.0], [1.0, np.inf, 3.0], OTHER),
        # Noise of 5 % differs by as much as two runs do.
        ([1.0, 2.0, 3.0], [1.05, 1.9, 3.1], [1.0, 2.05, 3.2], SAME),
        ([1.0, 2.0, 3.0], [1.05, 1.9, 3.1], [1.05, 2.05, 3.2], SAME),
        ([1.0, 2.0, 9.0], [1.05, 1.9, 3.1], [1.0, 2.05, 3.2], OTHER),
        ([1e3, 2e3, 3e3], [1.05, 1.9, 3.1], [1.0, 2.05, 3.2], UNIT),
        ([1e-3, 2e-3, 3e-3], [1.05, 1.9, 3.1], [1.0, 2.05, 3.2], UNIT),
        # One output that is noise about zero says nothing of the others.
        ([5e-4, 1e3, 2e3, 3e3], [1e-3, 1.0, 2.0, 3.0], [-1e-3, 1.0, 2.0, 3.0], "3 of 4 outputs"),
        ([5e-4, 1.0, 2.0, 3.0], [1e-6, 1.0, 2.0, 3.0], [-1e-3, 1.0, 2.0, 3.0], SAME),
        ([5e-4, 1.0, 2.0, 3.0], [1e-3, 1.0, 2.0, 3.0], [-1e-3, 1.0, 2.0, 3.0], SAME),
    ],
)  # fmt: skip
def test_outputs_differ_by_more_than_rounding_and_noise(
    then: list[float], now: list[float], twin: list[float] | None, words: str
) -> None:
    found = told(then, now, twin)
    assert words in found
    assert bool(words) == bool(found)


def test_runs_may_have_different_numbers_of_outputs(tmp_path: Path) -> None:
    said, _ = check(tmp_path)
    table = (tmp_path / "runs.csv").read_text().replace(",output_4", "").replace(",5.1", "")
    said, _ = check(tmp_path, table=table)
    assert "runs.csv, line 2 has 4 outputs, but 5 when made again" in said


def test_each_column_has_a_zero_of_its_own() -> None:
    small, large = [1e-15, 2e-15], [1e3, 2e3]
    assert not told([*large, *small], [*large, 5e-15, 9e-15])
    data = Observations(("A", "B"), np.ones(4), np.full(4, 1e-20))
    assert told([*large, *small], [*large, 5e-15, 9e-15], data=data).startswith("2 of 4 outputs")
    assert not told([1.0, 2.0, 1e-15, 3.0], [1.0, 2.0, -2e-15, 3.0], data=data)
    # Differences well below the noise of the data matter little.
    assert not told([1.0, 2.0, 1e-4, 3.0], [1.0, 2.0, 3e-4, 3.0], data=DATA)


NOISY = """
import time
from pathlib import Path
import numpy as np

def simulate(a, b):
    log = Path(__file__).with_name("calls.txt")
    count = len(log.read_text()) if log.exists() else 0
    log.write_text("x" * (count + 1))
    time.sleep({seconds})
    if count == {fails}:
        raise RuntimeError("no luck")
    return np.array([a, b, a + b, a - 2.0, 5.0]) * (
        1.0 + 0.05 * np.random.default_rng(count).standard_normal(5)
    )
"""
STUDY = """
[parameters]
a = { prior = "normal", mean = 1.0, sd = 0.5 }
b = { prior = "normal", mean = 3.0, sd = 0.5 }
[simulator]
python = "noisy:simulate"
arguments = "names"
[loss]
kind = "mean-square"
[bound]
temperature = 0.1
[run]
budget = 20
known = "runs.csv"
"""


TABLE = "a,b,output_0,output_1,output_2,output_3,output_4\n1.0,3.0,1.04,2.9,4.1,-1.03,5.1\n"


def check(
    folder: Path, *options: str, seconds: float | str = 0.0, fails: int = -1, table: str = TABLE
) -> tuple[str, int]:
    """What a check says of a simulator with noise, and how many runs it makes."""
    (folder / "noisy.py").write_text(NOISY.format(seconds=seconds, fails=fails))
    (folder / "problem.toml").write_text(STUDY)
    (folder / "runs.csv").write_text(table)
    said = " ".join(call("run", folder / "problem.toml", "--check", *options).output.split())
    return said, len((folder / "calls.txt").read_text())


def test_a_noisy_simulator_is_no_other_one(tmp_path: Path) -> None:
    said, runs = check(tmp_path)
    assert "a known run again comes out as in runs.csv, line 2" in said
    assert runs == 4


def test_a_slow_simulator_is_run_once_unless_more_is_asked_for(tmp_path: Path) -> None:
    """Then a second run at the known point tells its noise."""
    said, runs = check(tmp_path, seconds=1.05)
    assert "--repeat-known makes one of them again" in said
    assert runs == 1
    (tmp_path / "calls.txt").unlink()
    said, runs = check(tmp_path, "--repeat-known", seconds=1.05)
    assert "a known run again comes out as in runs.csv, line 2" in said
    assert runs == 3


def test_where_the_second_run_fails_the_noise_is_not_taken_for_another_simulator(
    tmp_path: Path,
) -> None:
    said, _ = check(tmp_path, fails=1)  # the run that the check repeats
    assert "a known run again comes out as in runs.csv, line 2" in said
    (tmp_path / "calls.txt").unlink()
    said, runs = check(tmp_path, fails=1, seconds="1.05 * (count == 2)")  # slow at the known point
    assert "--repeat-known makes it once more, to tell if that is noise" in said
    assert runs == 3
    (tmp_path / "calls.txt").unlink()
    said, _ = check(tmp_path, "--repeat-known", seconds=1.05, fails=2)
    assert "runs.csv, line 2 comes out otherwise when made again, and then fails" in said
    assert "is the simulator another" not in said
