"""Ranges that are local are told apart from those that cover what the data leave open."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import supac
from supac import marginals
from supac.arrays import FloatArray
from supac.families import Distribution, gaussian
from supac.shape.ranges import CLEARLY, RangeCheck, check_ranges

PRIOR = gaussian(np.zeros(2), np.eye(2))
BOUND = supac.Catoni(1.0)
TIMES = np.linspace(0.0, 5.0, 60)
NOISE = 0.05


def ridge(x: FloatArray) -> FloatArray:
    """Leave the whole of a parabola open."""
    return np.asarray(50.0 * (x[:, 1] - x[:, 0] ** 2) ** 2)


def bowl(x: FloatArray) -> FloatArray:
    return np.asarray(50.0 * (x**2).sum(axis=1))


def check(posterior: Distribution, risk: supac.Function, **options: object) -> RangeCheck:
    rng = np.random.default_rng(1)
    return check_ranges(posterior, risk, PRIOR, BOUND, rng, **options)  # type: ignore[arg-type]


def test_a_short_posterior_on_a_ridge_is_local_along_it() -> None:
    found = check(gaussian(np.zeros(2), np.diag([0.04, 0.01])), ridge)
    assert found.local
    # Standard deviations of the minimiser, by summing over a grid.
    u, v = np.meshgrid(np.linspace(-4.0, 4.0, 401), np.linspace(-4.0, 16.0, 1001))
    points = np.column_stack([u.ravel(), v.ravel()])
    weights = np.exp(PRIOR.log_prob(points) - ridge(points))
    weights /= weights.sum()
    exact = np.sqrt(weights @ (points - weights @ points) ** 2) / [0.2, 0.1]
    # The error of a standard deviation from 500 particles, by the fourth moment; and as many
    # again for particles that have not become independent.
    away = points - weights @ points
    kurtosis = weights @ away**4 / (weights @ away**2) ** 2
    error = np.sqrt((kurtosis - 1.0) / 2_000.0)
    assert (np.abs(found.wider / exact - 1.0) < 4.0 * np.sqrt(2.0) * error).all()
    assert found.factors[0] >= found.wider.max() * 0.9
    assert found.words(("a", "b")).startswith(("a ", "b "))


def test_a_posterior_as_wide_as_the_data_allow_is_not_doubted() -> None:
    exact = gaussian(np.zeros(2), np.eye(2) / 101.0)
    found = check(exact, bowl)
    assert not found.local
    assert (found.wider == 1.0).all()


def test_doubt_that_ends_the_particles_is_told_and_taken_away() -> None:
    """The risk is flat along one direction; the model only rises there because it knows nothing."""

    def doubt(x: FloatArray) -> FloatArray:
        return np.asarray(50.0 * x[:, 0] ** 2)

    def risk(x: FloatArray) -> FloatArray:
        return np.asarray(50.0 * x[:, 1] ** 2 + doubt(x))

    posterior = gaussian(np.zeros(2), np.diag([1.0 / 200.0, 1.0 / 101.0]))
    found = check(posterior, risk, doubt=doubt)
    assert found.unknown
    assert found.wider[0] > 7.0  # the prior's standard deviation is fourteen times as large
    assert not check(posterior, risk).unknown


def exponentials(x: FloatArray) -> FloatArray:
    rates = np.array([0.3, 3.0])
    return np.asarray((x[:2] @ np.exp(-np.outer(x[2:] * rates, TIMES))) / 4.0)


def search(simulate: object, names: str, noise: float, truth: FloatArray) -> supac.Result:
    rng = np.random.default_rng(0)
    clean = np.asarray(simulate(truth))  # type: ignore[operator]
    data = supac.Observations(
        ("y",), clean + noise * rng.standard_normal(len(clean)), np.full(len(clean), noise)
    )
    risk = supac.Composite(simulate, supac.MeanSquare(), data)  # type: ignore[arg-type]
    parameters = supac.Parameters({name: marginals.LogNormal(1.0, 1.0) for name in names})
    bound = supac.Catoni(2.0 / len(clean))
    return supac.minimize(risk, parameters, bound, budget=28, shape="gaussian")


@pytest.fixture(scope="module")
def sloppy() -> supac.Result:
    return search(exponentials, "abkl", NOISE, np.array([1.0, 2.0, 1.0, 0.5]))


@pytest.mark.slow
def test_a_sum_of_exponentials_is_not_called_pinned_down(sloppy: supac.Result) -> None:
    assert sloppy.range_check is not None
    assert sloppy.range_check.local
    rows = sloppy.record.parameter_changes
    narrow = [row for row in rows if row.width < 0.33 and row.wider >= CLEARLY]
    assert narrow  # these were called pinned down
    assert all(row.words == "local range" for row in narrow)
    again = supac.Result.from_json(sloppy.to_json())
    assert again.range_check == sloppy.range_check


@pytest.mark.slow
def test_every_face_says_that_ranges_are_local(
    sloppy: supac.Result, capsys: pytest.CaptureFixture[str]
) -> None:
    from rich.console import Console  # noqa: PLC0415

    from supac.report import account_of, assess, make_page  # noqa: PLC0415
    from supac.report.bayes import words_on_ranges  # noqa: PLC0415
    from supac.report.check import Level  # noqa: PLC0415
    from supac.report.tables import summary  # noqa: PLC0415

    run = account_of(sloppy.record)
    open_ones = [each for each in assess(run).reasons if "leave open" in each.question]
    assert [each.level for each in open_ones] == [Level.LOOK]
    assert 'shape="auto"' in open_ones[0].answer
    page = make_page(run)
    assert "Ranges are local" in page
    assert "Local range" in page
    Console(width=400).print(summary(sloppy.record, "title"))
    said = capsys.readouterr().out
    assert "Ranges are local" in said
    assert "credible intervals are wider" in words_on_ranges(sloppy.record)
    assert "ranges are local" in str(sloppy)


@pytest.mark.slow
def test_what_python_makes_of_local_ranges_says_so(sloppy: supac.Result, tmp_path: Path) -> None:
    path = tmp_path / "later.supac"
    from supac.posterior.prediction import read_prediction  # noqa: PLC0415

    made = supac.predict(sloppy, lambda x: exponentials(x)[:2], 3, store=path)
    indices = sloppy.sensitivity(points=64)
    following = sloppy.next_measurements([("y", 1.0, NOISE)])
    for each in (made, read_prediction(path), indices, following):
        assert "ranges are local" in each.local
        assert each.local in repr(each)
        assert "Ranges are local" in each._repr_html_()  # as a notebook shows it
    assert sloppy.sensitivity(under="prior", points=64).local == ""


@pytest.mark.slow
def test_a_decay_is_not_doubted() -> None:
    def decay(x: FloatArray) -> FloatArray:
        return np.asarray(x[0] * np.exp(-x[1] * TIMES) + x[2])

    made = search(decay, "akc", NOISE, np.array([2.0, 0.8, 0.5]))
    assert made.range_check is not None
    assert not made.range_check.local
    assert {row.words for row in made.record.parameter_changes} == {"pinned down"}


def test_families_with_fewer_correlations_are_not_checked() -> None:
    matrix = np.array([[1.0, 0.5], [0.2, 1.0], [0.5, 0.5]])
    risk = supac.Composite(lambda x: matrix @ x, supac.MeanSquare())
    made = supac.minimize(risk, gaussian(np.zeros(2), np.ones(2)), BOUND, budget=12)
    assert made.range_check is None
