"""Searches with Jacobians: fewer runs, the same bits again, and no harm by wrong ones."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from old_formats import downgrade
from supac import marginals
from supac.arrays import FloatArray
from supac.emulator.jacobians import JacobianEmulator
from supac.emulator.outputs import OutputEmulator
from supac.problem import Evaluations, Problem
from supac.record.record import read_store
from supac.surrogate.estimator import Context

DIM, BUDGET = 6, 13
RNG = np.random.default_rng(0)
WEIGHTS = RNG.standard_normal((12, DIM)) / np.sqrt(DIM)
TRUTH = RNG.standard_normal(DIM)
PARAMETERS = supac.Parameters({f"k{i}": marginals.LogNormal(2.0, 0.7) for i in range(DIM)})
NAT = 0.02
BOUND = supac.Catoni(temperature=NAT)


def outputs(x: FloatArray) -> FloatArray:
    z = np.log(x / 2.0) / 0.7 @ WEIGHTS.T
    return np.asarray(z + 0.2 * np.sin(2.0 * z))


def slopes(x: FloatArray) -> FloatArray:
    z = np.log(x / 2.0) / 0.7 @ WEIGHTS.T
    return np.asarray((1.0 + 0.4 * np.cos(2.0 * z))[:, None] * WEIGHTS / (0.7 * x))


DATA = supac.Observations(("A",), outputs(2.0 * np.exp(0.7 * TRUTH)), np.full(12, 0.2))


def pair(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    return outputs(x), slopes(x)


def composite(**words: Any) -> supac.Composite:
    return supac.Composite(words.pop("simulate", pair), supac.MeanSquare(), DATA, **words)


def minimize(risk: supac.Composite, budget: int = BUDGET, **words: Any) -> supac.Result:
    return supac.minimize(risk, PARAMETERS, BOUND, budget=budget, validation=0, seed=1, **words)


def score(result: supac.Result) -> float:
    """Compute the objective from draws that are common to all posteriors: a tenth of a nat off."""
    z = np.random.default_rng(5).standard_normal((500, DIM))
    mean, root = np.asarray(result.posterior.mean), np.linalg.cholesky(result.posterior.covariance)
    x = PARAMETERS.from_latent(mean + np.concatenate([z, -z]) @ root.T)
    risk = supac.MeanSquare()(DATA.residuals(np.array([outputs(each) for each in x])))
    return float(risk.mean()) + NAT * result.posterior.kl(PARAMETERS.prior)


@pytest.fixture(scope="module")
def told() -> supac.Result:
    return minimize(composite(jacobian=True))


def test_thirteen_runs_with_jacobians_do_what_thirty_without_do(told: supac.Result) -> None:
    plain = minimize(composite(simulate=outputs), 31)
    assert score(told) < score(plain) + 0.1 * NAT
    assert all(run.jacobian is not None for run in told.record.runs)


def test_a_function_of_its_own_gives_the_same(told: supac.Result) -> None:
    apart = minimize(composite(simulate=outputs, jacobian=slopes, jacobian_cost=0.0))
    assert apart.posterior == told.posterior


def test_all_points_at_once_give_the_same(told: supac.Result) -> None:
    def many(x: FloatArray) -> tuple[FloatArray, list[FloatArray]]:
        return np.array([outputs(each) for each in x]), [slopes(each) for each in x]

    risk = composite(simulate=many, jacobian=True)
    found = minimize(risk, execution=supac.Execution(vectorized=True, progress=False))
    assert found.posterior == told.posterior


@pytest.mark.slow
def test_workers_give_the_same(told: supac.Result) -> None:
    assert minimize(composite(jacobian=True), execution=2).posterior == told.posterior


def test_some_runs_may_have_none_and_nothing_need_be_declared() -> None:
    def some(x: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        return outputs(x), slopes(x) if x[0] > 2.0 else None

    found = minimize(composite(simulate=some), 16)
    known = [run.jacobian is not None for run in found.record.runs]
    assert 0 < sum(known) < len(known)
    assert np.isfinite(found.objective)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda x: slopes(x).T, "transposed, one row an output is wanted, at k0 = "),
        (lambda x: slopes(x)[:, :3], r"shape \(12, 6\), and was an array of shape \(12, 3\)"),
        (lambda x: slopes(x) * np.nan, "return None in its place"),
    ],
)
@pytest.mark.parametrize("on_failure", ["raise", "penalise"])
def test_a_wrong_jacobian_ends_the_search(wrong: Any, words: str, on_failure: Any) -> None:
    where = supac.Execution(on_failure=on_failure, progress=False)
    with pytest.raises(supac.EvaluationError, match=words):
        minimize(composite(simulate=outputs, jacobian=wrong, jacobian_cost=0.0), execution=where)


def test_a_risk_without_outputs_has_no_use_for_it() -> None:
    with pytest.raises(supac.EvaluationError, match="give the risk as Composite"):
        supac.minimize(lambda x: (float(x @ x), 2.0 * x), PARAMETERS, BOUND, budget=30, seed=1)


@pytest.mark.parametrize(
    "words",
    [{"proxy": lambda x: x.sum(axis=1)}, {"algorithm": supac.SuPAC(supac.GaussianProcess())}],
)
def test_what_cannot_learn_from_them_is_refused(words: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="jacobian= of the Composite is of no use with"):
        minimize(composite(jacobian=True), **words)


def test_meta_learning_refuses_them() -> None:
    with pytest.raises(ValueError, match="does not know Jacobians"):
        supac.meta_learn([supac.Task(composite(jacobian=True), BOUND)], PARAMETERS)


def test_the_budget_counts_what_jacobians_cost() -> None:
    calls = [0]

    def counted(x: FloatArray) -> FloatArray:
        calls[0] += 1
        return slopes(x)

    cost, budget = 0.5, 24
    found = minimize(composite(simulate=outputs, jacobian=counted, jacobian_cost=cost), budget)
    runs = len(found.record.runs)
    known = sum(run.jacobian is not None for run in found.record.runs)
    assert calls[0] == known
    assert 0 < known < runs  # none is asked for once the search has settled
    assert budget - 4 * (1.0 + cost) < runs + cost * known <= budget
    with pytest.raises(ValueError, match=r"runs with their Jacobians, which cost 4\.5 runs"):
        minimize(composite(simulate=outputs, jacobian=counted, jacobian_cost=cost), 4)


def test_a_jacobian_that_does_not_pay_is_not_asked_for() -> None:
    def never(x: FloatArray) -> FloatArray:
        raise AssertionError

    told = minimize(composite(simulate=outputs, jacobian=never), BUDGET)
    assert told.posterior == minimize(composite(simulate=outputs), BUDGET).posterior
    words = "saves nothing below 10 parameters, and there are 6; if it costs less than 0.6 runs"
    assert [words in note for note in told.record.advice].count(True) == 1


@pytest.mark.parametrize("cost", [-1.0, np.nan, np.inf, np.ones(2)])
def test_a_cost_that_is_no_number_of_runs_is_refused(cost: Any) -> None:
    with pytest.raises(ValueError, match="jacobian_cost must be a number of runs"):
        composite(jacobian=True, jacobian_cost=cost)


def test_an_argument_that_is_no_function_is_refused() -> None:
    with pytest.raises(TypeError, match="jacobian must be a function of a point, or True"):
        composite(jacobian=3)


def test_jacobians_that_mislead_are_left_out() -> None:
    x = np.random.default_rng(2).standard_normal((15, DIM))
    y = DATA.residuals(np.array([outputs(each) for each in PARAMETERS.from_latent(x)]))
    prior, loss = PARAMETERS.prior, supac.MeanSquare()
    z = [np.log(each / 2.0) / 0.7 for each in PARAMETERS.from_latent(x)]
    right = [(1.0 + 0.4 * np.cos(2.0 * WEIGHTS @ u))[:, None] * WEIGHTS / 0.2 for u in z]
    predicted = []
    for sign in (1.0, -1.0):
        runs = Evaluations.none(DIM).append(x, loss(y), prior, y)
        runs = Evaluations(**{**vars(runs), "jacobians": tuple(sign * each for each in right)})
        context = Context(prior, resolution=0.02, loss=loss)
        model = JacobianEmulator().fit(runs, prior, context)
        plain = OutputEmulator().fit(runs, prior, Context(prior, resolution=0.02, loss=loss))
        predicted.append((model.predict(x + 0.1), plain.predict(x + 0.1)))
    assert not np.allclose(*predicted[0])
    np.testing.assert_array_equal(*predicted[1])


def test_a_store_keeps_them_and_goes_on_to_the_same_bits(
    told: supac.Result, tmp_path: Path
) -> None:
    store = tmp_path / "run.supac"
    minimize(composite(jacobian=True), 7, store=store)
    found = supac.resume(store, composite(jacobian=True), budget=BUDGET)
    assert found.posterior == told.posterior
    record = read_store(store)
    assert all(run.jacobian is None for run in record.runs)  # large: read where they are needed
    for run, kept in zip(told.record.runs, record.iterate(jacobians=True), strict=True):
        np.testing.assert_array_equal(run.jacobian, kept.jacobian)
        expected = slopes(PARAMETERS.from_latent(kept.x[None])[0])
        np.testing.assert_allclose(np.asarray(kept.jacobian), expected, rtol=1e-7)


def test_a_damaged_jacobian_is_noticed(tmp_path: Path) -> None:
    store = tmp_path / "run.supac"
    minimize(composite(jacobian=True), 3, store=store)
    with sqlite3.connect(store) as db:
        db.execute("UPDATE jacobians SET numbers = zeroblob(length(numbers)) WHERE id = 1")
    db.close()
    with pytest.raises(supac.StoreDamagedError, match="the Jacobian of run 1"):
        supac.resume(store, composite(jacobian=True), budget=BUDGET)


def test_a_store_of_format_5_is_gone_on_with(tmp_path: Path) -> None:
    store, risk = tmp_path / "run.supac", composite(simulate=outputs)
    unbroken = minimize(risk, 14)
    minimize(risk, 12, store=store)
    downgrade(store, 5)
    assert len(read_store(store).runs) == 12
    assert supac.resume(store, risk, budget=14).posterior == unbroken.posterior


def test_the_first_batch_is_small_only_if_jacobians_are_expected() -> None:
    problem = Problem.within(PARAMETERS, BOUND, loss=supac.MeanSquare())
    first = len(supac.SuPAC().init(problem, 0).batch or ())
    assert first == 10
