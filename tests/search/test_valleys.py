"""A second beginning on the first part of the data, where residuals are not like noise."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supac
from supac import marginals
from supac.arrays import FloatArray
from supac.problem.columns import ColumnLoss, Likelihood
from supac.problem.course import course_of, shortened
from supac.problem.observation import ObservationLoss
from supac.problem.order import Course
from supac.record.encoding import state_from_spec, state_to_spec
from supac.search.algorithm import State
from supac.search.restart import DOUBTED
from supac.search.tuning import DEFAULT
from supac.search.valleys import LONGER, is_doubted

N = 40
TIMES = np.linspace(0.25, 10.0, N)
NOISE = 0.2
PRIORS = {"height": marginals.LogNormal(1.0, 0.3), "rate": marginals.Uniform(0.5, 5.0)}
WITH = replace(DEFAULT, valleys=replace(DEFAULT.valleys, wanted=True))


def tone(x: FloatArray) -> FloatArray:
    """A tone whose rate has many valleys."""
    return np.asarray(x[0] * np.sin(x[1] * TIMES))


def data_of(seed: int) -> FloatArray:
    noise = NOISE * np.random.default_rng(seed).standard_normal(N)
    return tone(np.array([1.2, 3.3])) + noise


def known_noise(seed: int = 0) -> supac.Composite:
    data = supac.Observations(("y",), data_of(seed), np.full(N, NOISE), times=TIMES)
    return supac.Composite(tone, supac.MeanSquare(), data)


def sought_noise(seed: int = 0, **others: Any) -> supac.Composite:
    y, none = data_of(seed), np.full(N, -1)
    data = supac.Observations(("y",), y, np.ones(N), times=TIMES)
    loss = ColumnLoss(Likelihood(), none, none, np.zeros(N, int), y, np.ones(N), **others)
    return supac.Composite(tone, loss, data, observation=1)


def search(seed: int, budget: int = 80, tuning: Any = None, **options: Any) -> supac.Result:
    return supac.minimize(
        known_noise(seed), supac.Parameters(PRIORS), supac.Catoni(2.0 / N), budget=budget,
        seed=seed, algorithm=supac.SuPAC(tuning=tuning), **options,
    )  # fmt: skip


def misfit(result: supac.Result, seed: int) -> float:
    """Root mean square distance from the data in units of the noise, at the mean."""
    x = supac.Parameters(PRIORS).from_latent(result.posterior.mean[None])[0]
    return float(np.sqrt(np.mean(((tone(x) - data_of(seed)) / NOISE) ** 2)))


def events(result: supac.Result) -> list[str]:
    codes = {DOUBTED.code, LONGER.code}
    notes = [note for each in result.record.rounds for note in each.info.notes]
    return [code for note in notes if (code := getattr(note, "code", "")) in codes]


def test_a_course_has_each_series_in_the_order_of_time() -> None:
    times = np.array([3.0, 1.0, 2.0, 4.0])
    values = np.array([1.0, np.nan, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    data = supac.Observations(("a", "b"), values, np.ones(8), times=times)
    course = course_of(supac.Composite(tone, supac.MeanSquare(), data))
    assert course is not None
    assert [each.tolist() for each in course.series] == [[1, 0, 2], [4, 5, 3, 6]]
    assert course.first(0.5).tolist() == [1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0]


@pytest.mark.parametrize(
    "risk",
    [
        lambda x: 0.0,
        supac.Composite(tone, supac.MeanSquare()),  # no data, so no order
        supac.Composite(tone, lambda r: (r**2).mean(axis=1), known_noise().data),
        replace(known_noise(), jacobian=lambda x: np.zeros((N, 2))),
    ],
)
def test_no_other_risk_can_be_shortened(risk: Any) -> None:
    assert course_of(risk) is None


def test_noise_is_doubted_hardly_ever_and_a_wave_is() -> None:
    course = Course((np.arange(N),), N)
    noise = np.random.default_rng(0).standard_normal((400, N))
    z = np.array([course.likeness(each) for each in noise])
    assert (z > DEFAULT.valleys.doubted).mean() < 0.0062 + 4.0 * np.sqrt(0.0062 / 400)
    assert course.likeness(noise[0] + 2.0 * np.sin(TIMES)) > DEFAULT.valleys.doubted


def test_measurements_that_are_not_kept_add_nothing() -> None:
    """The loss is the share of it that those have which are kept, and so are its slopes."""
    risk = sought_noise()
    assert isinstance(risk.loss, ObservationLoss)
    kept = np.where(np.arange(N) < 10, 1.0, 0.0)
    rows = np.concatenate(
        [np.random.default_rng(1).standard_normal((3, N)), np.full((3, 1), 0.7)], 1
    )
    short: Any = shortened(risk.loss, kept)
    none, y = np.full(10, -1), data_of(0)[:10]
    alone = ColumnLoss(Likelihood(), none, none, np.zeros(10, int), y, np.ones(10))
    found = short(rows * np.append(kept, 1.0))
    np.testing.assert_allclose(found, 0.25 * alone(rows[:, :10], rows[:, -1:]), rtol=1e-12)
    slopes, by_level = short.loss.slopes(rows[:, :-1] * kept, rows[:, -1:])
    h = 1e-6
    up, down = (short.loss(rows[:, :-1] * kept, rows[:, -1:] + each) for each in (h, -h))
    np.testing.assert_allclose(by_level[:, 0], (up - down) / (2.0 * h), rtol=1e-6)
    assert not slopes[:, 10:].any()


@cache
def rescued() -> supac.Result:
    return search(RESCUED, tuning=WITH)


RESCUED = 0
"""A seed whose search ends in a wrong valley without the rule."""


def test_a_search_in_a_wrong_valley_begins_again_and_finds_the_right_one() -> None:
    assert misfit(search(RESCUED), RESCUED) > 1.3
    result = rescued()
    assert events(result)[0] == DOUBTED.code
    assert LONGER.code in events(result)
    assert misfit(result, RESCUED) < 1.15


def test_steps_on_a_part_of_the_data_report_no_objective() -> None:
    infos = [each.info for each in rescued().record.rounds]
    begun = next(i for i, info in enumerate(infos) if DOUBTED in info.notes)
    assert np.isnan(infos[begun + 1].objective)
    assert np.isfinite(infos[begun + 1].step_kl)
    assert np.isfinite(infos[-1].objective)
    assert not any("began again" in note or "more of the data" in note for note in rescued().notes)


def test_a_search_that_is_not_doubted_has_the_same_bits() -> None:
    narrow = {"height": PRIORS["height"], "rate": marginals.Normal(3.3, 0.1)}
    made = [
        supac.minimize(
            known_noise(), supac.Parameters(narrow), supac.Catoni(2.0 / N), budget=50,
            algorithm=supac.SuPAC(tuning=tuning),
        )
        for tuning in (WITH, None)
    ]  # fmt: skip
    assert not events(made[0])
    assert np.array_equal(made[0].posterior.theta, made[1].posterior.theta)


def test_a_search_that_is_stopped_on_a_part_of_the_data_goes_on_with_the_same_bits(
    tmp_path: Path,
) -> None:
    """And the state that it goes on from knows the part."""
    store = tmp_path / "run.supac"
    search(RESCUED, tuning=WITH, store=store, callback=lambda event: DOUBTED in event.info.notes)
    resumed = supac.resume(store, known_noise(RESCUED))
    assert np.array_equal(resumed.posterior.theta, rescued().posterior.theta)
    assert events(resumed) == events(rescued())


def test_a_search_that_is_stopped_there_is_not_resumed_with_jacobians(tmp_path: Path) -> None:
    store = tmp_path / "run.supac"
    search(RESCUED, tuning=WITH, store=store, callback=lambda event: DOUBTED in event.info.notes)
    informed = replace(known_noise(RESCUED), jacobian=lambda x: np.zeros((N, 2)))
    with pytest.raises(ValueError, match=r"first part of its data.* resume it without"):
        supac.resume(store, informed)


def test_the_part_is_kept_in_files() -> None:
    problem = supac.Problem.within(supac.Parameters(PRIORS), supac.Catoni(0.1))
    state = replace(supac.SuPAC().init(problem, 0), horizon=0.25, horizon_since=30)
    again = state_from_spec(state_to_spec(state), replace(state, horizon=1.0), state.evaluations)
    assert (again.horizon, again.horizon_since) == (0.25, 30)


def test_the_best_run_is_judged() -> None:
    """Of two runs, one like the data and one far from them."""
    risk = known_noise()
    problem = supac.Problem.within(supac.Parameters(PRIORS), supac.Catoni(0.1), loss=risk.loss)
    problem = replace(problem, course=course_of(risk))
    x = np.array([[1.2, 3.3], [1.2, 1.0], [1.2, 1.1]])
    residuals = np.array([risk.residuals(tone(each)[None])[0] for each in x])

    def doubted(rows: slice) -> bool:
        start = State(0, problem.start, supac.SuPAC().init(problem, 0).evaluations)
        told = start.told(start.batch_of(x[rows]), risk.loss(residuals[rows]), residuals[rows])
        return is_doubted(problem, replace(start, evaluations=told))

    assert not doubted(slice(0, 3))
    assert doubted(slice(1, 3))
