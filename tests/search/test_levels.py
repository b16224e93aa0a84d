"""A search with a coarse model beside the fine one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.exchange.table import table_of
from supac.search.coarse_runs import CoarseStage
from supac.search.level_batches import missed_share

PRIOR = supac.gaussian(np.zeros(3), np.eye(3))
BOUND = supac.Catoni(0.05)
TRUTH = np.array([0.5, -0.3, 0.6])
COST = 0.05


def epidemic(x: FloatArray, steps: int) -> FloatArray:
    """Susceptible and infected of an epidemic, by so many Euler steps between two outputs."""
    spread, recovery = 0.9 * np.exp(0.4 * x[0]), 0.3 * np.exp(0.4 * x[1])
    infected = 0.01 * np.exp(0.7 * x[2])
    s, i, rows = 1.0 - infected, infected, []
    for _ in range(21):
        rows.append([s, i])
        for _ in range(steps):
            new, h = spread * s * i, 0.5 / steps
            s, i = s - h * new, i + h * (new - recovery * i)
    return np.array(rows).ravel()


DATA = epidemic(TRUTH, 20) + 0.01 * np.random.default_rng(0).standard_normal(42)


def fine(x: FloatArray) -> FloatArray:
    return (epidemic(x, 20) - DATA) / 0.01


def euler(x: FloatArray) -> FloatArray:
    return (epidemic(x, 2) - DATA) / 0.01


def useless(x: FloatArray) -> FloatArray:
    return 20.0 * np.sin(100.0 * x.sum() + np.arange(42.0))


def failing(x: FloatArray) -> FloatArray:
    raise RuntimeError("no mesh")


def nan_nearby(x: FloatArray) -> FloatArray:
    return euler(x) if x[0] < 0.3 else np.full(42, np.nan)


def risk(
    coarse: Callable[[FloatArray], Any] | None, cost: float | None = COST, simulate: Any = fine
) -> supac.Composite:
    beside = None if coarse is None else supac.Coarse(coarse, cost)
    return supac.Composite(simulate, supac.MeanSquare(), coarse=beside)


def search(coarse: Callable[[FloatArray], Any] | None, **options: Any) -> supac.Result:
    options = {"budget": 20, "seed": 0, **options}
    return supac.minimize(risk(coarse), PRIOR, BOUND, **options)


@cache
def found(coarse: Callable[[FloatArray], Any] | None) -> supac.Result:
    """A search of this file that all tests read."""
    return search(coarse)


def same_runs(one: supac.Result, other: supac.Result) -> bool:
    """Whether two searches made the same runs of either level."""
    pairs = zip(one.record.runs, other.record.runs, strict=True)
    return all(
        a.id == b.id and a.level == b.level and np.array_equal(a.x, b.x) and a.purpose == b.purpose
        for a, b in pairs
    )


class TestASearchWithACoarseModel:
    @pytest.mark.slow
    def test_ends_where_the_search_without_one_does_and_is_there_sooner(self) -> None:
        plain, both = found(None), found(euler)
        nat = 0.05
        assert both.objective < plain.objective + 2.0 * nat

        def spent_until(result: supac.Result, near: float) -> float:
            history, record = result.history, result.record
            rounds = zip(record.rounds, history["predicted"], strict=True)
            spent = 0.0
            for each, predicted in rounds:
                coarse = sum(i in record.coarse_ids for i in each.ids)
                spent += len(each.ids) - coarse + COST * coarse
                if predicted < near:
                    return spent
            return np.inf

        best = min(plain.objective, both.objective)
        assert spent_until(both, best + 4.0 * nat) < spent_until(plain, best + 4.0 * nat)

    def test_counts_fine_runs_alone(self) -> None:
        record = found(euler).record
        assert record.coarse_runs
        assert all(run.level == 1 and run.purpose == "coarse" for run in record.coarse_runs)
        assert record.queries == sum(run.level == 0 for run in record.runs)
        assert (record.evaluations.level == 0).all()
        assert record.ending is not None
        fresh = set(record.ending.fresh)
        assert fresh
        assert not fresh & record.coarse_ids
        assert found(euler).best.id not in record.coarse_ids
        assert found(euler).ensemble.x.shape[0] == len(fresh)

    def test_spends_the_budget_in_fine_runs(self) -> None:
        use = found(euler).record.coarse_use
        assert use is not None
        assert use.spent <= 20.0 + 1e-9
        assert use.spent == use.fine + COST * use.runs
        assert f"{use.runs} coarse" in use.sentence
        assert 0 < use.settled <= use.runs
        assert use.saved == use.settled - use.before - COST * use.runs

    def test_has_a_column_of_levels_in_its_table(self) -> None:
        table = table_of(found(euler).record)
        assert set(table["level"]) == {0, 1}
        assert "level" not in table_of(found(None).record)

    def test_has_weights_of_fine_runs_in_its_table(self) -> None:
        table = table_of(found(euler).record)
        fine_ones = [level == 0 for level in table["level"]]
        assert [each is not None for each in table["drawn"]] == fine_ones
        weights = [w for w, here in zip(table["weight"], fine_ones, strict=True) if here and w]
        assert sum(weights) == pytest.approx(1.0)
        assert not any(w for w, here in zip(table["weight"], fine_ones, strict=True) if not here)

    def test_tells_how_long_all_runs_took(self) -> None:
        record = found(euler).record
        assert record.seconds == pytest.approx(sum(run.seconds for run in record.runs))
        mine = [run.seconds for run in record.runs if run.level == 0]
        assert record.seconds_a_run == pytest.approx(float(np.mean(mine)))

    @pytest.mark.slow
    def test_is_the_same_again(self) -> None:
        assert same_runs(found(euler), search(euler))

    @pytest.mark.slow
    def test_is_the_same_with_workers(self) -> None:
        other = search(euler, execution=supac.Execution(2))
        assert same_runs(found(euler), other)

    @pytest.mark.slow
    @pytest.mark.parametrize("coarse", [euler, useless])
    def test_is_the_same_after_it_was_stopped_in_any_round(
        self, coarse: Callable[[FloatArray], FloatArray], tmp_path: Path
    ) -> None:
        store, whole = tmp_path / "run.supac", found(coarse)
        rounds = 0

        def stop(_: supac.Iteration) -> bool:
            nonlocal rounds
            rounds += 1
            return True

        search(coarse, store=store, callback=stop)
        for _ in range(len(whole.record.rounds) - 2):
            supac.resume(store, risk(coarse), callback=stop)
        again = supac.resume(store, risk(coarse))
        assert rounds == len(whole.record.rounds) - 1
        assert same_runs(whole, again)
        assert again.objective == whole.objective
        assert np.array_equal(again.posterior.theta, whole.posterior.theta)

    @pytest.mark.parametrize("after", [6, 30])
    @pytest.mark.slow
    def test_is_the_same_after_a_kill_within_a_batch(self, after: int, tmp_path: Path) -> None:
        store, calls = tmp_path / "run.supac", 0

        def dies(x: FloatArray) -> FloatArray:
            nonlocal calls
            calls += 1
            if calls > after:
                raise KeyboardInterrupt
            return euler(x)

        with pytest.raises(KeyboardInterrupt):
            supac.minimize(risk(dies), PRIOR, BOUND, budget=20, seed=0, store=store)
        again = supac.resume(store, risk(euler))
        assert same_runs(found(euler), again)
        assert again.objective == found(euler).objective


class TestAUselessCoarseModel:
    @pytest.mark.parametrize("coarse", [useless, failing])
    def test_costs_a_few_coarse_runs_and_changes_no_fine_one(
        self, coarse: Callable[[FloatArray], FloatArray]
    ) -> None:
        plain, result = found(None), found(coarse)
        assert len(result.record.coarse_runs) == 4
        mine = [run.x for run in result.record.runs if run.purpose == "search"]
        theirs = [run.x for run in plain.record.runs if run.purpose == "search"]
        assert np.array_equal(mine, theirs[: len(mine)])
        assert any("coarse model was left" in each for each in result.advice)

    def test_that_costs_more_than_it_can_save_is_not_run(self) -> None:
        plain = found(None)
        beside = supac.Composite(fine, supac.MeanSquare(), coarse=supac.Coarse(euler, 0.2))
        result = supac.minimize(beside, PRIOR, BOUND, budget=20, seed=0)
        assert same_runs(plain, result)
        use = result.record.coarse_use
        assert use is not None
        assert (use.runs, use.useful, use.spent) == (0, False, len(result.record.made))
        assert any("costs 3.2 fine runs, and 3 parameters save fewer" in a for a in result.advice)

    def test_that_fails_is_no_failure_of_the_search(self) -> None:
        result = found(failing)
        assert result.failed == 0
        assert result.failures == ()
        use = result.record.coarse_use
        assert use is not None
        assert "4 of them failed (RuntimeError: no mesh)" in use.sentence
        assert any("coarse_use.failure" in each for each in result.advice)


@pytest.mark.slow
def test_failures_of_a_coarse_model_do_not_teach_where_fine_runs_fail() -> None:
    result = search(nan_nearby)
    assert sum(run.failed for run in result.record.coarse_runs) > 2
    assert result.failed == 0
    assert np.nanmax(result.history["wrong"]) == 0.0
    assert np.nanmax(result.history["failure_chance"]) < 1e-3  # as without any failure


def test_a_missed_share_is_that_of_the_differences() -> None:
    rng = np.random.default_rng(0)
    f = rng.standard_normal((6, 10))
    assert missed_share(f, f + 3.0) < 1e-25
    assert missed_share(f, 0.0 * f) == pytest.approx(1.0)
    assert missed_share(f, 0.5 * f) == pytest.approx(0.25)
    assert missed_share(f, None) == np.inf
    f[1:] = np.nan
    assert missed_share(f, f) == np.inf


@dataclass
class Slow:
    """A simulator that takes as long as it is told."""

    function: Callable[[FloatArray], FloatArray]
    seconds: float

    def __call__(self, x: FloatArray) -> FloatArray:
        import time  # noqa: PLC0415

        time.sleep(self.seconds)
        return self.function(x)


@pytest.mark.slow
def test_costs_are_measured_and_kept(tmp_path: Path) -> None:
    store = tmp_path / "run.supac"
    composite = supac.Composite(
        Slow(fine, 0.02), supac.MeanSquare(), coarse=supac.Coarse(Slow(euler, 0.004))
    )
    stopped = supac.minimize(
        composite, PRIOR, BOUND, budget=20, store=store, callback=lambda _: True
    )
    use = stopped.record.coarse_use
    assert use is not None
    assert 0.05 < use.cost < 0.8
    other = supac.Composite(fine, supac.MeanSquare(), coarse=supac.Coarse(Slow(euler, 0.01)))
    again = supac.resume(store, other)
    assert again.record.coarse_use is not None
    assert again.record.coarse_use.cost == use.cost


class TestWhatDoesNotWorkIsRefused:
    @pytest.mark.parametrize(
        ("options", "named"),
        [
            ({"execution": supac.Execution(2, mode="async")}, "async"),
            ({"proxy": lambda x: (x**2).sum(axis=1)}, "proxy="),
            ({"algorithm": supac.SuPAC.paper()}, "algorithm"),
        ],
    )
    def test_by_name(self, options: dict[str, Any], named: str) -> None:
        with pytest.raises(ValueError, match=f"coarse= does not work with .*{named}"):
            search(euler, **options)

    def test_with_many_parameters(self) -> None:
        prior = supac.gaussian(np.zeros(50), np.eye(50))
        with pytest.raises(ValueError, match="more than 40 parameters"):
            supac.minimize(risk(euler), prior, BOUND, budget=100)

    def test_with_observation_parameters(self) -> None:
        with pytest.raises(ValueError, match="observation="):
            supac.Composite(
                fine, lambda r, z: r.mean(axis=1), observation=1, coarse=supac.Coarse(euler)
            )

    def test_with_jacobians(self) -> None:
        with pytest.raises(ValueError, match="jacobian="):
            supac.Composite(
                fine, supac.MeanSquare(), jacobian=lambda x: x, coarse=supac.Coarse(euler)
            )

    @pytest.mark.parametrize("cost", [0.0, 1.0, -1.0, "a tenth", True, np.nan])
    def test_costs(self, cost: Any) -> None:
        with pytest.raises((TypeError, ValueError), match="cost"):
            supac.Coarse(euler, cost)

    def test_several_levels_or_none(self) -> None:
        several: Any = (supac.Coarse(euler),) * 2
        none: Any = euler
        with pytest.raises(TypeError, match="one Coarse"):
            supac.Composite(fine, supac.MeanSquare(), coarse=several)
        with pytest.raises(TypeError, match=r"Coarse\(simulate"):
            supac.Composite(fine, supac.MeanSquare(), coarse=none)

    def test_a_store_that_was_begun_otherwise(self, tmp_path: Path) -> None:
        with_one, without = tmp_path / "a.supac", tmp_path / "b.supac"
        search(euler, store=with_one, callback=lambda _: True)
        search(None, store=without, callback=lambda _: True)
        with pytest.raises(ValueError, match="pass it again"):
            supac.resume(with_one, risk(None))
        with pytest.raises(ValueError, match="began without a coarse model"):
            supac.resume(without, risk(euler))


@pytest.mark.slow
def test_stages_follow_each_other(tmp_path: Path) -> None:
    store, stages = tmp_path / "run.supac", []

    def look(_: supac.Iteration) -> None:
        stages.append(supac.read_store(store))

    search(euler, store=store, callback=look)
    state: Any = supac.read_store(store).state
    assert CoarseStage(state["coarse"]["stage"]) in (CoarseStage.BESIDE, CoarseStage.BETWEEN)
    assert len(stages) == len(supac.read_store(store).rounds)
    assert supac.read_store(store).coarse_use == found(euler).record.coarse_use
