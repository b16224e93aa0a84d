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
