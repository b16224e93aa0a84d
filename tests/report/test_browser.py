"""The page as a browser shows it: in two themes, on a phone, on paper."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

import supac
from browser import NoBrowserError, Page, open_or_skip
from supac import marginals
from supac.arrays import FloatArray
from supac.report.svg import Panel

NAMES = [f"a_parameter_with_a_long_name_{i}" for i in range(12)]
MESSAGE = "no_convergence_" * 12 + " and more"


def risk(x: FloatArray) -> float:
    if x[0] > 1.3:
        raise RuntimeError(MESSAGE)
    return float(np.tanh(0.1 * np.sum(x**2)))


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with ExitStack() as stack:
        yield open_or_skip(stack)


def test_a_browser_that_is_required_is_not_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("SUPAC_BROWSER", raising=False)
    monkeypatch.setenv("SUPAC_BROWSER_REQUIRED", "1")
    with ExitStack() as stack, pytest.raises(NoBrowserError, match="name it in SUPAC_BROWSER"):
        open_or_skip(stack)
    monkeypatch.delenv("SUPAC_BROWSER_REQUIRED")
    with ExitStack() as stack, pytest.raises(pytest.skip.Exception):
        open_or_skip(stack)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with much on it: long names, failures, a certificate."""
    parameters = supac.Parameters({n: marginals.Normal(0.0, 1.0, unit="kg/m³/d") for n in NAMES})
    bound = supac.MaurerLangfordSeeger(n=100, delta=0.05)
    result = supac.minimize(
        risk, parameters, bound, budget=80, execution=supac.Execution(on_failure="penalise")
    )
    assert result.failures
    certificate = result.certify(risk, n=100, draws=50)
    path = tmp_path_factory.mktemp("report") / "report.html"
    return supac.write_report(result, path, certificate=certificate)


@pytest.mark.parametrize("width", [320, 360, 768, 1400])
def test_it_fits_every_width_and_asks_for_nothing(page: Page, report: Path, width: int) -> None:
    page.look(report, width=width)
    assert page.value("document.documentElement.scrollWidth") == width
    assert page.requests == [report.as_uri()]
    assert page.complaints == []


def test_tables_of_words_need_no_scrolling_on_a_phone(page: Page, report: Path) -> None:
    """Cells stand below each other, each with its heading, and nothing is cut off."""
    page.look(report, width=360)
    for section in ("learnt", "trust", "failures"):
        there, seen = page.value(
            f"(() => {{ const s = document.querySelector('#{section} .scroll');"
            "return [s.scrollWidth, s.clientWidth] })()"
        )
        assert there <= seen, section
    heading = "getComputedStyle(document.querySelector('#learnt td:nth-child(3)'), '::before')"
    assert page.value(f"{heading}.content") in ('"prior"', "attr(data-heading)")


def test_pictures_have_a_size_and_stay_inside(page: Page, report: Path) -> None:
    page.look(report, width=360)
    boxes = page.value(
        "[...document.querySelectorAll('svg')].map(s => s.getBoundingClientRect())"
        ".map(b => [b.left, b.right, b.height])"
    )
    assert len(boxes) == 2 * len(NAMES) + 3  # densities, ranges, correlations, two of the way
    assert all(left >= 0 and right <= 360 for left, right, _ in boxes)
    assert sum(height > 80 for *_, height in boxes) == len(NAMES) + 3


@pytest.mark.parametrize("width", [390, 1280])
def test_no_words_of_a_chart_are_cut_off(page: Page, report: Path, width: int) -> None:
    page.look(report, width=width)
    cut = page.value(
        "[...document.querySelectorAll('svg text')].filter(text => {"
        "const a = text.getBoundingClientRect(), b = text.ownerSVGElement.getBoundingClientRect();"
        "return a.width && (a.left < b.left - 1 || a.right > b.right + 1 || a.top < b.top - 1"
        " || a.bottom > b.bottom + 1)}).map(text => text.textContent)"
    )
    assert cut == []


@pytest.mark.parametrize("top", [0.03, 2_600.0, 26_000.0])
def test_the_label_of_an_axis_stands_clear_of_its_numbers(
    page: Page, tmp_path: Path, top: float
) -> None:
    panel = Panel("p", (0.0, 1.0), (0.0, top))
    path = tmp_path / "panel.html"
    style = (Path(supac.__file__).parent / "report" / "style.css").read_text()
    path.write_text(f"<style>{style}</style>{panel.draw('a panel', '', 'q_gas (m³/d)')}")
    page.look(path, width=440)
    label, *numbers = page.value(
        "[...document.querySelectorAll('text.label, text[text-anchor=end]')]"
        ".map(text => text.getBoundingClientRect()).sort((a, b) => b.height - a.height)"
        ".map(box => [box.left, box.right])"
    )
    assert len(numbers) > 2
    assert label[1] <= min(left for left, _ in numbers)


def test_the_first_screen_fits_a_desk(page: Page, report: Path) -> None:
    page.look(report, width=1280)
    bottom = page.value("document.querySelector('.first').getBoundingClientRect().bottom")
    assert bottom < 1250  # with twelve parameters of long names
    top = page.value("document.querySelector('.first h3').getBoundingClientRect().top")
    assert top < 900  # what to do next stands in the column with more room
    ranges = page.value(
        "[...document.querySelectorAll('.first td svg')].map(s => s.getBoundingClientRect().right)"
    )
    assert len(ranges) == len(NAMES)
    frame = page.value("document.querySelector('.first .scroll').getBoundingClientRect().right")
    assert max(ranges) <= frame


def test_themes_differ(page: Page, report: Path) -> None:
    colours = (
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
    )
    page.look(report)
    light = page.value(colours)
    page.look(report, dark=True)
    dark = page.value(colours)
    assert light == ["rgb(255, 255, 255)", "rgb(27, 39, 51)"]
    assert dark == ["rgb(18, 24, 31)", "rgb(230, 235, 240)"]
    page.look(report, dark=True, media="print")  # paper is white in the dark, too
    assert page.value(colours)[0] == "rgb(255, 255, 255)"


def test_paper_shows_everything(page: Page, report: Path) -> None:
    visible = "document.querySelector('details .scroll').checkVisibility()"
    page.look(report)
    assert not page.value(visible)
    page.look(report, media="print", width=720)
    assert page.value(visible)
    assert page.value("getComputedStyle(document.querySelector('nav')).display") == "none"
    page.look(report)
    printed = page.pdf()
    assert printed.startswith(b"%PDF")
    assert 2 <= printed.count(b"/Type /Page\n") <= 20


def test_the_keyboard_reaches_links_tables_and_details(page: Page, report: Path) -> None:
    page.look(report)
    seen = []
    for _ in range(40):
        page.call("Input.dispatchKeyEvent", type="keyDown", key="Tab", windowsVirtualKeyCode=9)
        seen.append(
            page.value("document.activeElement.className || document.activeElement.tagName")
        )
    assert seen[0] == "skip"
    assert {"A", "scroll", "SUMMARY"} <= set(seen)


def test_scrolling_is_smooth_only_where_that_is_wanted(page: Page, report: Path) -> None:
    for wish, behaviour in (("no-preference", "smooth"), ("reduce", "auto")):
        page.look(report, motion=wish)
        style = "getComputedStyle(document.documentElement).scrollBehavior"
        assert page.value(style) == behaviour
