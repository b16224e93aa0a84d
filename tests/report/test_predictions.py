"""Predictions in the report and in plots."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import supac
from supac import marginals
from supac.report.account import account_of
from supac.report.page import make_page


def prediction(rows: int, *, noisy: bool) -> supac.Prediction:
    rng = np.random.default_rng(0)
    times = np.arange(float(rows)) if rows > 1 else None
    noise = np.array([0.5, np.nan]) if noisy else None
    table = supac.Outputs(("A<b>", "B"), rows, times, ("g/L", ""), noise=noise)
    outputs = rng.standard_normal((40, 2 * rows))
    return supac.Prediction(np.zeros((40, 2)), outputs, table=table, title="Cold & wet")


@pytest.fixture(scope="module")
def result() -> supac.Result:
    prior = supac.gaussian(np.zeros(2), np.eye(2))
    return supac.minimize(lambda x: float(np.tanh(x @ x)), prior, supac.Catoni(0.1), budget=30)


@pytest.mark.parametrize("rows", [1, 6])
@pytest.mark.parametrize("noisy", [False, True])
def test_a_section_on_each_prediction(result: supac.Result, rows: int, noisy: bool) -> None:
    made = prediction(rows, noisy=noisy)
    page = make_page(account_of(result, predictions=[made, made]))
    assert page.count("Cold &amp; wet") == 2
    assert "A&lt;b&gt;" in page
    assert "A<b>" not in page
    assert ("new measurements" in page.split("What is predicted")[2]) == noisy
    assert "What is predicted" not in make_page(account_of(result))


def test_a_prediction_that_was_killed_is_not_shown_as_whole(result: supac.Result) -> None:
    made = prediction(1, noisy=False)
    for asked, words in (
        (60, "40 of 60 runs at draws of the posterior, not finished."),
        (40, "40 runs at draws of the posterior."),
        (None, "40 runs at draws of the posterior."),
    ):
        page = make_page(account_of(result, predictions=[replace(made, asked=asked)]))
        assert words in page
    page = make_page(account_of(result, predictions=[replace(made, ensemble=True)]))
    assert "40 runs at the certified parameter sets." in page


def test_bands_that_meet_are_told_apart(result: supac.Result) -> None:
    """One of 80 % from the data may be wider than one of 90 % of simulations."""
    times, rng = np.linspace(0.0, 5.0, 12), np.random.default_rng(0)
    data = supac.Observations(
        ("y",), 2.0 * np.exp(-0.7 * times) + 0.1 * rng.standard_normal(12), np.full(12, 0.1)
    )
    risk = supac.Composite(lambda x: 2.0 * np.exp(-x[0] * times), supac.Welsch(), data)
    prior = supac.Parameters({"rate": marginals.LogNormal(0.7, 0.3)})
    measured = supac.minimize(risk, prior, supac.Catoni(0.05), budget=40)
    made = prediction(6, noisy=True)
    sentence = "The bands of 80 % for new measurements"
    assert sentence in make_page(account_of(measured, predictions=[made]))
    assert sentence not in make_page(account_of(measured))
    assert "for new measurements, under" not in make_page(account_of(result, predictions=[made]))


def test_a_plot_of_bands() -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    every = supac.plots.prediction_bands(prediction(6, noisy=True))
    assert [axes.get_ylabel() for axes in every] == ["A<b> (g/L)", "B"]
    assert len(every[0].collections) == 2
    assert len(every[1].collections) == 1
    (one,) = supac.plots.prediction_bands(prediction(6, noisy=True), ["B"], axes=[every[0]])
    assert one is every[0]
    pyplot.close("all")
