"""Residuals in the order of time: told from independent noise, whatever their order in the data."""

from __future__ import annotations

import numpy as np
import pytest

import supac
from supac import marginals
from supac.arrays import FloatArray
from supac.problem.columns import ColumnLoss, Likelihood
from supac.problem_file import Observations
from supac.report import Account, Level, account_of, assess
from supac.report.check import Check
from supac.report.residuals import (
    DOUBTED,
    Series,
    Stretch,
    autocorrelation,
    longest_stretch,
    residual_series,
)

N = 40
T = np.linspace(0.1, 8.0, N)


def inside(name: str, residuals: FloatArray) -> Series:
    return Series(name, residuals, np.arange(float(len(residuals))), np.zeros(len(residuals), int))


def z_of(*series: FloatArray) -> float:
    found = autocorrelation([inside(f"{i}", each) for i, each in enumerate(series)])
    assert found is not None
    return found.z


def ar(rho: float, n: int, seed: int) -> FloatArray:
    noise = np.random.default_rng(seed).standard_normal(n)
    made = noise.copy()
    for i in range(1, n):
        made[i] = rho * made[i - 1] + np.sqrt(1.0 - rho**2) * noise[i]
    return made


@pytest.mark.parametrize("lengths", [(40,), (12, 30), (2,) * 15])
def test_lag_one_of_independent_noise_is_standard_normal(lengths: tuple[int, ...]) -> None:
    """Mean 0 and variance 1 within four standard errors, and few beyond the limit."""
    rng, many = np.random.default_rng(0), 3000
    z = np.array([z_of(*(rng.standard_normal(n) for n in lengths)) for _ in range(many)])
    assert abs(z.mean()) < 4.0 / np.sqrt(many)
    assert abs(z.var() - 1.0) < 4.0 * np.sqrt(2.0 / many) + 0.1  # cutting outliers costs some
    assert (z > DOUBTED).mean() < 0.0062 + 4.0 * np.sqrt(0.0062 / many)


def test_noise_with_a_memory_is_doubted() -> None:
    caught = [z_of(ar(0.7, N, seed)) > DOUBTED for seed in range(200)]
    assert np.mean(caught) > 0.9


def test_two_outliers_beside_each_other_decide_nothing() -> None:
    noise = np.random.default_rng(2).standard_normal(N)
    before = z_of(noise)
    noise[10:12] = 1e3
    assert z_of(noise) < before + 3.5  # and not 20: the two are half of the sum of squares


def test_too_few_neighbours_say_nothing() -> None:
    assert autocorrelation([inside("a", np.ones(8)), inside("b", np.ones(1))]) is None
    assert autocorrelation([inside("a", np.zeros(50))]) is None


def test_residuals_are_put_in_the_order_of_time_by_experiment_and_column() -> None:
    order = np.random.default_rng(1).permutation(N)
    every = np.concatenate([T[order], T[order]])
    values = np.concatenate([np.sin(every), np.cos(every)])
    values[3] = np.nan
    seen = Observations(
        ("s", "c"), values, np.array(0.5), times=every, experiments=("one",) * N + ("two",) * N
    )
    series = residual_series(seen, np.zeros((3, 4 * N)))
    assert [each.name for each in series] == ["s of one", "s of two", "c of one", "c of two"]
    gap = np.flatnonzero(np.sort(T) == T[order][3])[0]
    assert np.allclose(series[0][1], np.delete(np.sin(T), gap) / 0.5)
    assert np.allclose(series[3][1], np.cos(T) / 0.5)


def beyond(noise: FloatArray, sd: float = 1.0) -> Stretch | None:
    """The longest stretch of data around a prediction of no error."""
    seen = Observations(("y",), noise, np.array(sd), times=np.arange(float(len(noise))))
    return longest_stretch(residual_series(seen, np.zeros((2, len(noise)))))


def test_stretches_of_independent_noise_are_hardly_ever_told() -> None:
    """At most one in a hundred, within four standard errors; a tenth of all data is outside."""
    rng, many = np.random.default_rng(3), 1000
    found = [beyond(rng.standard_normal(N)) for _ in range(many)]
    assert np.mean([each is not None and not each.by_chance for each in found]) < 0.01 + 4 * 0.0032
    assert beyond(np.zeros(N)) is None


def test_a_stretch_outside_of_the_bands_is_told() -> None:
    noise = 0.3 * np.random.default_rng(5).standard_normal(N)
    noise[20:24] = -4.0
    found = beyond(noise)
    assert found is not None
    assert not found.by_chance
    assert (found.length, found.first, found.last) == (4, 20.0, 23.0)
    noise[21] = 4.0  # the other side
    other = beyond(noise)
    assert other is not None
    assert other.by_chance


def fitted(wave: float) -> Account:
    """A decay with a noise level that is sought, beside data with a wave that it lacks."""
    rng = np.random.default_rng(4)
    order = rng.permutation(N)
    t = T[order]
    y = 2.0 * np.exp(-0.4 * t) + wave * np.sin(1.5 * t) + 0.1 * rng.standard_normal(N)
    none, own = np.full(N, -1), np.zeros(N, dtype=int)
    loss = ColumnLoss(Likelihood(), none, none, own, y, np.ones(N))
    data = Observations(("A",), y, np.ones(N), times=t)
    priors = {
        "k": marginals.LogNormal(0.5, 0.5),
        "sigma": marginals.LogNormal(0.1, 0.5),
    }
    risk = supac.Composite(lambda x: 2.0 * np.exp(-x[0] * t), loss, data, observation=1)
    return account_of(
        supac.minimize(risk, supac.Parameters(priors), supac.Catoni(1.0 / N), budget=50)
    )


def answer_to(run: Account, words: str) -> Check:
    return next(each for each in assess(run).checks if words in each.question)


def test_a_model_that_lacks_something_is_doubted_although_fitted_noise_explains_it() -> None:
    run = fitted(0.6)
    (misfit,) = run.misfits
    assert misfit.typical < 1.3  # in units of the fitted noise
    told = answer_to(run, "like noise")
    assert told.level is Level.LOOK
    assert "Noise that is fitted hides it" in told.answer
    assert "wrong valley" in told.answer
    assert "the model, its inputs or its times lack something" in told.answer
    grown = answer_to(run, "near its prior")
    assert grown.level is Level.LOOK
    assert "sigma by" in grown.answer


def test_the_stretch_where_a_model_is_off_is_told() -> None:
    """Far later than it begins, the data rise by five noises for a while."""
    noise = np.random.default_rng(6).standard_normal(N)
    y = 2.0 * np.exp(-0.4 * T) + 0.1 * noise + 0.5 * ((T > 5.0) & (T < 6.5))
    data = Observations(("A",), y, np.full(N, 0.1), times=T)
    risk = supac.Composite(lambda x: 2.0 * np.exp(-x[0] * T), supac.MeanSquare(), data)
    rate = supac.Parameters({"k": marginals.LogNormal(0.5, 0.5)})
    run = account_of(supac.minimize(risk, rate, supac.Catoni(2.0 / N), budget=20))
    told = answer_to(run, "like noise")
    assert told.level is Level.LOOK
    assert run.stretch is not None
    assert run.stretch.first > 4.9
    assert run.stretch.last < 6.6
    assert f"{run.stretch.length} measurements of A one after the other" in told.answer


def test_a_model_that_is_right_is_trusted() -> None:
    run = fitted(0.0)
    assert answer_to(run, "like noise").level is Level.TRUST
    assert answer_to(run, "near its prior").level is Level.TRUST
    assert assess(run).level is Level.TRUST
