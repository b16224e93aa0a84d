"""Pictures as text: inside their frame, with a title, whatever the numbers."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from supac.report.svg import Panel, decade_ticks, labels

X = np.array([0.0, 1.0, 2.0, np.nan])


def drawn(panel: Panel) -> ElementTree.Element:
    return ElementTree.fromstring(panel.draw("a <title>", "x & y", "risk"))


def panel(y: tuple[float, float] = (0.0, 1.0)) -> Panel:
    return Panel("p", (0.0, 2.0), y)


def numbers(text: str) -> list[float]:
    return [float(each) for each in re.findall(r"-?[\d.]+", text)]


def test_a_panel_is_well_formed_and_has_a_title() -> None:
    picture = drawn(panel())
    assert picture.attrib["aria-labelledby"] == "p-title"
    title = picture.find("title")
    assert title is not None
    assert title.text == "a <title>"
    assert "x & y" in [each.text for each in picture.iter("text")]


def test_points_lie_where_they_belong_and_unknown_ones_nowhere() -> None:
    p = panel()
    p.line(X, np.array([0.0, 0.5, 1.0, 0.5]), "posterior")
    p.dots(X, np.array([0.0, np.nan, 1.0, 0.5]), "truth")
    p.bars(X, np.zeros(4), np.ones(4), "truth")
    picture = drawn(p)
    (line,) = picture.iter("polyline")
    assert numbers(line.attrib["points"]) == [56.0, 216.0, 242.0, 114.0, 428.0, 12.0]
    dots = [(each.attrib["cx"], each.attrib["cy"]) for each in picture.iter("circle")]
    assert dots == [("56.0", "216.0"), ("428.0", "12.0")]
    assert sum("V12.0" in each.attrib["d"] for each in picture.iter("path")) == 3


def test_what_leaves_the_picture_by_far_stays_a_number_that_readers_can_take() -> None:
    p = panel()
    p.area(X, np.full(4, -1e300), np.full(4, 1e300), "prior")
    (area,) = drawn(p).iter("polygon")
    assert max(map(abs, numbers(area.attrib["points"]))) < 10_000.0


@pytest.mark.parametrize("y", [(0.0, 1e-8), (-1e9, 1e9), (3.0, 3.0)])
def test_ticks_of_any_scale_fit(y: tuple[float, float]) -> None:
    texts = [each.text or "" for each in drawn(panel(y)).iter("text")]
    assert max(map(len, texts)) <= 8


def test_labels_tell_ticks_apart() -> None:
    assert labels([0.0, 0.25, 0.5]) == ["0", "0.25", "0.5"]
    assert labels([1000.0, 1000.5, 1001.0]) == ["1000", "1000.5", "1001"]
    assert labels([1e6, 2e6], power=6) == ["1", "2"]


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (-4.0, 3.0, ["10⁻⁴", "10⁻²", "10⁰", "10²"]),
        (0.9, 1.8, ["10", "20", "50"]),
        (3.2, 4.8, ["3,000", "10,000", "30,000"]),
        (1.02, 1.2, ["11", "12", "13", "14", "15"]),
    ],
)
def test_logarithmic_axes_have_two_labels_at_least(
    low: float, high: float, words: list[str]
) -> None:
    places, said = decade_ticks(low, high)
    assert said == words
    assert all(low <= each <= high for each in places)
