"""Runs that no search learns from: certificates and predictions, kept in a file."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest

import supac
from supac import marginals
from supac.arrays import FloatArray

HOUSE = supac.Parameters(
    {"rate": marginals.LogNormal(1.0, 0.5, unit="1/h"), "share": marginals.Uniform(0.0, 1.0)}
)
BOUND = supac.Catoni(0.05, ceiling=1.0)
POLICY = supac.Execution(on_failure="penalise")


class Counted:
    """The simulator, which counts its runs and may be stopped after some."""

    def __init__(self, last: int = 10**6) -> None:
        self.points: list[FloatArray] = []
        self.last = last

    def __call__(self, x: FloatArray) -> FloatArray:
        if len(self.points) == self.last:
            raise KeyboardInterrupt
        self.points.append(x)
        if x[1] > 0.97:
            raise RuntimeError("did not converge")
        return np.array([np.log(x[0]) - 0.3, x[1] - 0.4])


def composite(simulate: Counted) -> supac.Composite:
    return supac.Composite(simulate, supac.Welsch())


@pytest.fixture
def store(tmp_path: Path) -> Path:
    supac.minimize(
        composite(Counted()), HOUSE, BOUND, budget=40, execution=POLICY,
        store=tmp_path / "run.supac", seed=2,
    )  # fmt: skip
    return tmp_path / "run.supac"


def test_a_certificate_goes_on_where_it_was_stopped(store: Path, tmp_path: Path) -> None:
    result = supac.read_store(store).result()
    whole = Counted()
    wanted = result.certify(composite(whole), n=2, draws=30)
    assert len(whole.points) == 30
    for path in (store, tmp_path / "certificate.supac"):
        first, second, third = Counted(last=12), Counted(), Counted()
        with pytest.raises(KeyboardInterrupt):
            result.certify(composite(first), n=2, draws=30, store=path)
        assert result.certify(composite(second), n=2, draws=30, store=path) == wanted
        assert (len(first.points), len(second.points)) == (12, 18)
        np.testing.assert_array_equal(first.points + second.points, whole.points)
        assert result.certify(composite(third), n=2, draws=30, store=path) == wanted
        assert not third.points
        assert result.certify(composite(third), n=2, draws=35, store=path).draws == 35
        assert len(third.points) == 5


def test_the_search_does_not_learn_from_runs_of_a_certificate(store: Path, tmp_path: Path) -> None:
    before = supac.read_store(store)
    risk = composite(Counted())
    before.result().certify(risk, n=2, draws=30, store=store)
    after = supac.read_store(store)
    assert len(after.runs) == len(before.runs) + 30
    assert [run.purpose for run in after.runs][40:] == ["certificate"] * 30
    assert (after.queries, after.failed, after.seconds) == (40, before.failed, before.seconds)
    assert after.result().posterior == before.result().posterior
    assert len(after.result().evaluations) == 40
    pandas = pytest.importorskip("pandas")
    table = after.to_pandas()
    pandas.testing.assert_frame_equal(table[:40].astype({"drawn": bool}), before.to_pandas())
    assert table["drawn"][40:].isna().all()
    mine = supac.resume(store, risk, budget=60)
    yours = supac.minimize(risk, HOUSE, BOUND, budget=60, execution=POLICY, seed=2)
    assert mine.posterior == yours.posterior
    assert mine.queries == yours.queries == 60


def test_a_certificate_of_another_loss_is_refused(store: Path) -> None:
    result, other = supac.read_store(store).result(), supac.Composite(Counted(), supac.Welsch(2.0))
    for risk in (other, lambda x: 0.5):
        with pytest.raises(supac.CertificateError, match="changed after a result"):
            result.certify(risk, n=2, draws=30)
        with pytest.raises(supac.StoreMismatchError, match="loss"):
            supac.certify(result.posterior, HOUSE, risk, BOUND, n=2, draws=30, store=store)


def test_a_file_of_runs_is_not_a_search(store: Path, tmp_path: Path) -> None:
    path = tmp_path / "runs.supac"
    supac.read_store(store).result().certify(composite(Counted()), n=2, draws=9, store=path)
    with pytest.raises(supac.StoreMismatchError, match="is a store of `runs`, not of `minimize`"):
        supac.minimize(composite(Counted()), HOUSE, BOUND, budget=40, store=path)
    record = supac.read_store(path)
    assert [run.purpose for run in record.runs] == ["certificate"] * 9
    assert record.posterior is None
    supac.export(path, tmp_path / "runs.csv")
    with pytest.raises(ValueError, match="has not come to its end: there is no result"):
        record.result()


def test_a_prediction_is_made_of_draws_of_the_posterior(store: Path) -> None:
    simulate = Counted()
    record = supac.read_store(store)
    made = supac.predict(record, simulate, 200, seed=1)
    assert len(made.outputs) + len(made.failures) == len(simulate.points) == 200
    good = np.array([x for x in simulate.points if x[1] <= 0.97])
    np.testing.assert_allclose(made.x, good)
    np.testing.assert_array_equal(made.outputs, [Counted()(x) for x in good])
    assert all("did not converge" in run.message for run in made.failures)
    low, high = made.quantiles(0.05, 0.95)
    np.testing.assert_allclose(low, np.quantile(made.outputs, 0.05, axis=0))
    assert (low < high).all()
    # They are draws of it, and not those that validated or certified it.
    mean = record.frozen.mean()
    error = made.x.std(axis=0) / np.sqrt(len(made.x))
    assert (np.abs(made.x.mean(axis=0) - mean) < 5.0 * error).all()
    again = supac.predict(record.result(), Counted(), 200, seed=1)
    np.testing.assert_array_equal(again.outputs, made.outputs)
    other = supac.predict(record, Counted(), 200, seed=2)
    assert not np.isin(other.x, made.x).any()


def test_a_prediction_goes_on_where_it_was_stopped(store: Path, tmp_path: Path) -> None:
    result, path = supac.read_store(store).result(), tmp_path / "prediction.supac"
    wanted = supac.predict(result, Counted(), 20)
    first, second = Counted(last=7), Counted()
    with pytest.raises(KeyboardInterrupt):
        supac.predict(result, first, 20, store=path)
    made = supac.predict(result, second, 20, store=path)
    assert len(first.points) + len(second.points) == 20
    np.testing.assert_array_equal(made.outputs, wanted.outputs)
    np.testing.assert_array_equal(made.x, wanted.x)


def test_what_cannot_be_predicted_is_said(tmp_path: Path) -> None:
    def fail(x: FloatArray) -> FloatArray:
        raise RuntimeError("no licence")

    plain = supac.minimize(
        lambda x: float(np.tanh(x @ x)), supac.gaussian([0.0], [[1.0]]), BOUND, budget=20
    )
    with pytest.raises(ValueError, match=r"all 5 runs failed, the first with: .*no licence"):
        supac.predict(plain, fail, 5)
    with pytest.raises(ValueError, match="n must be a whole number, 1 or more, not 0"):
        supac.predict(plain, lambda x: x, 0)
    twice = supac.predict(plain, lambda x: 2.0 * x, 5)  # without names the points are latent
    np.testing.assert_array_equal(twice.outputs, 2.0 * twice.x)


def test_a_search_goes_on_after_all_runs_that_are_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also after those of a batch that was not finished."""
    path, simulate = tmp_path / "stopped.supac", Counted(last=13)
    logged = supac.Execution(on_failure=POLICY.on_failure, progress="log")
    with contextlib.suppress(KeyboardInterrupt):
        supac.minimize(composite(simulate), HOUSE, BOUND, budget=40, execution=logged, store=path)
    made = len(supac.read_store(path).light_runs)
    assert made == 13
    capsys.readouterr()
    supac.minimize(composite(Counted()), HOUSE, BOUND, budget=40, execution=logged, store=path)
    assert "going on after 13 runs" in capsys.readouterr().err
