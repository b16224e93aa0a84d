"""A record in memory, in a file, and read back: the same runs, the same answers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.record import record as record_module
from supac.record.record import Record
from supac.record.run import Round, Run, Status
from supac.record.settings import Settings
from supac.search.algorithm import Info

PLANE = supac.gaussian(np.zeros(2), np.eye(2))
BOUND = supac.Catoni(0.05)
DATA = supac.Observations(("A",), np.array([1.0, 0.5, np.nan, 0.2]), np.full(4, 0.1))
STORES = Path(__file__).parents[1] / "stores"


def simulate(x: FloatArray) -> FloatArray:
    return np.exp(-np.arange(4.0) * np.exp(0.3 * x[0])) + 0.1 * x[1]


RISK = supac.Composite(simulate, supac.Welsch(), DATA)


def search(**options: Any) -> supac.Result:
    settings: dict[str, Any] = {"budget": 40, **options}
    return supac.minimize(settings.pop("risk", RISK), PLANE, BOUND, **settings)


def told(result: supac.Result) -> tuple[Any, ...]:
    outputs = result.fresh_outputs
    assert outputs is not None
    columns = result.evaluations
    return (
        str(result), columns.x.tobytes(), columns.risk.tobytes(), columns.iteration.tobytes(),
        outputs.tobytes(), result.to_json(runs=True).count("search"),
    )  # fmt: skip


def test_memory_file_and_what_is_read_back_tell_the_same(tmp_path: Path) -> None:
    store = tmp_path / "run.supac"
    plain, kept = search(), search(store=store)
    read = supac.read_store(store).result()
    again = supac.Result.from_json(kept.to_json(runs=True))
    assert told(plain) == told(kept) == told(read) == told(again)
    for each in (plain, kept, read, again):
        assert each.record.to_dict()["queries"] == len(plain.evaluations)
        assert "None" not in repr(each.record)
    one, two = (
        supac.reoptimize(each, RISK, budget=10, bound=supac.Catoni(0.02)) for each in (plain, read)
    )
    assert one.posterior == two.posterior


def test_a_result_does_not_need_its_file(tmp_path: Path) -> None:
    store = tmp_path / "run.supac"
    result = search(store=store, seed=1)
    before = told(result)
    store.unlink()
    assert told(result) == before
    search(store=store, seed=2)
    assert told(result) == before


def test_a_file_that_was_replaced_is_noticed(tmp_path: Path) -> None:
    store = tmp_path / "run.supac"
    search(store=store, seed=1)
    record = supac.read_store(store)
    store.unlink()
    search(store=store, seed=2)
    with pytest.raises(supac.StoreMismatchError, match="other runs than when it was read"):
        _ = record.runs


def test_another_folder_is_no_other_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = search(store="run.supac")
    record = supac.read_store("run.supac")
    os.mkdir("elsewhere")
    monkeypatch.chdir("elsewhere")
    assert len(record.runs) == result.queries > 20


def test_residuals_of_version_0_1_are_not_taken_for_outputs(tmp_path: Path) -> None:
    for name in ("problem.toml", "model.py", "data.csv", "problem-killed.supac"):
        (tmp_path / name).write_bytes((STORES / name).read_bytes())
    problem = supac.read_problem(tmp_path / "problem.toml")
    store = tmp_path / "problem-killed.supac"
    result = supac.resume(store, problem.risk)
    again = supac.reoptimize(result, problem.risk, budget=10)
    known = len(result.evaluations)
    np.testing.assert_array_equal(again.evaluations.risk[:known], result.evaluations.risk)
    pages = [
        supac.write_report(each, tmp_path / f"{i}.html").read_text()
        for i, each in enumerate((result, supac.read_store(store)))
    ]
    fits = [page.partition('id="fit"')[2].partition("</section>")[0] for page in pages]
    assert fits[0] == fits[1]


def test_a_loss_that_prices_failures_is_resumed(tmp_path: Path) -> None:
    """Its value for a failed run is known again as soon as one good run is."""
    calls = 0

    def fragile(x: FloatArray) -> FloatArray:
        nonlocal calls
        calls += 1
        if calls == 7:
            raise KeyboardInterrupt
        return np.full(4, np.nan) if x[0] > 0.3 else simulate(x)

    def loss(outputs: FloatArray) -> FloatArray:
        return np.where(np.isnan(outputs).any(axis=1), 1.0, np.tanh((outputs**2).mean(axis=1)))

    risk, store = supac.Composite(fragile, loss), tmp_path / "run.supac"
    with pytest.raises(KeyboardInterrupt):
        search(risk=risk, store=store)
    assert {run.ok for run in supac.read_store(store).runs} == {True, False}
    assert str(search(risk=risk, store=store)) == str(search(risk=risk))


ODD = """
import os, sys, time
from concurrent.futures import ThreadPoolExecutor
sys.path[:0] = [sys.argv[2]]
import test_one_interface as ours

ended = []

def killed(x):
    if (x == ours.POINTS[0]).all():  # ends last, or rather never
        time.sleep(60.0)
    ended.append(1)
    if len(ended) > 5:
        os._exit(9)
    return ours.odd(x)

where = ours.supac.Execution(ThreadPoolExecutor(4), on_failure="drop")
ours.search(risk=ours.supac.Composite(killed, ours.supac.MeanSquare()), store=sys.argv[1],
            execution=where)
"""


def odd(x: FloatArray) -> FloatArray:
    """As many outputs as the first point has, or one more."""
    return simulate(x)[: 4 if (x[0] < 0.0) is not bool(POINTS[0, 0] < 0.0) else 3]


PROBLEM = supac.Problem.within(PLANE, BOUND, loss=supac.MeanSquare())
POINTS = supac.SuPAC().ask(PROBLEM, supac.SuPAC().init(PROBLEM, 0)).x


def test_the_number_of_outputs_does_not_depend_on_who_ended_first(tmp_path: Path) -> None:
    """The first run of the batch decides, also if the driver was killed before it ended."""
    store = tmp_path / "run.supac"
    arguments = [sys.executable, "-c", ODD, str(store), str(Path(__file__).parent)]
    assert subprocess.run(arguments, check=False, timeout=60).returncode == 9
    assert 0 not in {run.id for run in supac.read_store(store).runs}
    risk, drop = supac.Composite(odd, supac.MeanSquare()), supac.Execution(on_failure="drop")
    kept, whole = search(risk=risk, execution=drop, store=store), search(risk=risk, execution=drop)
    assert kept.posterior == whole.posterior
    assert str(kept) == str(whole)


def test_an_error_hands_over_every_run(tmp_path: Path) -> None:
    for most in (8, 27):
        calls = 0

        def fragile(x: FloatArray) -> float:
            nonlocal calls
            calls += 1
            if calls == most:  # noqa: B023
                raise RuntimeError("too hot")
            return float(np.tanh(x @ x))

        with pytest.raises(supac.EvaluationError) as caught:
            search(risk=fragile)
        assert caught.value.record is not None
        known = supac.KnownRuns.of_record(caught.value.record)
        assert len(known) == len(caught.value.runs) == most - 1
        assert search(risk=lambda x: float(np.tanh(x @ x)), known=known).known == most - 1
        assert (caught.value.record.posterior is None) == (most == 8)


def test_all_failed_asynchronously_is_told_alike_by_memory_and_file(tmp_path: Path) -> None:
    def slow_is_good(x: FloatArray) -> float:
        if x[0] < 0.8:
            raise RuntimeError("did not converge")
        time.sleep(0.3)
        return 0.5

    store = tmp_path / "run.supac"
    with ThreadPoolExecutor(20) as threads:
        where = supac.Execution(threads, mode="async", on_failure="penalise")
        result = search(risk=slow_is_good, execution=where, store=store, seed=3)
    read = supac.read_store(store).result()
    assert result.stop_reason is supac.StopReason.FAILURES
    assert len(result.history["queries"]) == 0 < result.failed < result.queries
    assert (result.queries, result.failed) == (read.queries, read.failed)


def test_many_rounds_are_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading all runs for each of the rounds took a minute for a thousand of them."""
    settings = Settings(
        prior=PLANE, bound=BOUND, algorithm=supac.SuPAC(), loss=supac.Welsch(), tolerance=1e-12,
        budget=500,
    )  # fmt: skip
    path = tmp_path / "run.supac"
    state: dict[str, Any] = {"theta": ["", [0]], "memory": {}, "batch": None}
    with Record.of_search(path, settings, PLANE.family, kind="minimize", proxy=None) as record:
        for k in range(100):
            runs = [Run(5 * k + i, np.ones(2), Status.OK, 0.1, np.ones(20)) for i in range(5)]
            record.add(runs)
            told_now = Round(tuple(run.id for run in runs), PLANE, Info(0.1, 0.1, 0.1))
            record.add_rounds([told_now], lambda: state)
    read, calls, iterate = supac.read_store(path), [], Record.iterate

    def counted(self: Record, runs: Any = None) -> Any:
        calls.append(1)
        return iterate(self, runs)

    monkeypatch.setattr(Record, "iterate", counted)
    assert len(read.evaluations) == 500
    assert len(calls) == 1


def test_a_file_tells_functions_apart(tmp_path: Path) -> None:
    result = search()
    store = tmp_path / "predictions.supac"
    supac.predict(result, simulate, 5, store=store)
    with pytest.raises(supac.StoreMismatchError, match="by another function"):
        supac.predict(result, lambda x: 100.0 * simulate(x), 5, store=store)
    scalar = tmp_path / "certificate.supac"
    options: dict[str, Any] = {"n": 50, "draws": 5, "store": scalar}
    supac.certify(result.posterior, PLANE, lambda x: 0.1, BOUND, **options)
    with pytest.raises(supac.StoreMismatchError, match="by another function"):
        supac.certify(result.posterior, PLANE, lambda x: 0.9, BOUND, **options)


def test_the_composite_itself_predicts_its_outputs() -> None:
    prediction = supac.predict(search(), RISK, 5)
    np.testing.assert_array_equal(prediction.outputs, [simulate(x) for x in prediction.x])


def test_a_certificate_of_failed_runs_alone_is_refused() -> None:
    def broken(x: FloatArray) -> float:
        raise RuntimeError("no licence")

    with pytest.raises(supac.CertificateError, match=r"all 5 runs failed, .*no licence"):
        supac.certify(PLANE, PLANE, broken, BOUND, n=50, draws=5)


@pytest.mark.parametrize(
    ("columns", "values", "noise", "times", "words"),
    [
        (("A",), np.ones((2, 2)), 0.1, None, "values must be one vector"),
        (("A", "B"), np.ones(3), 0.1, None, "values must be one vector"),
        (("A",), np.ones(3), 0.0, None, "noise must be a positive number"),
        (("A",), np.ones(3), np.ones(2), None, "noise must be a positive number"),
        (("A",), np.ones(3), 0.1, np.ones(2), "times must hold one number a row"),
    ],
)
def test_data_that_make_no_sense_are_refused(
    columns: Any, values: Any, noise: Any, times: Any, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        supac.Observations(columns, values, noise, times=times)


def test_one_unit_is_that_of_all_columns() -> None:
    two = supac.Observations(("A", "B"), np.ones(4), 0.1, units="mol/L")  # type: ignore[arg-type]
    assert two.labels == ("A (mol/L)", "B (mol/L)")
    listed = supac.Observations(("A",), np.ones(2), 0.1, units=["g"])  # type: ignore[arg-type]
    assert listed.units == ("g",)
    with pytest.raises(ValueError, match="units must be 2 texts, not 1"):
        supac.Observations(("A", "B"), np.ones(4), np.ones(4), units=("g",))


def test_an_early_ctrl_c_leaves_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal while a store is opened ends the search as usual, and the next one goes on."""
    opened: Any = vars(record_module)["Store"]

    class Interrupted(opened):  # type: ignore[misc]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            signal.raise_signal(signal.SIGINT)

    store, prior = tmp_path / "run.supac", supac.gaussian(np.zeros(2), np.eye(2))

    def risk(x: FloatArray) -> float:
        return float(np.tanh(x @ x))

    with monkeypatch.context() as patched:
        patched.setattr(record_module, "Store", Interrupted)
        stopped = supac.minimize(risk, prior, supac.Catoni(0.1), budget=20, store=store)
        assert stopped.stop_reason is supac.StopReason.INTERRUPTED
    again = supac.minimize(risk, prior, supac.Catoni(0.1), budget=20, store=store)
    assert again.queries == 20
