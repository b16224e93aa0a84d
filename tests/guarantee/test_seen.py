"""Data that earlier results have seen: abuses are refused with the reason, repetitions are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.guarantee.dependence import warning_of_duplicates
from supac.guarantee.seen import SeenData
from supac.problem import ColumnLoss
from supac.problem.observation import ObservationLoss

DELTA, N = 0.05, 24
TIMES = np.arange(1.0, N + 1.0)
VALUES = 0.4 + 0.1 * np.random.default_rng(3).standard_normal(N)
PRIOR = supac.gaussian(np.zeros(1), np.eye(1))
BOUND = supac.MaurerLangfordSeeger(10, DELTA)


def observed(rows: Any = slice(None), **options: Any) -> supac.Observations:
    """Return the data of some rows."""
    given = {"noise": np.full(N, 0.1), "blocks": None, "values": VALUES} | options
    blocks = given["blocks"]
    return supac.Observations(
        ("y",), given["values"][rows], given["noise"][rows], times=TIMES[rows],
        blocks=None if blocks is None else blocks[rows],
    )  # fmt: skip


def risk_of(data: supac.Observations, test: supac.Observations | None = None) -> supac.Composite:
    """Return a risk whose simulator has as many outputs as the data."""
    many = data.rows
    return supac.Composite(lambda x: np.repeat(x[:1], many), supac.Welsch(), data, test)


BLOCKS = np.repeat(np.arange(12.0), 2)
MIDDLE = np.abs(VALUES - 0.4) < 0.12  # without the worst rows
NOISE = np.where(MIDDLE, 0.1, 0.5)
RISK = risk_of(observed())


@pytest.fixture(scope="module")
def result() -> supac.Result:
    return supac.minimize(RISK, PRIOR, BOUND, budget=30)


ABUSES = {
    "rows removed": (observed(MIDDLE), "were removed or changed"),
    "rows removed, the others rounded": (
        observed(MIDDLE, values=np.round(VALUES, 6)), "were removed or changed",
    ),
    "noise raised": (observed(noise=NOISE), "noise of measurements was changed"),
    "noise raised, data shifted": (
        observed(noise=NOISE, values=VALUES + 1e-12), "noise of measurements was changed",
    ),
    "a value changed": (
        observed(values=np.where(TIMES == 3, 0.0, VALUES)), "1 of the 24 measurements were removed",
    ),
    "blocks given": (observed(blocks=BLOCKS), "blocks of measurements were changed"),
}  # fmt: skip


@pytest.mark.parametrize("name", ABUSES)
def test_data_changed_after_a_result_are_refused(result: supac.Result, name: str) -> None:
    data, reason = ABUSES[name]
    risk = risk_of(data)
    with pytest.raises(supac.CertificateError, match=reason):
        result.certify(risk, draws=5, subject="ensemble", n=10)
    if data.rows == N:  # runs know no other places
        assert reason in supac.reoptimize(result, risk, budget=20).uncertified
        again = supac.minimize(risk, PRIOR, BOUND, budget=40, known=result)
        assert reason in again.uncertified


def test_removed_rows_are_refused_with_known_runs(result: supac.Result) -> None:
    again = supac.minimize(risk_of(observed(MIDDLE)), PRIOR, BOUND, budget=40, known=result)
    assert "were removed or changed" in again.uncertified


def test_blocks_taken_away_are_refused() -> None:
    first = supac.minimize(risk_of(observed(blocks=BLOCKS)), PRIOR, supac.Catoni(0.1), budget=30)
    again = supac.reoptimize(first, RISK, budget=20)
    assert "blocks of measurements were changed" in again.uncertified


def test_other_labels_of_the_same_blocks_are_no_change() -> None:
    then, now = (SeenData(observed(blocks=each)) for each in (BLOCKS, 11.0 - BLOCKS))
    assert not then.changes_until(now).data


def test_more_independent_data_than_before_are_refused(result: supac.Result) -> None:
    again = supac.reoptimize(result, RISK, bound=supac.MaurerLangfordSeeger(N, DELTA), budget=20)
    assert "number of independent data was raised" in again.uncertified


def test_held_out_rows_that_a_search_has_seen_certify_nothing(result: supac.Result) -> None:
    train, test = observed().split(np.arange(N) % 2 == 1)
    again = supac.reoptimize(result, risk_of(train, test), budget=20)
    assert again.held_out is None
    assert "seen by an earlier search" in again.uncertified
    # Also in the search after that, whose origin has not trained on them.
    third = supac.reoptimize(again, risk_of(train, test), budget=20)
    assert third.held_out is None


def test_held_out_rows_are_not_learnt_from_afterwards() -> None:
    train, test = observed().split(np.arange(N) % 2 == 1)
    half = supac.MaurerLangfordSeeger(12, DELTA)
    first = supac.minimize(risk_of(train, test), PRIOR, half, budget=30)
    assert first.held_out is not None
    again = supac.reoptimize(first, RISK, budget=20)
    assert "moved between training and held-out" in again.uncertified
    same = supac.reoptimize(first, risk_of(train, test), budget=20)
    assert same.held_out is not None


@pytest.mark.parametrize("shift", [0.0, 1e-12])
def test_a_prior_from_the_same_data_is_noticed_however_they_are_rounded(
    result: supac.Result, shift: float
) -> None:
    risk = risk_of(observed(values=VALUES + shift))
    again = supac.minimize(risk, result.posterior, BOUND, budget=40, known=result)
    assert "prior was learnt on the same data" in again.uncertified


def test_honest_repetitions_are_not_refused(tmp_path: Path) -> None:
    """The same command again, a larger budget, and more data appended."""
    store = tmp_path / "run.supac"
    first = supac.minimize(RISK, PRIOR, BOUND, budget=30, store=store)
    assert supac.minimize(RISK, PRIOR, BOUND, budget=30, store=store).certificate is not None
    more = supac.resume(store, RISK, budget=40)
    again = supac.minimize(RISK, PRIOR, BOUND, budget=40, known=store)
    assert first.certificate is not None
    assert more.certificate is not None
    assert again.certificate is not None
    assert again.certificate.earlier == 2
    assert again.record.provenance.seen == (SeenData(observed()),)


def test_a_search_on_more_data_is_certified() -> None:
    """Rows that were simulated, but not measured yet, are filled in: by every way to go on."""
    values = np.where(TIMES > 16, np.nan, VALUES)
    few = supac.MaurerLangfordSeeger(16, DELTA)
    every = supac.MaurerLangfordSeeger(N, DELTA)
    first = supac.minimize(risk_of(observed(values=values)), PRIOR, few, budget=30)
    assert first.certificate is not None
    again = supac.reoptimize(first, RISK, bound=every, budget=20)
    known = supac.minimize(RISK, PRIOR, every, budget=40, known=first)
    for each, earlier in ((again.certificate, 1), (known.certificate, 2)):
        assert each is not None
        assert (each.n, each.earlier) == (N, earlier)
    third = first.certify(RISK, bound=every, draws=5, subject="ensemble")
    assert (third.n, third.earlier) == (N, 3)


def test_appended_data_are_no_change() -> None:
    first = SeenData(observed(slice(0, 16)))
    changes = first.changes_until(SeenData(observed()))
    assert changes.shared
    assert not changes.data
    assert not changes.test
    assert SeenData(observed()).changes_until(first).data


def test_other_data_begin_anew(result: supac.Result) -> None:
    """A prior may be learnt on other measurements, of the same design too."""
    other = risk_of(observed(values=VALUES[::-1].copy()))
    again = supac.reoptimize(result, other, prior=result.posterior, budget=20)
    assert again.certificate is not None
    assert again.certificate.earlier == 0
    back = supac.reoptimize(again, RISK, prior=result.posterior, budget=20)
    assert "prior was learnt on the same data" in back.uncertified


def test_measurements_without_times_are_found_by_their_values() -> None:
    plain = supac.Observations(("y",), VALUES, np.full(N, 0.1))
    fewer = supac.Observations(("y",), VALUES[MIDDLE], np.full(MIDDLE.sum(), 0.1))
    assert "were removed" in SeenData(plain).changes_until(SeenData(fewer)).data
    other = supac.Observations(("y",), VALUES + 0.0123, np.full(N, 0.1))
    assert not SeenData(plain).changes_until(SeenData(other)).shared


def test_what_was_seen_comes_back_from_a_file(tmp_path: Path, result: supac.Result) -> None:
    seen = result.record.next_provenance(PRIOR, BOUND, RISK)
    assert supac.Provenance.from_spec(seen.to_spec()) == seen
    again = supac.reoptimize(result, RISK, budget=20, store=tmp_path / "again.supac")
    kept = supac.read_store(tmp_path / "again.supac").provenance
    assert kept.seen == again.record.provenance.seen == (SeenData(observed()),)


@pytest.mark.parametrize("change", [1e-12, "less one row"])
def test_tasks_that_share_rows_with_a_new_one_have_taught_its_prior(change: Any) -> None:
    less = observed(slice(1, None)) if change == "less one row" else observed(values=VALUES + 1e-12)
    tasks = [supac.Task(risk_of(each), BOUND, name=f"task {i}")
             for i, each in enumerate((observed(), less))]  # fmt: skip
    assert tasks[0].shares_data(tasks[1])
    assert tasks[1].shares_data(tasks[0])
    other = supac.Task(risk_of(observed(values=VALUES[::-1].copy())), BOUND, name="other")
    assert not other.shares_data(tasks[0])


def test_exact_copies_of_rows_are_said() -> None:
    twice = np.repeat(np.arange(6), 2)
    assert "6 rows of data are copies" in warning_of_duplicates(observed(twice))[0]
    assert not warning_of_duplicates(observed())
    assert not warning_of_duplicates(replace(observed(twice), blocks=TIMES[twice]))


def test_exact_copies_are_said_by_the_certificate() -> None:
    twice = risk_of(observed(np.repeat(np.arange(6), 2)))
    made = supac.minimize(twice, PRIOR, BOUND, budget=30).certificate
    assert made is not None
    assert any("6 rows of data are copies" in each for each in made.warnings)


@pytest.mark.parametrize("is_parameter", [True, False])
def test_a_limit_is_in_units_unless_the_noise_is_a_parameter(is_parameter: bool) -> None:
    none = np.full(N, -1)
    level = np.zeros(N, int) if is_parameter else none
    own = ColumnLoss(supac.CappedSquare(), none, none, level, VALUES, np.full(N, 0.1))
    risk = supac.Composite(
        lambda x: np.append(np.repeat(x[0], N), x[1]),
        ObservationLoss(own, 1),
        observed(),
        observation=1,
    )
    prior = supac.Parameters(
        {"level": supac.marginals.Normal(0.0, 1.0), "z": supac.marginals.LogNormal(0.1, 0.5)}
    )
    made = supac.minimize(risk, prior, BOUND, budget=30).certificate
    assert made is not None
    assert bool(made.in_units) is not is_parameter
    told = any("noise of a column is a parameter" in each for each in made.not_guaranteed)
    assert told is is_parameter


def fresh(result: supac.Result) -> FloatArray:
    """Return the normals behind the validation of a Gaussian posterior."""
    made = result.record.made
    x = np.array([run.x for run in made if run.purpose == "validation"])
    return np.round((x - result.posterior.mean) / np.sqrt(result.posterior.covariance[0, 0]), 9)


def test_a_search_that_begins_from_runs_never_repeats_their_normals(tmp_path: Path) -> None:
    first = supac.minimize(RISK, PRIOR, BOUND, budget=30)
    again = supac.reoptimize(first, RISK, budget=30, seed=0)
    known = supac.minimize(RISK, PRIOR, BOUND, budget=30, known=first, seed=0)
    every = [set(fresh(each).ravel().tolist()) for each in (first, again, known)]
    assert all(len(each) > 4 for each in every)
    assert not every[0] & every[1]
    assert not every[0] & every[2]
    # And a resume goes on with the same ones.
    store = tmp_path / "run.supac"
    supac.minimize(
        RISK, PRIOR, BOUND, budget=30, known=first, store=store, callback=lambda each: True
    )
    resumed = supac.resume(store, RISK)
    assert resumed.posterior == known.posterior
    np.testing.assert_array_equal(fresh(resumed), fresh(known))
