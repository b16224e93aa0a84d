"""A mean square with the temperature 2/n is Bayes' posterior, and told to be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import supac
from supac import marginals
from supac.problem_file import starter_files
from supac.report.bayes import CREDIBLE, NOT_CREDIBLE, is_bayes, words_on_ranges

N, NOISE = 12, 0.3
T = np.linspace(0.5, 3.0, N)


def searched(temperature: float, loss: supac.MeanSquare | supac.Welsch) -> supac.Result:
    y = 1.4 * T + NOISE * np.random.default_rng(0).standard_normal(N)
    data = supac.Observations(("A",), y, np.array(NOISE), times=T)
    prior = supac.Parameters({"k": marginals.Normal(1.0, 0.5)})
    risk = supac.Composite(lambda x: x[0] * T, loss, data)
    return supac.minimize(risk, prior, supac.Catoni(temperature), budget=40)


def test_the_posterior_of_two_over_n_is_that_of_bayes() -> None:
    """In closed form for a line with a normal prior."""
    result = searched(2.0 / N, supac.MeanSquare())
    y = 1.4 * T + NOISE * np.random.default_rng(0).standard_normal(N)
    precision = 1.0 / 0.5**2 + T @ T / NOISE**2
    mean = (1.0 / 0.5**2 + T @ y / NOISE**2) / precision
    draws = np.asarray(result.sample(20_000, 1)).ravel()
    error = 1.0 / np.sqrt(precision)
    assert draws.mean() == pytest.approx(mean, abs=5.0 * error / np.sqrt(20_000))
    assert draws.std() == pytest.approx(error, rel=0.02)
    assert is_bayes(result.record)
    assert words_on_ranges(result.record) == CREDIBLE


def test_other_losses_and_temperatures_are_not() -> None:
    for temperature, loss in ((0.5 / N, supac.MeanSquare()), (2.0 / N, supac.Welsch())):
        result = searched(temperature, loss)
        assert words_on_ranges(result.record) == NOT_CREDIBLE


def test_the_starter_has_either_goal(tmp_path: Path) -> None:
    for name, text in starter_files("builtin", "ranges").items():
        (tmp_path / name).write_text(text)
    ready = supac.read_problem(tmp_path / "problem.toml")
    assert ready.n is None
    assert is_bayes(ready.minimize(budget=20).record)
    assert "n = 24" in starter_files("builtin")["problem.toml"]
    with pytest.raises(ValueError, match="goal must be guarantee for adm1"):
        starter_files("adm1", "ranges")
