"""The case studies: what their pages say is done, and the tables are those of their program."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import supac
from walks import follow

DOCS = Path(__file__).parents[2] / "docs"
CASES = sorted(path.stem for path in DOCS.glob("case-*.md"))


@pytest.mark.parametrize("name", CASES)
def test_a_study_has_numbers_pictures_and_another_tool(name: str) -> None:
    page = (DOCS / f"{name}.md").read_text()
    blocks = re.findall(r"<!-- (\w+): begin -->\n\n(.*?)\n\n<!-- \1: end -->", page, flags=re.S)
    assert {"tools", "learnt"} == {block for block, _ in blocks}
    tools = dict(blocks)["tools"]
    assert "| supac" in tools
    assert re.search(r"SciPy|CMA-ES", tools)
    assert "nan" not in tools
    assert re.search(r"!\[[^\]]+\]\(cases/\S+\.png\)", page)
    assert re.search(r"guarantee", page)


def test_the_pumping_test_is_calibrated_as_the_page_says(tmp_path: Path) -> None:
    walk = follow(DOCS / "case-pumping.md", tmp_path)
    said = walk.said["supac report run.supac"]
    assert "verdict: look" in said
    assert "Are the residuals like noise?" in said
    record = supac.read_store(tmp_path / "run.supac")
    page = " ".join((DOCS / "case-pumping.md").read_text().split())
    certificate = record.result().certificate
    assert certificate is not None
    words = f"the mean true risk of the {len(record.ensemble.x)} parameter sets is at most 0.53"
    assert words in page
    assert 0.52 < certificate.value <= 0.53
    published = np.array([462.6, 1.779e-4])  # without leakage
    draws = record.sample(2_000, 0)[:, :2]
    low, high = np.quantile(draws, (0.01, 0.99), axis=0)
    assert ((low < published) & (published < high)).all()
    far = supac.read_prediction(tmp_path / "run.far.supac")
    assert far.output("s215")[:, -1].mean() == pytest.approx(0.46, abs=0.05)


def test_the_room_is_predicted_as_the_page_says(tmp_path: Path) -> None:
    for name in ("fmpy", "pythonfmu3"):
        pytest.importorskip(name, reason=f"{name} is not installed, and no FMU made or run")
    walk = follow(DOCS / "case-room.md", tmp_path)
    assert "verdict: trust" in walk.said["supac report run.supac"]
    morning = supac.read_prediction(tmp_path / "run.cold.supac").output("T")[:, -1]
    low, high = np.quantile(morning, (0.05, 0.95))
    assert low < 7.36 < high  # the truth
