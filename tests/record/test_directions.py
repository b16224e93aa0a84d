"""What was learnt about many parameters, as numbers, tables, pictures and a page."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import supac
from supac import Field, marginals
from supac.arrays import FloatArray
from supac.record.many_parameters import FEW, directions_of, field_changes, most_learnt, shown
from supac.record.parameter_change import parameter_changes
from supac.report.tables import summary

NORMAL = marginals.Normal(0.0, 1.0)
PARAMETERS = supac.Parameters(
    {
        "k": Field(marginals.LogNormal(1e-4, 1.0, unit="m/s"), grid=(6, 5), length=0.4),
        "source": Field(
            marginals.Uniform(0.0, 1.0), grid=([0.0, 1.0, 4.0, 9.0, 16.0],), length=5.0
        ),
        "rock": Field(NORMAL, grid=(2, 2, 2), length=1.0),
        "shift": NORMAL,
    }
)


def _simulate(x: FloatArray) -> FloatArray:
    given = PARAMETERS.by_name(x)
    log_k = np.log(given["k"] / 1e-4)
    seen = [log_k[0].mean() - 1.0, log_k[:, 4].mean(), given["source"][0] - 0.7, given["shift"]]
    return 5.0 * np.array([float(each) for each in seen])


@pytest.fixture(scope="module")
def result() -> supac.Result:
    risk = supac.Composite(_simulate, supac.Welsch())
    return supac.minimize(risk, PARAMETERS, supac.Catoni(0.02), budget=60)


def test_directions_add_up_to_the_divergence(result: supac.Result) -> None:
    prior, posterior = PARAMETERS.prior, result.posterior
    found = result.directions
    assert found is not None
    w, s = found.widths, found.shifts
    assert (np.diff(w) >= 0.0).all()
    kl = 0.5 * float((w**2 + s**2 - 1.0 - 2.0 * np.log(w)).sum())
    assert kl == pytest.approx(posterior.kl(prior), rel=1e-8)


def test_directions_of_a_known_update() -> None:
    prior = supac.gaussian([0.0, 0.0, 1.0], np.diag([1.0, 4.0, 9.0]))
    # Only (u0/1 + u1/2)/√2 is observed: its standard deviation becomes 0.1, its mean 2.
    v = np.array([1.0, 0.5, 0.0]) / np.sqrt(2.0)
    covariance = prior.covariance
    gain = covariance @ v
    after = supac.gaussian(
        prior.mean + 2.0 * gain, covariance - (1.0 - 0.1**2) * np.outer(gain, gain)
    )
    found = directions_of(prior, after)
    assert found is not None
    assert found.informed == 1
    assert found.degrees == pytest.approx(1.0 - 0.1**2)
    np.testing.assert_allclose(found.widths, [0.1, 1.0, 1.0], rtol=1e-9)
    assert found[0].shift == pytest.approx(2.0)
    root = 1.0 / np.sqrt(2.0)
    np.testing.assert_allclose(found[0].loadings, [root, root, 0.0], atol=1e-9)
    assert {name for name, _ in found[0].largest(("a", "b", "c"), 2)} == {"a", "b"}


def test_fields_and_the_most_learnt_are_found(result: supac.Result) -> None:
    rows = parameter_changes(PARAMETERS.prior, result.posterior, PARAMETERS)
    fields = {each.name: each for each in field_changes(rows, PARAMETERS)}
    assert fields["k"].widths.shape == (6, 5)
    assert fields["k"].posterior[1][2, 3] == rows[13].posterior[1]
    assert fields["k"].widths[0].max() < fields["k"].widths[3, :3].min()
    assert max(row.kl for row in rows) == rows[most_learnt(rows, 1)[0]].kl
    assert rows[shown(rows, PARAMETERS, 5)[0]].name == "shift"
    assert len(rows) > FEW
    assert len(shown(rows, PARAMETERS, 5)) == 5
    assert shown(rows[:9], None, 5) == list(range(9))


def test_the_page_of_many_parameters_has_pictures_in_place_of_rows(
    result: supac.Result, tmp_path: Path
) -> None:
    page = supac.write_report(result, tmp_path / "page.html").read_text()
    learnt = page[page.index('<section id="learnt">') : page.index('<section id="search">')]
    visible = re.sub(r"<details>.*?</details>", "", learnt, flags=re.S)
    assert "All 44 parameters" in learnt
    assert learnt.count('<th scope="row">k[') > 30  # folded
    assert visible.count('<th scope="row">k[') <= 12
    assert "directions: in" in visible
    assert "The field k" in visible
    assert "The field source" in visible
    assert "The field rock" not in visible  # no picture of three axes
    assert visible.count('class="cell tile') > 2 * 30
    assert "k (a field of 6 × 5 points in m/s)" in page
    names = re.findall(r' id="([^"]+)"', page)
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[\w-]+", name) for name in names)


def test_the_terminal_shows_fields_in_a_row_each(result: supac.Result) -> None:
    console = Console(file=StringIO(), width=80)
    console.print(summary(result.record, "a run"))
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert re.search(r"The data inform \d+ of 44 directions", said)
    assert re.search(r"^k +6×5 +m/s ", said, flags=re.M)
    assert len(re.findall(r"^(?:k|source|rock)\[", said, flags=re.M)) <= 10
    assert "34 others changed less" in said


def test_plots_of_many_parameters_choose(result: supac.Result) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    assert len(supac.plots.marginals(result)) == 12
    assert "shift" in {axes.get_title() for axes in supac.plots.marginals(result)}
    truth = np.full((6, 5), 1e-4)
    titles = [axes.get_title() for axes in supac.plots.field(result, truth=truth)]
    assert titles == ["Truth", "Posterior median", "Posterior over prior spread"]
    assert len(supac.plots.field(result, "source")) == 2
    with pytest.raises(ValueError, match="3 axes"):
        supac.plots.field(result, "rock")
    with pytest.raises(ValueError, match="'shift' is not a field; they are k, source, rock"):
        supac.plots.field(result, "shift")
    pyplot.close("all")
