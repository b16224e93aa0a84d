"""What is certified with a learnt prior: new tasks, and none that it was learnt on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray

TIMES = np.linspace(0.0, 4.0, 30)
PRIOR = supac.gaussian(np.zeros(2), np.eye(2))
BOUND = supac.MaurerLangfordSeeger(30, 0.05)
LESS = supac.MaurerLangfordSeeger(29, 0.05)


def decay(x: FloatArray) -> FloatArray:
    return np.asarray(np.exp(x[0] - np.exp(x[1]) * TIMES))


def task(seed: int, name: str | None = None) -> supac.Task:
    """A task with data of its own."""
    rng = np.random.default_rng(seed)
    truth = np.array([0.5, -0.3]) + 0.2 * rng.standard_normal(2)
    data = supac.Observations(
        ("y",), decay(truth) + 0.1 * rng.standard_normal(30), np.full(30, 0.1)
    )
    return supac.Task(supac.Composite(decay, supac.Welsch(), data), BOUND, name=name)


@pytest.fixture(scope="module")
def learnt() -> supac.MetaResult:
    learner = supac.MetaSuPAC(
        (supac.Stage(inner=supac.Reuse(supac.SuPAC(first=10, batch=5), first=30, most=10)),)
    )
    tasks = [task(seed, name=f"plant {seed}") for seed in range(3)]
    return supac.meta_learn(tasks, PRIOR, passes=1, learner=learner)


def test_a_new_task_has_an_ensemble_and_its_certificate(learnt: supac.MetaResult) -> None:
    result = learnt.minimize(task(10), budget=50, validation=10)
    ensemble, certificate = result.ensemble, result.certificate
    assert certificate is not None
    ratio = result.posterior.log_prob(ensemble.x) - learnt.prior.log_prob(ensemble.x)
    np.testing.assert_allclose(ensemble.log_ratio, ratio)
    exact = replace(BOUND, delta=certificate.delta_pac)
    expected = exact(float(ensemble.risk.mean()), float(ratio.mean()))
    assert certificate.bounds["MaurerLangfordSeeger"] == pytest.approx(expected, rel=1e-9)
    assert certificate.value < expected


def less_a_row(each: supac.Task, shift: float) -> supac.Task:
    """A task with all but the first measurement of another one, shifted by rounding."""
    data = each.risk.data  # type: ignore[attr-defined]
    less = supac.Observations(("y",), data.values[1:] + shift, data.noise[1:])
    return supac.Task(supac.Composite(lambda x: decay(x)[1:], supac.Welsch(), less), LESS)


@pytest.mark.parametrize(
    "known_by",
    ["the task", "its risk", "its name", "its measurements", "most rows", "most rows, rounded"],
)
def test_a_task_that_was_learnt_on_has_no_certificate(
    known_by: str, learnt: supac.MetaResult
) -> None:
    first = learnt.learnt_on[0]
    other = {
        "the task": first,
        "its risk": supac.Task(first.risk, BOUND),
        "its name": task(11, name="plant 0"),
        "its measurements": task(0),
        "most rows": less_a_row(first, 0.0),
        "most rows, rounded": less_a_row(first, 1e-12),
    }[known_by]
    result = learnt.minimize(other, budget=30, validation=5)
    assert len(result.ensemble) == 5  # to predict with
    assert result.certificate is None
    assert result.record.ending is not None
    assert "the prior was learnt on the same data" in result.record.ending.uncertified
    with pytest.raises(supac.CertificateError, match="learnt on the same data"):
        result.certify(other.risk, draws=5)


def test_tasks_without_known_data_are_told_apart_by_their_risks() -> None:
    one, two = supac.Task(np.sum, BOUND), supac.Task(np.prod, BOUND)
    assert one.shares_data(one)
    assert not one.shares_data(two)
