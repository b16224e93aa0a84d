"""Results for other tools: pandas, xarray, ArviZ, JSON."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import supac
from catalogue import FAMILIES
from supac import marginals
from supac.arrays import FloatArray
from supac.cli import app
from supac.record.record import Counts
from supac.surrogate.importance import Importance

HOUSE = supac.Parameters(
    {
        "rate µ": marginals.LogNormal(1.0, 0.5, unit="1/h"),
        "draw": marginals.Uniform(0.0, 1.0),
        "risk": marginals.Normal(0.0, 1.0, unit="m"),
    }
)
NAMES = ["rate µ", "draw", "risk_"]
TOLD = ["risk", "status", "iteration", "seconds", "attempts", "message", "source", "purpose"]
TOLD += ["role"]
OUTPUTS = [f"output_{i}" for i in range(4)]
BOUND = supac.Catoni(0.05, ceiling=1.0)


def simulate(x: FloatArray) -> FloatArray:
    if x[1] > 0.95:
        raise RuntimeError("did not converge")
    return np.array([np.log(x[0]) - 0.3, x[1] - 0.4, 0.2 * x[2], 0.1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exchange")


@pytest.fixture(scope="module")
def result(folder: Path) -> supac.Result:
    return supac.minimize(
        supac.Composite(simulate, supac.Welsch()),
        HOUSE,
        BOUND,
        budget=60,
        execution=supac.Execution(on_failure="penalise"),
        store=folder / "run.supac",
        seed=5,
    )


@pytest.fixture(scope="module")
def run(result: supac.Result, folder: Path) -> supac.Record:
    return supac.read_store(folder / "run.supac")


@pytest.fixture(scope="module")
def certificate(result: supac.Result) -> supac.Certificate:
    return result.certify(supac.Composite(simulate, supac.Welsch()), n=4, draws=100)


# Tables.


def test_the_runs_of_a_result_are_a_frame(result: supac.Result) -> None:
    pytest.importorskip("pandas")
    frame, runs = result.to_pandas(), result.evaluations
    assert list(frame) == ["id", *NAMES, *TOLD, "drawn", "weight", *OUTPUTS]
    assert frame["id"].tolist() == list(range(60))
    np.testing.assert_array_equal(frame[NAMES], result.x)
    np.testing.assert_array_equal(frame["risk"], np.where(runs.ok, runs.risk, np.nan))
    assert (frame["status"] == "ok").tolist() == runs.ok.tolist()
    failed = frame[frame["status"] != "ok"]
    assert len(failed) == result.failed > 0
    assert set(failed["status"]) == {"raised"}
    assert failed["message"].str.contains("did not converge").all()
    assert failed["output_0"].isna().all()
    assert (frame["purpose"] == "validation").sum() == result.validated
    assert frame["iteration"].max() == len(result.history["queries"]) - 1
    assert frame["iteration"].isna().sum() == result.validated


def test_weights_make_means_over_the_posterior(result: supac.Result) -> None:
    pytest.importorskip("pandas")
    frame = result.to_pandas()
    counted = frame["weight"].notna()
    assert (counted == (frame["drawn"] & (frame["status"] == "ok"))).all()
    assert frame["weight"].sum() == pytest.approx(1.0)
    good = result.evaluations.select(result.evaluations.ok)
    mean, _, _ = Importance().fit(good, result.posterior).mean_risk(result.posterior)
    assert (frame["weight"] * frame["risk"]).sum() == pytest.approx(mean)


def test_a_store_s_frame_is_its_exported_table(run: supac.Record, folder: Path) -> None:
    pytest.importorskip("pandas")
    frame = run.to_pandas()
    supac.export(run.file, folder / "runs.csv", force=True)
    with (folder / "runs.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == ["id", *NAMES, *TOLD, *OUTPUTS, "origin"]
    header, rows = header[:-1], [row[:-1] for row in rows]
    assert [name for name in frame if name not in ("drawn", "weight")] == header
    for name, cells in zip(header, zip(*rows, strict=True), strict=True):
        for value, cell in zip(frame[name].tolist(), cells, strict=True):
            known = value if isinstance(value, str) else float(value)
            if cell == "":
                assert known == "" or np.isnan(known)
            else:
                assert known == (cell if isinstance(value, str) else float(cell))


def test_a_result_and_its_store_tell_the_same(result: supac.Result, run: supac.Record) -> None:
    pandas = pytest.importorskip("pandas")
    pandas.testing.assert_frame_equal(result.to_pandas(), run.to_pandas())


@pytest.mark.parametrize("which", ["result", "run"])
def test_draws_are_a_frame(which: str, request: pytest.FixtureRequest) -> None:
    pytest.importorskip("pandas")
    source: supac.Result | supac.Record = request.getfixturevalue(which)
    frame = source.to_pandas(posterior=7, seed=3)
    assert list(frame) == list(HOUSE.names)
    np.testing.assert_array_equal(frame, source.sample(7, 3))


def test_runs_and_draws_are_datasets(result: supac.Result, run: supac.Record) -> None:
    pytest.importorskip("xarray")
    runs = result.to_xarray()
    assert dict(runs.sizes) == {"run": 60, "output": 4}
    assert runs["rate µ"].attrs == {"units": "1/h"}
    assert runs["risk_"].attrs == {"units": "m"}
    assert runs["risk"].attrs == {}
    np.testing.assert_array_equal(runs["draw_"], result.x[:, 1])
    np.testing.assert_array_equal(runs["outputs"], result.evaluations.outputs)
    assert {"id", *TOLD, "drawn", "weight"} < set(runs.data_vars)
    assert runs.identical(run.to_xarray())
    draws = result.to_xarray(posterior=9, seed=2)
    assert dict(draws.sizes) == {"draw": 9}
    assert list(draws.data_vars) == ["rate µ", "draw_", "risk"]
    np.testing.assert_array_equal(draws["risk"], result.sample(9, 2)[:, 2])
    assert draws["risk"].attrs == {"units": "m"}


def test_without_parameters_there_are_numbers_for_names() -> None:
    pytest.importorskip("pandas")
    plain = supac.minimize(
        lambda x: float(np.tanh(x @ x)), supac.gaussian(np.zeros(2), np.eye(2)), BOUND, budget=20
    )
    assert list(plain.to_pandas())[:4] == ["id", "x0", "x1", "risk"]
    assert list(plain.to_pandas(posterior=3)) == ["x0", "x1"]


def test_a_first_batch_that_fails_was_a_search(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")

    def fail(x: FloatArray) -> float:
        raise RuntimeError("no licence")

    result = supac.minimize(
        fail,
        HOUSE,
        BOUND,
        budget=40,
        execution=supac.Execution(on_failure="penalise"),
        store=tmp_path / "run.supac",
    )
    assert result.stop_reason is supac.StopReason.FAILURES
    mine, theirs = result.to_pandas(), supac.read_store(tmp_path / "run.supac").to_pandas()
    assert len(mine) == result.failed > 0
    assert set(mine["purpose"]) == {"search"}
    assert mine["iteration"].isna().all()
    pandas.testing.assert_frame_equal(mine, theirs)


CROWDED = supac.Parameters(
    {
        name: marginals.Normal(0.0, 1.0, unit=name)
        for name in ("risk", "risk_", "draw_", "draw", "output_0", "run__", "run", "run_")
    }
)


def test_no_parameter_takes_the_column_of_another(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("xarray")
    result = supac.minimize(
        lambda x: float(np.tanh(x @ x)), CROWDED, BOUND, budget=20, store=tmp_path / "run.supac"
    )
    names = ["risk__", "risk_", "draw_", "draw", "output_0_", "run__", "run", "run_"]
    frame = result.to_pandas()
    assert list(frame)[: len(names) + 2] == ["id", *names, "risk"]
    np.testing.assert_array_equal(frame[names], result.x)
    supac.export(tmp_path / "run.supac", tmp_path / "runs.csv")
    again = supac.read_csv(tmp_path / "runs.csv", CROWDED)
    np.testing.assert_array_equal(again.x, result.x)
    np.testing.assert_array_equal(again.risk, result.evaluations.risk)
    names[3], names[6] = "draw__", "run___"
    runs = result.to_xarray()
    np.testing.assert_array_equal([runs[name] for name in names], result.x.T)
    assert [runs[name].attrs["units"] for name in names] == list(CROWDED.names)
    names[0], names[4] = "risk", "output_0"
    draws = result.to_xarray(posterior=5)
    assert list(draws.data_vars) == names
    np.testing.assert_array_equal([draws[name] for name in names], result.sample(5, 0).T)
    assert [draws[name].attrs["units"] for name in names] == list(CROWDED.names)


# ArviZ.


def group(data: Any, name: str) -> Any:
    """A group of what ArviZ 0.23 or 1.x is given."""
    arviz = sys.modules["arviz"]
    if int(arviz.__version__.split(".")[0]) < 1:
        assert isinstance(data, arviz.InferenceData)
        return data[name]
    xarray = pytest.importorskip("xarray")
    assert isinstance(data, xarray.DataTree)
    return data[name].to_dataset()


def groups(data: Any) -> set[str]:
    names = data.groups() if callable(data.groups) else data.groups
    return {name.strip("/") for name in names} - {""}


@pytest.fixture(scope="module")
def data(result: supac.Result, certificate: supac.Certificate) -> Any:
    pytest.importorskip("arviz")
    return result.to_arviz(draws=50, seed=4, observed=np.zeros(4), certificate=certificate)


# Its import says that its next version is another one, once a day.
@pytest.mark.filterwarnings("ignore:\\nArviZ:FutureWarning")
class TestArviz:
    def test_draws_are_those_of_the_result(self, data: Any, result: supac.Result) -> None:
        assert groups(data) == {"posterior", "prior", "posterior_predictive", "observed_data"}
        posterior, prior = group(data, "posterior"), group(data, "prior")
        assert dict(posterior.sizes) == dict(prior.sizes) == {"chain": 1, "draw": 50}
        for i, name in enumerate(["rate µ", "draw_", "risk"]):
            np.testing.assert_array_equal(posterior[name][0], result.sample(50, 4)[:, i])
        assert posterior["rate µ"].attrs["units"] == "1/h"
        assert not np.array_equal(prior["risk"], posterior["risk"])
        assert (prior["rate µ"] > 0.0).all()

    def test_outputs_are_of_fresh_runs(self, data: Any, result: supac.Result) -> None:
        predictive = group(data, "posterior_predictive")["outputs"]
        runs = result.evaluations
        fresh = runs.iteration >= len(result.history["queries"])
        drawn = [runs.proposals[i] == result.posterior for i in runs.iteration]
        expected = runs.outputs[fresh & drawn & runs.ok]  # type: ignore[index]
        assert len(expected) > 5
        np.testing.assert_array_equal(predictive[0], expected)
        np.testing.assert_array_equal(group(data, "observed_data")["outputs"], np.zeros(4))

    def test_attributes_say_what_is_known(
        self, data: Any, result: supac.Result, certificate: supac.Certificate
    ) -> None:
        assert data.attrs["inference_library"] == "supac"
        assert data.attrs["objective"] == result.objective
        assert data.attrs["kl"] == result.kl
        assert data.attrs["stop_reason"] == "budget"
        assert data.attrs["certificate"] == certificate.value
        assert data.attrs["certificate_text"] == str(certificate)
        assert "certificate" not in result.to_arviz(draws=2).attrs

    def test_arviz_makes_sense_of_it(self, data: Any, result: supac.Result) -> None:
        arviz = pytest.importorskip("arviz")
        summary = arviz.summary(data, kind="stats", round_to="none")
        assert set(summary.index) == {"rate µ", "draw_", "risk"}
        mean = result.sample(50, 4)[:, 0].mean()
        assert float(summary.loc["rate µ", "mean"]) == pytest.approx(mean)

    def test_it_can_be_kept_in_a_file(self, data: Any, tmp_path: Path) -> None:
        pytest.importorskip("h5netcdf")
        pytest.importorskip("h5py")
        arviz = pytest.importorskip("arviz")
        data.to_netcdf(str(tmp_path / "data.nc"), engine="h5netcdf")
        again = arviz.from_netcdf(str(tmp_path / "data.nc"), engine="h5netcdf")
        assert again.attrs["objective"] == data.attrs["objective"]
        ours, theirs = group(data, "posterior"), group(again, "posterior")
        np.testing.assert_array_equal(ours["risk"], theirs["risk"])

    def test_a_store_gives_the_same_draws(self, data: Any, run: supac.Record) -> None:
        stored = run.to_arviz(draws=50, seed=4)
        assert groups(stored) == {"posterior", "prior", "posterior_predictive"}
        for name, variable in (("posterior", "risk"), ("posterior_predictive", "outputs")):
            np.testing.assert_array_equal(
                group(stored, name)[variable], group(data, name)[variable]
            )
        assert stored.attrs["objective"] == data.attrs["objective"]

    def test_what_does_not_fit_is_named(self, result: supac.Result) -> None:
        with pytest.raises(ValueError, match=r"one number an output, \(4,\), not \(3,\)"):
            result.to_arviz(observed=np.zeros(3))
        with pytest.raises(ValueError, match="draws must be a whole number, 1 or more, not 0"):
            result.to_arviz(draws=0)


# JSON.


def strictly(text: str) -> Any:
    """As other languages read it, without NaN and infinity."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def same(one: supac.Result, other: supac.Result, *, but: tuple[str, ...] = ()) -> None:
    """Everything that a result tells the same, bit for bit."""
    of_the_record = (
        "start", "prior", "bound", "parameters", "on_failure", "evaluations", "history",
        "failures", "seconds", "known", "queries", "failed",
    )  # fmt: skip
    for name in (*(each.name for each in fields(one) if each.name != "record"), *of_the_record):
        if name in but:
            continue
        mine, yours = getattr(one, name), getattr(other, name)
        if name == "history":
            assert list(mine) == list(yours)
            for column in mine:
                np.testing.assert_array_equal(mine[column], yours[column])
        elif name == "evaluations":
            for column in fields(mine):
                np.testing.assert_array_equal(
                    getattr(mine, column.name), getattr(yours, column.name)
                )
        elif name == "parameters":
            assert (mine is None) == (yours is None)
            assert mine is None or (mine.marginals, mine.prior) == (yours.marginals, yours.prior)
        elif name == "validation":
            batches = [[(each.ids, each.posterior) for each in batch] for batch in (mine, yours)]
            assert batches[0] == batches[1]
        elif name == "failures":
            rows = [
                [
                    (run.id, run.x.tolist(), run.status, run.message, run.seconds, run.purpose)
                    for run in runs
                ]
                for runs in (mine, yours)
            ]
            assert rows[0] == rows[1]
        elif isinstance(mine, float):
            assert mine == yours or (np.isnan(mine) and np.isnan(yours)), name
        else:
            assert mine == yours, name


LEFT_OUT = ("evaluations", "failures", "validation")
"""Of a result that was written without its runs."""


def changed(
    result: supac.Result, *, ending: dict[str, Any] | None = None, **settings: Any
) -> supac.Result:
    """Return a result without runs, with other settings or another ending."""
    record = result.record
    assert record.ending is not None
    end = replace(record.ending, **(ending or {}), validation=())
    return supac.Record(
        replace(record.settings, **settings),
        end.posterior.family,
        rounds=record.rounds,
        ending=end,
        counts=Counts(60, 3, 0, 1.5),
    ).result()


def test_a_result_comes_back(
    result: supac.Result, certificate: supac.Certificate, tmp_path: Path
) -> None:
    path = tmp_path / "result.json"
    text = result.to_json(path, certificate=certificate)
    assert path.read_text(encoding="utf-8") == text
    again = supac.read_result(path)
    same(result, again, but=(*LEFT_OUT, "certificate"))
    assert again.certificate == certificate
    assert str(again) == str(result)
    np.testing.assert_array_equal(again.sample(5, 0), result.sample(5, 0))
    assert again.to_json() == text
    assert again.certify(supac.Composite(simulate, supac.Welsch()), n=4, draws=100) == certificate
    told = strictly(text)
    assert told["runs"] is None
    assert len(text) < 12_000
    with pytest.raises(FileExistsError, match="pass force=True"):
        result.to_json(path)
    result.to_json(path, force=True)


def test_half_a_character_does_no_harm(result: supac.Result, tmp_path: Path) -> None:
    odd = replace(result, notes=("caf\udce9 µ",))
    odd.to_json(tmp_path / "result.json")
    assert supac.read_result(tmp_path / "result.json").notes == odd.notes


def test_runs_come_back_where_they_are_asked_for(result: supac.Result) -> None:
    again = supac.Result.from_json(result.to_json(runs=True))
    same(result, again)
    statuses = strictly(result.to_json(runs=True))["runs"]["status"]
    assert [status == "ok" for status in statuses] == result.evaluations.ok.tolist()
    bound = supac.Catoni(0.1, ceiling=1.0)
    risk = supac.Composite(simulate, supac.Welsch())
    options = {"budget": 20, "bound": bound, "execution": supac.Execution(on_failure="penalise")}
    mine, yours = (supac.reoptimize(each, risk, **options) for each in (result, again))  # type: ignore[arg-type]
    assert mine.posterior == yours.posterior


def test_a_result_of_version_0_1_is_read() -> None:
    """Its runs were kept as evaluations, with the reasons of those that failed."""
    text = (Path(__file__).parents[1] / "stores" / "result.json").read_text()
    told, again = strictly(text), supac.Result.from_json(text)
    assert told["version"] == 1
    for name in ("objective", "mean_risk", "mean_risk_error", "kl", "effective_size", "validated"):
        assert getattr(again, name) == told[name]
    assert (again.queries, again.failed, again.known) == (30, 3, 0)
    assert list(again.notes) == told["notes"]
    np.testing.assert_array_equal(again.posterior.theta, told["posterior"]["theta"])
    runs, columns = again.evaluations, told["runs"]
    for name in ("x", "ok", "drawn", "iteration"):
        np.testing.assert_array_equal(getattr(runs, name), columns[name])
    numbers = {"risk": runs.risk, "outputs": runs.outputs}
    for name, values in numbers.items():
        np.testing.assert_array_equal(values, np.array(columns[name], dtype=np.float64))
    assert [each["message"] for each in columns["failures"]] == [e.message for e in again.failures]
    assert [list(each.ids) for each in again.validation] == [
        [20, 21, 22, 23, 24],
        [25, 26, 27, 28, 29],
    ]
    assert again.fresh == (20, 21, 22, 23, 24)  # the second posterior was worse
    np.testing.assert_array_equal(again.fresh_outputs, columns["outputs"][20:25])
    same(again, supac.Result.from_json(again.to_json(runs=True)))
    without = supac.Result.from_json(json.dumps(told | {"runs": None}))
    assert (without.queries, without.failed, without.seconds) == (30, 3, told["seconds"])
    same(again, without, but=(*LEFT_OUT, "seconds"))
    assert again.seconds == pytest.approx(told["seconds"])
    purposes = [run.purpose for run in again.record.runs]
    assert purposes == ["search"] * 20 + ["validation"] * 10
    # With the first runs made elsewhere.
    known = supac.Result.from_json(json.dumps(told | {"known": 2}))
    assert (known.queries, known.known) == (28, 2)
    assert [run.id for run in known.record.imported] == [0, 1]


def test_what_was_left_out_is_said(result: supac.Result) -> None:
    pytest.importorskip("pandas")
    again = supac.Result.from_json(result.to_json())
    assert (again.queries, again.failed) == (60, result.failed)
    for wants_runs in (
        again.to_pandas,
        lambda: again.to_json(runs=True),
        lambda: supac.reoptimize(again, simulate, budget=10),
    ):
        with pytest.raises(ValueError, match="without its runs"):
            wants_runs()
    assert len(again.to_pandas(posterior=3)) == 3


def test_other_readers_find_the_quantiles(result: supac.Result) -> None:
    rows = strictly(result.to_json())["summary"]
    assert [(row["name"], row["unit"]) for row in rows] == [
        ("rate µ", "1/h"), ("draw", ""), ("risk", "m"),
    ]  # fmt: skip
    for i, row in enumerate(rows):
        law = result.frozen.marginal(i)
        assert row["posterior"] == {
            "p05": float(law.ppf(0.05)), "median": law.median(), "p95": float(law.ppf(0.95)),
        }  # fmt: skip
    assert rows[0]["prior"]["median"] == pytest.approx(1.0)


_MEAN, _SPREAD = np.array([0.5, -1.0]), np.array([[0.5, 0.2], [0.2, 0.3]])
MEMBERS = {
    **{name: pair[0] for name, pair in FAMILIES.items()},
    "mixture": supac.mixture(
        [supac.gaussian(_MEAN, _SPREAD), supac.gaussian(-_MEAN, _SPREAD)], [0.2, 0.8]
    ),
    "mixture of counts": supac.mixture([supac.poisson(2.0), supac.poisson(9.0)]),
    "student": supac.student_t(_MEAN, _SPREAD, 3.5),
    "low rank": supac.low_rank_gaussian(_MEAN, _SPREAD, 1),
}


@pytest.mark.parametrize("name", MEMBERS)
def test_every_family_comes_back(name: str, result: supac.Result) -> None:
    member = MEMBERS[name]
    numbers = np.array([1.0, np.nan, np.inf, -np.inf, 0.1 + 0.2])
    odd = changed(
        result, start=member, prior=member,
        ending={"posterior": member, "objective": np.nan, "kl": np.inf, "certificate": None},
    )  # fmt: skip
    infos = [replace(result.record.rounds[0].info, objective=float(each)) for each in numbers]
    odd.record.rounds[:] = [
        replace(odd.record.rounds[0], ids=(i,), info=info) for i, info in enumerate(infos)
    ]
    np.testing.assert_array_equal(odd.history["objective"], numbers)
    text = odd.to_json()
    strictly(text)
    again = supac.Result.from_json(text)
    same(odd, again, but=LEFT_OUT)
    assert again.posterior.theta.tobytes() == member.theta.tobytes()


@pytest.mark.parametrize("blocks", [None, [], [["a", "d"], ["b", "c"]]])
def test_every_parameter_comes_back(blocks: list[list[str]] | None, result: supac.Result) -> None:
    every = {
        "a": marginals.Normal(0.1, 2.0, unit="K"),
        "b": marginals.LogNormal(0.1, 2.0),
        "c": marginals.Uniform(-0.1, 2.0),
        "d": marginals.LogitNormal(0.0, 2.0, 0.3, 0.7),
        "e": marginals.HalfNormal(0.3),
        "f": marginals.LogUniform(1e-3, 0.3),
    }
    parameters = supac.Parameters(every, blocks)
    latent = parameters.prior
    for each in (parameters, parameters.with_prior(latent.at(latent.theta * 1.5))):
        odd = changed(
            result, ending={"posterior": latent, "certificate": None}, start=latent, prior=each
        )
        again = supac.Result.from_json(odd.to_json())
        assert again.parameters is not None
        same(odd, again, but=LEFT_OUT)
        np.testing.assert_array_equal(again.sample(4, 0), odd.sample(4, 0))


@dataclass(frozen=True)
class Mine(supac.Bound):
    def __call__(self, mean_risk: float, kl: float) -> float:
        return mean_risk + kl


class Own(supac.StudentT):
    pass


_STUDENT = supac.student_t(_MEAN, _SPREAD, 3.0)


def test_of_what_is_not_ours_the_name_is_kept(result: supac.Result) -> None:
    text = changed(result, bound=Mine()).to_json()
    assert strictly(text)["bound"] == {"other": "Mine()"}
    again = supac.Result.from_json(text)
    assert again.bound is None
    with pytest.raises(ValueError, match="only the name of its prior or bound"):
        again.certify(simulate, n=40)
    own = supac.Distribution(Own(2, 3.0), _STUDENT.theta)
    with pytest.raises(ValueError, match=r"family of your own.*result\.posterior\.theta"):
        changed(result, ending={"posterior": own}, prior=_STUDENT).to_json()


@dataclass(frozen=True)
class Shifted(marginals.Normal):
    pass


def test_parameters_that_no_file_can_name_are_refused(tmp_path: Path) -> None:
    own = supac.Parameters({"a": Shifted(1.0, 2.0), "b": marginals.Normal(0.0, 1.0)})
    store, target = tmp_path / "run.supac", tmp_path / "result.json"
    result = supac.minimize(lambda x: float(np.tanh(x @ x)), own, BOUND, budget=20, store=store)
    with pytest.raises(
        ValueError, match=r"class of your own, .*Shifted.*result\.sample\(n, seed\)"
    ):
        result.to_json(target)
    assert not target.exists()
    with pytest.raises(ValueError, match=r"class of your own, .*Shifted.*resume\("):
        supac.read_store(store).result()
    own_prior = own.with_prior(supac.Distribution(Own(2, 3.0), _STUDENT.theta))
    with pytest.raises(ValueError, match="class of your own"):
        changed(result, prior=own_prior, start=own.prior).to_json()


def other_first(told: dict[str, Any], **changes: Any) -> list[Any]:
    """Return the rounds with another first one."""
    first, *others = told["rounds"]
    return [first | changes, *others]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda told: told | {"version": 4}, "version 4 .* use a newer supac"),
        (lambda told: told | {"version": 0}, "damaged: its version .* not 0"),
        (lambda told: told | {"version": "1"}, "damaged: its version .* not '1'"),
        (lambda told: {k: v for k, v in told.items() if k != "version"}, "it has no version"),
        (lambda told: told | {"format": "other"}, "this is no result"),
        (lambda told: told | {"posterior": {"other": "evil"}}, "damaged"),
        (lambda told: told | {"stop_reason": "boredom"}, "boredom"),
        (lambda told: told | {"history": 3}, "damaged"),
        (lambda told: {k: v for k, v in told.items() if k != "kl"}, "damaged.*kl"),
        (lambda told: [told], "this is no result"),
        (lambda told: told | {"runs": None, "rounds": None, "known": np.inf}, "damaged"),
        (lambda told: told | {"posterior": told["posterior"] | {"theta": [1.0]}}, "damaged"),
        (lambda told: told | {"runs": told["runs"] | {"risk": [0.1]}}, "damaged"),
        (lambda told: told | {"runs": told["runs"] | {"ok": []}}, "columns of its runs"),
        (lambda told: told | {"rounds": other_first(told, proposal=None)}, "without a proposal"),
        (lambda told: told | {"rounds": other_first(told, ids=[0])}, "damaged"),
        (lambda told: told | {"rounds": other_first(told, ids=[99])}, "not there"),
        (lambda told: told | {"validation": [told["validation"][0] | {"ids": [99]}]}, "not there"),
        (lambda told: told | {"rounds": told["rounds"][1:]}, "damaged"),
    ],
)
def test_what_is_no_result_is_refused(
    change: Any, words: str, result: supac.Result, tmp_path: Path
) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(change(json.loads(result.to_json(runs=True)))))
    with pytest.raises(supac.ResultFormatError, match=words):
        supac.read_result(path)
    path.write_text("[" * 100_000)
    with pytest.raises(supac.ResultFormatError, match="this is no JSON"):
        supac.read_result(path)
    path.write_text("{")
    with pytest.raises(supac.ResultFormatError, match=r"result\.json: this is no JSON"):
        supac.read_result(path)


# Certificates.


@pytest.mark.filterwarnings("ignore:\\nArviZ:FutureWarning")
def test_a_certificate_of_another_posterior_is_refused_everywhere(
    result: supac.Result, run: supac.Record, certificate: supac.Certificate, tmp_path: Path
) -> None:
    pytest.importorskip("arviz")
    other, told = replace(certificate, kl=certificate.kl + 0.01), tmp_path / "other.json"
    told.write_text(other.to_json())
    for refuses in (
        lambda: result.to_json(tmp_path / "result.json", certificate=other),
        lambda: replace(result, certificate=other).to_json(),
        lambda: result.to_arviz(certificate=other),
        lambda: run.to_arviz(certificate=other),
        lambda: supac.write_report(result, tmp_path / "report.html", certificate=other),
    ):
        with pytest.raises(ValueError, match=r"about a posterior with KL .* certify this run"):
            refuses()
    words = call("export", run.path, tmp_path / "result.json", "--certificate", told, code=1)
    assert "about a posterior with KL" in words
    assert list(tmp_path.iterdir()) == [told]


def test_a_certificate_of_another_posterior_with_the_same_kl_is_refused(
    result: supac.Result, certificate: supac.Certificate
) -> None:
    """Mirrored at the prior's mean, which changes no KL."""
    family, prior = result.posterior.family, result.prior
    assert isinstance(prior, supac.Distribution)
    mean, covariance = result.posterior.mean, result.posterior.covariance
    theta = supac.gaussian(2.0 * prior.mean - mean, covariance).theta
    mirrored = replace(result, posterior=supac.Distribution(family, theta))
    assert mirrored.posterior.kl(prior) == pytest.approx(result.kl, rel=1e-9)
    with pytest.raises(ValueError, match="another posterior or another prior"):
        mirrored.to_json(certificate=certificate)
    older = json.loads(certificate.to_json())
    assert older.pop("fingerprint")
    unnamed = supac.Certificate.from_json(json.dumps(older))
    assert unnamed == replace(certificate, fingerprint="")
    mirrored.to_json(certificate=unnamed)  # by its KL alone it cannot be told apart


def test_a_certificate_with_a_limit_on_kl_is_about_its_own_posterior(
    result: supac.Result, tmp_path: Path
) -> None:
    prior = supac.gaussian(np.zeros(2), np.eye(2))
    pair = supac.mixture([supac.gaussian(_MEAN, _SPREAD), supac.gaussian(-_MEAN, _SPREAD)])
    mixed = changed(
        result, ending={"posterior": pair, "kl": pair.divergence(prior).value}, start=pair,
        prior=prior, loss=None, data=None,
    )  # fmt: skip
    for seed in range(3):
        certificate = mixed.certify(lambda x: float(np.tanh(x @ x)), n=40, draws=20, seed=seed)
        assert certificate.delta_kl > 0.0
        assert supac.Result.from_json(mixed.to_json(certificate=certificate)).certificate
        supac.write_report(mixed, tmp_path / "report.html", certificate=certificate, force=True)
        for shift in (-0.1, 0.1):
            with pytest.raises(ValueError, match="about a posterior with KL"):
                mixed.to_json(certificate=replace(certificate, kl=certificate.kl + shift))


# Stores and the command line.


def test_a_store_holds_the_result(result: supac.Result, run: supac.Record) -> None:
    stored = run.result()
    same(result, stored, but=("seconds",))
    assert stored.seconds == pytest.approx(result.seconds)
    assert (stored.queries, stored.failed) == (result.queries, result.failed)


def test_a_run_on_its_way_has_no_result(tmp_path: Path) -> None:
    store = tmp_path / "run.supac"

    def look(_: supac.Iteration) -> None:
        with pytest.raises(ValueError, match="has not come to its end"):
            supac.read_store(store).result()

    supac.minimize(
        lambda x: float(np.tanh(x @ x)), supac.gaussian([0.0], [[1.0]]), BOUND, budget=20,
        store=store, callback=look,
    )  # fmt: skip
    assert supac.read_store(store).result().stop_reason is supac.StopReason.BUDGET


def call(*words: object, code: int = 0) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == code, done.output
    return done.output


def test_the_command_line_writes_results(
    run: supac.Record, certificate: supac.Certificate, tmp_path: Path
) -> None:
    target, told = tmp_path / "result.json", tmp_path / "certificate.json"
    told.write_text(certificate.to_json())
    assert "wrote the result" in call("export", run.path, target, "--certificate", told)
    assert supac.read_result(target).certificate == certificate
    now = supac.read_store(run.file).result()  # with the certificates that were asked for
    assert target.read_text() == now.to_json(certificate=certificate)
    assert "exists already" in call("export", run.path, target, code=1)
    call("export", run.path, target, "--force")
    own = supac.read_result(target).certificate
    assert own is not None
    assert own.subject == "ensemble"
    assert "these are a table" in call(
        "export", run.path, tmp_path / "a.json", "--posterior", 3, code=1
    )
    assert "can only be written to a .json" in call(
        "export", run.path, tmp_path / "a.csv", "--certificate", told, code=1
    )


def test_the_command_line_writes_draws_of_both_kinds(run: supac.Record, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    call("export", run.path, tmp_path / "draws.parquet", "--posterior", 6, "--seed", 2)
    columns = parquet.read_table(tmp_path / "draws.parquet").to_pydict()
    np.testing.assert_array_equal(list(columns.values()), run.sample(6, 2).T)
    assert list(columns) == list(HOUSE.names)


@pytest.mark.parametrize("extra", ["pandas", "xarray", "arviz"])
def test_a_missing_extra_is_named(
    extra: str, result: supac.Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, extra, None)
    with pytest.raises(ImportError, match=rf"pip install 'supac\[{extra}\]'"):
        getattr(result, f"to_{extra}")()
