from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.problem import Evaluations
from supac.problem.losses import ResidualLoss
from supac.record.record import Record
from supac.record.run import Run
from supac.running.runner import Runner

X = np.array([[0.0, 1.0], [2.0, -1.0], [3.0, 0.5], [-1.0, 2.0]])
OUTPUTS = np.column_stack([X[:, 0], X[:, 1] - 1.0, X[:, 0] * X[:, 1]])
CEILING = 7.0


def one(x: FloatArray) -> FloatArray:
    return np.array([x[0], x[1] - 1.0, x[0] * x[1]])


def many(x: FloatArray) -> FloatArray:
    return np.column_stack([x[:, 0], x[:, 1] - 1.0, x[:, 0] * x[:, 1]])


def nan_beyond_two(x: FloatArray) -> FloatArray:
    return np.full(3, np.nan) if x[0] >= 2.0 else one(x)


def raises_beyond_two(x: FloatArray) -> FloatArray:
    if x[0] >= 2.0:
        raise RuntimeError("no steady state")
    return one(x)


def with_ceiling(outputs: FloatArray) -> FloatArray:
    risks = (outputs**2).mean(axis=1)
    return np.where(np.isfinite(risks), risks, CEILING)


@pytest.mark.parametrize(("simulate", "vectorized"), [(one, False), (many, True)])
def test_outputs_and_risks_are_those_of_the_points(
    simulate: Callable[[FloatArray], FloatArray], vectorized: bool
) -> None:
    risk = supac.Composite(simulate, supac.MeanSquare())
    outcome = evaluate(risk, X, vectorized=vectorized, raising=True)
    np.testing.assert_array_equal(outcome.outputs, OUTPUTS)
    np.testing.assert_allclose(outcome.risk, (OUTPUTS**2).mean(axis=1))
    assert reasons(outcome) == []


def test_it_can_be_called_like_any_risk() -> None:
    expected = (OUTPUTS**2).mean(axis=1)
    np.testing.assert_allclose(supac.Composite(many, supac.MeanSquare())(X), expected)
    for x, risk in zip(X, expected, strict=True):
        value = supac.Composite(one, supac.MeanSquare())(x)
        assert np.ndim(value) == 0
        assert value == pytest.approx(risk)


@dataclass
class Outcome:
    runs: list[Run]
    risk: FloatArray
    outputs: FloatArray | None

    @property
    def failures(self) -> list[Run]:
        return [run for run in self.runs if not run.ok]


def evaluate(risk: supac.Composite, x: FloatArray, *, vectorized: bool, raising: bool) -> Outcome:
    policy = supac.Execution(on_failure="raise" if raising else "drop", vectorized=vectorized)
    runner = Runner([risk], policy, Record.of_runs(risk, x.shape[1]))
    runs = runner.run(x)
    return Outcome(runs, *runner.functions[0].columns(runs))


def reasons(outcome: Outcome) -> list[str]:
    return [run.message for run in outcome.failures]


def test_one_point_is_a_batch_of_one() -> None:
    risk = supac.Composite(one, supac.MeanSquare())
    outcome = evaluate(risk, X[:1], vectorized=False, raising=True)
    assert outcome.outputs is not None
    assert outcome.outputs.shape == (1, 3)
    assert outcome.risk == pytest.approx((OUTPUTS[:1] ** 2).mean(axis=1))


def test_square_losses_are_what_they_say() -> None:
    residuals = np.array([[3.0, -4.0], [0.0, 0.0], [1.0, 1.0]])
    np.testing.assert_allclose(supac.MeanSquare()(residuals), [12.5, 0.0, 1.0])
    np.testing.assert_allclose(supac.RootMeanSquare()(residuals), [np.sqrt(12.5), 0.0, 1.0])
    squares = np.array([0.0, 4.0])
    np.testing.assert_array_equal(supac.MeanSquare().of_mean_square(squares), squares)
    np.testing.assert_array_equal(supac.RootMeanSquare().of_mean_square(squares), [0.0, 2.0])


@pytest.mark.parametrize("loss", [supac.MeanSquare(), supac.RootMeanSquare(), supac.Welsch(2.0)])
def test_slopes_of_residual_losses_are_differences(loss: ResidualLoss) -> None:
    residuals = np.array([[3.0, 4.0, -1.0], [0.5, -0.2, 0.0]])
    found, step = loss.slopes(residuals), 1e-6
    assert found is not None
    for k, one in enumerate(step * np.eye(3)):
        expected = (loss(residuals + one) - loss(residuals - one)) / (2.0 * step)
        np.testing.assert_allclose(found[:, k], expected, rtol=1e-6, atol=1e-8)


def test_a_square_loss_of_ones_own_is_one_function() -> None:
    class Logarithm(supac.SquareLoss):
        def of_mean_square(self, mean_square: FloatArray) -> FloatArray:
            return np.log1p(mean_square)

    np.testing.assert_allclose(Logarithm()(OUTPUTS), np.log1p((OUTPUTS**2).mean(axis=1)))


@pytest.mark.parametrize("simulate", [nan_beyond_two, raises_beyond_two])
def test_a_failed_run_without_a_risk_is_nan_where_one_may_go_on(
    simulate: Callable[[FloatArray], FloatArray],
) -> None:
    risk = supac.Composite(simulate, supac.RootMeanSquare())
    outcome = evaluate(risk, X, vectorized=False, raising=False)
    failed = np.array([False, True, True, False])
    np.testing.assert_array_equal(np.isnan(outcome.risk), failed)
    assert outcome.outputs is not None
    np.testing.assert_array_equal(np.isnan(outcome.outputs).all(axis=1), failed)
    np.testing.assert_array_equal(outcome.outputs[~failed], OUTPUTS[~failed])
    assert len(reasons(outcome)) == 2


def test_reasons_say_why_runs_failed() -> None:
    for simulate, reason in (
        (nan_beyond_two, "simulate returned NaN or infinity"),
        (raises_beyond_two, "RuntimeError: no steady state"),
    ):
        risk = supac.Composite(simulate, supac.MeanSquare())
        outcome = evaluate(risk, X, vectorized=False, raising=False)
        assert reasons(outcome) == [reason] * 2


def test_one_bad_output_spoils_the_run() -> None:
    def simulate(x: FloatArray) -> FloatArray:
        return np.where(x[:, :1] >= 2.0, [[1.0, np.inf, 2.0]], many(x))

    outcome = evaluate(
        supac.Composite(simulate, supac.MeanSquare()), X, vectorized=True, raising=False
    )
    assert outcome.outputs is not None
    assert np.isnan(outcome.outputs[1:3]).all()
    assert np.isnan(outcome.risk[1:3]).all()
    assert np.isfinite(outcome.risk[[0, 3]]).all()


def test_a_loss_may_give_a_failure_a_risk_of_its_own() -> None:
    """Such a run has failed, and is counted, but nobody need guess what it costs."""
    risk = supac.Composite(nan_beyond_two, with_ceiling)
    for raising in (True, False):
        outcome = evaluate(risk, X, vectorized=False, raising=raising)
        np.testing.assert_array_equal(outcome.risk[1:3], CEILING)
        assert reasons(outcome) == ["simulate returned NaN or infinity"] * 2
        runs = Evaluations.none(2).append(
            X, outcome.risk, supac.gaussian([0.0, 0.0], np.eye(2)), outcome.outputs
        )
        assert runs.failed == 2
        np.testing.assert_array_equal(runs.ok, [True, False, False, True])
        np.testing.assert_array_equal(runs.usable(None).risk, outcome.risk)


def test_an_exception_gets_the_ceiling_too_where_one_may_go_on() -> None:
    risk = supac.Composite(raises_beyond_two, with_ceiling)
    outcome = evaluate(risk, X, vectorized=False, raising=False)
    np.testing.assert_array_equal(outcome.risk[1:3], CEILING)


def test_a_minimisation_goes_on_with_the_ceiling() -> None:
    result = supac.minimize(
        supac.Composite(nan_beyond_two, with_ceiling),
        supac.gaussian([1.0, 0.0], np.eye(2)),
        supac.Catoni(temperature=0.1),
        budget=40,
        algorithm=supac.SuPAC(supac.Importance()),
    )
    runs = result.evaluations
    assert runs.failed == (runs.x[:, 0] >= 2.0).sum() > 0
    np.testing.assert_array_equal(runs.risk[~runs.ok], CEILING)
    assert any("simulate returned NaN" in note for note in result.notes)


def raises_always(x: FloatArray) -> FloatArray:
    raise RuntimeError("no steady state")


def of_two_lengths(x: FloatArray) -> FloatArray:
    return np.zeros(3 if x[0] < 2.0 else 2)


def only_one_row(outputs: FloatArray) -> float:
    return float(outputs[0] @ outputs[0])


def only_one_vector(outputs: FloatArray) -> float:
    return float(outputs @ outputs)


MISTAKES: dict[str, tuple[Any, Any, bool, str]] = {
    "a word": (
        lambda x: "low",
        supac.MeanSquare(),
        False,
        r"simulate must return a 1-D array of numbers a point, not 'low' of type str; pass "
        r"Execution\(vectorized=True\) if simulate takes",
    ),
    "a matrix": (
        lambda x: np.eye(2),
        supac.MeanSquare(),
        False,
        r"1-D array of numbers a point, not an array of shape \(2, 2\)",
    ),
    "words": (lambda x: ["a", "b"], supac.MeanSquare(), False, "not a list of length 2"),
    "nothing": (lambda x: None, supac.MeanSquare(), False, "not None of type NoneType"),
    "two lengths": (
        of_two_lengths,
        supac.MeanSquare(),
        False,
        r"simulate returned 2 outputs, but 3 before at x = ",
    ),
    "a vector for all": (
        lambda x: np.zeros(len(x)),
        supac.MeanSquare(),
        True,
        r"on 4 points, must return an array of shape \(4, m\), not an array of shape \(4,\); "
        "leave out vectorized=True",
    ),
    "too few rows": (
        lambda x: np.zeros((2, 3)),
        supac.MeanSquare(),
        True,
        r"must return an array of shape \(4, m\), not an array of shape \(2, 3\)",
    ),
    "raises for all": (
        lambda x: one(x[0, 0]),
        supac.MeanSquare(),
        True,
        r"simulate, called with vectorized=True, raised IndexError: "
        r".*; leave out vectorized=True",
    ),
    "a loss of one row": (
        one,
        only_one_row,
        False,
        r"loss must take residuals \(n, k\) and return n risks; for outputs \(2, 3\) it returned "
        r"shape \(\)",
    ),
    "a loss that raises": (
        one,
        only_one_vector,
        False,
        r"loss must take residuals \(n, k\) and return n risks; for outputs \(2, 3\) it raised "
        "ValueError",
    ),
    "a loss of no numbers": (one, lambda outputs: "low", False, "it returned no numbers"),
    "a loss an output": (one, np.square, False, r"it returned shape \(2, 3\)"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_an_error_that_says_what_to_do(name: str) -> None:
    simulate, loss, vectorized, message = MISTAKES[name]
    with pytest.raises(supac.EvaluationError, match=message):
        evaluate(supac.Composite(simulate, loss), X, vectorized=vectorized, raising=True)


@pytest.mark.parametrize("name", MISTAKES)
def test_where_one_may_go_on_only_a_wrong_loss_is_an_error(name: str) -> None:
    simulate, loss, vectorized, _ = MISTAKES[name]
    risk = supac.Composite(simulate, loss)
    if name.startswith("a loss"):
        with pytest.raises(supac.EvaluationError, match="loss must"):
            evaluate(risk, X, vectorized=vectorized, raising=False)
    else:
        outcome = evaluate(risk, X, vectorized=vectorized, raising=False)
        assert len(outcome.failures) == (2 if name == "two lengths" else 4)
        assert all(run.message for run in outcome.failures)


def test_a_list_is_as_good_as_an_array() -> None:
    risk = supac.Composite(lambda x: one(x).tolist(), supac.MeanSquare())
    outcome = evaluate(risk, X, vectorized=False, raising=True)
    np.testing.assert_array_equal(outcome.outputs, OUTPUTS)


FAILURES: dict[str, tuple[Any, Any, str]] = {
    "raises": (
        raises_beyond_two,
        with_ceiling,
        r"simulate raised RuntimeError: no steady state; the point was x = \[ 2\. -1\.\]; .*"
        r'Execution\(on_failure="penalise"\) or "drop" to continue',
    ),
    "nan": (
        nan_beyond_two,
        supac.MeanSquare(),
        r"simulate returned NaN or infinity at x = \[ 2\. -1\.\]; make it finite, or pass "
        r'Execution\(on_failure="penalise"\)',
    ),
    "loss": (
        one,
        lambda outputs: np.where(outputs[:, 0] >= 2.0, np.inf, 1.0),
        r"loss returned inf at x = \[ 2\. -1\.\]; make it finite, or pass Execution",
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_is_an_error_where_it_should_be_one(name: str) -> None:
    simulate, loss, message = FAILURES[name]
    risk = supac.Composite(simulate, loss)
    with pytest.raises(supac.EvaluationError, match=message):
        evaluate(risk, X, vectorized=False, raising=True)
    outcome = evaluate(risk, X, vectorized=False, raising=False)
    assert len(reasons(outcome)) == 2


def test_the_first_exception_ends_the_evaluation() -> None:
    calls = []

    def simulate(x: FloatArray) -> FloatArray:
        calls.append(x)
        return raises_always(x)

    with pytest.raises(supac.EvaluationError, match="no steady state") as caught:
        evaluate(supac.Composite(simulate, with_ceiling), X, vectorized=False, raising=True)
    assert len(calls) == 1
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_a_simulator_may_not_change_its_input() -> None:
    def simulate(x: FloatArray) -> FloatArray:
        x[0] = 9.0
        return one(x)

    before = X.copy()
    with pytest.raises(supac.EvaluationError, match="read-only"):
        evaluate(supac.Composite(simulate, with_ceiling), X, vectorized=False, raising=True)
    np.testing.assert_array_equal(X, before)


def test_the_parts_must_be_functions() -> None:
    with pytest.raises(TypeError, match="simulate must be a function, not 3"):
        supac.Composite(3, supac.MeanSquare())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="loss must be a function, not 'mse'"):
        supac.Composite(one, "mse")  # type: ignore[arg-type]


def test_outputs_are_told_of_every_batch_or_of_none() -> None:
    at = supac.gaussian([0.0, 0.0], np.eye(2))
    runs = Evaluations.none(2).append(X, np.zeros(4), at, OUTPUTS)
    with pytest.raises(ValueError, match="every batch or for none"):
        runs.append(X, np.zeros(4), at)


# Data: outputs are what is stored, and residuals what the loss takes.

SEEN = supac.Observations(("A",), np.array([0.3, np.nan, -0.2]), np.array([0.5, 1.0, 2.0]))
PLANE = supac.gaussian(np.zeros(2), np.eye(2))
BOUND = supac.Catoni(0.05, ceiling=1.0)


def residuals(x: FloatArray) -> FloatArray:
    return SEEN.residuals(one(x))


def test_residuals_are_misfits_in_units_of_the_noise() -> None:
    np.testing.assert_allclose(
        SEEN.residuals(OUTPUTS),
        np.column_stack([(OUTPUTS[:, 0] - 0.3) / 0.5, (OUTPUTS[:, 2] + 0.2) / 2.0]),
    )
    again = SEEN.outputs(SEEN.residuals(OUTPUTS))
    np.testing.assert_allclose(again[:, [0, 2]], OUTPUTS[:, [0, 2]], atol=1e-15)
    assert np.isnan(again[:, 1]).all()
    positive = supac.Observations(("A",), np.array([2.0]), np.array([0.5]), logarithmic=True)
    np.testing.assert_allclose(positive.residuals(np.array([[2.0 * np.exp(1.0)]])), [[2.0]])
    with pytest.raises(ValueError, match="needs positive outputs"):
        positive.residuals(np.array([[-1.0]]))
    with pytest.raises(ValueError, match=r"returned 2 numbers.*but the data have 3 rows of A"):
        SEEN.residuals(np.zeros(2))


def test_with_data_a_search_is_that_of_the_residuals_and_keeps_the_outputs(
    tmp_path: Path,
) -> None:
    store = tmp_path / "run.supac"
    loss = supac.Welsch()
    mine = supac.minimize(supac.Composite(one, loss, SEEN), PLANE, BOUND, budget=40, store=store)
    yours = supac.minimize(supac.Composite(residuals, loss), PLANE, BOUND, budget=40)
    assert mine.posterior == yours.posterior
    np.testing.assert_array_equal(mine.evaluations.outputs, yours.evaluations.outputs)
    for record in (mine.record, supac.read_store(store)):
        for run in record.runs:
            np.testing.assert_array_equal(run.outputs, one(run.x))
    stored = supac.read_store(store)
    np.testing.assert_array_equal(stored.evaluations.outputs, yours.evaluations.outputs)
    assert stored.settings.data.columns == ("A",)
    np.testing.assert_array_equal(stored.settings.data.values, SEEN.values)


def test_other_data_are_another_search_from_the_same_runs(tmp_path: Path) -> None:
    store, loss = tmp_path / "run.supac", supac.Welsch()
    result = supac.minimize(supac.Composite(one, loss, SEEN), PLANE, BOUND, budget=40, store=store)
    more = supac.Observations(("A",), np.array([0.3, 0.1, -0.2]), np.array([0.5, 1.0, 2.0]))
    with pytest.raises(supac.StoreMismatchError, match="data"):
        supac.resume(store, supac.Composite(one, loss, more), budget=50)
    with pytest.raises(supac.StoreMismatchError, match="data"):
        supac.resume(store, supac.Composite(one, loss), budget=50)
    other = supac.reoptimize(result, supac.Composite(one, loss, more), budget=10)
    assert other.known == len(result.evaluations)
    assert other.evaluations.outputs is not None
    assert other.evaluations.outputs.shape == (other.known + 10, 3)
    np.testing.assert_array_equal(
        other.evaluations.outputs, more.residuals(np.array([one(x) for x in other.evaluations.x]))
    )


def test_outputs_without_a_residual_are_failed_runs() -> None:
    positive = supac.Observations(
        ("A",), np.array([1.0, 1.0, 1.0]), np.array([0.5, 0.5, 0.5]), logarithmic=True
    )
    outcome = evaluate(
        supac.Composite(one, supac.Welsch(), positive), X, vectorized=False, raising=False
    )
    assert len(outcome.failures) == sum((row <= 0.0).any() for row in OUTPUTS) > 0
    assert all("needs positive outputs" in run.message for run in outcome.failures)
    with pytest.raises(TypeError, match=r"data must have a method residuals\(outputs\), not be 3"):
        supac.Composite(one, supac.Welsch(), 3)  # type: ignore[arg-type]


def test_outputs_that_nothing_was_measured_at_need_not_be_finite() -> None:
    """What was measured at them later is all that would have to be simulated again."""
    data = supac.Observations(("A",), np.array([1.0, np.nan, 2.0]), np.ones(3))

    def simulate(x: FloatArray) -> FloatArray:
        return np.array([x[0], np.nan, x[1] if x[0] < 2.5 else np.nan])

    risk = supac.Composite(simulate, supac.MeanSquare(), data)
    outcome = evaluate(risk, X, vectorized=False, raising=False)
    assert [run.ok for run in outcome.runs] == [True, True, False, True]
    assert outcome.outputs is not None
    np.testing.assert_array_equal(outcome.outputs[0], [X[0, 0] - 1.0, X[0, 1] - 2.0])
    assert outcome.runs[0].outputs is not None
    assert np.isnan(outcome.runs[0].outputs[1])
