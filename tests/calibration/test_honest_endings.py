"""When a search ends, and what it says then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import supac
from supac.arrays import FloatArray
from supac.calibration.diagnostics import note_on_the_budget
from supac.calibration.ending import FreshRisks, Validated, _cliffs
from supac.calibration.shaping import Shaped
from supac.guarantee.ensemble import SECOND
from supac.record.record import Record
from supac.record.run import Round
from supac.record.settings import Settings
from supac.search.algorithm import Abandoned, Info

PLANE = supac.gaussian(np.zeros(2), np.eye(2))
SPACE = supac.gaussian(np.zeros(4), np.eye(4))


def within_a_ball(x: FloatArray) -> FloatArray:
    if x @ (x * [1.0, 1.0, 0.7, 0.7]) > 3.4:
        raise RuntimeError("the solver diverged")
    t = np.linspace(0.0, 4.0, 20)
    wave = 0.4 * x[2] * np.sin(t) + 0.3 * x[3] * np.tanh(t - 1.5)
    return np.exp(0.4 * x[0] - t * np.exp(0.5 * x[1])) + wave


def test_a_region_that_works_is_found_though_nearly_half_of_the_prior_fails() -> None:
    data = within_a_ball(np.array([0.9, -0.9, 0.5, 0.6]))
    result = supac.minimize(
        supac.Composite(lambda x: (within_a_ball(x) - data) / 0.12, supac.CappedSquare(3.0)),
        SPACE,
        supac.Catoni(0.01),
        budget=80,
        seed=1,
        execution=supac.Execution(on_failure="penalise"),
    )
    assert result.stop_reason is not supac.StopReason.FAILURES
    assert result.objective < 0.2


def test_a_simulator_that_mostly_fails_everywhere_is_not_gone_on_with() -> None:
    rng = np.random.default_rng(0)

    def broken(x: FloatArray) -> float:
        if rng.random() < 0.8:
            raise RuntimeError("no licence")
        return float(np.tanh(x @ x))

    result = supac.minimize(
        broken,
        PLANE,
        supac.Catoni(0.05),
        budget=300,
        execution=supac.Execution(on_failure="penalise"),
    )
    assert result.stop_reason is supac.StopReason.FAILURES
    assert len(result.evaluations) <= 110


def test_a_search_ends_when_nothing_is_left_to_gain() -> None:
    result = supac.minimize(
        lambda x: np.tanh(((x - 0.5) ** 2).sum(axis=1)),
        PLANE,
        supac.Catoni(0.05),
        budget=300,
        execution=supac.Execution(vectorized=True),
    )
    assert result.stop_reason is supac.StopReason.CONVERGED
    assert len(result.evaluations) < 250
    steps = result.history["step_kl"]
    assert (steps[-3:] < 0.005).all()


def test_nothing_is_charged_for_failures_that_never_happened() -> None:
    """An unbounded loss at a tiny temperature: the posterior is the linear problem's own."""
    rng = np.random.default_rng(7)
    matrix = rng.standard_normal((30, 4))
    truth = np.array([0.5, -0.4, 0.3, 0.8])
    temperature = 2e-6
    result = supac.minimize(
        supac.Composite(lambda x: (x - truth) @ matrix.T, supac.MeanSquare()),
        SPACE,
        supac.Catoni(temperature),
        budget=80,
        validation=0,
        execution=supac.Execution(vectorized=True),
    )
    # For this risk the optimal distribution is Gaussian: prior · exp(−R/λ).
    precision = np.eye(4) + 2.0 * matrix.T @ matrix / (30 * temperature)
    covariance = np.linalg.inv(precision)
    mean = covariance @ (precision - np.eye(4)) @ truth
    optimum = supac.gaussian(mean, covariance)
    assert result.posterior.kl(optimum) < 1.0


def test_the_standard_error_knows_of_cliffs_that_were_not_met() -> None:
    fresh = FreshRisks(PLANE, 1.0, np.zeros((19, 2)), np.full(19, 0.1))
    assert fresh.error_with_cliffs(0.0, 1.0) == fresh.error < 1e-12
    # Nineteen runs leave room for one bad one in twenty, however pessimistic the model is.
    most = 0.9 * np.sqrt(0.05 / 19)
    assert fresh.error_with_cliffs(0.5, 1.0) == pytest.approx(most)
    assert fresh.error_with_cliffs(0.01, 1.0) == pytest.approx(0.9 * np.sqrt(0.01 / 19))


def test_only_the_posterior_of_the_last_round_has_the_cliffs_that_round_saw() -> None:
    """What a posterior that was left before would meet, the model of the last one does not say."""
    problem = supac.Problem.within(PLANE, supac.Catoni(0.1))
    state = supac.SuPAC().init(problem, 0)
    runs = state.evaluations.append(np.zeros((3, 2)), np.array([0.1, 0.2, 0.9]), PLANE)
    record = Record(
        Settings(), PLANE.family, rounds=[Round((), PLANE, Info(wrong=2.0, failure_chance=0.2))]
    )
    fresh = FreshRisks(PLANE, 1.0, np.zeros((19, 2)), np.full(19, 0.1))
    last = Validated(state, Shaped(PLANE, np.nan), fresh)
    assert _cliffs(problem, record, runs, last) == (0.2, 0.9)
    left = replace(state, abandoned=Abandoned(PLANE.theta[None], np.array([0.5])))
    assert _cliffs(problem, record, runs, replace(last, state=left)) == (0.0, 0.0)
    assert _cliffs(problem, record, runs, replace(last, share=SECOND)) == (0.0, 0.0)


def test_the_worst_run_of_the_prior_is_no_measure_of_a_cliff() -> None:
    """Under a loss without a limit it is an accident; a bad run costs thirty nats at most."""

    def wall(x: FloatArray) -> FloatArray:
        return (x - 0.5) @ MATRIX[:2] + 1e4 * (x[:, :1] > 1.5)

    quiet = supac.Execution(vectorized=True, progress=False)
    result = supac.minimize(
        supac.Composite(wall, supac.MeanSquare()),
        PLANE,
        supac.Catoni(0.02),
        budget=60,
        seed=1,
        validation=20,
        execution=quiet,
    )
    assert result.history["wrong"][-1] > 0
    assert result.mean_risk_error < 30 * 0.02


@pytest.mark.parametrize("noise", [0.0, 0.25])
def test_a_converged_search_has_no_modes_and_does_not_fall(noise: float) -> None:
    """Also if its risks are noisy, and the best of them a matter of luck."""
    rng = np.random.default_rng(0)

    def simulate(x: FloatArray) -> FloatArray:
        return (x - 0.5) @ MATRIX + noise * rng.standard_normal(12)

    risk = supac.Composite(simulate, supac.MeanSquare())
    result = supac.minimize(risk, SPACE, supac.Catoni(0.002), budget=80, validation=20)
    words = " ".join(result.notes)
    assert "still falling" not in words
    assert "mode" not in words


MATRIX = np.random.default_rng(3).standard_normal((4, 12)) / 3.0


def falling(*objective: float, error: float = 0.0, promised: float = 1.0) -> dict[str, FloatArray]:
    """Return the history of a search whose last step promised so much."""
    columns = {"mean_risk": 0.1, "kl": 1.0, "effective_size": 4.0, "loo_error": error}
    columns |= {"predicted": objective[-1] - promised, "step_kl": 1.0}
    history = {name: np.full(len(objective), value) for name, value in columns.items()}
    return history | {"objective": np.array(objective)}


@pytest.mark.parametrize(
    ("history", "said"),
    [
        (falling(9.0, 5.0, 4.0, 3.0, error=0.9), True),
        (falling(9.0, 5.0, 4.0, 3.0, error=2.1), False),
        (falling(9.0, 5.0, 4.0, 3.0, promised=0.05), False),
        (falling(9.0, 3.1, 3.05, 3.0), False),
        (falling(900.0, 33.0, 4.0, 3.0), True),
    ],
    ids=["falling", "within its noise", "by less than a nat", "settled", "by ten nats of many"],
)
def test_falling_is_more_than_noise_and_worth_a_nat(
    history: dict[str, FloatArray], said: bool
) -> None:
    assert bool(note_on_the_budget(history, supac.Catoni(0.1))) is said


def test_a_search_that_finds_no_step_goes_on() -> None:
    """A mixture between two wells, of which its first model sees neither: five rounds, no step."""

    def two_wells(x: FloatArray) -> FloatArray:
        wells = [
            np.exp(-(((x - centre) / 0.7) ** 2).sum(axis=1)) for centre in ([2.0, 0], [-2.0, 0])
        ]
        return 1.0 - wells[0] - wells[1]

    prior = supac.gaussian(np.zeros(2), 2.25 * np.eye(2))
    result = supac.minimize(
        two_wells,
        prior,
        supac.Catoni(0.05),
        budget=200,
        start=supac.split_mixture(prior, 2, seed=101),
        seed=101,
        execution=supac.Execution(vectorized=True),
    )
    assert result.stop_reason is supac.StopReason.BUDGET
    assert result.objective < 0.4


@pytest.mark.parametrize("simulate", [lambda x: np.full((len(x), 4), 5.0), lambda x: 0.7 + 0.0 * x])
def test_a_simulator_that_does_not_use_its_parameters_is_said_to_teach_nothing(
    simulate: Callable[[FloatArray], FloatArray],
) -> None:
    prior = supac.gaussian(np.zeros(2), np.eye(2))
    risk = supac.Composite(simulate, supac.Welsch())
    quiet = supac.Execution(vectorized=True, progress=False)
    result = supac.minimize(risk, prior, supac.Catoni(0.02), budget=40, execution=quiet)
    assert any("nothing was learnt" in note for note in result.notes)
    assert not any("it extrapolates" in note for note in result.notes)
