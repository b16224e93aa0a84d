"""Pictures of the fit: all that was measured is in sight, and what is drawn beside it is named."""

from __future__ import annotations

import re

import numpy as np
import pytest

import supac
from supac import marginals
from supac.arrays import FloatArray
from supac.guarantee.certificate import rounded_up
from supac.problem import Role
from supac.problem.log_observations import LogObservations
from supac.problem.losses import RootMeanSquare
from supac.report import account_of, make_page
from supac.report.live import make_live_page

TIMES = np.linspace(0.0, 5.0, 20)
TOP, BOTTOM = 12.0, 44.0  # pixels above and below the axes


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
    (picture,) = re.findall(r'<svg[^>]*aria-labelledby="fit-0-title".*?</svg>', page, re.S)
    (height,) = re.findall(r'viewBox="0 0 \d+ (\d+)"', picture)
    dots = re.findall(r'<circle class="dot data" cx="[\d.]+" cy="(-?[\d.]+)"', picture)
    assert len(dots) == len(TIMES)
    assert min(map(float, dots)) >= TOP
    assert max(map(float, dots)) <= float(height) - BOTTOM


@pytest.mark.parametrize("live", [False, True])
def test_a_name_stands_above_and_its_unit_on_the_axis(outlying: supac.Result, live: bool) -> None:
    page = make_live_page(outlying.record) if live else make_page(account_of(outlying))
    figure = next(f for f in re.findall("<figure>.*?</figure>", page, re.S) if "dot data" in f)
    seen = re.sub("<title.*?</title>", "", figure, flags=re.S)  # for those who cannot see it
    assert seen.count("signal") == 1
    assert "<figcaption>signal</figcaption>" in seen
    assert re.findall(r'rotate\(-90\)"[^>]*>([^<]*)<', seen) == ["V"]


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
    first = result.record.runs_of(result.record.rounds[0].ids)
    assert {run.role for run in first} == {Role.NARROW}
    assert "the first 11 runs, near the prior’s centre: 90 % of them" in legend_of(result)


@pytest.mark.parametrize(("rows", "bars"), [(20, "data"), (80, "data thin")])
def test_bars_of_many_data_are_thin_and_below_the_runs(rows: int, bars: str) -> None:
    times = np.linspace(0.0, 5.0, rows)
    data = LogObservations(
        ("signal", "other"),
        np.repeat(np.log(2.0) - 0.7 * times, 2),
        times,
        ("V", "V"),
        noise=(0.1, 0.1),
    )
    prior = supac.Parameters({"rate": marginals.LogNormal(0.7, 0.1)})
    risk = supac.Composite(
        lambda x: np.repeat(2.0 * np.exp(-x[0] * times), 2), RootMeanSquare(), data
    )
    result = supac.minimize(risk, prior, supac.Catoni(0.05, ceiling=3.0), budget=40)
    page = make_page(account_of(result))
    picture = page.partition('aria-labelledby="fit-0-title"')[2].partition("</svg>")[0]
    assert picture.count(f'<path class="line {bars}"') == rows
    below = picture.index('class="line data') < picture.index('class="area posterior"')
    assert below == (rows > 60)
    assert result.certificate is not None
    size = rounded_up(100.0 * np.expm1(0.1 * (result.certificate.residual or 0.0)), 3)
    assert f"(signal and other {size} %)" in page
