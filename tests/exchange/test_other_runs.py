"""Runs of other tools become known runs in one line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.exchange.other_runs import known_runs
from supac.record.run import Status

PARAMETERS = supac.Parameters(
    {"Amount": supac.marginals.Uniform(0.0, 5.0), "rate": supac.marginals.LogNormal(1.0, 0.5)}
)
TIMES = np.array([0.5, 1.0, 2.0, 4.0])


def measured(values: Any, times: Any = TIMES, noise: float = 0.05) -> supac.Observations:
    every = np.asarray(values, dtype=np.float64)
    return supac.Observations(("y",), every, np.full(len(every), noise), times=np.array(times))


MEASURED = measured([1.42, np.nan, 0.51, 0.11])
BOUND = supac.Catoni(temperature=0.02)


def simulate(x: FloatArray) -> FloatArray:
    made: FloatArray = x[0] * np.exp(-x[1] * TIMES)
    return made


RISK = supac.Composite(simulate, supac.Welsch(), MEASURED)


@pytest.fixture(scope="module")
def ensemble() -> tuple[FloatArray, FloatArray]:
    x = PARAMETERS.sample(PARAMETERS.prior, 15, 0)
    return x, np.array([simulate(each) for each in x])


def search(known: Any, **options: Any) -> supac.Result:
    return supac.minimize(RISK, PARAMETERS, BOUND, budget=30, known=known, **options)


def test_arrays_are_known_in_one_line(ensemble: tuple[FloatArray, FloatArray]) -> None:
    x, outputs = ensemble
    result = search((x, outputs))
    assert result.known == 15
    np.testing.assert_allclose(result.x[:15], x)
    told = result.record.outputs([run.id for run in result.record.imported])
    np.testing.assert_array_equal(told, outputs)


def test_a_pair_may_have_risks_or_only_what_was_measured(
    ensemble: tuple[FloatArray, FloatArray],
) -> None:
    x, outputs = ensemble
    few: Any = known_runs((x, outputs[:, [0, 2, 3]]), PARAMETERS, RISK)
    np.testing.assert_array_equal(few.outputs[:, [0, 2, 3]], outputs[:, [0, 2, 3]])
    assert np.isnan(few.outputs[:, 1]).all()
    assert search((x, outputs[:, [0, 2, 3]])).known == 15
    risks = np.array([float(RISK(each)) for each in x])
    plain = supac.minimize(lambda x: float(RISK(x)), PARAMETERS, BOUND, budget=20, known=(x, risks))
    assert plain.known == 15


def test_ensembles_of_pest_are_two_files(
    tmp_path: Path, ensemble: tuple[FloatArray, FloatArray]
) -> None:
    """Members by name, in any order; names in small letters; failed members are missing."""
    x, outputs = ensemble
    parameters, observed = tmp_path / "case.0.par.csv", tmp_path / "case.0.obs.csv"
    rows = [f"{i},{point[1]!r},7.5,{point[0]!r}" for i, point in enumerate(x.tolist())]
    parameters.write_text("\n".join(["real_name,rate,other,amount", *rows, ""]))
    rows = [f"{i},{','.join(map(repr, outputs[i].tolist()))}" for i in range(14, 1, -1)]
    observed.write_text("\n".join(["real_name,o1,o2,o3,o4", *rows, ""]))
    known: Any = known_runs((parameters, str(observed)), PARAMETERS, RISK)
    np.testing.assert_array_equal(known.x, x)
    np.testing.assert_array_equal(known.outputs[2:], outputs[2:])
    assert known.statuses == (Status.INVALID,) * 2 + (Status.OK,) * 13
    result = search((parameters, observed))
    assert (result.known, len(result.failures)) == (15, 2)
    assert {run.source for run in result.record.imported} == {"case.0.obs.csv"}


def test_outputs_are_named_by_column_and_time() -> None:
    times = np.array([0.5, 0.5, 2.0])
    data = supac.Observations(("A", "B"), np.ones(6), np.ones(6), times=times)
    assert data.cell_names == ["A@0.5", "A@0.5 #2", "A@2", "B@0.5", "B@0.5 #2", "B@2"]
    several = supac.Observations(
        ("A",), np.ones(3), np.ones(3), times=times, experiments=("cold", "warm", "warm")
    )
    assert several.cell_names == ["A@0.5 (cold)", "A@0.5 (warm)", "A@2 (warm)"]
    assert supac.Observations(("A",), np.ones(2), np.ones(2)).cell_names == ["A_0", "A_1"]


def test_data_frames_are_joined_by_their_index(ensemble: tuple[FloatArray, FloatArray]) -> None:
    pandas = pytest.importorskip("pandas", reason="data frames need pandas")
    x, outputs = ensemble
    names = [f"member {i}" for i in range(15)]
    frame = pandas.DataFrame(x[:, ::-1], columns=["rate", "Amount"], index=names)
    results = pandas.DataFrame(
        outputs[::-1], columns=["y_0", "y_1", "y_2", "y_3"], index=names[::-1]
    )

    class Ensemble:  # as pyEMU holds one
        _df = results[["y_3", "y_2", "y_1", "y_0"]]
        istransformed = False

    by_time = results.set_axis(MEASURED.cell_names, axis=1)[MEASURED.cell_names[::-1]]
    for each in (results, Ensemble(), by_time):
        known: Any = known_runs((frame, each), PARAMETERS, RISK)
        np.testing.assert_array_equal(known.x, x)
        np.testing.assert_array_equal(known.outputs, outputs)
    Ensemble.istransformed = True
    with pytest.raises(ValueError, match="the outputs are logarithms: call their method back_tr"):
        search((frame, Ensemble()))


def test_a_run_that_is_there_twice_counts_once(ensemble: tuple[FloatArray, FloatArray]) -> None:
    x, outputs = ensemble
    rows = [0, 0, 1, 0, 2, 1]  # as the best point of each iteration
    known: Any = known_runs((x[rows], outputs[rows]), PARAMETERS, RISK)
    np.testing.assert_array_equal(known.x, x[:3])
    np.testing.assert_array_equal(known.outputs, outputs[:3])
    noisy: Any = known_runs((x[[0, 0]], outputs[:2]), PARAMETERS, RISK)
    assert len(noisy) == 2


def test_results_stores_and_tables_are_known_by_themselves(tmp_path: Path) -> None:
    store, table = tmp_path / "old.supac", tmp_path / "old.csv"
    first = search(None, store=store)
    supac.export(store, table)
    for given in (first, store, str(store), table, supac.read_store(store)):
        assert search(given).known == 30
    turned = supac.Parameters(dict(reversed(PARAMETERS.marginals.items())))
    risk = supac.Composite(lambda x: simulate(x[::-1]), supac.Welsch(), MEASURED)
    again = supac.minimize(risk, turned, BOUND, budget=20, known=store)
    np.testing.assert_allclose(again.x[:30], first.x[:, ::-1])
    other = supac.Parameters({**PARAMETERS.marginals, "k": supac.marginals.Normal(0.0, 1.0)})
    with pytest.raises(ValueError, match=r"old.supac has the parameters Amount, rate, not Amount"):
        supac.minimize(RISK, other, BOUND, budget=20, known=store)


WRONG: list[tuple[Any, type[Exception], str]] = [
    (3, TypeError, "known must be runs: a table or a store"),
    ((np.zeros((3, 2)), "abc"), FileNotFoundError, "abc"),
    ((np.zeros((3, 2)), np.zeros((4, 4))), ValueError, "points has 3 rows, but outputs 4"),
    (
        (np.zeros((3, 2)), np.zeros((3, 7))),
        ValueError,
        "7 outputs, but the data have 4 cells and 3",
    ),
    ((np.zeros((3, 2)), np.zeros((3, 4, 2))), TypeError, "the outputs are array"),
    ((np.ones((3, 4)), np.zeros((3, 4))), ValueError, "points of 4 coordinates, not 2"),
]


@pytest.mark.parametrize(("given", "kind", "words"), WRONG)
def test_what_cannot_be_known_is_refused(given: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        search(given)


def test_columns_that_are_missing_are_named(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("real_name,rate\na,1\n")
    (tmp_path / "o.csv").write_text("real_name,o1,o2,o3,o4\nb,1,2,3,4\n")
    with pytest.raises(ValueError, match=r"p.csv has no column Amount; its columns are rate"):
        search((tmp_path / "p.csv", tmp_path / "o.csv"))
    (tmp_path / "p.csv").write_text("real_name,rate,amount\na,1,2\n")
    with pytest.raises(ValueError, match=r"o.csv has none of the members of p.csv, such as a"):
        search((tmp_path / "p.csv", tmp_path / "o.csv"))


def test_known_runs_serve_when_data_are_added(tmp_path: Path) -> None:
    """Cells that were empty are filled, rows are moved and left out; outputs are found by time."""
    store = tmp_path / "old.supac"
    first = search(None, store=store)
    order = [2, 1, 0]
    values = np.array([0.51, 0.93, 1.42])
    more = measured(values, TIMES[order])
    risk = supac.Composite(lambda x: simulate(x)[order], supac.Welsch(), more)
    second = supac.minimize(risk, PARAMETERS, BOUND, budget=20, known=store)
    assert second.known == 30
    assert not second.failures
    told: Any = second.record.outputs([run.id for run in second.record.imported])
    np.testing.assert_allclose(told, np.array([simulate(x)[order] for x in first.x]))
    new = measured([*values, 0.3], [*TIMES[order], 2.5])
    with pytest.raises(ValueError, match=r"old.supac has no simulated y at time 2.5: runs can"):
        supac.minimize(
            supac.Composite(simulate, supac.Welsch(), new),
            PARAMETERS,
            BOUND,
            budget=20,
            known=store,
        )


def test_choices_after_a_result_count_also_when_data_are_added() -> None:
    first = search(None)
    values = np.array([1.42, 0.93, 0.51, 0.11])
    for noise, independent in ((0.05, True), (0.1, False)):
        more = measured(values, noise=noise)
        risk = supac.Composite(simulate, supac.Welsch(), more)
        second = supac.minimize(risk, PARAMETERS, BOUND, budget=20, known=first)
        assert (second.record.provenance.data_change == "") is independent
    narrow = supac.Parameters({**PARAMETERS.marginals, "rate": supac.marginals.LogNormal(0.7, 0.1)})
    more = measured(values)
    risk = supac.Composite(simulate, supac.Welsch(), more)
    third = supac.minimize(risk, narrow, BOUND, budget=20, known=first)
    assert not third.record.provenance.prior_is_independent


def test_observation_parameters_follow_outputs_that_lack_them(
    ensemble: tuple[FloatArray, FloatArray],
) -> None:
    """They are among the points already: an ensemble need not repeat them."""

    def scaled(outputs: FloatArray, z: FloatArray) -> FloatArray:
        return np.asarray(
            np.tanh(((z * outputs - MEASURED.values)[:, MEASURED.needed] ** 2).sum(1))
        )

    with_scale = supac.Parameters(
        {**PARAMETERS.marginals, "scale": supac.marginals.LogNormal(1.0, 0.5)}
    )
    risk = supac.Composite(simulate, scaled, observation=1)
    x = np.column_stack([ensemble[0], np.linspace(0.8, 1.2, 15)])
    complete = np.column_stack([ensemble[1], x[:, 2]])
    ours: Any = known_runs((x, complete), with_scale, risk)
    np.testing.assert_array_equal(ours.outputs, complete)
    measured = supac.Composite(simulate, scaled, MEASURED, observation=1)
    short: Any = known_runs((x, ensemble[1]), with_scale, measured)
    np.testing.assert_array_equal(short.outputs, complete)


def test_an_experiment_without_a_name_may_be_named_later() -> None:
    first = search(None)
    named = replace(MEASURED, experiments=("warm",) * 4)
    risk = supac.Composite(simulate, supac.Welsch(), named)
    second = supac.minimize(risk, PARAMETERS, BOUND, budget=20, known=first)
    assert (second.known, len(second.failures)) == (30, 0)
    assert MEASURED.shared(named) == [(0, 0), (2, 2), (3, 3)]  # their certificates share δ
    back = supac.minimize(RISK, PARAMETERS, BOUND, budget=20, known=second)
    assert back.known == 50
    two = replace(MEASURED, experiments=("warm",) * 2 + ("cold",) * 2)
    both = supac.Composite(simulate, supac.Welsch(), two)
    known = known_runs(first, PARAMETERS, both, one_run=True)  # one run simulates both
    assert known is not None
    np.testing.assert_array_equal(known.outputs, [run.outputs for run in first.record.runs])
    with pytest.raises(ValueError, match=r"its experiments: one without a name\) has no simulated"):
        known_runs(first, PARAMETERS, both)  # they may have other settings
