"""Names and keywords of version 0.1: each goes on working, or its warning says what to write."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.calibration.old_keywords import OldKeywords
from supac.calibration.search import Search
from supac.problem_file import starter_files

PRIOR = supac.gaussian(np.zeros(2), np.eye(2))
BOUND = supac.Catoni(0.05, ceiling=1.0)


def risk(x: FloatArray) -> float:
    return float(np.tanh(0.3 * x @ x))


def risks(x: FloatArray) -> FloatArray:
    return np.array([risk(each) for each in x])


Old = dict[str, Any]
EXECUTION: list[tuple[Old, supac.Execution]] = [
    ({"executor": 3}, supac.Execution(workers=3)),
    ({"executor": 3, "mode": "async"}, supac.Execution(workers=3, mode="async")),
    ({"timeout": 30.0}, supac.Execution(timeout=30.0)),
    ({"retries": 0}, supac.Execution(retries=0)),
    ({"on_failure": "drop"}, supac.Execution(on_failure="drop")),
    ({"max_failures": 0.9}, supac.Execution(max_failures=0.9)),
    ({"vectorized": True}, supac.Execution(vectorized=True)),
    ({"progress": False}, supac.Execution(progress=False)),
]
ELSEWHERE: list[tuple[str, Any, str]] = [
    ("tolerance", 1e-3, r"SuPAC\(tolerance=…\)"),
    ("description", "a text", "problem file"),
]
PUBLIC_NAMES = """
Algorithm Bernoulli Beta Bound CappedSquare Catoni Certificate CertificateError ClosedForm
Composite DiagonalGaussian Distribution Divergence EvaluationError Evaluations ExecutionError
Exponential Family FixedGaussian FixedStep Frozen Gamma Gaussian GaussianProcess GradientDescent
GradientStep Importance Info Iteration KnownRuns LowRankGaussian MaurerLangfordSeeger McAllester
MeanSquare MetaInfo MetaResult MetaSuPAC Mixture Nesterov NotAStoreError OutputEmulator
Parameters ParametricFamily Pareto PerWorker Plan Poisson PriorScores Problem ProblemFile
ProblemFileError Product Program Result ResultFormatError Reuse Ridge RootMeanSquare Run
ScaledGaussian Snapshot SquareLoss Stage State Status StopReason StoreBusyError
StoreDamagedError StoreError StoreMismatchError StoreTooNewError StudentT SuPAC Surrogate Task
TaskResult Thiemann TolstikhinSeldin TrustRegion UMBridge Uniform Voronoi Welsch bernoulli beta
certify certify_draws evaluate_priors exponential export fixed_gaussian gamma gaussian
low_rank_gaussian marginals meta_learn minimize mixture pareto plots poisson product read_csv
read_problem read_result read_store reoptimize resume scaled_gaussian simulators split_mixture
student_t write_report
"""
OF_CERTIFICATES = {"monte_carlo", "prior_is_independent", "temperatures_tried", "ceiling"}


def test_every_public_name_is_there_or_says_what_replaced_it() -> None:
    names = PUBLIC_NAMES.split()
    assert len(names) == 113
    for name in set(names) - {"Snapshot", "Uniform"}:
        assert hasattr(supac, name), name  # a warning would be an error
    with pytest.warns(DeprecationWarning, match=r"supac\.Snapshot is now supac\.Record"):
        assert supac.Snapshot is supac.Record
    with pytest.warns(DeprecationWarning, match=r"supac\.Uniform is now supac\.FreshDraws"):
        assert supac.Uniform is supac.FreshDraws


def test_every_old_keyword_is_tested_here() -> None:
    tested = {name for old, _ in EXECUTION for name in old} | {name for name, *_ in ELSEWHERE}
    assert tested | OF_CERTIFICATES == set(OldKeywords.__annotations__)


def warned(function: Callable[..., Any], *arguments: Any, old: Old, **options: Any) -> Any:
    """Return the value of a call that warns once for every old keyword, at the caller's line."""
    with pytest.warns(DeprecationWarning, match="removed in the next release") as told:
        value = function(*arguments, **options, **old)
    words = [str(each.message) for each in told]
    assert len(words) == len(old)
    for name in old:
        new = {"executor": "workers"}.get(name, name)
        pattern = rf"{name}= is now execution=Execution\({new}=…\), .* removed in the next release"
        assert any(re.match(pattern, each) for each in words)
    assert {each.filename for each in told} == {__file__}
    return value


@pytest.fixture
def only_searches(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Make functions return the search that they would make."""
    return lambda: monkeypatch.setattr(Search, "run", lambda search: search)


@pytest.mark.parametrize(("old", "new"), EXECUTION)
def test_minimize_takes_them(
    old: Old, new: supac.Execution, only_searches: Callable[[], None]
) -> None:
    only_searches()
    assert warned(supac.minimize, risk, PRIOR, BOUND, budget=40, old=old).execution == new
    # Together with the new argument, they add to it.
    both = supac.Execution(max_failures=0.7)
    found = warned(supac.minimize, risk, PRIOR, BOUND, budget=40, execution=both, old=old)
    assert found.execution == replace(new, max_failures=old.get("max_failures", 0.7))


@pytest.mark.parametrize(("old", "new"), EXECUTION)
def test_resume_and_reoptimize_take_them_beside_what_was_before(
    old: Old, new: supac.Execution, only_searches: Callable[[], None], tmp_path: Path
) -> None:
    store, before = tmp_path / "run.supac", supac.Execution(on_failure="penalise", retries=7)
    result = supac.minimize(risk, PRIOR, BOUND, budget=20, store=store, execution=before)
    only_searches()
    wanted = replace(new, on_failure=old.get("on_failure", "penalise"))
    found = warned(supac.reoptimize, result, risk, budget=20, old=old)
    assert found.execution == wanted
    found = warned(supac.resume, store, risk, old=old)
    assert found.execution == replace(wanted, retries=old.get("retries", 7))


def test_resume_keeps_what_an_execution_does_not_give(
    only_searches: Callable[[], None], tmp_path: Path
) -> None:
    before = supac.Execution(on_failure="penalise", timeout=60.0, retries=7)
    store = tmp_path / "run.supac"
    supac.minimize(risk, PRIOR, BOUND, budget=20, store=store, execution=before)
    only_searches()
    found: Any = supac.resume(store, risk, execution=supac.Execution(8, timeout=50.0))
    assert found.execution == replace(before, workers=8, timeout=50.0)
    found = supac.resume(store, risk, execution=supac.Execution(timeout=90.0, retries=3))
    assert found.execution == replace(before, timeout=90.0, retries=3)


def test_signatures_show_the_arguments_of_a_search() -> None:
    """They are written once, in `Search`: each of its fields is an argument of `minimize`."""
    former = {"tolerance", "description", "again", "coarse_since"}
    names = {each.name for each in fields(Search)} - former
    shown = inspect.signature(supac.minimize).parameters
    assert set(shown) == names
    for function in (supac.resume, supac.reoptimize):
        mine = inspect.signature(function).parameters
        assert {"algorithm", "start", "execution", "validation", "callback"} <= set(mine)
        assert all(shown[name].default == mine[name].default for name in ("algorithm", "execution"))
    assert shown["seed"].default == 0
    assert shown["budget"].default is inspect.Parameter.empty


def test_problem_files_take_them(only_searches: Callable[[], None], tmp_path: Path) -> None:
    for name, text in starter_files("builtin").items():
        (tmp_path / name).write_text(text)
    problem = supac.read_problem(tmp_path / "problem.toml")
    only_searches()
    found = warned(problem.minimize, old={"progress": True})
    assert found.execution == replace(problem.execution, progress=True)


def test_they_give_the_same_result() -> None:
    old = {"vectorized": True, "on_failure": "drop", "timeout": None}
    mine = warned(supac.minimize, risks, PRIOR, BOUND, budget=40, old=old)
    new = supac.Execution(vectorized=True, on_failure="drop")
    yours = supac.minimize(risks, PRIOR, BOUND, budget=40, execution=new)
    assert mine.posterior == yours.posterior
    assert mine.objective == yours.objective
    again = warned(supac.certify, mine.posterior, PRIOR, risks, BOUND, n=40, draws=50,
                   old={"vectorized": True})  # fmt: skip
    assert again == yours.certify(risks, n=40, draws=50, execution=new)


TASKS = [supac.Task(risk, BOUND), supac.Task(risk, BOUND)]


@pytest.mark.parametrize(
    "call",
    [
        lambda **old: supac.certify(PRIOR, PRIOR, risk, BOUND, n=40, draws=5, **old),
        lambda **old: supac.meta_learn(TASKS, PRIOR, passes=1, **old),
        lambda **old: supac.evaluate_priors([PRIOR], TASKS, budget=20, draws=5, **old),
    ],
    ids=["certify", "meta_learn", "evaluate_priors"],
)
def test_others_take_them(call: Callable[..., Any]) -> None:
    """An impossible number of workers is refused where it arrives."""
    with (
        pytest.warns(DeprecationWarning, match=r"executor= is now execution=Execution\(workers=…"),
        pytest.raises(ValueError, match="at least one process, not 0"),
    ):
        call(executor=0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'exectuor'"):
        call(exectuor=2)


@pytest.mark.parametrize(("name", "value", "words"), ELSEWHERE)
def test_what_belongs_elsewhere_works_and_says_where(
    name: str, value: Any, words: str, only_searches: Callable[[], None]
) -> None:
    only_searches()
    with pytest.warns(DeprecationWarning, match=f"{name}= is now .*{words}"):
        found: Any = supac.minimize(risk, PRIOR, BOUND, budget=40, **{name: value})
    assert getattr(found, name) == value
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
        supac.certify(PRIOR, PRIOR, risk, BOUND, n=40, **{name: value})


def test_options_of_certify_draws_reach_it() -> None:
    arguments = (PRIOR, PRIOR, risk, BOUND)
    words = "monte_carlo= is now an option of certify_draws"
    with pytest.warns(DeprecationWarning, match=words):
        given = supac.certify(*arguments, n=40, delta=0.1, draws=20, monte_carlo=0.5)
    assert given.delta_monte_carlo == pytest.approx(0.5 * 0.95 * 0.1)
    words = r"prior_is_independent= is now provenance=Provenance\(prior_is_independent=…\)"
    with (
        pytest.warns(DeprecationWarning, match=words),
        pytest.raises(supac.CertificateError, match="prior"),
    ):
        supac.certify(*arguments, n=40, draws=20, prior_is_independent=False)
    with pytest.raises(TypeError, match="unexpected keyword argument 'monte_carlo'"):
        supac.minimize(risk, PRIOR, BOUND, budget=40, monte_carlo=0.5)


def test_a_snapshot_is_a_record(tmp_path: Path) -> None:
    with pytest.warns(DeprecationWarning, match=r"supac\.Snapshot is now supac\.Record"):
        assert supac.Snapshot is supac.Record
    store = tmp_path / "run.supac"
    result = supac.minimize(risk, PRIOR, BOUND, budget=20, store=store)
    record = supac.read_store(store)
    for name in ("objective", "mean_risk", "mean_risk_error", "kl", "kl_error", "validated"):
        with pytest.warns(DeprecationWarning, match=rf"is estimate\.{name} now"):
            assert getattr(record, name) == getattr(result, name)
    with pytest.raises(AttributeError, match="a record has no attribute 'objectiv'"):
        _ = record.objectiv
