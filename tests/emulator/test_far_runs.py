"""Runs far outside of a narrow posterior."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import supac
from supac.arrays import FloatArray

PRIOR = supac.gaussian(np.zeros(3), np.eye(3))
MATRIX = np.random.default_rng(3).standard_normal((2, 12)) / 3.0
TEMPERATURE, STEPS = 0.02, 120


def epidemic(x: FloatArray) -> FloatArray:
    """Share of infected people at 24 times: (n, 3) → (n, 24)."""
    contact, recovery, first = np.exp(0.7 * x + np.log([0.5, 0.2, 0.01])).T
    ill, seen = np.minimum(first, 0.5), []
    well = 1.0 - ill
    for step in range(STEPS):
        new = 0.5 * contact * well * ill
        well, ill = well - new, ill + new - 0.5 * recovery * ill
        if step % 5 == 4:
            seen.append(ill)
    return np.stack(seen, axis=1)


CLEAN = epidemic(np.array([[0.3, 0.8, 0.3]]))[0]
SCALE = 0.1 * CLEAN + 0.001
DATA = CLEAN + SCALE * np.random.default_rng(1).standard_normal(24)
RISK = supac.Composite(lambda x: (epidemic(x) - DATA) / SCALE, supac.MeanSquare())


def test_a_wall_far_outside_of_a_narrow_posterior_does_not_hide_it() -> None:
    """One run beyond it has a risk of 10⁸; counted or not by turns, it had searches go in circles.

    Of linear outputs the optimum is known: it has its mean and covariance in closed form.
    """
    plane, slopes = supac.gaussian(np.zeros(2), np.eye(2)), MATRIX
    precision = np.eye(2) + slopes @ slopes.T / (len(slopes.T) * 0.5 * TEMPERATURE)
    covariance = np.linalg.inv(precision)
    best = supac.gaussian(covariance @ (precision - np.eye(2)) @ [0.5, 0.5], covariance)

    def wall(x: FloatArray) -> FloatArray:
        return (x - 0.5) @ slopes + 1e4 * (x[:, :1] > 1.5)

    result = supac.minimize(
        supac.Composite(wall, supac.MeanSquare()),
        plane,
        supac.Catoni(TEMPERATURE),
        budget=40,
        validation=0,
        execution=supac.Execution(vectorized=True, progress=False),
    )
    assert (result.evaluations.risk > 1e6).any()
    assert result.posterior.kl(best) < 1.0


def test_more_budget_does_not_make_a_narrow_posterior_worse(tmp_path: Path) -> None:
    """The emulator around it does not explain the first runs, which are no cliffs there."""
    store, quiet = tmp_path / "run.supac", supac.Execution(vectorized=True, progress=False)
    bound = supac.Catoni(TEMPERATURE)
    first = supac.minimize(
        RISK, PRIOR, bound, budget=100, validation=0, store=store, execution=quiet
    )
    assert first.stop_reason is supac.StopReason.CONVERGED
    more = supac.resume(store, RISK, budget=150)

    def objective(result: supac.Result) -> float:
        return float(RISK(result.posterior.sample(2_000, 1)).mean()) + TEMPERATURE * result.kl

    assert more.queries > 130
    assert objective(more) < objective(first) + 0.5 * TEMPERATURE
