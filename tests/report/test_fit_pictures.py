"""Pictures of the fit: all that was measured is in sight, and what is drawn beside it is named."""

from __future__ import annotations

import re

import numpy as np
import pytest

import supac
from supac import marginals
from supac.arrays import FloatArray
from supac.problem.composite import RootMeanSquare
from supac.problem.log_observations import LogObservations
from supac.report import account_of, make_page
from supac.report.live import make_live_page

TIMES = np.linspace(0.0, 5.0, 20)
FRAME = (12.0, 216.0)  # of a panel of the usual size, from top to bottom


def simulate(x: FloatArray) -> FloatArray:
    return 2.0 * np.exp(-x[0] * TIMES)


@pytest.fixture(scope="module")
def outlying() -> supac.Result:
    """A search on data of unknown noise, one of which lies far from all runs."""
    values = 2.0 * np.exp(-0.7 * TIMES)
    values[10] = 9.0
    data = LogObservations(("signal",), np.log(values), TIMES, ("V",))
    prior = supac.Parameters({"rate": marginals.LogNormal(0.7, 0.1)})
    risk = supac.Composite(simulate, RootMeanSquare(), data)
    return supac.minimize(risk, prior, supac.Catoni(0.05, ceiling=3.0), budget=40)


@pytest.mark.parametrize("live", [False, True])
def test_every_measured_point_is_in_sight(outlying: supac.Result, live: bool) -> None:
    page = make_live_page(outlying.record) if live else make_page(account_of(outlying))
    heights = re.findall(r'<circle class="dot data" cx="[\d.]+" cy="(-?[\d.]+)"', page)
    assert len(heights) == len(TIMES)
    assert FRAME[0] <= min(map(float, heights))
    assert max(map(float, heights)) <= FRAME[1]


def legend_of(result: supac.Result) -> str:
    (words,) = re.findall(r'<p class="legend">(.*?)</p>', make_page(account_of(result)))[:1]
    return re.sub("<[^>]*>", "", words)


def test_the_first_runs_are_called_what_they_are(outlying: supac.Result) -> None:
    """They are wider than the prior, by the factor of the estimator."""
    wide = outlying.record.rounds[0]
    assert wide.proposal is not None
    np.testing.assert_allclose(wide.proposal.covariance, [[1.3**2]])
    count = len(wide.ids)
    assert f"the first {count} runs, spread 1.3 times as wide as the prior: 90 %" in legend_of(
        outlying
    )


@pytest.mark.parametrize(
    ("estimator", "start", "words"),
    [
        (supac.OutputEmulator(widening=(1.0, 1.0)), 0.0, "drawn from the prior: 90 % of them"),
        (supac.OutputEmulator(), 0.5, "around where the search began: 90 % of them"),
    ],
)
def test_first_runs_of_other_searches(
    estimator: supac.OutputEmulator, start: float, words: str
) -> None:
    data = supac.Observations(("signal",), 2.0 * np.exp(-0.7 * TIMES), np.full(20, 0.1))
    prior = supac.Parameters({"rate": marginals.LogNormal(0.7, 0.1)})
    result = supac.minimize(
        supac.Composite(simulate, supac.Welsch(), data),
        prior,
        supac.Catoni(0.05),
        budget=40,
        algorithm=supac.SuPAC(estimator),
        start=supac.gaussian([start], [[1.0]]),
    )
    assert words in legend_of(result)


def test_first_runs_of_a_narrow_beginning() -> None:
    data = supac.Observations(("signal",), np.arange(10.0), np.full(10, 1.0))
    result = supac.minimize(
        supac.Composite(lambda x: 2.0 * x, supac.MeanSquare(), data),
        supac.gaussian(np.zeros(10), np.eye(10)),
        supac.Catoni(0.05, ceiling=100.0),
        budget=30,
    )
    assert not result.record.rounds[0].drawn.any()
    assert "the first 11 runs, near the prior’s centre: 90 % of them" in legend_of(result)
