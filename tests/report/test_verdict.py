"""The verdict: what speaks against a result, and how strongly."""

from __future__ import annotations

from copy import copy
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from supac import marginals
from supac.arrays import FloatArray
from supac.calibration.diagnostics import hardly_begun, notes_on_refusals, notes_on_the_way
from supac.problem.columns import ColumnLoss, Likelihood
from supac.problem.observation import ObservationLoss
from supac.problem_file import Observations, starter_files
from supac.record.run import Run, Status
from supac.report import Account, Level, account_of, assess
from supac.report.findings import how_well_it_fits
from supac.report.misfit import has_course
from supac.report.next_steps import next_steps
from supac.search.algorithm import NO_STEP, Info
from supac.search.remarks import EXTRAPOLATES, REJECTED, RIDGE
from supac.search.restart import SETTLED

BOUND = supac.MaurerLangfordSeeger(n=50, delta=0.05)
PARAMETERS = supac.Parameters({"k": marginals.LogNormal(1.0, 0.5), "b": marginals.Normal(0.0, 1.0)})


def risk(x: FloatArray) -> float:
    return float(np.tanh((np.log(x[0]) - 0.2) ** 2 + 0.1 * x[1] ** 2))


@pytest.fixture(scope="module")
def run() -> Account:
    """A run that nothing speaks against."""
    return account_of(supac.minimize(risk, PARAMETERS, BOUND, budget=60))


def changed(run: Account, **values: Any) -> Account:
    """The account with other values: its own, computed ones, or those of its record."""

    def given(*names: str) -> dict[str, Any]:
        return {name: values.pop(name) for name in names if name in values}

    record = copy(run.record)
    record.settings = replace(record.settings, **given("bound", "on_failure"))
    record.running = values.pop("running", False)
    ended = given("stop_reason", "notes")
    assert record.ending is not None
    unfinished = "stop_reason" in ended and ended["stop_reason"] is None
    record.ending = None if unfinished else replace(record.ending, **ended)
    other = replace(run, record=record, **given(*(each.name for each in fields(run))))
    vars(other).update(values)
    return other


def failures(count: int) -> tuple[Run, ...]:
    return tuple(Run(i, np.zeros(2), Status.RAISED, np.nan, message="no") for i in range(count))


def column(run: Account, **columns: float) -> dict[str, FloatArray]:
    """The history with another last value in some of its columns."""
    history = {name: values.copy() for name, values in run.history.items()}
    for name, value in columns.items():
        history[name][-1] = value
    return history


def weighted(run: Account, size: float) -> dict[str, FloatArray]:
    """The history of an estimator whose weights have no Pareto shape."""
    unknown = np.full_like(run.history["k_hat"], np.nan)
    return run.history | {"k_hat": unknown, "effective_size": np.full_like(unknown, size)}


def certificate(run: Account, value: float) -> supac.Certificate:
    told = supac.certify_draws(np.full(50, 0.1), run.kl, BOUND, n=50, delta=0.05)
    return replace(told, value=value)


def moved(run: Account, by: float) -> supac.Distribution:
    assert run.posterior is not None
    return supac.gaussian(np.array([by, 0.0]), np.diag([0.5, 0.5]))


def measured(**misfits: float) -> dict[str, Any]:
    """Three rows of these columns, one cell empty, and fresh runs so many noises off."""
    values = np.ones((len(misfits), 3))
    values[0, 1] = np.nan
    off = np.repeat(list(misfits.values()), 3)
    observations = Observations(tuple(misfits), values.ravel(), np.full(values.size, 0.1))
    return {"observations": observations, "fresh": np.tile(1.0 + 0.1 * off, (12, 1))}


LOOK, NEVER = Level.LOOK, Level.DO_NOT_TRUST
CASES: list[tuple[str, Any, Level, str]] = [
    ("unfinished", lambda r: {"stop_reason": None}, LOOK, "it was stopped"),
    ("running", lambda r: {"stop_reason": None, "running": True}, LOOK, "still running"),
    ("interrupted", lambda r: {"stop_reason": supac.StopReason.INTERRUPTED}, LOOK, "Ctrl-C"),
    ("gave up", lambda r: {"stop_reason": supac.StopReason.FAILURES}, NEVER, "max_failures"),
    ("no posterior", lambda r: {"posterior": None}, NEVER, "nothing has been learnt"),
    (
        "not checked, covered",
        lambda r: {"validated": 0, "history": column(r, k_hat=0.5)},
        LOOK,
        "optimistic",
    ),
    (
        "not checked, not covered",
        lambda r: {"validated": 0, "history": column(r, k_hat=0.9)},
        NEVER,
        "a guess of the model",
    ),
    (
        "not checked, few draws' worth",
        lambda r: {"validated": 0, "history": weighted(r, 3.0)},
        NEVER,
        "worth 3 of its draws, and the surrogate has 6 unknowns",
    ),
    (
        "not checked, many draws' worth",
        lambda r: {"validated": 0, "history": weighted(r, 300.0)},
        LOOK,
        "worth 300 of its draws",
    ),
    (
        "not checked, coverage unknown",
        lambda r: {"validated": 0, "history": weighted(r, np.nan)},
        NEVER,
        "a guess of the model",
    ),
    ("disappointed", lambda r: {"history": column(r, predicted=0.01)}, LOOK, "two standard errors"),
    ("rough", lambda r: {"mean_risk_error": 0.3 * r.objective}, LOOK, "Roughly"),
    ("most failed", lambda r: {"failures": failures(40)}, NEVER, "Most: 40 of "),
    ("some failed", lambda r: {"failures": failures(12)}, LOOK, "12 of "),
    (
        "a few left out",
        lambda r: {"failures": failures(1), "on_failure": "drop"},
        LOOK,
        "left out",
    ),
    ("risks too large", lambda r: {"risks": np.array([0.2, 1.5])}, NEVER, "0.2 to 1.5"),
    ("risks below 0", lambda r: {"risks": np.array([-0.2, 0.5])}, NEVER, "bounds nothing"),
    ("no better", lambda r: {"objective": 0.99}, LOOK, "may say nothing"),
    (
        "still falling",
        lambda r: {
            "history": r.history | {"objective": np.array([1.0, 0.9, 0.8, 0.7])},
            "stop_reason": supac.StopReason.BUDGET,
        },
        LOOK,
        "still falling",
    ),
    (
        "still falling, by many nats",
        lambda r: {
            "history": r.history | {"objective": np.array([400.0, 0.9, 0.8, 0.7, 0.699])},
            "stop_reason": supac.StopReason.BUDGET,
            "bound": supac.Catoni(0.01),
        },
        LOOK,
        "Perhaps not: the last two steps still lowered the objective from 0.8 to 0.699",
    ),
    ("a bad fit", lambda r: {"mean_risk": 0.6}, LOOK, "Badly"),
    ("far off", lambda r: measured(A=20.0), LOOK, "Badly: typical misfits"),
    (
        "far off, and no better than at first",
        lambda r: measured(A=20.0) | {"objective": float(r.history["objective"][0])},
        NEVER,
        "are columns and settings the right ones",
    ),
    (
        "one column misses",
        lambda r: measured(A=0.9, B=-3.5),
        LOOK,
        "more than 2 times the noise (B 3.5)",
    ),
    (
        "it misses, and nothing is bounded",
        lambda r: measured(A=2.1) | {"bound": supac.Catoni(0.05)},
        LOOK,
        "the noise (A 2.1)",
    ),
    ("a bad fit by the risk alone", lambda r: measured(A=1.0) | {"mean_risk": 0.6}, LOOK, "Badly"),
    ("far from the prior", lambda r: {"posterior": moved(r, 3.0)}, LOOK, "k by 3"),
    ("vacuous", lambda r: {"certificate": certificate(r, 1.2)}, LOOK, "only says"),
    ("nearly vacuous", lambda r: {"certificate": certificate(r, 0.93)}, LOOK, "Hardly: at most"),
    (
        "a warning",
        lambda r: {"certificate": replace(certificate(r, 0.1), warnings=("dependent",))},
        LOOK,
        "but dependent",
    ),
    (
        "a vacuous bound",
        lambda r: {"objective": 1.1, "certificate": None},
        LOOK,
        "no less than the largest",
    ),
    ("noted", lambda r: {"notes": ("the metric collapsed",)}, LOOK, "the metric collapsed"),
]


def test_a_good_run_is_trusted(run: Account) -> None:
    verdict = assess(run)
    assert verdict.level is Level.TRUST
    assert not verdict.reasons
    assert len(verdict.checks) >= 8


@pytest.mark.parametrize(
    ("change", "level", "words"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_what_speaks_against_it(run: Account, change: Any, level: Level, words: str) -> None:
    verdict = assess(changed(run, **change(run)))
    assert verdict.level is level
    assert any(words in check.answer for check in verdict.reasons if check.level is level)
    levels = [check.level for check in verdict.checks]
    assert levels == sorted(levels, reverse=True)


@pytest.mark.parametrize("running", [True, False])
def test_a_search_under_way_is_not_told_to_take_more_runs(run: Account, running: bool) -> None:
    falling = {"history": run.history | {"objective": np.array([1.0, 0.9, 0.8, 0.7])}}
    verdict = assess(changed(run, stop_reason=None, running=running, **falling))
    assert not any("--budget" in check.answer for check in verdict.checks)
    ended = assess(changed(run, stop_reason=supac.StopReason.BUDGET, **falling))
    assert any("larger budget" in check.answer for check in ended.checks)


def test_a_fall_of_a_few_nats_is_told(run: Account) -> None:
    falls = {"objective": np.array([400.0, 0.9, 0.73, 0.71, 0.7])}
    ended = {"stop_reason": supac.StopReason.BUDGET, "bound": supac.Catoni(0.01)}
    verdict = assess(changed(run, history=run.history | falls, **ended))
    (told,) = [each for each in verdict.checks if each.question == "Were there enough runs?"]
    assert told.level is Level.TRUST
    assert told.answer.startswith("Probably: the last two steps lowered the objective from 0.73")
    settled = run.history | {"objective": np.array([400.0, 0.9, 0.701, 0.7, 0.7])}
    verdict = assess(changed(run, history=settled, **ended))
    assert any("no longer decreasing" in each.answer for each in verdict.checks)


def test_gains_are_those_of_the_last_round_that_was_estimated(run: Account) -> None:
    """A last round whose runs all failed has no objective, no mean risk and no KL."""
    good = run.history | {
        "objective": np.array([1.0, 0.9, 0.9, 0.9, 0.6, 0.31]),
        "mean_risk": np.full(6, 0.3),
        "kl": np.full(6, 2.0),
    }
    failed = {name: np.append(values, np.nan) for name, values in good.items()}

    def told(history: dict[str, FloatArray], bound: supac.Bound) -> str:
        ended = {"stop_reason": supac.StopReason.BUDGET, "bound": bound}
        checks = assess(changed(run, history=history, **ended)).checks
        return next(each.answer for each in checks if each.question == "Were there enough runs?")

    for bound in (BOUND, supac.Catoni(0.01)):
        assert told(failed, bound) == told(good, bound)
        assert not told(good, bound).startswith("The objective was no longer")


def with_fitted_noise(run: Account, columns: dict[str, FloatArray], off: float) -> Account:
    """The account of such measurements, as far off and with as large a noise, which was fitted.

    The noise of a column whose name is in capital letters was given.
    """
    values = np.concatenate(list(columns.values()))
    fitted = [-1 if name.isupper() else 0 for name in columns]
    levels = np.repeat(fitted, len(values) // len(columns))
    data = Observations(tuple(columns), values, np.full(len(values), off))
    none = np.full(len(values), -1)
    loss = ColumnLoss(Likelihood(), none, none, levels, values, np.ones(len(values)))
    other = changed(run)
    settings = replace(other.record.settings, data=data, loss=ObservationLoss(loss, 1))
    other.record.settings = settings
    vars(other).update(observations=data, fresh=np.tile(values + off, (12, 1)))
    return other


def how_it_fits(run: Account) -> tuple[Level, str]:
    (check,) = [
        each for each in assess(run).checks if each.question.startswith("Does the simulator fit")
    ]
    return check.level, check.answer


COURSE = np.array([1.0, 2.0, 4.0, 6.0, 7.0, 7.5, 7.7, 7.8])
SCATTER = 5.0 + np.array([0.1, -0.2, 0.15, -0.05, 0.2, -0.25, 0.1, -0.1])


@pytest.mark.parametrize(("off", "level"), [(0.2, Level.TRUST), (5.0, Level.LOOK)])
def test_noise_that_was_fitted_says_nothing_of_the_fit(
    run: Account, off: float, level: Level
) -> None:
    """Misfits are then compared with the spread of the measurements."""
    other = with_fitted_noise(run, {"a": COURSE}, off)
    (misfit,) = other.misfits
    assert misfit.fitted
    assert misfit.typical == pytest.approx(1.0)
    assert misfit.of_spread == pytest.approx(off / COURSE.std())
    found, told = how_it_fits(other)
    assert found is level
    assert "as large as the misfits, whatever the fit" in told
    table = str(how_well_it_fits(other))
    assert "of the spread" in table
    assert "The noise depends on parameters" in table
    given = changed(run, **measured(A=0.9))
    assert "The noise depends on parameters" not in str(how_well_it_fits(given))


@pytest.mark.parametrize("values", [SCATTER, np.array([3.0]), np.full(8, 2.0)])
def test_measurements_without_a_course_say_nothing_of_the_fit(
    run: Account, values: FloatArray
) -> None:
    """The misfits of a perfect model are then as large as the spread."""
    other = with_fitted_noise(run, {"a": values}, 0.17)
    assert np.isnan(other.misfits[0].of_spread)
    level, told = how_it_fits(other)
    assert level is Level.TRUST
    assert "no course beyond their scatter" in told
    assert "nan" not in told
    if len(values) == len(COURSE):  # a column that can be judged is
        both = with_fitted_noise(run, {"a": values, "b": COURSE}, 5.0)
        level, told = how_it_fits(both)
        assert level is Level.LOOK
        assert f"misfits are b {100 * 5 / COURSE.std():.0f} %." in told


def test_replicates_show_the_course_over_experiments() -> None:
    """Rows may be in any order; single values of experiments are taken in theirs."""
    means, scatter = np.array([1.0, 9.0, 3.0, 7.0, 2.0]), np.array([-0.1, 0.1])
    values = (means[:, None] + scatter).T.ravel()
    cells = [(f"dose {i}", "A", 1.0) for _ in range(2) for i in range(5)]
    assert has_course(values, cells)
    assert not has_course(means, cells[:5])
    order = [3, 1, 7, 5, 0, 6, 2, 4]
    assert has_course(COURSE[order], [("", "A", float(i)) for i in order])
    assert not has_course(COURSE[order], [("", "A", float(i)) for i in range(8)])


def test_columns_with_given_noise_are_judged_beside_those_with_fitted_noise(run: Account) -> None:
    level, told = how_it_fits(with_fitted_noise(run, {"a": COURSE, "B": COURSE}, 0.2))
    assert level is Level.TRUST
    assert told.endswith("Where the noise is given, typical misfits are at most 1 times it.")


def test_a_capped_certificate_holds_where_risks_leave_the_range(run: Account) -> None:
    given = replace(certificate(run, 0.3), capped=True, cap=3.0)
    verdict = assess(changed(run, risks=np.array([0.2, 1.5]), certificate=given))
    assert verdict.level is Level.TRUST
    assert any("the objective is no limit" in each.answer for each in verdict.checks)
    below = assess(changed(run, risks=np.array([-0.2, 1.5]), certificate=given))
    assert below.level is Level.DO_NOT_TRUST


def test_the_ceiling_is_set_where_there_is_one(run: Account, tmp_path: Path) -> None:
    """In a problem file, or in Python."""
    capped = replace(certificate(run, 0.3), capped=True, cap=1.5)
    (told,) = [each.answer for each in assess(changed(run, certificate=capped)).reasons]
    assert "set the ceiling= of the bound" in told
    for name, text in starter_files("builtin").items():
        (tmp_path / name).write_text(text)
    filed = account_of(supac.read_problem(tmp_path / "problem.toml").minimize())
    answers = [each.answer for each in assess(changed(filed, certificate=capped)).checks]
    assert any("set the ceiling in [bound]" in each for each in answers)


def test_next_steps_begin_the_reasons_once(run: Account) -> None:
    wrong = changed(run, **measured(A=110.0, B=-190.0))
    verdict = assess(wrong)
    reasons = (verdict.reasons[0], *verdict.reasons)[:2]
    steps = [str(each) for each in next_steps(wrong, replace(verdict, checks=reasons))]
    assert sum("Before these numbers are used" in each for each in steps) == 1
    assert sum(each.startswith("Also: ") for each in steps) == 1


def test_misfits_are_told_by_column(run: Account) -> None:
    seen = changed(run, **measured(A=1.1, B=-1.9))
    told = [(each.column, each.measured, each.far) for each in seen.misfits]
    assert told == [("A", 2, 0), ("B", 3, 0)]
    assert [each.typical for each in seen.misfits] == pytest.approx([1.1, 1.9])
    assert [each.mean for each in seen.misfits] == pytest.approx([1.1, -1.9])
    verdict = assess(seen)
    assert verdict.level is Level.TRUST
    assert any(
        "typical misfits are at most 1.9 times the noise" in c.answer for c in verdict.checks
    )
    wrong_units = assess(changed(run, **measured(A=110.0, B=-1.9)))
    assert wrong_units.level is Level.DO_NOT_TRUST
    assert any("in the same units" in check.answer for check in wrong_units.reasons)
    # Outputs that are not as many as these data are not compared with them.
    assert not changed(seen, fresh=np.zeros((12, 4))).misfits
    assert not run.misfits


def test_where_every_run_failed_nothing_else_is_asked() -> None:
    def fails(x: FloatArray) -> float:
        raise RuntimeError(f"no steady state at {x[0]}")

    result = supac.minimize(
        fails, PARAMETERS, BOUND, budget=60, execution=supac.Execution(on_failure="penalise")
    )
    verdict = assess(account_of(result))
    assert verdict.level is Level.DO_NOT_TRUST
    questions = [check.question for check in verdict.checks]
    assert questions == ["Did the search come to its end?", "Did runs fail?"]
    assert not any("rests on the equivalent" in note for note in result.notes)


def test_a_few_failures_are_no_reason_and_their_note_is_not_told_twice(run: Account) -> None:
    few = failures(3)
    for words in ("with", "such as"):
        both = (f"3 runs failed, all {words}: no", "something else")
        assert changed(run, failures=few, notes=both).other_notes == ("something else",)
    notes = ("3 runs failed, all with: no",)
    assert assess(changed(run, failures=few, notes=notes)).level is Level.TRUST
    with_more = changed(run, failures=few, notes=(*notes, "something else"))
    assert with_more.other_notes == ("something else",)


def test_that_the_bound_is_not_about_refused_draws_is_told(
    run: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few refused draws are counted elsewhere, where the bound is not spoken of."""
    few = tuple(replace(each, status=Status.REFUSED) for each in failures(3))
    monkeypatch.setattr(supac.Record, "refused", few)
    for left_out in (False, True):
        notes = notes_on_refusals(few, 60, left_out=left_out)
        assert changed(run, notes=notes).other_notes == (notes if left_out else ())


def test_runs_that_went_wrong_are_counted_by_cause(run: Account) -> None:
    def answers(of: Account) -> dict[str, str]:
        return {check.question: check.answer for check in assess(of).checks}

    late = replace(failures(1)[0], status=Status.TIMED_OUT)
    history = run.history | {"queries": np.full(len(run.history["queries"]), 40.0)}
    history |= {"wrong": np.full(len(history["queries"]), 7.0)}
    went = {"failures": (*failures(2), late), "history": history}
    seen = changed(run, **went, on_failure="penalise")
    told = answers(seen)
    assert "; 2 raised, 1 timed out); each counts as the largest risk." in told["Did runs fail?"]
    assert "`result.to_pandas()` has every run" in told["Did runs fail?"]
    outliers = "Were there outliers among the runs?"
    assert told[outliers].startswith("Yes: 4 of 40 runs succeeded, but with a far larger risk")
    assert assess(seen).level is Level.TRUST
    seen.record.path = Path("somewhere/run.supac")
    assert "`supac export run.supac runs.csv` lists every run" in answers(seen)[outliers]
    # Failed runs that were left out are none of those that the search modelled.
    left_out = answers(changed(run, **went, on_failure="drop"))
    assert left_out[outliers].startswith("Yes: 7 of 40 runs succeeded")
    assert outliers not in answers(run)


def test_a_certificate_that_says_something_is_named(run: Account) -> None:
    verdict = assess(changed(run, certificate=certificate(run, 0.40001)))
    assert verdict.level is Level.TRUST
    assert any("at most 0.401" in check.answer for check in verdict.checks)


def test_steps_that_failed_are_no_beginning() -> None:
    """A larger budget is no help where batch after batch teaches nothing."""
    unknown = np.full(20, np.nan)
    assert not hardly_begun({"objective": unknown, "step_kl": unknown})
    assert hardly_begun({"objective": np.array([0.5]), "step_kl": np.array([2.0])})
    assert not hardly_begun({"objective": np.array([0.5]), "step_kl": np.array([0.01])})


def test_a_search_that_has_hardly_begun_is_no_reason_to_doubt_the_model(tmp_path: Path) -> None:
    for name, text in starter_files("builtin").items():
        (tmp_path / name).write_text(text.replace("budget = 60", "budget = 14"))
    problem = supac.read_problem(tmp_path / "problem.toml")
    result = problem.minimize()
    verdict = assess(account_of(supac.read_store(problem.store)))
    (reason,) = verdict.reasons
    assert reason.level is Level.LOOK
    assert reason is verdict.checks[0]
    assert "only one step was made" in reason.answer
    assert "`supac resume run.supac --budget 42`" in reason.answer
    assert assess(account_of(result)).reasons[0].answer == reason.answer
    assert len(result.notes) == 1
    assert "after a single step" in result.notes[0]
    problem.minimize(budget=22)
    after = assess(account_of(supac.read_store(problem.store)))
    assert after.level is Level.TRUST
    assert "Were there enough runs?" not in [check.question for check in after.checks]


def steps(*kls: float, radius: float = 4.0) -> list[Info]:
    """Iterations with steps of so many nats; none promised a gain where that is 0."""
    return [
        Info(0.2, 3.0, 0.5, alpha=float(kl > 0.0), step_kl=kl, radius=radius,
             notes=() if kl > 0.0 else (NO_STEP,))
        for kl in kls
    ]  # fmt: skip


def test_a_search_that_has_converged_may_find_no_step() -> None:
    def notes(infos: list[Info]) -> tuple[str, ...]:
        return notes_on_the_way([10 * i for i in range(len(infos))], infos)

    assert not notes(steps(2.0, 0.02, 2e-3, 0.0, 0.0))
    assert notes(steps(2.0, 0.0, 0.0)) == (f"{NO_STEP} (2 of 3 iterations, first at 10 queries)",)
    assert notes(steps(0.0))
    assert notes(steps(2.0, 0.02, 1.0, 0.0))
    # A radius that was cut again and again makes steps small that have not arrived.
    assert notes(steps(0.02, 0.0, radius=0.02))


def remarked(note: str, at: tuple[int, ...], objective: list[float], last: float) -> str:
    """The notes on a way with a remark in some rounds, whose last step was of so many nats."""
    infos = [
        Info(0.2, 3.0, value, alpha=0.5, step_kl=2.0, radius=4.0, notes=(note,) * (i in at))
        for i, value in enumerate(objective)
    ]
    infos[-1] = replace(infos[-1], step_kl=last)
    return " ".join(notes_on_the_way([10 * i for i in range(len(infos))], infos, 0.1))


FALLS, STAYS = [1.0, 0.9, 0.8, 0.5, 0.3, 0.2], [1.0, 0.9, 0.8, 0.8, 0.8, 0.75]


@pytest.mark.parametrize("note", [REJECTED, EXTRAPOLATES])
def test_what_a_search_got_over_is_no_reason_to_look(note: str) -> None:
    assert not remarked(note, (1,), FALLS, 2.0)
    assert not remarked(note, (1, 2), FALLS, 2.0)
    assert "1 of 6 iterations, first at 20 queries" in remarked(note, (2,), STAYS, 2.0)
    assert not remarked(note, (2,), STAYS, 0.01)  # it has converged since
    assert remarked(note, (4,), STAYS, 0.01)  # among the last ones
    assert remarked(note, (5,), FALLS, 2.0)
    assert "3 of 6 iterations" in remarked(note, (0, 1, 2), FALLS, 2.0)  # again and again
    assert "[run] of a problem file or SuPAC(" in note
    assert remarked(RIDGE, (1,), FALLS, 2.0)  # too few runs are said whatever follows


def test_a_search_that_began_again_must_have_gained() -> None:
    assert not remarked(SETTLED, (1,), FALLS, 0.01)
    assert remarked(SETTLED, (2,), STAYS, 0.01)


def test_priors_of_other_families_are_judged_too() -> None:
    result = supac.minimize(
        lambda x: float((x[0] - 0.7) ** 2), supac.beta(2, 2), supac.Catoni(0.05), budget=60
    )
    assert assess(account_of(result)).level is Level.TRUST
