"""What the uses of a posterior print, in a line each, and the names of their outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import supac
from supac import marginals
from supac.arrays import FloatArray
from supac.posterior.outputs import Outputs

TIMES = np.array([1.0, 2.0, 4.0])
PARAMETERS = supac.Parameters(
    {"size": marginals.Uniform(0.0, 5.0), "rate": marginals.LogNormal(1.0, 0.5)}
)


def simulate(x: FloatArray) -> FloatArray:
    made: FloatArray = np.concatenate([x[0] * np.exp(-x[1] * f * TIMES) for f in (0.5, 1.0)])
    return made


@pytest.fixture(scope="module")
def result() -> supac.Result:
    data = supac.Observations(
        ("A",),
        simulate(np.array([2.0, 0.7])),
        np.full(6, 0.05),
        times=np.tile(TIMES, 2),
        experiments=("cold",) * 3 + ("warm",) * 3,
    )
    risk = supac.Composite(simulate, supac.MeanSquare(), data)
    return supac.minimize(risk, PARAMETERS, supac.Catoni(2 / 6), budget=40)


def test_outputs_of_several_experiments_have_names_of_their_own(result: supac.Result) -> None:
    found = result.sensitivity()
    assert found.indices.outputs[::3] == ("A at 1 in cold", "A at 1 in warm")
    assert len(set(found.indices.outputs)) == len(found.to_dict()["outputs"]) == 6


def test_each_prints_a_line(result: supac.Result) -> None:
    found = result.sensitivity()
    later = np.array([6.0, 8.0])
    prediction = result.predict(
        lambda x: x[0] * np.exp(-x[1] * later), 20, outputs="A", times=later
    )
    chosen = result.next_measurements(quantity="rate")
    said = {
        "Sensitivity(over the posterior; total indices of all outputs: ": found,
        "Directions(widths ": found.directions,
        "Indices(6 outputs, 2 parameters)": found.indices,
        "Prediction(A at 2 times, 20 draws)": prediction,
        "PredictedBands(90 % of simulations and of measurements, 2 outputs)": prediction.bands(),
        "NextMeasurements(6 candidates for rate; best: Choice(A at ": chosen,
        "Choice(A at ": chosen.best,
        "Bands(": result.bands(0.5),
    }
    for words, each in said.items():
        assert repr(each).startswith(words)
        assert "array" not in repr(each)
        assert "\n" not in repr(each)


def test_notebooks_show_pictures_and_tables(result: supac.Result) -> None:
    """Each use of a posterior is more than its line of text in a notebook."""
    later = np.array([6.0, 8.0])
    prediction = result.predict(
        lambda x: x[0] * np.exp(-x[1] * later), 20, outputs="A", times=later
    )._repr_html_()
    assert prediction.startswith('<div class="supac">')
    assert prediction.count("<svg") == 1
    assert "90 % of new measurements" in prediction
    found = result.sensitivity()
    page = found._repr_html_()
    assert [page.count(f">{name}</th>") for name in ("size", "rate", "all outputs")] == [1, 1, 1]
    first, total = (found.columns.row("all outputs")[kind][0] for kind in ("first", "total"))
    assert f"{max(first, 0.0):.2f} {max(total, 0.0):.2f}</td>" in page
    assert "The data determine" in page
    chosen = result.next_measurements(quantity="rate")
    page = chosen._repr_html_()
    assert "What would remain of the uncertainty of rate, now ±" in page
    assert page.index(chosen.choices[0].candidate.words) < page.index(
        chosen.choices[-1].candidate.words
    )
    assert page.count("<tr>") == 1 + len(chosen.choices) == 7


def test_noise_that_is_a_share_of_the_value_is_recognised() -> None:
    values = np.array([1.0, 2.0, 4.0, np.nan, 3.0, 3.0, 3.0, 3.0, 1.0, 2.0, 5.0, 3.0])
    noise = np.concatenate([0.1 * values[:4] + 0.02, np.full(4, 0.3), [0.1, 0.3, 0.2, 0.7]])
    noise[3] = 0.3  # not measured: any number
    data = supac.Observations(("share", "same", "free"), values, noise)
    made = Outputs.of_data(data)
    assert made.noise is not None
    np.testing.assert_allclose(made.noise, [0.02, 0.3, np.nan])
    np.testing.assert_allclose(made.shares, [0.1, 0.0, 0.0], atol=1e-12)
    assert made.rows == 4


def test_columns_without_a_rule_of_noise_are_named(result: supac.Result) -> None:
    assert result.next_measurements(quantity="rate").left_out == ()
    risk: Any = result.record.settings
    both = np.concatenate([risk.data.values, np.ones(6)])
    noise = np.concatenate([np.full(6, 0.05), np.arange(1.0, 7.0)])
    data = supac.Observations(("A", "B"), both, noise, times=np.tile(TIMES, 2))
    more = supac.Composite(
        lambda x: np.concatenate([simulate(x), np.full(6, x[0])]), supac.MeanSquare(), data
    )
    found = supac.minimize(more, PARAMETERS, supac.Catoni(2 / 12), budget=40)
    assert found.next_measurements(quantity="rate").left_out == ("B",)
