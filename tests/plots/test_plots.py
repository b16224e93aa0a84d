"""Pictures show what is true: curves that hold their mass, the same from a store or a result."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import supac
from supac import marginals
from supac.arrays import FloatArray
from supac.plots import drawing_is_possible
from supac.plots.canvas import track_of
from supac.plots.posterior import _ellipse
from supac.record.parameter_change import quantiles

if not drawing_is_possible():
    pytest.skip("plots are an extra", allow_module_level=True)

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.axes import Axes

PARAMETERS = supac.Parameters(
    {
        "rate": marginals.LogNormal(1.0, 0.5, unit="1/h"),
        "share": marginals.Uniform(0.0, 1.0),
        "shift": marginals.Normal(0.0, 2.0),
    }
)
TRUTH = np.array([1.3, 0.4, 0.0])


def risk(x: FloatArray) -> float:
    return float(np.tanh((np.log(x[0]) - 0.3) ** 2 + (x[1] - 0.4) ** 2 + 0.05 * x[2] ** 2))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plots") / "run.supac"


@pytest.fixture(scope="module")
def result(store: Path) -> supac.Result:
    return supac.minimize(risk, PARAMETERS, supac.Catoni(0.05), budget=60, store=store)


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Every picture is really drawn, where warnings are errors."""
    yield
    for number in pyplot.get_fignums():
        pyplot.figure(number).canvas.draw()
    pyplot.close("all")


def test_a_store_and_a_result_have_the_same_track(result: supac.Result, store: Path) -> None:
    mine, stored = track_of(result), track_of(supac.read_store(store))
    assert mine.posteriors == stored.posteriors
    assert mine.queries == stored.queries
    assert mine.posteriors[0] == PARAMETERS.prior
    assert mine.posteriors[-1] == result.posterior
    assert mine.queries[0] == 0
    assert all(a < b for a, b in zip(mine.queries, mine.queries[1:], strict=False))
    assert mine.label(0) == "rate, 1/h"


def test_one_picture_each(result: supac.Result, store: Path) -> None:
    for run in (result, supac.read_store(store)):
        for axes in (
            supac.plots.convergence(run),
            supac.plots.predictions(run),
            supac.plots.trace_2d(run, "rate", "share", truth=TRUTH),
        ):
            assert isinstance(axes, Axes)
        assert len(supac.plots.marginals(run, truth=TRUTH)) == 3
        assert len(supac.plots.trace(run, truth=TRUTH)) == 3
        pyplot.close("all")
    panels = supac.plots.corner(result, truth=TRUTH)
    assert panels.shape == (3, 3)
    seen = [[axes.get_visible() for axes in row] for row in panels]
    assert seen == np.tril(np.ones((3, 3), dtype=bool)).tolist()
    few = supac.plots.corner(result, parameters=["shift", 0])
    assert few[1, 0].get_xlabel() == "shift"
    assert few[1, 0].get_ylabel() == "rate, 1/h"


def test_given_axes_are_drawn_on(result: supac.Result) -> None:
    _, (left, right) = pyplot.subplots(1, 2)
    assert supac.plots.convergence(result, axes=left) is left
    assert supac.plots.weights(result, axes=right) is right
    assert len(pyplot.get_fignums()) == 1
    objective = left.get_lines()[0].get_ydata()
    np.testing.assert_array_equal(objective, result.history["objective"])


def test_curves_hold_their_mass(result: supac.Result) -> None:
    """Of 40,000 draws, each curve holds its share to within four standard errors."""
    from matplotlib.path import Path as Curve  # noqa: PLC0415

    draws = result.sample(40_000, np.random.default_rng(0))
    for mass in (0.5, 0.9):
        x, y = _ellipse(result.posterior, PARAMETERS, (0, 1), mass)
        inside = Curve(np.column_stack([x, y])).contains_points(draws[:, [0, 1]]).mean()
        assert inside == pytest.approx(mass, abs=4.0 * np.sqrt(mass * (1.0 - mass) / 40_000))


def test_quantiles_are_those_of_draws(result: supac.Result) -> None:
    exact = quantiles(result.posterior, PARAMETERS)
    draws = result.sample(40_000, np.random.default_rng(1))
    for share, row in zip((0.05, 0.5, 0.95), exact, strict=True):
        below = (draws <= row).mean(axis=0)
        error = np.sqrt(share * (1.0 - share) / 40_000)
        np.testing.assert_allclose(below, share, atol=4.0 * error)


def test_weights_add_up(result: supac.Result) -> None:
    axes = supac.plots.weights(result)
    heights = [bar.get_height() for bar in axes.patches]  # type: ignore[attr-defined]
    assert sum(heights) == pytest.approx(1.0)
    assert len(heights) == len(result.evaluations.proposals)


def test_other_families(store: Path) -> None:
    prior = supac.product(supac.beta(2, 2), supac.gamma(2, 1))
    result = supac.minimize(
        lambda x: float((x[0] - 0.7) ** 2 + x[1]), prior, supac.Catoni(0.05), budget=60
    )
    supac.plots.corner(result)
    supac.plots.trace(result)
    supac.plots.trace_2d(result)
    assert [axes.get_title() for axes in supac.plots.marginals(result)] == ["x0", "x1"]


def test_mixtures_are_drawn_in_the_user_s_units() -> None:
    """As the draws of the result are: between the bounds, and around their quantiles."""
    start = supac.split_mixture(PARAMETERS.prior, 2)
    result = supac.minimize(risk, PARAMETERS, supac.Catoni(0.05), budget=40, start=start)
    draws = result.sample(40_000, np.random.default_rng(1))
    for i, axes in enumerate(supac.plots.trace(result)):
        median = float(np.asarray(axes.get_lines()[0].get_ydata())[-1])
        # Standard errors of the median's share: of these draws, and of the 20,000 it comes from.
        assert (draws[:, i] <= median).mean() == pytest.approx(
            0.5, abs=4.0 * np.sqrt(0.75 / 40_000)
        )
    panels = supac.plots.corner(result)
    clouds = [panels[1, 0].get_lines()[-1], supac.plots.trace_2d(result).get_lines()[-1]]
    for cloud in clouds:
        x, y = np.asarray(cloud.get_xdata()), np.asarray(cloud.get_ydata())
        assert len(x) == 400
        assert (x > 0.0).all()  # a rate
        assert ((y > 0.0) & (y < 1.0)).all()  # a share
        for column, values in enumerate((x, y)):
            near = np.quantile(draws[:, column], [0.5 - 0.1, 0.5 + 0.1])
            assert near[0] < np.median(values) < near[1]  # four standard errors of 400 draws


def test_bands_hold_nine_tenths_and_leave_failed_runs_out() -> None:
    time = np.linspace(0.0, 1.0, 5)
    draws = np.vstack([np.tile(np.linspace(0.0, 1.0, 101)[:, None], 5), np.full((3, 5), np.nan)])
    axes = supac.plots.fit_bands(time, time, {"posterior": draws}, noise=0.1)
    low, high = np.sort(axes.collections[0].get_paths()[0].vertices[:, 1])[[0, -1]]  # type: ignore[index]
    assert (low, high) == pytest.approx((0.05, 0.95))
    with pytest.raises(ValueError, match=r"its keys must be in \['prior', 'posterior'\]"):
        supac.plots.fit_bands(time, time, {"truth": draws})


def test_mistakes_are_named(result: supac.Result, store: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'rates' is not a parameter; they are rate, share, shift"):
        supac.plots.trace_2d(result, "rates", "share")
    with pytest.raises(ValueError, match="7 is not a parameter"):
        supac.plots.trace(result, parameters=[7])
    code = (
        "import sys; sys.modules['matplotlib'] = None; import importlib.util as u; "
        "u.find_spec = lambda name: None; import supac; "
        f"supac.plots.convergence(supac.read_store({str(store)!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'supac[plot]'" in done.stderr
