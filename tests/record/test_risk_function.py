"""From outputs to risks: data, loss, failed runs, and other numbers of outputs."""

from __future__ import annotations

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.record.run import LossError, RiskFunction, Run, Status

DATA = supac.Observations(("A",), np.array([1.0, np.nan, 3.0]), np.array([0.5, 1.0, 2.0]))


def run(outputs: FloatArray | None, number: int = 0) -> Run:
    return Run(number, np.zeros(1), Status.OK, np.nan, outputs)


def function(loss: object = None, ceiling: float | None = None) -> RiskFunction:
    return RiskFunction(
        supac.Composite(lambda x: x, loss or supac.MeanSquare(), DATA),  # type: ignore[arg-type]
        ceiling=ceiling,
    )


def test_the_risk_is_the_loss_of_the_residuals() -> None:
    found = function().evaluate(run(np.array([2.0, 99.0, 5.0])))
    assert found.risk == pytest.approx((2.0**2 + 1.0**2) / 2)
    assert found.outputs is not None  # as they were simulated
    assert found.outputs.tolist() == [2.0, 99.0, 5.0]


def test_columns_hold_residuals_and_what_failures_cost() -> None:
    def priced(residuals: FloatArray) -> FloatArray:
        return np.where(np.isnan(residuals).any(axis=1), 0.7, (residuals**2).mean(axis=1))

    each = function(priced)
    good = each.evaluate(run(np.array([1.0, 0.0, 3.0])))
    failed = Run(1, np.zeros(1), Status.CRASHED, np.nan)
    (settled,) = each.reject_other_widths([good])
    risk, residuals = each.columns([settled, failed])
    assert risk.tolist() == [0.0, 0.7]
    assert residuals is not None
    np.testing.assert_array_equal(residuals, [[0.0, 0.0], [np.nan, np.nan]])
    penalised = function(priced, ceiling=2.0)
    penalised.reject_other_widths([good])
    assert penalised.failure_loss == 2.0


def test_the_first_good_run_sets_the_number_of_outputs() -> None:
    each = RiskFunction(supac.Composite(lambda x: x, supac.MeanSquare()))
    runs = [run(np.ones(n), i) for i, n in enumerate((3, 2, 3))]
    settled = each.reject_other_widths(runs)
    assert [r.ok for r in settled] == [True, False, True]
    assert settled[1].message == "simulate returned 2 outputs, but 3 before"


def test_data_that_cannot_be_compared_make_a_failed_run() -> None:
    found = function().evaluate(run(np.ones(5)))
    assert found.status is Status.RAISED
    assert "returned" in found.message


@pytest.mark.parametrize("loss", [lambda r: r, lambda r: "low", lambda r: 1 / 0])
def test_a_wrong_loss_is_no_fault_of_the_run(loss: object) -> None:
    with pytest.raises(LossError, match="loss must take residuals"):
        function(loss).evaluate(run(np.ones(3)))


def test_a_scalar_risk_passes_through() -> None:
    plain = RiskFunction(lambda x: 0.0)
    told = Run(0, np.zeros(1), Status.OK, 0.4)
    assert plain.evaluate(told) is told
    risk, outputs = plain.columns([told])
    assert (risk.tolist(), outputs) == ([0.4], None)
    assert np.isnan(plain.failure_loss)
