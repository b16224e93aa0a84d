from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import supac
from catalogue import FAMILIES
from emulated import PLANE, runs_of
from supac.arrays import FloatArray
from supac.emulator.components import OutputTrainingSet
from supac.emulator.gated import _fit_gate
from supac.emulator.tuning import DEFAULT
from supac.emulator.units import Units
from supac.surrogate.estimator import Context
from supac.surrogate.least_squares import project

RNG = np.random.default_rng


def test_an_emulator_that_leaves_the_labels_as_they_are_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is conditioned once a round, not once for each look at the labels and once more."""
    count, condition = [0], OutputTrainingSet.condition

    def counted(*arguments: Any) -> Any:
        count[0] += 1
        return condition(*arguments)

    monkeypatch.setattr(OutputTrainingSet, "condition", counted)
    given = Context(loss=supac.RootMeanSquare(), rng=RNG(0))
    runs = runs_of(PLANE, 30, composite=True)
    first = supac.OutputEmulator().fit(runs, PLANE, given)
    assert count == [1]
    before = replace(first.memory, fitted=29)  # hardly fewer: no new fit is due
    again = supac.OutputEmulator().fit(runs, PLANE, replace(given, memory=before))
    assert count == [2]
    np.testing.assert_array_equal(again.memory.outliers, first.memory.outliers)


GAUSSIANS = {
    "full": supac.gaussian([0.1, -0.2, 0.3], np.diag([1.0, 0.5, 2.0]) + 0.2),
    "blocks": supac.gaussian(np.zeros(3), np.diag([1.0, 0.5, 2.0]), blocks=[[0, 2]]),
    "diagonal": supac.gaussian(np.zeros(3), np.array([1.0, 0.5, 2.0])),
    "fixed": supac.fixed_gaussian(np.zeros(3), np.eye(3) + 0.3),
    "scaled": supac.scaled_gaussian(np.zeros(3), np.eye(3) + 0.3),
}


@pytest.mark.parametrize("name", GAUSSIANS)
def test_the_process_is_projected_exactly(name: str) -> None:
    """Bonnet's and Price's identities give what least squares on many draws estimates."""
    at = GAUSSIANS[name]
    model = supac.GaussianProcess().fit(runs_of(at, 25), at)
    exact = model.project(at, RNG(0))
    x = at.sample(200_000, 1)
    risk = model.emulator.predict(x) + model.severity * model.gate.probability(x)
    estimate = project(x, risk, np.ones(len(x)), at)
    whitening = at.whiten()
    features = whitening.features(x)
    residual = risk - estimate.mean - features @ _beta(estimate, at)
    error = np.sqrt((features**2 * residual[:, None] ** 2).mean(axis=0) / len(x))
    gap = np.abs(_beta(exact, at) - _beta(estimate, at))
    assert (gap < 5.0 * error + 1e-6).all()
    assert exact.mean == pytest.approx(estimate.mean, abs=5.0 * residual.std() / np.sqrt(len(x)))


def _beta(surrogate: supac.Surrogate, at: supac.Distribution) -> FloatArray:
    """η in the coordinates in which the statistics are orthonormal."""
    whitening = at.whiten()
    matrix = np.column_stack([whitening.coefficients(e) for e in np.eye(at.family.size)])
    return np.asarray(np.linalg.solve(matrix, surrogate.eta))


@pytest.mark.parametrize("name", FAMILIES)
def test_the_default_algorithm_serves_every_family(name: str) -> None:
    prior = FAMILIES[name][0]

    def risk(x: FloatArray) -> FloatArray:
        return 0.5 + 0.4 * np.tanh(x.sum(axis=1) - prior.mean.sum())

    result = supac.minimize(
        risk, prior, supac.Catoni(0.2), budget=70, execution=supac.Execution(vectorized=True)
    )
    assert result.validated >= 7  # half of the reserve, if that was worse than predicted
    mean = risk(result.posterior.sample(100_000, 0)).mean()
    assert mean + 0.2 * result.kl < risk(prior.sample(100_000, 0)).mean()


@pytest.mark.slow
def test_failures_under_a_loss_without_a_limit_do_not_drive_the_posterior_away() -> None:
    """A cliff thirty widths from where the data are, and first risks of some hundreds."""

    def simulate(x: FloatArray) -> FloatArray:
        outputs = 12.0 * np.column_stack([x[:, 0] + 0.8, x[:, 0] ** 2 - 0.64, x[:, 1]])
        return np.where(x[:, :1] < -1.25, np.nan, outputs)

    results = [
        supac.minimize(
            supac.Composite(simulate, supac.MeanSquare()),
            supac.gaussian(np.zeros(2), np.eye(2)),
            supac.Catoni(0.07),
            budget=50,
            seed=seed,
            execution=supac.Execution(vectorized=True, on_failure="penalise"),
        )
        for seed in range(5)
    ]
    assert min(result.evaluations.failed for result in results) > 0
    widths = [np.sqrt(result.posterior.covariance[0, 0]) for result in results]
    errors = [abs(result.posterior.mean[0] + 0.8) for result in results]
    assert np.median(np.array(errors) / widths) < 1.0


def test_a_failure_is_no_reward_where_the_emulator_expects_worse() -> None:
    """Of outputs that grow where runs fail, the excess risk of a failed run is not negative."""
    at, loss = supac.gaussian(np.zeros(2), np.eye(2)), supac.MeanSquare()
    x = at.sample(40, 0)
    good = 20.0 * np.stack([x[:, 0] ** 2, x[:, 0]], axis=1)
    failed = np.abs(x[:, 0]) > 0.5
    outputs, risk = np.where(failed[:, None], np.nan, good), np.where(failed, np.nan, loss(good))
    runs = supac.Evaluations.none(2).append(x, risk, at, outputs)
    context = Context(prior=at, resolution=0.1, failure_risk=10.0, loss=loss, rng=RNG(0))
    assert supac.OutputEmulator().fit(runs, at, context).severity >= 0.0


def test_an_outlier_costs_what_outliers_cost_not_what_the_far_prior_does() -> None:
    """Risks without a limit may be enormous far away, and one cliff nearby is no such accident."""
    at = supac.gaussian(np.zeros(2), np.eye(2))
    x = np.concatenate([at.sample(40, 0), [[9.0, 0.0]]])
    risk = 0.1 * (x**2).sum(axis=1)
    risk[-1] = 1e5
    cliff = int(np.argmax(x[:40, 1]))
    risk[cliff] += 50.0
    outliers = np.arange(41) == cliff
    runs = supac.Evaluations.none(2).append(x, risk, at)
    context = Context(prior=at, resolution=0.1, rng=RNG(0))
    whole = supac.GaussianProcess().fit(runs, at, context)
    gate = _fit_gate(
        whole.emulator,
        Units(np.zeros(2), np.eye(2)),
        runs,
        outliers,
        at,
        replace(context, rng=RNG(0)),
        DEFAULT.gate,
    )
    assert 25.0 < gate.severity < 75.0
