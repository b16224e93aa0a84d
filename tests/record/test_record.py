"""What a store tells of its run."""

from __future__ import annotations

import io
import re
import sqlite3
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import supac
from supac import marginals
from supac.arrays import FloatArray
from supac.calibration.diagnostics import notes_on_failures
from supac.calibration.search import Search
from supac.codec import Named
from supac.record.parameter_change import parameter_changes, uninformed
from supac.record.run import Run, by_kind, quoted
from supac.record.store.file import StoreDamagedError
from supac.report.tables import summary

HOUSE = supac.Parameters(
    {
        "rate": marginals.LogNormal(1.0, 0.5, unit="1/h"),
        "share": marginals.Uniform(0.0, 1.0),
    }
)
BOUND = supac.Catoni(0.05)


def risk(x: FloatArray) -> float:
    if x[1] > 0.97:
        raise RuntimeError("did not converge")
    return float(np.tanh((np.log(x[0]) - 0.3) ** 2 + (x[1] - 0.4) ** 2))


def test_it_tells_what_was_returned(tmp_path: Path) -> None:
    store = tmp_path / "run.supac"
    options = {"budget": 60, "execution": supac.Execution(on_failure="penalise"), "seed": 3}
    result = Search(risk, HOUSE, BOUND, store=store, description="why", **options).run()  # type: ignore[arg-type]
    run = supac.read_store(store)
    assert run.posterior == result.posterior
    assert run.stop_reason is result.stop_reason
    assert run.notes == result.notes
    for name in ("objective", "mean_risk", "mean_risk_error", "kl", "validated"):
        assert getattr(run.estimate, name) == getattr(result, name)
    for name, column in result.history.items():
        np.testing.assert_array_equal(run.history[name], column)
    assert len(run.made) == len(run.runs) == result.queries
    assert run.budget == 60
    assert len(run.failures) == len(result.failures) > 0
    (status, count, message), *others = run.failures_by_kind
    assert (status, count) == (supac.Status.RAISED, len(run.failures))
    assert "did not converge" in message
    assert not others
    assert run.bound == BOUND
    assert run.prior == HOUSE.prior
    assert run.description == "why"
    assert not run.running
    np.testing.assert_array_equal(run.sample(5, 0), result.sample(5, 0))


def test_failures_are_grouped_whatever_their_numbers() -> None:
    def failed(i: int, status: supac.Status, message: str) -> Run:
        return Run(i, np.zeros(1), status, np.nan, message=message)

    raised, timed_out = supac.Status.RAISED, supac.Status.TIMED_OUT
    runs = [
        failed(0, timed_out, "after 60 s"),
        *(failed(i, raised, f"k = {(-1) ** i * i / 7:g}: no steady state") for i in range(1, 9)),
        *(
            failed(i, raised, f"exit code 1 (in /tmp/x{'ab' * i}): no licence")
            for i in range(9, 14)
        ),
        failed(14, raised, "step size nan"),
        failed(15, raised, "step size -1e-300"),
        failed(16, timed_out, "after 61.5 s"),
        failed(17, raised, "k1 must be positive"),
        failed(18, raised, "k2 must be positive"),
        failed(19, raised, "<model at 0x7f3a> ended"),
        failed(20, raised, "<model at 0x10c2> ended"),
    ]
    kinds = [[run.id for run in kind] for kind in by_kind(runs)]
    assert kinds == [[*range(1, 9)], [*range(9, 14)], [0, 16], [14, 15], [19, 20], [17], [18]]


def test_every_place_tells_the_same_kinds(tmp_path: Path) -> None:
    """The note of the result, the terminal, the JSON and the report."""

    def picky(x: FloatArray) -> float:
        if x[0] > 1.2:
            raise RuntimeError(f"{x[0]} is too much")
        return float(np.tanh(x[1] ** 2))

    store = tmp_path / "run.supac"
    result = supac.minimize(
        picky,
        HOUSE,
        BOUND,
        budget=40,
        execution=supac.Execution(on_failure="penalise"),
        store=store,
    )
    run, count = supac.read_store(store), len(result.failures)
    assert count > 1
    assert any(f"{count} runs failed, all such as: " in note for note in result.notes)
    assert [(status, n) for status, n, _ in run.failures_by_kind] == [(supac.Status.RAISED, count)]
    assert [each["count"] for each in run.to_dict()["failures"]] == [count]
    (line,) = failed_lines(run)
    assert line.startswith(f"{count} raised: such as RuntimeError: ")
    page = supac.write_report(run, tmp_path / "report.html").read_text()
    rows = page.split("Failures by kind</caption>")[1].split("</table>")[0].count("<tr>")
    assert rows == 2  # its head, and one kind


def test_the_terminal_shows_the_commonest_failures(tmp_path: Path) -> None:
    store = tmp_path / "run.supac"
    supac.minimize(lambda x: 0.0, HOUSE, BOUND, budget=40, store=store)
    run = supac.read_store(store)
    bad = [
        replace(run.runs[0], status=supac.Status.RAISED, message=word * 3)
        for i, word in enumerate("abcdefg")
        for _ in range(8 - i)
    ]
    shown = supac.Record(
        run.settings, run.family, runs=[replace(each, id=i) for i, each in enumerate(bad)]
    )
    assert failed_lines(shown) == [
        "8 raised: aaa", "7 raised: bbb", "6 raised: ccc", "5 raised: ddd", "4 raised: eee",
        "5 in 2 other ways",
    ]  # fmt: skip


def test_a_message_of_all_is_told_apart_from_an_example() -> None:
    failed = Run(0, np.zeros(1), supac.Status.RAISED, np.nan, None, message="diverged at E1=96.1")
    other = replace(failed, id=1, message="diverged at E1=80.2")
    (note,) = notes_on_failures([failed, replace(failed, id=1)], left_out=False)
    assert note == "2 runs failed, all with: diverged at E1=96.1"
    (note,) = notes_on_failures([failed, other], left_out=False)
    assert note == "2 runs failed, all such as: diverged at E1=96.1"
    assert quoted([failed, other]) == "such as diverged at E1=96.1"


def failed_lines(run: supac.Record) -> list[str]:
    """What `supac show` says of failures."""
    console = Console(width=100, file=io.StringIO(), record=True)
    console.print(summary(run, "a run"))
    return [line.strip() for line in re.findall(r"^failed (.*)$", console.export_text(), re.M)]


def test_a_learnt_prior_is_summarised_as_it_is() -> None:
    house = HOUSE.with_prior(supac.gaussian([0.5, -1.0], np.diag([0.25, 4.0])))
    for row in parameter_changes(house.prior, house.prior, house):
        assert row.prior == row.posterior
        assert row.width == 1.0


def test_it_looks_on_while_the_run_is_made(tmp_path: Path) -> None:
    store, seen = tmp_path / "run.supac", []

    def look(iteration: supac.Iteration) -> None:
        run = supac.read_store(store)
        assert run.running
        assert run.stop_reason is None
        assert run.posterior == iteration.next_posterior
        assert run.estimate.objective == iteration.objective
        assert run.estimate.mean_risk == iteration.mean_risk
        assert run.estimate.kl == iteration.kl
        seen.append((len(run.made), iteration.queries))

    supac.minimize(
        risk,
        HOUSE,
        BOUND,
        budget=60,
        execution=supac.Execution(on_failure="penalise"),
        store=store,
        callback=look,
    )
    assert [made for made, _ in seen] == [queries for _, queries in seen]
    assert [made for made, _ in seen][:2] == [20, 23]


def test_a_description_outlives_a_resume_without_one(tmp_path: Path) -> None:
    store = tmp_path / "run.supac"
    settings = {"budget": 40, "execution": supac.Execution(on_failure="drop"), "store": store}
    Search(risk, HOUSE, BOUND, description="mine", **settings).run()  # type: ignore[arg-type]
    supac.resume(store, risk, budget=50)
    assert supac.read_store(store).description == "mine"
    with pytest.warns(DeprecationWarning, match="description"):
        supac.resume(store, risk, budget=60, description="yours")
    assert supac.read_store(store).description == "yours"


def test_runs_of_elsewhere_do_not_count(tmp_path: Path) -> None:
    store = tmp_path / "run.supac"
    known = supac.KnownRuns.of(
        np.array([[1.0, 0.5]]),
        supac.Evaluations.none(2).append(np.zeros((1, 2)), np.array([0.2]), HOUSE.prior),
    )
    supac.minimize(
        risk,
        HOUSE,
        BOUND,
        budget=30,
        execution=supac.Execution(on_failure="drop"),
        store=store,
        known=known,
    )
    run = supac.read_store(store)
    assert (len(run.runs), len(run.made)) == (31, 30)
    assert run.history["queries"][0] == 0.0


@dataclass(frozen=True)
class Mine(supac.Bound):
    ceiling: float = 1.0

    def __call__(self, mean_risk: float, kl: float) -> float:
        return mean_risk + 0.1 * float(np.sqrt(max(kl, 0.0)))


def test_of_what_it_does_not_know_it_has_the_name(tmp_path: Path) -> None:
    store, plain = tmp_path / "run.supac", supac.gaussian([0.0], np.eye(1))
    supac.minimize(lambda x: float(np.tanh(x[0] ** 2)), plain, Mine(), budget=30, store=store)
    run = supac.read_store(store)
    assert run.bound is None
    assert run.settings.bound == Named("Mine(ceiling=1.0)")
    assert run.parameters is None
    assert run.parameter_changes == []
    assert run.sample(3, 0).shape == (3, 1)
    assert run.to_dict()["bound"] == "Mine(ceiling=1.0)"


@pytest.mark.parametrize("key", ["end", "description"])
def test_what_was_changed_is_noticed(key: str, tmp_path: Path) -> None:
    store = tmp_path / "run.supac"
    drop = supac.Execution(on_failure="drop")
    Search(risk, HOUSE, BOUND, 30, execution=drop, store=store, description="words").run()
    with sqlite3.connect(store) as db:
        db.execute("UPDATE meta SET value = value || ' ' WHERE key = ?", (key,))
    db.close()
    with pytest.raises(StoreDamagedError, match=f"its {key}"):
        supac.read_store(store)


def test_quantiles_are_exact() -> None:
    rng = np.random.default_rng(0)
    posterior = supac.gaussian([0.4, -0.3], [[0.3, 0.1], [0.1, 0.2]])
    draws = HOUSE.sample(posterior, 200_000, rng)
    for row, column in zip(parameter_changes(HOUSE.prior, posterior, HOUSE), draws.T, strict=True):
        # A share of 5 % of 200,000 draws has a standard error of 0.05 %.
        for quantile, share in zip(row.posterior, (0.05, 0.5, 0.95), strict=True):
            assert abs((column < quantile).mean() - share) < 5e-3
    assert parameter_changes(HOUSE.prior, HOUSE.prior, HOUSE)[0].width == pytest.approx(1.0)


def test_quantiles_are_right_where_the_posterior_is_no_gaussian() -> None:
    parts = [supac.gaussian([-1.5, 0.0], [0.05, 0.05]), supac.gaussian([1.5, 0.5], [0.05, 0.05])]
    posterior = supac.mixture(parts, [0.7, 0.3])
    rows = parameter_changes(HOUSE.prior, posterior, HOUSE)
    assert [(row.name, row.unit) for row in rows] == [("rate", "1/h"), ("share", "")]
    shares = np.array([0.05, 0.5, 0.95])
    for row in rows:
        law = supac.Frozen(posterior, HOUSE).marginal(row.name)
        # From 20,000 draws; 4.5 standard errors.
        error = 4.5 * np.sqrt(shares * (1.0 - shares) / 20_000)
        assert (np.abs(law.cdf(row.posterior) - shares) < error).all()


def test_a_parameter_of_another_family_that_moved_is_informed() -> None:
    rows = parameter_changes(supac.gamma(4, 2), supac.gamma(100, 10), None)
    assert rows[0].shift == pytest.approx(8.0, rel=0.05)
    assert (rows[0].words, uninformed(rows)) == ("moved only", "")
