"""Known runs of both levels, of tables, stores and results."""

from __future__ import annotations

from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from supac import marginals
from supac.arrays import FloatArray
from supac.exchange.known import KnownRuns
from supac.exchange.other_runs import known_runs
from supac.problem import Role
from supac.report.live import make_live_page

TIMES = np.linspace(0.2, 3.0, 12)
PARAMETERS = supac.Parameters(
    {
        "k": marginals.LogNormal(1.0, 0.5),
        "b": marginals.Normal(0.0, 1.0),
        "c": marginals.Normal(0.0, 1.0),
    }
)
BOUND = supac.Catoni(2.0 / 12)
COST = 0.05


def decay(x: FloatArray, steps: int) -> FloatArray:
    """A decay with an offset and a trend, by so many Euler steps a unit of time."""
    return np.asarray((1.0 - x[0] / steps) ** (steps * TIMES) + x[1] + x[2] * TIMES)


def fine(x: FloatArray) -> FloatArray:
    return decay(x, 1000)


def euler(x: FloatArray) -> FloatArray:
    return decay(x, 20)


def backwards(x: FloatArray) -> FloatArray:
    return -3.0 * fine(x)


MEASURED = fine(np.array([0.8, 0.3, -0.2])) + 0.02 * np.random.default_rng(0).standard_normal(12)
DATA = supac.Observations(("y",), MEASURED, np.full(12, 0.02), times=TIMES)


def risk(coarse: Any = euler, calls: list[str] | None = None) -> supac.Composite:
    made = [] if calls is None else calls

    def counted(x: FloatArray) -> FloatArray:
        made.append("fine")
        return fine(x)

    def counted_coarse(x: FloatArray) -> Any:
        made.append("coarse")
        return coarse(x)

    beside = None if coarse is None else supac.Coarse(counted_coarse, COST)
    return supac.Composite(counted, supac.MeanSquare(), DATA, coarse=beside)


def search(composite: supac.Composite, **options: Any) -> supac.Result:
    options = {"budget": 16, "validation": 0, "seed": 0, **options}
    return supac.minimize(composite, PARAMETERS, BOUND, **options)


@cache
def first() -> supac.Result:
    """A search with a coarse model, whose runs the others know."""
    return search(risk())


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Its runs, as `supac export` writes them."""
    store, path = tmp_path / "first.supac", tmp_path / "runs.csv"
    search(risk(), store=store)
    supac.export(store, path)
    return path


def part(known: KnownRuns, which: str) -> KnownRuns:
    """Runs of both levels, or of one."""
    levels = np.array(known.levels)
    return known.select({"both": levels >= 0, "coarse": levels == 1, "fine": levels == 0}[which])


def levels(known: KnownRuns | None) -> tuple[int, int]:
    """Numbers of fine and of coarse runs."""
    assert known is not None
    coarse = sum(known.levels)
    return len(known) - coarse, coarse


class TestTables:
    def test_of_an_export_keep_the_level_of_each_run(self, table: Path) -> None:
        record = first().record
        there = len(record.made), len(record.coarse_runs)
        assert levels(known_runs(str(table), PARAMETERS, risk())) == there
        assert levels(known_runs((table, table), PARAMETERS, risk())) == there
        assert levels(known_runs(first(), PARAMETERS, risk())) == there

    def test_without_a_coarse_model_only_fine_runs_are_taken(self, table: Path) -> None:
        fine_ones = len(first().record.made)
        for given in (str(table), (table, table), first()):
            known = known_runs(given, PARAMETERS, risk(None))
            assert levels(known) == (fine_ones, 0)
            assert known is not None
            assert known.outputs is not None
            np.testing.assert_allclose(known.outputs, [fine(x) for x in known.x])

    def test_of_two_files_join_points_outputs_and_levels(self, tmp_path: Path) -> None:
        points, outputs = tmp_path / "x.csv", tmp_path / "y.csv"
        points.write_text("name,k,b,c\nr1,1,0,0\nr2,2,0,0\nr3,1,1,0\n")
        cells = [",".join(map(str, row)) for row in np.arange(36.0).reshape(3, 12)]
        names = ",".join(f"output_{i}" for i in range(12))
        rows = f"r3,1,{cells[0]}\nr1,0,{cells[1]}\nr2,1,{cells[2]}\n"
        outputs.write_text(f"name,level,{names}\n{rows}")
        known = known_runs((points, outputs), PARAMETERS, risk())
        assert known is not None
        assert known.levels == (0, 1, 1)
        assert known.outputs is not None
        assert known.outputs[:, 0].tolist() == [12.0, 24.0, 0.0]

    def test_errors_name_the_line(self, table: Path) -> None:
        text = table.read_text().splitlines()
        place = text[0].split(",").index("level")
        cells = text[2].split(",")
        cells[place] = "2"
        table.write_text("\n".join([*text[:2], ",".join(cells), *text[3:]]) + "\n")
        for given in (str(table), (table, table)):
            with pytest.raises(ValueError, match=r"runs.csv, line 3: level must be 0 .* not 2"):
                known_runs(given, PARAMETERS, risk())


@pytest.mark.slow
class TestASearchThatKnowsRuns:
    @pytest.mark.parametrize("which", ["both", "coarse", "fine"])
    def test_of_either_level_makes_fewer(self, which: str) -> None:
        known = known_runs(first(), PARAMETERS, risk())
        assert known is not None
        known = part(known, which)
        calls: list[str] = []
        result = search(risk(calls=calls), known=known)
        record, use = result.record, result.record.coarse_use
        assert use is not None
        assert (calls.count("fine"), calls.count("coarse")) == (use.fine, use.runs)
        assert use.spent <= 16.0 + 1e-9
        assert record.known == len(known) - sum(known.levels)
        assert use.known == sum(known.levels) == len(record.coarse_runs) - use.runs
        before = first().record.coarse_use
        assert before is not None
        if which != "fine":
            assert use.runs < before.runs
        if which == "both":  # its pairs are known, too
            assert not any(run.role is Role.OPENING for run in record.runs)
        assert result.objective < first().objective + 0.05

    @pytest.mark.parametrize(
        ("which", "coarse"),
        [("both", euler), ("fine", euler), ("both", backwards), ("coarse", backwards)],
    )
    def test_is_the_same_after_it_was_stopped_in_any_round(
        self, which: str, coarse: Any, tmp_path: Path
    ) -> None:
        store, known = tmp_path / "run.supac", known_runs(first(), PARAMETERS, risk())
        assert known is not None
        levels = np.array(known.levels)
        if coarse is backwards and which != "fine":  # its own runs
            assert known.outputs is not None
            outputs = np.where(levels[:, None] == 1, -3.0 * known.outputs, known.outputs)
            known = KnownRuns.of_arrays(known.x, outputs, levels=known.levels)
            levels = np.array(known.levels)
        some = known.select(
            {"both": levels >= 0, "coarse": levels == 1, "fine": levels == 0}[which]
        )
        whole = search(risk(coarse), known=some)
        search(risk(coarse), known=some, store=store, callback=lambda _: True)
        for _ in range(len(whole.record.rounds) + 1):
            again = supac.resume(store, risk(coarse), callback=lambda _: True)
        pairs = zip(whole.record.runs, again.record.runs, strict=True)
        assert all(
            a.id == b.id and np.array_equal(a.x, b.x) and a.level == b.level for a, b in pairs
        )
        assert np.array_equal(again.posterior.theta, whole.posterior.theta)
        use, other = whole.record.coarse_use, again.record.coarse_use
        assert use == other
        assert use is not None
        assert use.useful == (coarse is euler)


@pytest.mark.parametrize("runs", [False, True])
def test_a_result_of_a_file_keeps_what_the_coarse_model_cost_and_saved(runs: bool) -> None:
    again = supac.Result.from_json(first().to_json(runs=runs))
    assert again.record.coarse_use == first().record.coarse_use
    assert again.record.spent == first().record.spent < 16.0 + 1e-9


def test_the_budget_is_told_in_fine_runs_worth() -> None:
    record, use = first().record, first().record.coarse_use
    assert use is not None
    assert record.spent_words == f"{use.spent:.3g} of 16 fine runs' worth"
    assert record.spent_words in repr(record)
    page = make_live_page(record)
    name, value = escape("fine runs' worth"), f"{use.spent:.3g} of 16"
    assert f"<dt>{name}</dt><dd>{value}</dd>" in page
