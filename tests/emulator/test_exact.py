"""The exact expectation of a likelihood over emulated outputs, beside that over sampled errors."""

from __future__ import annotations

import numpy as np
import pytest

import supac
from supac import marginals
from supac.emulator.average import AveragedEmulator
from supac.emulator.components import FittedOutputEmulator
from supac.emulator.outputs import OutputEmulator
from supac.emulator.view import SeenLoss
from supac.problem import Evaluations
from supac.problem.columns import ColumnLoss, Likelihood
from supac.problem.correlated import Autoregressive
from supac.problem.observation import ObservationLoss
from supac.surrogate.estimator import Context

ROWS = 40
TIMES = np.arange(float(ROWS))
PRIORS = {
    "rate": marginals.LogNormal(0.05, 0.3),
    "size": marginals.LogNormal(2.0, 0.3),
    "sigma": marginals.LogNormal(0.2, 0.5),
    "tau": marginals.LogNormal(3.0, 0.5),
}


@pytest.fixture(scope="module")
def emulator() -> FittedOutputEmulator:
    rng, zero, none = np.random.default_rng(0), np.zeros(ROWS, dtype=int), np.full(ROWS, -1)
    y = 2.0 * np.exp(-0.05 * TIMES) + 0.2 * rng.standard_normal(ROWS)
    errors = Autoregressive(series=zero, times=TIMES, memories=zero + 1)
    own = ColumnLoss(Likelihood(), none, none, zero, y, np.ones(ROWS), errors=errors)
    parameters = supac.Parameters(PRIORS)
    loss = ObservationLoss(own, 2, parameters)
    x = parameters.prior.sample(12, rng)
    z = parameters.from_latent(x)
    rows = np.column_stack([z[:, 1:2] * np.exp(-z[:, :1] * TIMES) - y, z[:, 2:]])
    runs = Evaluations.none(4).append(x, loss(rows), parameters.prior, rows)
    found = OutputEmulator().fit(runs, parameters.prior, Context(loss=loss)).emulator
    inner = found.inner if isinstance(found, AveragedEmulator) else found
    assert isinstance(inner, FittedOutputEmulator)
    return inner


def test_it_is_that_over_sampled_errors(emulator: FittedOutputEmulator) -> None:
    """To what 200 errors of each sign leave; the derivatives are those of the risk."""
    assert emulator._exact is not None
    rng = np.random.default_rng(2)
    x, y = (
        0.5 * rng.standard_normal((200, 4)),
        0.3 * rng.standard_normal((1, emulator.process.y.shape[1])),
    )
    x[:] = x[0]
    y, variance = np.repeat(y, 200, axis=0), np.full(200, 0.01)
    exact = emulator._risk(x, y, variance)
    loss = emulator.training.loss
    assert isinstance(loss, SeenLoss)
    both = loss(emulator._with_errors(y, variance, 0)[0], np.concatenate([x, x]))
    sampled = 0.5 * (both[:200] + both[200:])
    error = sampled.std(ddof=1) / np.sqrt(200)
    assert abs(exact[0] - sampled.mean()) < 4.0 * error
    assert error < 0.2 * abs(exact[0] - emulator._risk(x, y, 0.0 * variance)[0])
