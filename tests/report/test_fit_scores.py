"""Scores of the fit to fitted and to held-out data, in tables and in the verdict."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import supac
from supac import marginals
from supac.problem_file import Observations
from supac.report import Account, Level, account_of, assess
from supac.report.check import Check
from supac.report.scores import FITTED, HELD_OUT, scores_of
from supac.report.tables import summary

T = np.linspace(0.0, 4.0, 60)
BEYOND = T > 2.5


def course(rate: float) -> np.ndarray:
    return 2.0 * np.exp(-rate * T)


def searched(after: float) -> Account:
    """A decay that was fitted before t = 2.5, and has another rate `after`wards."""
    truth = np.where(BEYOND, course(after), course(0.7))
    y = truth + 0.05 * np.random.default_rng(3).standard_normal(len(T))
    train, test = Observations(("A",), y, np.array(0.05), times=T, units=("g/L",)).split(BEYOND)
    risk = supac.Composite(lambda x: course(x[0]), supac.MeanSquare(), train, test)
    prior = supac.Parameters({"k": marginals.LogNormal(1.0, 0.5)})
    result = supac.minimize(risk, prior, supac.Catoni(0.02), budget=40)
    return account_of(result)


def answer_to(run: Account, words: str) -> Check:
    return next(each for each in assess(run).checks if words in each.question)


@pytest.fixture(scope="module")
def same() -> Account:
    return searched(0.7)


@pytest.fixture(scope="module")
def other() -> Account:
    return searched(0.2)


def test_fitted_and_held_out_data_have_scores_of_their_own(same: Account) -> None:
    fitted, held_out = same.scores
    assert (fitted.part, fitted.measured) == (FITTED, int((~BEYOND).sum()))
    assert (held_out.part, held_out.measured) == (HELD_OUT, int(BEYOND.sum()))
    assert fitted.nse > 0.95
    assert fitted.rmse == pytest.approx(0.05, abs=4 * 0.05 / np.sqrt(2 * fitted.measured))
    assert answer_to(same, "held-out").level is Level.TRUST


def test_a_model_that_fails_on_held_out_data_is_doubted(other: Account) -> None:
    """Although it fits what it has seen."""
    fitted, held_out = other.scores
    assert fitted.nse > 0.95
    assert held_out.nse < 0.0
    told = answer_to(other, "held-out")
    assert told.level is Level.LOOK
    assert "The mean of the held-out measurements is a better model" in told.answer
    assert assess(other).level is Level.LOOK


def test_scores_stand_in_show_and_in_the_report(other: Account, tmp_path: Path) -> None:
    console = Console(record=True, width=100, file=io.StringIO())
    console.print(summary(other.record, "A decay", 100))
    rows = [line.split() for line in console.export_text().splitlines() if "A [g/L]" in line]
    assert [row[2:4] for row in rows] == [["fitted", "37"], ["held", "out"]]
    assert float(rows[1][5].replace("−", "-")) < 0.0  # its Nash–Sutcliffe efficiency
    page = supac.write_report(other.record, tmp_path / "report.html").read_text()
    assert page.count('<th scope="row">A (g/L)</th>') == 2


def test_coverage_is_that_of_the_noise_where_the_model_is_right() -> None:
    """A share of .9 within its standard error, and the width of a normal's central 90 %."""
    rng, n = np.random.default_rng(5), 4000
    truth = np.sin(np.linspace(0.0, 20.0, n))
    noise = rng.uniform(0.1, 0.3, n)
    seen = Observations(("A",), truth + noise * rng.standard_normal(n), noise)
    (score,) = scores_of(seen, seen.values, np.tile(truth, (5, 1)), FITTED)
    assert score.covered == pytest.approx(0.9, abs=4 * np.sqrt(0.09 / n))
    assert score.width == pytest.approx(2 * 1.6448536 * noise.mean(), rel=1e-6)
    assert score.misfit == pytest.approx(1.0, abs=4 / np.sqrt(2 * n))


def test_scatter_without_a_course_is_no_failure_of_the_model() -> None:
    """Around a constant the perfect model is about as good as the mean."""
    rng = np.random.default_rng(1)
    seen = Observations(("A",), 1.0 + 0.1 * rng.standard_normal(40), np.array(0.1))
    (score,) = scores_of(seen, seen.values, np.full((3, 40), 1.0), FITTED)
    assert score.nse < 0.0
    assert not score.mean_is_better
    (far,) = scores_of(seen, seen.values, np.full((3, 40), 1.4), FITTED)
    assert far.mean_is_better
