from __future__ import annotations

import numpy as np

import supac
from emulated import CUBE, PLANE, cliff, outputs_of
from supac.arrays import FloatArray


def test_runs_beyond_a_cliff_are_screened_out_and_taught_to_the_gate() -> None:
    problem = supac.Problem.within(CUBE, supac.Catoni(0.01))
    algorithm = supac.SuPAC(batch=10)
    state = algorithm.init(problem, 1)
    while len(state.evaluations) < 120:
        batch = algorithm.ask(problem, state)
        x = batch.x
        state, info = algorithm.tell(problem, state, batch, cliff(x))
    beyond = state.evaluations.x[:, 0] > 1.2
    assert state.emulator is not None
    outliers = state.emulator.outliers
    # The first design is so wide that an emulator may also follow the rise.
    later = beyond & (state.evaluations.iteration > 0)
    assert later.sum() >= 3
    assert outliers[later].all()
    assert outliers[~beyond].mean() < 0.05
    assert info.wrong == outliers.sum()
    draws = state.posterior.sample(20_000, 0)
    share = (draws[:, 0] > 1.2).mean()
    assert share < 0.02
    assert share < 5.0 * info.failure_chance


def test_failed_runs_are_kept_out_of_the_emulator() -> None:
    """A run without outputs has the risk that the loss gives it, and moves the gate alone."""

    def simulate(x: FloatArray) -> FloatArray:
        return np.where(x[:, :1] > 1.0, np.nan, outputs_of(x))

    def loss(outputs: FloatArray) -> FloatArray:
        return np.where(np.isnan(outputs[:, 0]), 3.0, (np.nan_to_num(outputs) ** 2).mean(axis=1))

    result = supac.minimize(
        supac.Composite(simulate, loss),
        PLANE,
        supac.Catoni(0.05),
        budget=80,
        execution=supac.Execution(vectorized=True),
    )
    evaluations = result.evaluations
    assert evaluations.failed == (evaluations.x[:, 0] > 1.0).sum() > 0
    assert (evaluations.risk[~evaluations.ok] == 3.0).all()
    assert (result.posterior.sample(10_000, 0)[:, 0] > 1.0).mean() < 0.02
