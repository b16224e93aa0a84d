"""`make bench-ablation`: its statistics, its switches, and that it goes on where it was."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, fields, is_dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from extras import needs
from supac.arrays import FloatArray
from supac.search.tuning import DEFAULT

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

needs("numba", "matplotlib")


@pytest.fixture
def ablation(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import outside.ablation  # noqa: PLC0415

    return outside.ablation


@pytest.fixture
def paired(ablation: Any) -> Any:
    import outside.paired  # noqa: PLC0415

    return outside.paired


def gaps(values: dict[tuple[str, int], list[float]]) -> dict[tuple[str, int, str], FloatArray]:
    return {(*pair, "v"): np.array(each) for pair, each in values.items()}


def test_a_change_is_of_the_logarithms_of_paired_searches(paired: Any) -> None:
    whole = gaps({("a", 0): [0.1, 0.02], ("a", 1): [0.4, 0.02], ("b", 0): [0.2, 1e-9]})
    without = gaps({("a", 0): [0.2, 0.02], ("a", 1): [0.4, 0.08], ("b", 0): [0.1, 2e-9]})
    without["b", 7, "v"] = np.array([9.0, 9.0])  # it has no partner
    without["b", 0, "w"] = np.array([9.0, 9.0])  # and another version is none
    change = paired.compare(whole, without)
    assert change.problems == ("a", "b")
    assert change.pairs == 3
    log = np.log(2.0)
    assert change.logs == pytest.approx(np.array([[log / 2, log], [-log, 0.0]]))
    assert change.errors[0] == pytest.approx([log / 2, log])  # two seeds: half their distance
    assert np.isnan(change.errors[1]).all()
    assert change.factor == pytest.approx(np.exp([-log / 4, log / 2]))
    assert change.signs(0) == (1, 1, 1.0)
    assert change.signs(1)[:2] == (1, 0)  # below 0.01 % all gaps are alike
    assert paired.extremes(whole, without, 0) == (("a", 0, "v"), ("b", 0, "v"))
    with pytest.raises(ValueError, match="make one"):
        paired.compare(whole, {})


@pytest.mark.parametrize(("worse", "better"), [(9, 1), (1, 9), (5, 5), (10, 0), (0, 0)])
def test_the_sign_test_is_the_binomial_one(paired: Any, worse: int, better: int) -> None:
    """The chance of so uneven a count or a more uneven one, with ties left out."""
    logs = np.array([[1.0]] * worse + [[-1.0]] * better + [[0.0]] * 3)
    change = paired.Change(tuple(map(str, range(len(logs)))), len(logs), logs, logs)
    counts = np.arange(worse + better + 1)
    as_uneven = np.abs(2 * counts - worse - better) >= abs(worse - better)
    chance = float(binom.pmf(counts, worse + better, 0.5)[as_uneven].sum())
    assert change.signs(0) == (worse, better, pytest.approx(chance))


def _fields(tuning: Any, path: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in fields(tuning):
        value = getattr(tuning, each.name)
        inner = is_dataclass(value)
        found |= _fields(value, f"{path}{each.name}.") if inner else {path + each.name: value}
    return found


def test_every_switch_of_the_tuning_has_a_row(ablation: Any) -> None:
    rules = ablation.rules
    switches = dict(rules.switches(DEFAULT))
    every = _fields(DEFAULT)
    names = {rules.short(path) for path in switches}
    assert len(names) == len(switches), "names are unique"
    assert {name for name, value in every.items() if value is True} <= switches.keys()
    elsewhere = {*rules.OF_MANY, *rules.OF_OBSERVED, *rules.OF_ORDER}
    assert rules.NUMBERS.keys() | {*rules.SUSPECTS, *rules.OF_RISK, *elsewhere} <= names
    assert {rule.name for rule in rules.rules()} == names - elsewhere
    for name, off in switches.items():
        assert every[name] != off, f"{name} is off by default"
        changed = _fields(rules.without(DEFAULT, name, off))
        assert {each for each in every if every[each] != changed[each]} == {name}


@dataclass(frozen=True)
class Inner:
    number: float = 2.0
    asked: bool = False
    known: bool = True
    limit: float | None = 3.0


@dataclass(frozen=True)
class Outer:
    count: int = 4
    inner: Inner = Inner()


def test_switches_are_found_by_the_types_of_fields(ablation: Any) -> None:
    found = dict(ablation.rules.switches(Outer()))
    assert found == {"inner.known": False, "inner.limit": None}
    assert ablation.rules.without(Outer(), "inner.limit", None).inner == Inner(limit=None)


def test_suspects_and_cheap_problems_come_first_and_nothing_is_made_twice(ablation: Any) -> None:
    def made(rule: str, problem: str, seconds: float) -> Any:
        return ablation.Search(rule, problem, 0, "v", [0.1], seconds)

    there = [made("all", "fhn", 3.0), made("all", "growth", 1.0)]
    names = ["screening.early", "probes.chooses", "batches.opening"]
    jobs = ablation.jobs(names, ["fhn", "growth"], range(2), there)
    assert jobs == [
        ("screening.early", "growth", 0),
        ("screening.early", "fhn", 0),
        ("all", "growth", 1),
        ("screening.early", "growth", 1),
        ("all", "fhn", 1),
        ("screening.early", "fhn", 1),
        *(("probes.chooses", name, seed) for seed in (0, 1) for name in ("growth", "fhn")),
    ]  # and no opening: these problems have too few parameters for it
    assert ablation.seconds_of("fhn", there) == 3.0


def test_the_program_goes_on_where_it_was_and_says_how_far_it_is(tmp_path: Path) -> None:
    script = BENCHMARKS / "outside" / "ablation.py"
    command = [sys.executable, str(script), "--folder", str(tmp_path), "--problems", "growth"]
    command += ["--only", "average.powers", "--version", "a"]

    def said(*options: str) -> str:
        made = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
        return made.stdout

    assert "2 searches are made, 0 are missing" in said("--seeds", "0:1")
    rows = (tmp_path / "ablation.jsonl").read_text()
    report = said("--seeds", "0:2", "--report")
    assert "2 searches are made, 2 are missing" in report
    assert "| average.powers | 1 |" in report
    again = said("--seeds", "0:1")
    assert "h left" not in again
    assert (tmp_path / "ablation.jsonl").read_text() == rows
    whole, without = map(json.loads, rows.splitlines())
    assert (whole["rule"], without["rule"]) == ("all", "average.powers")
    assert whole["gaps"] != without["gaps"]
    assert all(later < first * 1.001 for first, later in pairwise(whole["gaps"]))
    words = " ".join(said("--report", "--version", "b").split())
    assert "now 0 searches are made, 20 are missing; of earlier ones there are 2." in words
